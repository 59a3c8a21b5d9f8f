"""Adversarial families: regions of the valid space behind an entropic barrier.

A few *control* variables choose which blocks of clauses are active. Within a region the controls
and the blocks move freely. To leave it, a block that is not active must satisfy its clauses by
chance. Blocks have disjoint variables, so sums over the controls give the truth:

    Z = sum_c exp(theta_c . c) prod_b (Z_b if b is active at c, else prod_i (1 + e^theta_i))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from nelson.errors import NelsonError
from nelson.experiments.labels import blocks
from nelson.experiments.labels.blocks import Clauses
from nelson.experiments.labels.case import Case, Watch, enumerated, family, law_of
from nelson.formula import Formula

Cubes = Sequence[Sequence[int]]  # partial assignments of the controls, as literals


@dataclass(frozen=True)
class Block:
    """Clauses over variables 1..n, active at the control assignments that one of `cubes` covers."""

    cubes: Cubes
    n: int
    clauses: Clauses
    theta: float = 0.0


def switched(k: int, parts: Sequence[Block], control_theta: Sequence[float] = ()) -> Case:
    """The formula, the probability of every set of active blocks, and all marginals."""
    clauses: Clauses = []
    n, offsets = k, []
    for block in parts:
        offsets.append(n)
        moved = blocks.shifted(block.clauses, n)
        clauses += [[-v for v in cube] + clause for cube in block.cubes for clause in moved]
        n += block.n
    controls = blocks.cube(k)
    theta = np.concatenate(
        [np.resize(control_theta or [0.0], k), *(np.full(b.n, b.theta) for b in parts)]
    )
    active = np.array(
        [
            [any(all(c[abs(v) - 1] == (v > 0) for v in cube) for cube in b.cubes) for b in parts]
            for c in controls
        ]
    )
    score = controls @ theta[:k]
    inside = []
    for j, block in enumerate(parts):
        on, on_means = _sums(block)
        off = block.n * np.log1p(np.exp(block.theta))
        score = score + np.where(active[:, j], on, off)
        inside.append((on_means, 1 / (1 + np.exp(-block.theta))))
    p = np.exp(score - score.max())
    p /= p.sum()
    means = [p @ controls]
    for j, (on_means, free) in enumerate(inside):
        share = p @ active[:, j]
        means.append(share * on_means + (1 - share) * free)
    watch = []
    codes = active @ (1 << np.arange(len(parts)))
    weights = 1 << np.arange(k)
    for code in np.unique(codes):
        mine = np.isin(np.arange(1 << k), controls[codes == code] @ weights)
        watch.append(
            Watch(
                f"P(region {code})",
                lambda x, mine=mine: mine[x[:, :k] @ weights],
                float(p[codes == code].sum()),
            )
        )
    return Case(Formula(clauses, n_vars=n), theta, tuple(watch), np.concatenate(means))


def _sums(block: Block) -> tuple[float, np.ndarray]:
    """log Z and marginals of a block."""
    if block.n > 100:  # one solution at least: a bound that is good enough for `alone`
        return 0.0, np.full(block.n, np.nan) if len(block.clauses) > block.n else np.ones(block.n)
    known = law_of(Formula(block.clauses, n_vars=block.n), np.full(block.n, block.theta))
    if known is None:
        raise NelsonError(f"a block of {block.n} variables is too large to enumerate")
    rows, p = known
    best = int(p.argmax())
    return float(rows[best].sum() * block.theta - np.log(p[best])), p @ rows


def sat(n: int, ratio: float, seed: int, k: int = 3) -> Clauses:
    return blocks.planted(n, round(ratio * n), k, seed)


@family(
    "adversarial",
    issue={"hard": 150, "easy": 165, "call": "auto"},  # P(x1) > 0.99996: 2^15 to 1 or more
    small={"hard": 24, "easy": 30},
    even={"hard": 24, "easy": 18},
    weighted={"hard": 24, "easy": 20, "theta": -0.5},
    rare={"hard": 20, "easy": 16, "ratio": 4.5},
    biased={"hard": 24, "easy": 24, "door": -4.0},
    biased_up={"hard": 24, "easy": 18, "door": 6.0},
    disguised={"hard": 24, "easy": 30, "disguise": True},
    medium={"hard": 40, "easy": 48, "ratio": 4.0},
    wide={"hard": 18, "easy": 60, "ratio": 3.0},
)
def alone(seed: int, hard: int, easy: int, ratio=3.5, theta=0.0, door=0.0) -> Case:
    """x1 -> hard 3-SAT; not x1 -> further variables frozen true."""
    parts = [
        Block([[1]], hard, sat(hard, ratio, seed)),
        Block([[-1]], easy, blocks.frozen(easy), theta),
    ]
    return switched(1, parts, [door])


def _equality(k: int) -> tuple[Cubes, Cubes]:
    """All controls equal; two neighbours differ."""
    ends = [list(range(1, k + 1)), [-v for v in range(1, k + 1)]]
    differ = [[s * v, -s * (v + 1)] for v in range(1, k) for s in (1, -1)]
    return ends, differ


def _parity(k: int) -> tuple[Cubes, Cubes]:
    """An odd number of controls is true; an even number."""
    every = [[v if s else -v for v, s in enumerate(c, 1)] for c in product((0, 1), repeat=k)]
    return [c for c in every if sum(v > 0 for v in c) % 2], [
        c for c in every if sum(v > 0 for v in c) % 2 == 0
    ]


def _rings(k: int = 4) -> tuple[Cubes, Cubes]:
    """The 16 states of four controls as two rings of 8: thermometers 0000, 1000, ..., 0001, and the
    rest. Both are connected by single flips, and in both every control is true in half the states.
    """
    thermometers = {tuple(int(0 <= (j - i) % (2 * k) < k) for i in range(k)) for j in range(2 * k)}
    every = [tuple(map(int, c)) for c in blocks.cube(k)]

    def literals(states):
        return [[v if s else -v for v, s in enumerate(c, 1)] for c in states]

    return literals(c for c in every if c in thermometers), literals(
        c for c in every if c not in thermometers
    )


def _multiplexer() -> tuple[Cubes, Cubes]:
    """x1 chooses one of two triples; the region is the parity of that triple. Single and pair
    marginals of the controls are uniform in both regions, and each region is connected.
    """
    regions: tuple[list[list[int]], list[list[int]]] = ([], [])
    for choice, first in ((1, 2), (-1, 5)):
        for signs in product((0, 1), repeat=3):
            triple = [first + i if s else -(first + i) for i, s in enumerate(signs)]
            regions[sum(signs) % 2].append([choice, *triple])
    return regions


_CONDITIONS = {
    "equality": _equality, "parity": _parity, "rings": lambda k: _rings(),
    "multiplexer": lambda k: _multiplexer(),
}  # fmt: skip


@family(
    "adversarial",
    equality_of_two={"condition": "equality", "k": 2},
    equality_of_four={"condition": "equality", "k": 4},
    equality_weighted={"condition": "equality", "k": 3, "door": 1.5},
    parity_of_two={"condition": "parity", "k": 2},
    parity_of_three={"condition": "parity", "k": 3},
    parity_of_five={"condition": "parity", "k": 5, "sizes": (10, 12)},
    rings={"condition": "rings", "k": 4},
    rings_disguised={"condition": "rings", "k": 4, "disguise": True},
    multiplexer={"condition": "multiplexer", "k": 7},
    multiplexer_weighted={"condition": "multiplexer", "k": 7, "door": 0.7},
)
def behind(seed: int, condition: str, k: int, door=0.0, sizes=(14, 16)) -> Case:
    """The switch is a condition on several controls, whose single marginals may say nothing."""
    a, b = _CONDITIONS[condition](k)
    parts = [
        Block(a, sizes[0], blocks.frozen(sizes[0])),
        Block(b, sizes[1], blocks.frozen(sizes[1])),
    ]
    return switched(k, parts, [door])


@family(
    "adversarial",
    one={"k": 1, "door": -3.0},
    two={"k": 2, "door": -4.0},
    three={"k": 3, "door": -3.0, "outer": 26},
    minor={"k": 1, "door": 0.0, "outer": 12, "inner": 16},
    minor_weighted={"k": 2, "door": -1.0, "outer": 16, "inner": 14},
)
def doors(seed: int, k: int, door: float, outer: int = 20, inner: int = 8) -> Case:
    """k unlikely doors that must all be open before `outer` variables are free; `inner` variables
    are then frozen.
    """
    cubes = [[-v] for v in range(1, k + 1)]
    parts = [
        Block(cubes, outer, blocks.frozen(outer)),
        Block([list(range(1, k + 1))], inner, blocks.frozen(inner)),
    ]
    return switched(k, parts, [door])


@family(
    "adversarial",
    four={"bits": 4},
    eight={"bits": 8},
    ten={"bits": 10, "disguise": True},
)
def key(seed: int, bits: int) -> Case:
    """Not-all-equal SAT, which one assignment of the key bits switches off: that state of the key
    has most of the weight, and no variable is nearly constant without it.
    """
    word = list(range(1, bits + 1))
    n, clauses = 17, round(4.2 * (bits + 3))
    hard = blocks.not_all_equal(n, clauses, 4, seed)
    return switched(bits, [Block([[-v] for v in word], n, hard)])


@family(
    "adversarial",
    rings={"condition": "rings", "k": 4},
    rings_tight={"condition": "rings", "k": 4, "clauses": (48, 54)},
    multiplexer={"condition": "multiplexer", "k": 7},
    multiplexer_tight={"condition": "multiplexer", "k": 7, "clauses": (44, 50)},
    parity={"condition": "parity", "k": 3},
)
def equal_marginals(seed: int, condition: str, k: int, clauses=(34, 42)) -> Case:
    """Every single marginal is 1/2 in both regions: the blocks are not-all-equal SAT. For the
    multiplexer all pair marginals of the controls agree as well.
    """
    a, b = _CONDITIONS[condition](k)
    parts = [
        Block(cubes, 16, blocks.not_all_equal(16, m, 4, seed + i))
        for i, (cubes, m) in enumerate(zip((a, b), clauses, strict=True))
    ]
    return switched(k, parts)


@family(
    "adversarial",
    issue={"condition": "rings", "k": 4, "call": "auto"},
    multiplexer={"condition": "multiplexer", "k": 7, "call": "auto"},
    frozen_issue={"condition": "rings", "k": 4, "call": "auto", "frozen": True},
)
def with_5sat(seed: int, condition: str, k: int, frozen: bool = False) -> Case:
    """Two clusters with equal marginals, tied to a 5-SAT formula of 500 variables through the first
    control. Half of the states of each cluster have it true, so the 5-SAT formula adds the same
    factor to both clusters: their probabilities stay.
    """
    case = behind(seed, condition, k) if frozen else equal_marginals(seed, condition, k)
    n, more = case.formula.n_vars, 500
    random = np.random.default_rng([seed, 5])
    clauses = blocks.shifted(sat(more, 2.0, seed, 5), n)
    for clause in clauses[::10]:
        clause[0] = int(random.choice((-1, 1)))
    return Case(Formula([*case.formula, *clauses], n_vars=n + more), watch=case.watch, call="auto")


@family(
    "adversarial",
    two={"doors": (0.0, 0.0)},
    one_rare={"doors": (0.0, -5.0)},
    three={"doors": (0.0, 1.0, -1.0)},
)
def several(seed: int, doors: Sequence[float]) -> Case:
    """Several switches at once, tied by a clause over all doors."""
    parts = []
    for v in range(1, len(doors) + 1):
        parts += [
            Block([[v]], 14, sat(14, 3.5, seed + v)),
            Block([[-v]], 12 + v, blocks.frozen(12 + v)),
        ]
    parts.append(Block([[-v for v in range(1, len(doors) + 1)]], 8, blocks.frozen(8)))
    return switched(len(doors), parts, list(doors))


@family(
    "adversarial",
    three={"sizes": (12, 13, 14)},
    four={"sizes": (10, 12, 12, 13)},
    weighted={"sizes": (10, 16, 13), "theta": 1.0},
)
def regions(seed: int, sizes: Sequence[int], theta: float = 0.0) -> Case:
    """Three or four regions, chosen by two controls."""
    cubes = [[1, 2], [1, -2], [-1, 2], [-1, -2]]
    cubes = cubes[: len(sizes) - 1] + [
        c[:1] if len(sizes) == 3 else c for c in cubes[len(sizes) - 1 : len(sizes)]
    ]
    parts = [Block([c], m, blocks.frozen(m), theta) for c, m in zip(cubes, sizes, strict=True)]
    return switched(2, parts)


@family(
    "adversarial",
    equal={"easy": 14, "hard": 12},
    equal_weighted={"easy": 14, "hard": 12, "theta": 0.4},
)
def ties(seed: int, easy: int, hard: int, theta: float = 0.0) -> Case:
    """x1 -> a block of variables that are all equal, which no single flip can change."""
    parts = [
        Block([[1]], easy, blocks.all_equal(easy), theta),
        Block([[-1]], hard, blocks.frozen(hard)),
    ]
    return switched(1, parts)


@family("adversarial", evidence={}, infinite={"infinite": True})
def closed_door(seed: int, infinite: bool = False) -> Case:
    """Two clusters, joined only while the door is open; evidence closes it."""
    k, door = 9, 10
    clusters = blocks.cube(k)
    weight = clusters.sum(axis=1)
    clauses = [[door, *c] for c in blocks.explicit(clusters[(weight <= 1) | (weight >= k - 2)])]
    theta = np.array([0.25] * k + [2.0])
    shut = enumerated(Formula([*clauses, [-door]], n_vars=k + 1), theta, upper=_upper)
    free = Formula(clauses, n_vars=k + 1)
    if infinite:
        return Case(free, np.append(theta[:k], -np.inf), shut.watch, shut.means)
    return Case(free, theta, shut.watch, shut.means, options={"given": [-door]})


def _upper(x: np.ndarray) -> np.ndarray:
    return x.mean(axis=1) > 0.5
