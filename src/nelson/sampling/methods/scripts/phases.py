"""PySAT in a child: the first solution by CaDiCaL, more by Glucose with random phases.

task     {"n": n, "clauses": int32 bytes (each clause ends in 0), "p": [P(x_i = 1)], None for 1/2,
          "count", "seed", "conflicts": None or how many there may be after the first solution}
answers  {"rows": one byte per sample and variable}, several; {"unsatisfiable": true}
"""

import random

from nelson.sampling.methods.scripts import clauses, sent


def solve(task):
    from pysat.solvers import Solver

    lists = clauses(task["clauses"])
    with Solver(name="cadical153", bootstrap_with=lists) as solver:
        if not solver.solve():
            yield {"unsatisfiable": True}
            return
        yield {"rows": _row(solver.get_model(), task["n"])}
    if task["count"] == 1:
        return
    with Solver(name="glucose4", bootstrap_with=lists) as solver:
        yield from sent(_rows(solver, task))


def _rows(solver, task):
    chance, most = random.Random(task["seed"]), task.get("conflicts")
    shares = task["p"] or [0.5] * task["n"]
    for _ in range(task["count"] - 1):
        phases = [v if chance.random() < p else -v for v, p in enumerate(shares, 1)]
        solver.set_phases(phases)
        if most is not None:
            left = most - solver.accum_stats()["conflicts"]
            if left <= 0:
                return
            solver.conf_budget(left)
        if not solver.solve_limited():
            return
        yield _row(solver.get_model(), task["n"], phases)


def _row(model, n, phases=()):
    """One byte per variable. A variable that the model leaves out, as no clause has it, keeps its
    phase.
    """
    row = bytearray(literal > 0 for literal in phases) or bytearray(n)
    for literal in model:
        if abs(literal) <= n:
            row[abs(literal) - 1] = literal > 0
    return bytes(row)
