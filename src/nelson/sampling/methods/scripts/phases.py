"""PySAT in a child: the first solution by CaDiCaL, more by Glucose with random phases.

task     {"n": n, "clauses": int32 bytes (each clause ends in 0), "p": [P(x_i = 1)], "count",
          "seed"}
answers  {"rows": one byte a variable and sample}, several; {"unsatisfiable": true}
"""

import array
import random
import time

#: Seconds of work that a message holds: what a kill may lose.
SECONDS = 0.2


def solve(task):
    from pysat.solvers import Solver

    n, clauses, clause = task["n"], [], []
    for literal in array.array("i", task["clauses"]):
        if literal:
            clause.append(literal)
        else:
            clauses.append(clause)
            clause = []
    with Solver(name="cadical153", bootstrap_with=clauses) as solver:
        if not solver.solve():
            yield {"unsatisfiable": True}
            return
        yield {"rows": _row(solver.get_model(), n)}
    chance = random.Random(task["seed"])
    rows, sent = [], time.monotonic()
    with Solver(name="glucose4", bootstrap_with=clauses) as solver:
        for _ in range(task["count"] - 1):
            liked = [v if chance.random() < p else -v for v, p in enumerate(task["p"], 1)]
            solver.set_phases(liked)
            solver.solve()
            rows.append(_row(solver.get_model(), n, liked))
            if time.monotonic() - sent > SECONDS:
                yield {"rows": b"".join(rows)}
                rows, sent = [], time.monotonic()
    yield {"rows": b"".join(rows)}


def _row(model, n, liked=()):
    """A byte a variable; one that the solver leaves out, because no clause has it, as liked."""
    row = bytearray(literal > 0 for literal in liked) or bytearray(n)
    for literal in model:
        if abs(literal) <= n:
            row[abs(literal) - 1] = literal > 0
    return bytes(row)
