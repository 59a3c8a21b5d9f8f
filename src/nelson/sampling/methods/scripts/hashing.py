"""`weightgen` and `xor` in a child: samples by hashing, a message every fraction of a second.

task      {"method": "weightgen" | "xor", "n": variables, "clauses": literals (int32, 0 ends
          one), "theta": log-odds of the visible ones (float64), "count": samples, "seed": ..}
answers   {"rows": (m, n) bytes of 0 and 1, "tries": .., "drawn": .., ..} one after the other;
          {"unsatisfiable": true} if a solver proved that
"""

import array
import math
import random
import time

from nelson.sampling.methods.hashing import paws, weightgen
from nelson.sampling.methods.hashing.cells import Space

#: Formulas with so few solutions are listed, and drawn from by weight: exactly.
FEW = 256
#: Weights that are not embedded differ by this factor at most.
TILT = 2.0
#: Seconds between two messages.
EVERY = 0.2

METHODS = {"weightgen": weightgen.draws, "xor": paws.draws}


def solve(task):
    literals, clauses, clause = array.array("i", task["clauses"]), [], []
    for literal in literals:
        if literal:
            clause.append(literal)
        else:
            clauses.append(clause)
            clause = []
    theta = list(array.array("d", task["theta"]))
    rng = random.Random(task["seed"])
    listed = Space(task["n"], clauses, theta, math.inf).cell(rng, 0, FEW, weighted=False)
    info: dict[str, float] = {"tries": 0, "drawn": 0}
    if listed is not None and not listed.weights:
        yield {"unsatisfiable": True}
        return
    if listed is not None:
        info["structures"] = len(listed.weights)
        source = listing(listed, theta, rng)
    else:
        space = Space(task["n"], clauses, theta, TILT)
        info |= {"hash_bits": space.m, "tilt": space.tilt}
        source = METHODS[task["method"]](space, rng, info)
    rows, told = bytearray(), time.monotonic()
    while info["drawn"] < task["count"]:
        values = next(source)
        info["tries"] += 1
        if values is not None:
            info["drawn"] += 1
            rows += bytes(values)
        if time.monotonic() - told > EVERY:
            yield {"rows": rows, **info}
            rows, told = bytearray(), time.monotonic()
    yield {"rows": rows, **info}


def listing(cell, theta, rng):
    """Draws by weight from all there is."""
    rows = [cell.rows(j) for j in range(len(cell.weights))]
    logs = [sum(t for t, value in zip(theta, row, strict=False) if value) for row in rows]
    weights = [math.exp(log - max(logs)) for log in logs]
    while True:
        yield from rng.choices(rows, weights, k=64)
