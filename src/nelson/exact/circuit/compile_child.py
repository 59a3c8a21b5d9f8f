"""The script of the child process that `build` starts: D4 compiles one component.

It is run by `nelson.process.child.run_child`, and imports nothing of nelson.

    task     {"n": n, "literals": int32 bytes, "offsets": int64 bytes}; perhaps
             "places": int32 bytes, the place of each variable in an order; or
             "shown": int32 bytes, variables to project on, and "file": a name for D4's input;
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


def compiled(task):
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


def solve(task):
    return {"nnf": compiled(task)}
