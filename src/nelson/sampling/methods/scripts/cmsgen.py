"""CMSGen in a child: one solver, solved once for each sample.

task     {"n": n, "clauses": int32 bytes (each clause ends in 0), "p": [P(x_i = 1)], "count",
          "seed", "conflicts": None or how many there may be, about}
answers  {"rows": one byte per sample and variable}, several; {"unsatisfiable": true}

CMSGen does not tell its conflicts, but takes a limit. So a limited solver is asked with few
conflicts, then with twice as many, and so on. Each limit that did not suffice counts.
"""

import array

from nelson.sampling.methods.scripts import sent


def solve(task):
    from pycmsgen import Solver

    solver = Solver(seed=task["seed"])
    for v, p in enumerate(task["p"], 1):  # also makes variables that no clause mentions
        solver.set_var_weight(v, p)
    solver.add_clauses(array.array("i", task["clauses"]))
    left = task.get("conflicts")
    satisfiable, model, used = solved(solver, left and left / 4)  # the rest is for the others
    if satisfiable is False:
        return {"unsatisfiable": True}
    if satisfiable is None:
        return {"rows": b""}
    return sent(rows(solver, model, task["count"], left and left - used))


def solved(solver, most, few=500):
    """The answer within `most` conflicts (None: no limit; `few` at first), the model, and what
    counts.
    """
    if most is None:
        return *solver.solve(), 0
    used, limit = 0, few
    while used < most:
        satisfiable, model = solver.solve(confl_limit=limit)
        if satisfiable is not None:
            return satisfiable, model, used
        used, limit = used + limit, 2 * limit
    return None, None, used


def rows(solver, model, count, left):
    yield bytes(model[1:])
    for _ in range(count - 1):
        satisfiable, model, used = solved(solver, left)
        if not satisfiable:
            return
        left = left and left - used
        yield bytes(model[1:])
