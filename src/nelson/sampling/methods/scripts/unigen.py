"""UniGen in a child: counted once, then drawn in batches.

    task     {"n": n, "clauses": int32 bytes (each clause ends in 0), "set": variables to sample
              over, "count", "seed"}
    answers  {"rows": one byte a variable of the set and sample, "cell": c, "hashes": h}, several

An object of pyunigen samples once only, and what it keeps of each cell it visited makes the next
sample slower (on 5-SAT with n = L = 14: 4 ms a sample in batches of 8, 15 ms in one call for 200,
58 ms in one for 1000). So each batch has a solver of its own, which is told the count that the
first one found. Where the count is so small that UniGen lists all solutions, one call draws all the
rest.
"""

import array
import math

#: UniGen's own defaults, said aloud: uniformity, and ApproxMC's tolerance and confidence.
KAPPA, EPSILON, DELTA = 0.638, 0.8, 0.2
#: Samples of a batch; more where setting a solver up costs more.
BATCH = 8
CLAUSES_PER_SAMPLE = 500


def solve(task):
    from pyunigen import Sampler

    clauses, clause = [], []
    for literal in array.array("i", task["clauses"]):
        if literal:
            clause.append(literal)
        else:
            clauses.append(clause)
            clause = []
    place = {variable: k for k, variable in enumerate(task["set"])}
    done, number, listed, counted = 0, 0, False, None
    while done < task["count"]:
        size = task["count"] - done
        if not listed:
            size = min(size, max(BATCH, len(clauses) // CLAUSES_PER_SAMPLE))
        sampler = Sampler(
            seed=(task["seed"] + number) % 2**32, kappa=KAPPA, epsilon=EPSILON, delta=DELTA
        )
        for clause in clauses:
            sampler.add_clause(clause)
        asked = {"num": size, "sampling_set": task["set"]}
        if counted:
            asked["cell_hash_count"] = counted
        # UniGen ends the process if there is no solution: no answer then.
        cell, hashes, samples = sampler.sample(**asked)
        counted, listed = (cell, hashes), few(cell, hashes)
        rows = bytearray(len(samples) * len(place))
        for s, sample in enumerate(samples):
            for literal in sample:
                if literal > 0:
                    rows[s * len(place) + place[literal]] = 1
        yield {"rows": bytes(rows), "cell": cell, "hashes": hashes}
        done, number = done + len(samples), number + 1


def few(cell, hashes):
    """Does UniGen list all solutions, rather than cut them by hashes? As in its source."""
    pivot = math.ceil(4.03 * (1 + 1 / KAPPA) ** 2)
    return round(hashes + math.log2(max(cell, 1)) + math.log2(1.8) - math.log2(pivot)) - 2 <= 0
