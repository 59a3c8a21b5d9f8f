"""The script of a child process: ganak counts the solutions of a formula, or adds up their weights.

It is run by `nelson.process.child.run_child`, and imports nothing of nelson.

    task     {"n": n, "clauses": [[...]], "weights": [[w(x=0), w(x=1)], ...]}
    answer   {"log": log P} or {"unsatisfiable": true} or {"error": text}

A task without weights is answered by {"count": the number of solutions, in hexadecimal digits}.
Python refuses to read or write integers of more than 4300 decimal digits, which pyganak does, too;
`count` lifts this limit in the child.
"""

import math
import sys

#: Weights are scaled by up to e^SHIFT against underflow; that is well inside the range of a double.
SHIFT = 650.0


def solve(task):
    """A SAT solver is asked first: ganak 2.8 takes most of a minute for the pigeonhole formula of
    12 variables. A weight of 0 is then known to be an underflow.
    """
    from pysat.solvers import Solver

    with Solver(name="glucose4", bootstrap_with=task["clauses"]) as solver:
        if not solver.solve():
            return {"unsatisfiable": True}
    return weigh(task) if "weights" in task else count(task)


def count(task):
    from pyganak import Counter

    sys.set_int_max_str_digits(0)
    counter = Counter()
    counter.new_vars(task["n"])
    counter.add_clauses(task["clauses"])
    return {"count": format(counter.count(), "x")}


def weigh(task):
    """log P by weighted model counting: 128-bit floats inside, a double at the end."""
    from pyganak import WeightedCounter

    n, clauses, weights = task["n"], task["clauses"], task["weights"]
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
