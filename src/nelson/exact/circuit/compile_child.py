"""The script of the child process that `build` starts: D4 or PySDD compiles one component.

It is run by `nelson.process.child.run_child`, and imports nothing of nelson.

    task     {"compiler": "d4" | "sdd", "n": n, "literals": int32 bytes, "offsets": int64 bytes}
             D4 may get "places": int32 bytes too, the place of each variable in an order; or
             "shown": int32 bytes, variables to project on, and "file": a name for its input;
             "page": bytes of a page of its cache; "clean": whether it forgets entries that it
             seldom finds again when it needs a new page
    answer   {"nnf": bytes}: a d-DNNF in D4's text format

D4 prints a line each 131,072 recursive calls, and one for each new page of its cache: the parent
counts them (`effort`). It is told to search for a decomposition without a time limit: with D4's
own limit of 100 s the circuit would depend on the clock.
"""

from array import array

#: D4's number for an order that the caller gives.
GIVEN = 1
#: How much the place before counts, against D4's own score of a variable.
FIRST = 1000.0


def clauses(task):
    literals, offsets = array("i", task["literals"]), array("q", task["offsets"])
    return [literals[a:b].tolist() for a, b in zip(offsets, offsets[1:])]  # noqa: B905, RUF007


def d4(task):
    # Bytes of a page of D4's cache. D4's defaults, 4 GiB and 512 MiB, exceed our memory limit.
    page_bytes = 1 << 26
    # Seconds for a decomposition: longer than any run.
    forever = 1_000_000
    import py_d4

    size = task.get("page", page_bytes)
    page = {"sizeFirstPage": size, "sizeAdditionalPage": size}
    cleaning = {"strategy": "expectation" if task.get("clean", True) else "none"}
    options = py_d4.load_options_from_dict(
        {
            "verbosity": 1,
            "cache": {"bucket": page, "cleaning": cleaning},
            "branching": {"partialOrder": {"budget": forever}},
        }
    )
    if "places" in task:
        # In each component D4 decides the variable with the largest sum of its number here and of
        # its own score, which is far below FIRST. Entry 0 is unused.
        branching = options.optionBranchingHeuristic
        partial = branching.optionPartialOrderHeuristic
        partial.partialOrderMethod = GIVEN
        places = array("i", task["places"])
        partial.givenOrder = [0.0, *(FIRST * (task["n"] - place) for place in places)]
        branching.optionPartialOrderHeuristic = partial
        options.optionBranchingHeuristic = branching
    if "shown" in task:
        # D4 takes a projection from a file only.
        rows = ["c t pmc", f"p cnf {task['n']} {len(array('q', task['offsets'])) - 1}"]
        rows += [" ".join(map(str, ["c p show", *array("i", task["shown"]), 0]))]
        rows += [" ".join(map(str, [*clause, 0])) for clause in clauses(task)]
        with open(task["file"], "w") as file:
            file.write("\n".join([*rows, ""]))
        return py_d4.Solver(task["file"], options).compile().getNNFString().encode()
    return py_d4.Solver(clauses(task), task["n"], options).compile().getNNFString().encode()


def sdd(task):
    """An SDD is a d-DNNF: a decision is an or-node over its elements, and an element is an and-node
    of its prime and its sub. Primes exclude each other; prime and sub share no variable.
    """
    from pysdd.sdd import SddManager

    rows = [" ".join(map(str, [*clause, 0])) for clause in clauses(task)]
    text = "\n".join([f"p cnf {task['n']} {len(rows)}", *rows, ""])
    _, root = SddManager.from_cnf_string(text)  # balanced vtree, minimised as it grows
    if root.is_false():
        return b"f 1 0\n"
    true, declared, edges = 2, ["a 1 0", "t 2 0"], []
    name: dict[int, int] = {}
    names = iter(range(3, 2**31))
    stack = [(root, False)]
    while stack:  # children first
        node, ready = stack.pop()
        if not node.is_decision() or node.id in name:
            continue
        elements = [pair for pair in node.elements() if not pair[1].is_false()]
        if not ready:
            stack.append((node, True))
            stack += [(part, False) for pair in elements for part in pair]
            continue
        outgoing = []
        for pair in elements:
            element = next(names)
            declared.append(f"a {element} 0")
            edges += [_edge(element, part, name, true) for part in pair if not part.is_true()]
            outgoing.append(element)
        name[node.id] = next(names)
        declared.append(f"o {name[node.id]} 0")
        edges += [f"{name[node.id]} {element} 0" for element in outgoing]
    if not root.is_true():
        edges.append(_edge(1, root, name, true))
    return "\n".join([*declared, *edges, ""]).encode()


def _edge(parent, node, name, true):
    if node.is_literal():
        return f"{parent} {true} {node.literal} 0"
    return f"{parent} {name[node.id]} 0"


def solve(task):
    return {"nnf": {"d4": d4, "sdd": sdd}[task["compiler"]](task)}
