"""QuickSampler in a child: epochs of MaxSAT calls, then combinations of what they found.

    task     {"n": variables, "clauses": int32 bytes (each clause ends in 0), "set": s, "known":
              literals that hold in every solution, "count", "seed", "seconds"}
    answers  {"rows": ceil(s / 8) bytes per sample, bit k of byte j being variable 8 j + k + 1,
              "epochs": .., "mutations": ..} for each epoch; {"unsatisfiable": true}

Samples are over variables 1..s, held as the bits of an integer.
"""

import itertools
import math
import random
import threading
import time

from nelson.sampling.methods.scripts import clauses

#: Most mutations in one combination.
LEVELS = 6
#: Most samples of an epoch.
EPOCH = 1024
#: After this share of the time no further mutation is searched for, so that those found are used.
SHARE = 0.8


class TimeUp(Exception):
    """A MaxSAT call was interrupted."""


class ClauseSet:
    def __init__(self, clauses, n, s, deadline=math.inf):
        self.clauses, self.n, self.s, self.deadline = clauses, n, s, deadline
        self.uses: dict[int, list[int]] = {}  # clauses that contain a literal
        for j, clause in enumerate(clauses):
            for literal in clause:
                self.uses.setdefault(literal, []).append(j)

    def closest(self, target, hard=()):
        """The solution that satisfies `hard` and differs from the bits of `target` in the fewest
        variables of 1..s, as literals by variable; None if there is no solution. (RC2)
        """
        from pysat.examples.rc2 import RC2
        from pysat.formula import WCNF

        wcnf = WCNF()
        wcnf.hard = [*self.clauses, *([literal] for literal in hard)]
        wcnf.soft = [[v if target >> v - 1 & 1 else -v] for v in range(1, self.s + 1)]
        wcnf.wght, wcnf.topw, wcnf.nv = [1] * self.s, self.s + 1, self.n
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeUp
        with RC2(wcnf) as solver:
            late = threading.Event()

            def stop():
                late.set()
                solver.interrupt()

            timer = threading.Timer(min(left, threading.TIMEOUT_MAX), stop)
            timer.daemon = True
            timer.start()
            try:
                model = solver.compute(expect_interrupt=True)
            finally:
                timer.cancel()
                timer.join()
        if model is None and late.is_set():
            raise TimeUp
        if model is None:
            return None
        true = set(model)
        return [0, *(v if v in true else -v for v in range(1, self.n + 1))]

    def mutation(self, base, v):
        """The bits in which the solution closest to `base` with variable v flipped differs from it,
        or None if v has the same value in every solution.

        If all clauses still hold after v alone is flipped, no solver is asked.
        """
        lonely = (
            all(base[abs(literal)] != literal for literal in self.clauses[j] if abs(literal) != v)
            for j in self.uses.get(base[v], ())
        )
        if not any(lonely):
            return 1 << v - 1
        other = self.closest(bits(base, self.s), [-base[v]])
        return None if other is None else bits(base, self.s) ^ bits(other, self.s)


def bits(model, s):
    return sum(1 << v - 1 for v in range(1, s + 1) if model[v] > 0)


def combinations(base, mutations, levels=LEVELS):
    """All samples of an epoch: base with the bits of up to `levels` mutations flipped, where two
    mutations that share a bit flip it once (m1 | m2, not m1 ^ m2). Distinct, in a fixed order.
    """
    distinct: dict[int, None] = {}
    for level in range(min(levels, len(mutations)) + 1):
        for chosen in itertools.combinations(mutations, level):
            distinct[base ^ union(chosen)] = None
    return list(distinct)


def union(masks):
    total = 0
    for mask in masks:
        total |= mask
    return total


def some(base, mutations, size, rng, levels=LEVELS):
    """`size` distinct combinations at random, each choice of mutations being equally likely; all
    combinations in random order if there are at most `size`.
    """
    ways = [math.comb(len(mutations), level) for level in range(levels + 1)]
    if sum(ways) <= size:
        every = combinations(base, mutations, levels)
        rng.shuffle(every)
        return every
    distinct: dict[int, None] = {}
    for _ in range(4 * size):
        (level,) = rng.choices(range(levels + 1), ways)
        distinct[base ^ union(rng.sample(mutations, level))] = None
        if len(distinct) == size:
            break
    return list(distinct)


def epoch(formula, frozen, rng):
    """(base, distinct mutations); base is None if there is no solution.

    Variables that have the same value in every solution are added to `frozen`.
    """
    base = formula.closest(rng.getrandbits(formula.s) if formula.s else 0)
    if base is None:
        return None, []
    mutations: dict[int, None] = {}
    for v in range(1, formula.s + 1):
        if v in frozen:
            continue
        try:
            mutation = formula.mutation(base, v)
        except TimeUp:
            break
        if mutation is None:
            frozen.add(v)
        else:
            mutations[mutation] = None
    return bits(base, formula.s), list(mutations)


def solve(task):
    started = time.monotonic()
    deadline = started + SHARE * task["seconds"]
    formula = ClauseSet(clauses(task["clauses"]), task["n"], task["set"], deadline)
    rng, frozen = random.Random(task["seed"]), {abs(literal) for literal in task["known"]}
    width = -(-task["set"] // 8)
    done = epochs = 0
    while done < task["count"]:
        try:
            base, mutations = epoch(formula, frozen, rng)
        except TimeUp:
            yield {"error": "stopped"}
            return
        if base is None:
            yield {"unsatisfiable": True}
            return
        samples = some(base, mutations, EPOCH, rng)[: task["count"] - done]
        done, epochs = done + len(samples), epochs + 1
        rows = b"".join(sample.to_bytes(width, "little") for sample in samples)
        yield {"rows": rows, "epochs": epochs, "mutations": len(mutations)}
