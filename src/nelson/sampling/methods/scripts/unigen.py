"""UniGen in a child: counted once, then drawn in batches.

    task     {"n": n, "clauses": int32 bytes (each clause ends in 0), "set": variables to sample
              over, "count", "seed"}
    answers  {"rows": one byte per sample and variable of the set, "cell": c, "hashes": h}, several

An object of pyunigen samples only once, and its memory of the visited cells makes each sample
slower than the one before (on 5-SAT with n = L = 14: 4 ms per sample in batches of 8, 15 ms in one
call for 200, 58 ms in one call for 1000). So each batch gets a new solver, which is told the count
that the first solver found. If the count is so small that UniGen enumerates all solutions, one call
draws all remaining samples.
"""

import math

from nelson.sampling.methods.scripts import clauses

#: UniGen's default for uniformity.
KAPPA = 0.638
#: UniGen's defaults for ApproxMC: tolerance, and the probability of a wrong count.
EPSILON, DELTA = 0.8, 0.2
#: Samples of a batch, at least.
BATCH = 8
#: A batch has one sample for this many clauses: a large formula's solver takes long to set up.
CLAUSES_PER_SAMPLE = 500


def solve(task):
    from pyunigen import Sampler

    lists = clauses(task["clauses"])
    place = {variable: k for k, variable in enumerate(task["set"])}
    done, number, enumerated, counted = 0, 0, False, None
    while done < task["count"]:
        size = task["count"] - done
        if not enumerated:
            size = min(size, max(BATCH, len(lists) // CLAUSES_PER_SAMPLE))
        sampler = Sampler(
            seed=(task["seed"] + number) % 2**32, kappa=KAPPA, epsilon=EPSILON, delta=DELTA
        )
        for clause in lists:
            sampler.add_clause(clause)
        asked = {"num": size, "sampling_set": task["set"]}
        if counted:
            asked["cell_hash_count"] = counted
        # UniGen ends the process without an answer if there is no solution.
        cell, hashes, samples = sampler.sample(**asked)
        counted, enumerated = (cell, hashes), few(cell, hashes)
        rows = bytearray(len(samples) * len(place))
        for s, sample in enumerate(samples):
            for literal in sample:
                if literal > 0:
                    rows[s * len(place) + place[literal]] = 1
        yield {"rows": bytes(rows), "cell": cell, "hashes": hashes}
        done, number = done + len(samples), number + 1


def few(cell, hashes):
    """Does UniGen enumerate all solutions instead of hashing? As in its source."""
    pivot = math.ceil(4.03 * (1 + 1 / KAPPA) ** 2)
    return round(hashes + math.log2(max(cell, 1)) + math.log2(1.8) - math.log2(pivot)) - 2 <= 0
