"""Adversarial families: regions of the valid space behind an entropic barrier.

A few *control* variables choose which blocks of clauses are active. Within a region the controls
and the blocks move freely. To leave it, a block that is not active must satisfy its clauses by
chance. Blocks have disjoint variables, so sums over the controls give the truth:

    Z = sum_c exp(theta_c . c) prod_b (Z_b if b is active at c, else prod_i (1 + e^theta_i))
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from lab.labels import blocks
from lab.labels.blocks import Clauses
from lab.labels.case import Case, Quantity, Watch, enumerated, family, law_of
from nelson.errors import NelsonError
from nelson.formula import Formula

Cubes = Sequence[Sequence[int]]  # partial assignments of the controls, as literals


@dataclass(frozen=True)
class Block:
    """`copies` of clauses over variables 1..n, active where one of `cubes` covers the controls."""

    cubes: Cubes
    n: int
    clauses: Clauses
    theta: float = 0.0
    copies: int = 1

    @property
    def size(self) -> int:
        return self.n * self.copies


def switched(k: int, parts: Sequence[Block], door: float = 0.0) -> Case:
    """The formula, the probability of every set of active blocks, and all marginals."""
    clauses: Clauses = []
    for j, block in enumerate(parts):
        first = k + sum(b.size for b in parts[:j])
        for copy in range(block.copies):
            moved = blocks.shifted(block.clauses, first + copy * block.n)
            clauses += [[-v for v in cube] + clause for cube in block.cubes for clause in moved]
    controls, weights = blocks.cube(k), 1 << np.arange(k)
    active = np.array(
        [
            [any(all(c[abs(v) - 1] == (v > 0) for v in cube) for cube in b.cubes) for b in parts]
            for c in controls
        ]
    )
    score = door * controls.sum(axis=1)
    means = []
    for j, block in enumerate(parts):
        on, on_means = _sums(block)
        score = score + np.where(active[:, j], on, block.size * np.logaddexp(0, block.theta))
        means.append((on_means, 1 / (1 + np.exp(-block.theta))))
    p = np.exp(score - score.max())
    p /= p.sum()
    share = p @ active
    marginals = [p @ controls]
    marginals += [s * on + (1 - s) * off for s, (on, off) in zip(share, means, strict=True)]
    watch, codes = [], active @ (1 << np.arange(len(parts)))
    for code in np.unique(codes):
        mine = np.isin(np.arange(1 << k), controls[codes == code] @ weights)
        watch.append(Watch(f"P(region {code})", _among(mine), float(p[codes == code].sum())))
    theta = np.concatenate([np.full(k, door), *(np.full(b.size, b.theta) for b in parts)])
    return Case(Formula(clauses, len(theta)), theta, tuple(watch), np.concatenate(marginals))


def _among(states: np.ndarray) -> Quantity:
    """Is the state of the controls, read as a binary number, one of these?"""
    k = len(states).bit_length() - 1
    return lambda x: states[x[:, :k] @ (1 << np.arange(k))]


def _sums(block: Block) -> tuple[float, np.ndarray]:
    """log Z and marginals of a block."""
    if block.n > 100:  # at least one solution: a bound that is good enough for `alone`
        return 0.0, np.full(block.n, np.nan)
    known = law_of(Formula(block.clauses, n_vars=block.n), np.full(block.n, block.theta))
    if known is None:
        raise NelsonError(f"a block of {block.n} variables is too large to enumerate: make it less")
    rows, p = known
    log_z = float(rows[0].sum() * block.theta - np.log(p[0]))
    return block.copies * log_z, np.tile(p @ rows, block.copies)


def frozen(cubes: Cubes, n: int, theta: float = 0.0) -> Block:
    """n variables that are all true."""
    return Block(cubes, 1, [[1]], theta, n)


def groups(cubes: Cubes, m: int, k: int = 4) -> Block:
    """m groups of k variables that are not all equal: marginals 1/2, and quick to mix."""
    word = list(range(1, k + 1))
    return Block(cubes, k, [word, [-v for v in word]], copies=m)


@family(
    "adversarial",
    issue={"hard": 150, "easy": 165, "call": "auto"},  # P(x1) > 0.99996: at least 2^15 to 1
    small={"hard": 24, "easy": 30},
    even={"hard": 24, "easy": 18},
    weighted={"hard": 24, "easy": 20, "theta": -0.5},
    rare={"hard": 20, "easy": 16, "ratio": 4.5},
    biased={"hard": 24, "easy": 24, "door": -4.0},
    biased_more={"hard": 24, "easy": 30, "door": -8.0},
    disguised={"hard": 24, "easy": 30, "disguise": True},
    medium={"hard": 40, "easy": 48, "ratio": 4.0},
    wide={"hard": 18, "easy": 60, "ratio": 3.0},
)
def alone(seed: int, hard: int, easy: int, ratio=3.5, theta=0.0, door=0.0) -> Case:
    """x1 -> hard 3-SAT; not x1 -> further variables frozen true."""
    sat = blocks.planted(hard, round(ratio * hard), 3, seed)
    return switched(1, [Block([[1]], hard, sat), frozen([[-1]], easy, theta)], door)


def _equality(k: int) -> tuple[Cubes, Cubes]:
    """All controls equal; two neighbours differ."""
    ends = [list(range(1, k + 1)), [-v for v in range(1, k + 1)]]
    return ends, [[s * v, -s * (v + 1)] for v in range(1, k) for s in (1, -1)]


def _literals(states: Iterable[Sequence[int]]) -> Cubes:
    return [[v if s else -v for v, s in enumerate(c, 1)] for c in states]


def _parity(k: int) -> tuple[Cubes, Cubes]:
    """An odd number of controls is true; an even number."""
    every = list(product((0, 1), repeat=k))
    return _literals(c for c in every if sum(c) % 2), _literals(c for c in every if not sum(c) % 2)


def _rings(k: int = 4) -> tuple[Cubes, Cubes]:
    """The 16 states of four controls as two rings of 8: thermometers 0000, 1000, ..., 0001, and the
    rest. Both are connected by single flips, and in both every control is true in half the states.
    """
    ring = {tuple(int((j - i) % (2 * k) < k) for i in range(k)) for j in range(2 * k)}
    return _literals(ring), _literals(set(product((0, 1), repeat=k)) - ring)


def _multiplexer(k: int = 7) -> tuple[Cubes, Cubes]:
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
    "equality": _equality,
    "parity": _parity,
    "rings": _rings,
    "multiplexer": _multiplexer,
}


@family(
    "adversarial",
    equality_of_two={"condition": "equality", "k": 2},
    equality_of_four={"condition": "equality", "k": 4},
    equality_weighted={"condition": "equality", "k": 3, "door": 1.5},
    parity_of_two={"condition": "parity", "k": 2},
    parity_of_five={"condition": "parity", "k": 5},
    rings={"condition": "rings", "k": 4},
    multiplexer={"condition": "multiplexer", "k": 7},
    multiplexer_disguised={"condition": "multiplexer", "k": 7, "door": 0.7, "disguise": True},
)
def behind(seed: int, condition: str, k: int, door: float = 0.0) -> Case:
    """The switch is a condition on several controls, whose single marginals may say nothing."""
    a, b = _CONDITIONS[condition](k)
    return switched(k, [frozen(a, 14), frozen(b, 16)], door)


_CLUSTERS = {
    "rings": {"condition": "rings", "k": 4},
    "rings_tight": {"condition": "rings", "k": 4, "sizes": (70, 80)},
    "rings_of_five": {"condition": "rings", "k": 4, "sizes": (90, 100), "group": 5},
    "multiplexer": {"condition": "multiplexer", "k": 7},
    "multiplexer_tight": {"condition": "multiplexer", "k": 7, "sizes": (60, 70)},
    "multiplexer_of_six": {"condition": "multiplexer", "k": 7, "sizes": (120, 150), "group": 6},
}


@family("adversarial", **_CLUSTERS)
def equal_marginals(seed: int, condition: str, k: int, sizes=(30, 38), group=4) -> Case:
    """Two clusters in which single marginals are 1/2. For the multiplexer, all pair marginals of
    the controls agree as well. The larger the groups, the less pairs within them differ.
    """
    a, b = _CONDITIONS[condition](k)
    return switched(k, [groups(a, sizes[0], group), groups(b, sizes[1], group)])


@family("adversarial", **_CLUSTERS)
def with_5sat(seed: int, **clusters: Any) -> Case:
    """Two clusters with equal marginals, tied to a 5-SAT formula of 500 variables through the first
    control. Half of the states of each cluster have it true, so the 5-SAT formula adds the same
    factor to both clusters: their probabilities stay.
    """
    case = equal_marginals(seed, **clusters)
    n, more = case.formula.n_vars, 500
    random = np.random.default_rng([seed, 5])
    clauses = blocks.shifted(blocks.planted(more, 2 * more, 5, seed), n)
    for clause in clauses[:4]:
        clause[0] = int(random.choice((-1, 1)))
    formula = Formula([*case.formula, *clauses], n_vars=n + more)
    return Case(formula, watch=case.watch, call="auto")


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
    every = list(range(1, k + 1))
    return switched(k, [frozen([[-v] for v in every], outer), frozen([every], inner)], door)


@family(
    "adversarial",
    eight={"bits": 8, "m": 50},
    ten={"bits": 10, "m": 60},
    weighted={"bits": 9, "m": 50, "door": 0.5, "disguise": True},
)
def key(seed: int, bits: int, m: int, door: float = 0.0) -> Case:
    """Groups that are not all equal, unless the key bits have one given state: it has most of the
    weight, and without it no variable is nearly constant.
    """
    return switched(bits, [groups([[-v] for v in range(1, bits + 1)], m)], door)


@family("adversarial", two={"k": 2}, two_rare={"k": 2, "door": -2.0}, three={"k": 3, "door": 0.5})
def several(seed: int, k: int, door: float = 0.0) -> Case:
    """Several switches at once, and a block that is frozen while all doors are shut."""
    parts = [frozen([[-v for v in range(1, k + 1)]], 8)]
    for v in range(1, k + 1):
        sat = blocks.planted(14, 49, 3, seed + v)
        parts += [Block([[v]], 14, sat), frozen([[-v]], 12 + v)]
    return switched(k, parts, door)


@family(
    "adversarial",
    three={"sizes": (12, 13, 14)},
    four={"sizes": (10, 12, 12, 13)},
    weighted={"sizes": (10, 16, 13), "theta": 1.0},
)
def regions(seed: int, sizes: Sequence[int], theta: float = 0.0) -> Case:
    """Three or four regions, chosen by two controls."""
    cubes = [[1, 2], [1, -2], [-1, 2], [-1, -2]] if len(sizes) == 4 else [[1, 2], [1, -2], [-1]]
    return switched(2, [frozen([c], m, theta) for c, m in zip(cubes, sizes, strict=True)])


@family("adversarial", uniform={}, weighted={"theta": 0.4})
def ties(seed: int, theta: float = 0.0) -> Case:
    """x1 -> a block of variables that are all equal, which no single flip can change."""
    return switched(1, [Block([[1]], 14, blocks.all_equal(14), theta), frozen([[-1]], 12)])


@family("adversarial", evidence={}, infinite={"infinite": True})
def closed_door(seed: int, infinite: bool = False) -> Case:
    """Two clusters, joined only while the door is open; evidence closes it."""
    k, door = 9, 10
    weight = blocks.cube(k).sum(axis=1)
    states = blocks.cube(k)[(weight <= 1) | (weight >= k - 2)]
    clauses = [[door, *clause] for clause in blocks.explicit(states)]
    theta = np.array([0.25] * k + [2.0])
    shut = enumerated(
        Formula([*clauses, [-door]], n_vars=k + 1), theta, upper=lambda x: x.mean(axis=1) > 0.5
    )
    free = Formula(clauses, n_vars=k + 1)
    if infinite:
        return Case(free, np.append(theta[:k], -np.inf), shut.watch, shut.means)
    return Case(free, theta, shut.watch, shut.means, options={"given": [-door]})
