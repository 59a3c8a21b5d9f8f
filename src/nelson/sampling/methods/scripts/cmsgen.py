"""CMSGen in a child: one solver, solved once a sample.

task     {"n": n, "clauses": int32 bytes (each clause ends in 0), "p": [P(x_i = 1)], "count",
          "seed"}
answers  {"rows": one byte a variable and sample}, several; {"unsatisfiable": true}
"""

import array
import time

#: Seconds of work that a message holds: what a kill may lose.
SECONDS = 0.2


def solve(task):
    from pycmsgen import Solver

    solver = Solver(seed=task["seed"])
    for v, p in enumerate(task["p"], 1):  # also makes variables that no clause mentions
        solver.set_var_weight(v, p)
    solver.add_clauses(array.array("i", task["clauses"]))
    rows, sent = [], time.monotonic()
    for _ in range(task["count"]):
        found, model = solver.solve()
        if not found:
            yield {"unsatisfiable": True}
            return
        rows.append(bytes(model[1:]))
        if time.monotonic() - sent > SECONDS:
            yield {"rows": b"".join(rows)}
            rows, sent = [], time.monotonic()
    yield {"rows": b"".join(rows)}
