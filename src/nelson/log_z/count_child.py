"""What a child process does for `exact.py`: one part counted by ganak or compiled by D4.

A script for `nelson.process.child.run_child`: nothing of nelson is imported here.

    task     {"method": "count" | "circuit", "n": n, "clauses": [[...]],
              "weights": [[w(x=0), w(x=1)], ...]}
    answer   {"log": log P} or {"unsatisfiable": true} or {"nnf": text} or {"error": text}
"""

import math

#: exp of this is well inside the range of a double; weights are scaled by it against underflow.
SHIFT = 650.0
#: Bytes of a page of D4's cache. Its own defaults are 4 GiB and 512 MiB.
PAGE = 1 << 26


def count(problem):
    """log P by weighted model counting: 128-bit floats inside, a double at the end.

    A SAT solver is asked first: ganak 2.8 takes most of a minute for the pigeonhole formula of 12
    variables, and a count of 0 is then known to be underflow.
    """
    from pyganak import WeightedCounter
    from pysat.solvers import Solver

    n, clauses, weights = problem["n"], problem["clauses"], problem["weights"]
    with Solver(name="glucose4", bootstrap_with=clauses) as solver:
        if not solver.solve():
            return {"unsatisfiable": True}
    shift, most = 0.0, -sum(math.log(min(pair)) for pair in weights)
    while shift <= most + SHIFT:
        scale = math.exp(shift / n)
        counter = WeightedCounter()
        counter.new_vars(n)
        for v, (off, on) in enumerate(weights, 1):
            counter.set_lit_weight(v, on * scale)
            counter.set_lit_weight(-v, off * scale)
        counter.add_clauses(clauses)
        value = counter.count()
        if value > 0 and math.isfinite(value):
            return {"log": math.log(value) - shift}
        shift += SHIFT
    return {"error": f"ganak returned {value!r}"}


def circuit(problem):
    """The d-DNNF that D4 compiles, as text."""
    import py_d4

    options = py_d4.load_options_from_dict(
        {"cache": {"bucket": {"sizeFirstPage": PAGE, "sizeAdditionalPage": PAGE}}}
    )
    return {"nnf": py_d4.Solver(problem["clauses"], problem["n"], options).compile().getNNFString()}


def solve(task):
    return {"count": count, "circuit": circuit}[task["method"]](task)
