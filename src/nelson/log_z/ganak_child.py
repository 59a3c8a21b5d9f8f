"""The script of the child process that `exact` starts: ganak counts the weight of one part.

It is run by `nelson.process.child.run_child`, and imports nothing of nelson.

    task     {"n": n, "clauses": [[...]], "weights": [[w(x=0), w(x=1)], ...]}
    answer   {"log": log P} or {"unsatisfiable": true} or {"error": text}
"""

import math

#: Weights are scaled by up to e^SHIFT against underflow; that is well inside the range of a double.
SHIFT = 650.0


def solve(task):
    """log P by weighted model counting: 128-bit floats inside, a double at the end.

    A SAT solver is asked first: ganak 2.8 takes most of a minute for the pigeonhole formula of 12
    variables. A count of 0 is then known to be an underflow.
    """
    from pyganak import WeightedCounter
    from pysat.solvers import Solver

    n, clauses, weights = task["n"], task["clauses"], task["weights"]
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
