"""CMSGen in a child: one solver, solved once for each sample.

task     {"n": n, "clauses": int32 bytes (each clause ends in 0), "p": [P(x_i = 1)], "count",
          "seed"}
answers  {"rows": one byte per sample and variable}, several; {"unsatisfiable": true}
"""

import array

from nelson.sampling.methods.scripts.messages import sent


def solve(task):
    from pycmsgen import Solver

    solver = Solver(seed=task["seed"])
    for v, p in enumerate(task["p"], 1):  # also makes variables that no clause mentions
        solver.set_var_weight(v, p)
    solver.add_clauses(array.array("i", task["clauses"]))
    satisfiable, model = solver.solve()
    if not satisfiable:
        return {"unsatisfiable": True}
    return sent(_rows(solver, model, task["count"]))


def _rows(solver, model, count):
    yield bytes(model[1:])
    for _ in range(count - 1):
        yield bytes(solver.solve()[1][1:])
