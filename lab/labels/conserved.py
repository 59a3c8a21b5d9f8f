"""Adversarial families: quantities that moves keep, or seldom change, and keys inside clauses.

    winding     of a ring of clocks, of a perfect matching or a 3-colouring of a torus: a sum of
                signs along a cut. Local moves keep it, since they change every cut alike
    flux        of arrows on a torus, two into each vertex and two out
    golf        every clause is weakened by "or the key is right": no variable is nearly constant,
                and the only door is a pattern of several literals of one clause

The honest twins have the same shape without the quantity: an open chain, a short key.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from lab.labels import blocks
from lab.labels.case import Case, Watch, family
from nelson.formula import Formula

#: Bits of the four states of a clock, in the order of the clock.
_GRAY = ((-1, -1), (-1, 1), (1, 1), (1, -1))


def tied_to_5sat(
    clauses: blocks.Clauses, k: int, n: int, m: int, seed: int, tie: int = 1
) -> Formula:
    """Clauses over 1..k beside random 5-SAT of n variables and m clauses, four of which have a
    literal of the variable `tie`. If half of each region has it true, the regions keep their
    probabilities.
    """
    other = blocks.shifted(blocks.planted(n, m, 5, seed), k)
    random = np.random.default_rng([seed, 6])
    for clause in other[:4]:
        clause[0] = tie * int(random.choice((-1, 1)))
    return Formula([*clauses, *other], n_vars=k + n)


def _clocks(sites: int, closed: bool) -> blocks.Clauses:
    """Clocks of four states, two bits each; neighbours are not opposite."""
    return [
        [-a * (2 * i + 1), -b * (2 * i + 2), -c * (2 * j + 1), -d * (2 * j + 2)]
        for i in range(sites if closed else sites - 1)
        for j in [(i + 1) % sites]
        for (a, b), (c, d) in zip(_GRAY, _GRAY[2:] + _GRAY[:2], strict=True)
    ]


@family(
    "adversarial",
    ring_24={"sites": 24, "n": 400, "m": 1600, "call": "auto"},
    ring_40={"sites": 40, "n": 200, "m": 800, "call": "auto"},
    ring_sparse={"sites": 30, "n": 300, "m": 600},
    ring_disguised={"sites": 24, "n": 200, "m": 700, "disguise": True},
    ring_in_8000={"sites": 24, "n": 8000, "m": 8000, "count": 4096},
)
def clocks(seed: int, sites: int, n: int, m: int) -> Case:
    """A closed ring: steps are -1, 0 or 1, and add up to four times a winding number w that no flip
    of a bit changes. Turning all clocks by half keeps w and changes the value of every bit.
    """
    steps = np.ones(1)
    for _ in range(sites):
        steps = np.convolve(steps, np.ones(3) / 3)
    whole = np.where(np.arange(-sites, sites + 1) % 4 == 0, steps, 0.0)
    truth = float(whole[sites] / whole.sum())
    zero = Watch("P(winding 0)", lambda x: _winding(x[:, : 2 * sites]) == 0, truth)
    return Case(tied_to_5sat(_clocks(sites, True), 2 * sites, n, m, seed), watch=(zero,))


def _winding(x: np.ndarray) -> np.ndarray:
    """Of rings of clocks (m, 2 sites): a step is the cross product of two neighbours, over 2."""
    a, b = 2 * x[:, ::2].astype(int) - 1, 2 * x[:, 1::2].astype(int) - 1
    cross = a * np.roll(b, -1, axis=1) - b * np.roll(a, -1, axis=1)
    winding: np.ndarray = -cross.sum(axis=1) // 8
    return winding


@family("honest", sparse={"sites": 24, "n": 200, "m": 400}, long={"sites": 60, "n": 100, "m": 100})
def open_clocks(seed: int, sites: int, n: int, m: int) -> Case:
    """An open chain of clocks: each step is free, and nothing is conserved."""

    def equal(x: np.ndarray) -> np.ndarray:
        clock = x[:, : 2 * sites].reshape(len(x), sites, 2)
        same: np.ndarray = (clock[:, 1:] == clock[:, :-1]).all(axis=2).sum(axis=1)
        return same

    steps = sites - 1
    count = Watch("equal neighbours", equal, steps / 3, float(np.sqrt(2 * steps) / 3))
    return Case(tied_to_5sat(_clocks(sites, False), 2 * sites, n, m, seed), watch=(count,))


def torus_matchings(size: int) -> np.ndarray:
    """Perfect matchings of a size x size torus by their two winding numbers, counts up to
    a factor: the determinant of Kasteleyn's matrix with phases z and w on the two cuts has the
    matchings with winding numbers (a, b) as coefficient of z^a w^b, up to its sign.
    """
    cells = list(product(range(size), repeat=2))
    black = [cell for cell in cells if sum(cell) % 2 == 0]
    white = {cell: k for k, cell in enumerate(cell for cell in cells if sum(cell) % 2)}
    many = 2 * (size // 2) + 2
    roots = np.exp(2j * np.pi * np.arange(many) / many)
    sign, log = np.zeros((many, many), complex), np.zeros((many, many))
    for (k, z), (j, w) in product(enumerate(roots), repeat=2):
        matrix = np.zeros((len(black), len(black)), complex)
        for row, (a, b) in enumerate(black):
            for da, db in ((0, 1), (0, -1), (1, 0), (-1, 0)):
                phase = z ** ((b + db) // size) * w ** ((a + da) // size)
                column = white[(a + da) % size, (b + db) % size]
                matrix[row, column] += (1 if db else 1j) * phase
        sign[k, j], log[k, j] = np.linalg.slogdet(matrix)
    counts: np.ndarray = np.abs(np.fft.fft2(sign * np.exp(log - log.max())))
    return counts


@family(
    "adversarial",
    eight={"size": 8},
    twelve={"size": 12},
    sixteen={"size": 16, "count": 4096, "call": "auto"},
)
def torus(seed: int, size: int) -> Case:
    """Perfect matchings of a torus: exactly one edge at each vertex. Truth by Kasteleyn."""
    right = np.arange(size * size).reshape(size, size) + 1
    down = right + size * size
    clauses: blocks.Clauses = []
    for i, j in product(range(size), repeat=2):
        edges = [right[i, j], right[i, j - 1], down[i, j], down[i - 1, j]]
        clauses += blocks.exactly_one([int(edge) for edge in edges])
    counts = torus_matchings(size)
    sign = blocks.checkerboard(size, size).reshape(size, size)

    def windings(x: np.ndarray) -> np.ndarray:
        across = x[:, right[:, -1] - 1] @ sign[:, -1]
        along = x[:, down[-1] - 1] @ sign[-1]
        neither: np.ndarray = (across == 0) & (along == 0)
        return neither

    zero = Watch("P(windings 0)", windings, float(counts[0, 0] / counts.sum()))
    n = 2 * size * size
    return Case(Formula(clauses, n_vars=n), watch=(zero,), means=np.full(n, 0.25))


@family("adversarial", six={"size": 6})
def ice(seed: int, size: int) -> Case:
    """Arrows on the edges of a torus, two into each vertex and two out. As many point down between
    any two rows: the flux, which only a line of arrows around the torus changes. Truth by a
    transfer matrix.
    """
    right = np.arange(size * size).reshape(size, size) + 1  # true: to the right
    down = right + size * size
    clauses = []
    for i, j in product(range(size), repeat=2):
        into = [right[i, j - 1], down[i - 1, j], -right[i, j], -down[i, j]]
        for k in range(4):  # no three into a vertex, and no three out of it
            three = [int(v) for v in into[:k] + into[k + 1 :]]
            clauses += [three, [-v for v in three]]
    states = blocks.cube(size).astype(int)
    flux = states.sum(axis=1)
    # Between rows a, b: right[j] - right[j - 1] = a[j] - b[j], so that partial sums stay in {0, 1}.
    change = np.cumsum(states[:, None] - states[None], axis=2)
    low, high = change.min(axis=2), change.max(axis=2)
    closes = change[:, :, -1] == 0
    ways = closes * np.maximum(0, 2 - (np.maximum(high, 0) - np.minimum(low, 0)))
    powers = np.linalg.matrix_power(ways.astype(float), size)
    weight = np.bincount(flux, np.diag(powers), size + 1)
    half = size // 2
    zero = Watch(
        "P(flux 0)",
        lambda x: x[:, down[0] - 1].sum(axis=1) == half,
        float(weight[half] / weight.sum()),
    )
    return Case(Formula(clauses, n_vars=2 * size * size), watch=(zero,))


def parities(key: np.ndarray, first: int, random: np.random.Generator) -> blocks.Clauses:
    """Clauses that hold only for this key: as many parities of triples of its bits."""
    bits, every = len(key), blocks.cube(len(key)).astype(int)
    while True:
        triples = np.stack([random.choice(bits, 3, replace=False) for _ in range(bits)])
        odd = key[triples].sum(axis=1) % 2
        if (every[:, triples].sum(axis=2) % 2 == odd).all(axis=1).sum() == 1:
            break
    clauses = []
    for triple, parity in zip(triples, odd, strict=True):
        for values in product((0, 1), repeat=3):
            if sum(values) % 2 != parity:
                clauses.append((np.where(values, -1, 1) * (first + triple)).tolist())
    return clauses


@family(
    "adversarial",
    last={"bits": 16, "m": 600, "call": "auto"},
    first={"bits": 16, "m": 600, "at": "first", "call": "auto"},
    middle={"bits": 16, "m": 600, "at": "middle", "call": "auto"},
    disguised={"bits": 14, "m": 560, "call": "auto", "disguise": True},
    four_sat={"bits": 12, "m": 300, "k": 4, "n": 300, "call": "auto"},
)
def golf(seed: int, bits: int, m: int, n: int = 400, k: int = 5, at: str = "last") -> Case:
    """Each clause of random k-SAT, or the key is right. Without clauses there are (1 - 2^-k)^-m
    times as many solutions, on average, and right keys are one in 2^bits: at least 99% of all
    solutions have the right key.
    """
    random = np.random.default_rng([seed, bits, m])
    place = {"first": 0, "middle": n // 2, "last": n}[at]
    key = random.random(bits) < 0.5
    right = parities(key, place + 1, random)

    def named(v: int) -> int:
        return v + int(np.sign(v)) * bits if abs(v) > place else v

    clauses = [
        [*map(named, clause), *part] for clause in blocks.planted(n, m, k, seed) for part in right
    ]

    def holds(x: np.ndarray) -> np.ndarray:
        right_key: np.ndarray = (x[:, place : place + bits] == key).all(axis=1)
        return right_key

    return Case(Formula(clauses, n_vars=n + bits), watch=(Watch("P(key)", holds, 0.995),))
