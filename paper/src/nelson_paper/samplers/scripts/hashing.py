"""`weightgen` and `xor` in a child: samples by hashing, a message every fraction of a second.

task      {"method": "weightgen" | "xor", "n": variables, "clauses": int32 bytes (each clause ends
          in 0), "theta": log-odds of the visible variables (float64), "count", "seed"}
answers   {"rows": (m, n) bytes of 0 and 1, "tries": .., "drawn": .., ..}, several;
          {"unsatisfiable": true}
"""

import array
import math
import random
import time

from nelson.sampling.methods.scripts import SECONDS, clauses
from nelson_paper.samplers.hashing import paws, weightgen
from nelson_paper.samplers.hashing.cells import HashedSpace

#: Formulas with at most this many solutions are enumerated and drawn from by weight: exactly.
FEW = 256
#: Weights that are not turned into bits differ at most by this factor.
TILT = 2.0

METHODS = {"weightgen": weightgen.draws, "xor": paws.draws}


def solve(task):
    lists = clauses(task["clauses"])
    theta = list(array.array("d", task["theta"]))
    rng = random.Random(task["seed"])
    few = HashedSpace(task["n"], lists, theta, math.inf).cell(rng, 0, FEW, weighted=False)
    info: dict[str, float] = {"tries": 0, "drawn": 0}
    if few is not None and not few.weights:
        yield {"unsatisfiable": True}
        return
    if few is not None:
        info["structures"] = len(few.weights)
        source = all_solutions(few, theta, rng)
    else:
        space = HashedSpace(task["n"], lists, theta, TILT)
        info |= {"hash_bits": space.m, "tilt": space.tilt}
        source = METHODS[task["method"]](space, rng, info)
    rows, last_message = bytearray(), time.monotonic()
    while info["drawn"] < task["count"]:
        values = next(source)
        info["tries"] += 1
        if values is not None:
            info["drawn"] += 1
            rows += bytes(values)
        if time.monotonic() - last_message > SECONDS:
            yield {"rows": rows, **info}
            rows, last_message = bytearray(), time.monotonic()
    yield {"rows": rows, **info}


def all_solutions(cell, theta, rng):
    """Draws by weight from all solutions."""
    rows = [cell.rows(j) for j in range(len(cell.weights))]
    logs = [sum(t for t, value in zip(theta, row, strict=False) if value) for row in rows]
    weights = [math.exp(log - max(logs)) for log in logs]
    while True:
        yield from rng.choices(rows, weights, k=64)
