"""Adversarial families: isolated needles, clusters of explicit sets, variables that are tied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import Any

import numpy as np

from lab.labels import blocks
from lab.labels.case import Case, enumerated, family
from nelson.formula import Formula


def _theta(n: int, scale: float, seed: int) -> np.ndarray:
    return scale * np.random.default_rng([seed, 2]).normal(size=n)


@family(
    "adversarial",
    light={"n": 11, "least": 3, "theta": 0.65},
    far={"n": 13, "least": 2, "theta": 0.4},
    disguised={"n": 11, "least": 3, "theta": 0.75, "disguise": True},
)
def needle(seed: int, n: int, least: int, theta: float) -> Case:
    """At most `least` variables are true, or all of them: one state that holds much of the weight,
    and no path to it.
    """
    clauses = [
        [*(-v for v in some), u]
        for some in combinations(range(1, n + 1), least + 1)
        for u in range(1, n + 1)
        if u not in some
    ]
    return enumerated(Formula(clauses, n_vars=n), np.full(n, theta), needle=lambda x: x.all(1))


def _near(k: int, centres: Sequence[np.ndarray], radii: Sequence[int]) -> np.ndarray:
    """States within a radius of one of the centres."""
    states = blocks.cube(k)
    close = [(states != c).sum(axis=1) <= r for c, r in zip(centres, radii, strict=True)]
    return states[np.logical_or.reduce(close)]


@family(
    "adversarial",
    two={"radii": (2, 1)},
    two_strong={"radii": (1, 3), "theta": -2.0},
    three={"radii": (2, 1, 1)},
    three_weighted={"radii": (1, 1, 2), "theta": 1.0},
    needle={"radii": (3, 0), "theta": 1.2},
    needle_strong={"radii": (3, 0), "theta": -20.0},
)
def balls(seed: int, radii: Sequence[int], theta: float = 0.0) -> Case:
    """Hamming balls around far codewords; weights favour one of them."""
    k, random = 10, np.random.default_rng([seed, 10])
    first = random.random(k) < 0.5
    centres = [first, ~first] if len(radii) == 2 else []
    if not centres:
        shift = np.arange(k)
        centres = [first, first ^ (shift < 7), first ^ (shift > 2)]
    states = _near(k, centres, radii)
    tilt = theta * np.where(centres[-1], 1.0, -1.0) / k * 3
    if abs(theta) > 10:
        tilt = np.where(centres[0], -theta, theta) * (np.arange(k) < 1)
    return enumerated(
        Formula(blocks.explicit(states), n_vars=k),
        tilt,
        first=lambda x: (x != centres[0]).sum(1) <= radii[0],
    )


@family(
    "adversarial",
    sparse={"density": 0.15},
    strong={"density": 0.2, "scale": 5.0},
)
def random_set(seed: int, density: float, scale: float = 0.0) -> Case:
    """A random set of assignments of ten variables: many small clusters."""
    states = blocks.cube(10)
    kept = np.random.default_rng([seed, 3]).random(len(states)) < density
    return enumerated(Formula(blocks.explicit(states[kept]), n_vars=10), _theta(10, scale, seed))


@family(
    "adversarial",
    uniform={"n": 24, "ratio": 4.5},
    weighted={"n": 24, "ratio": 4.5, "scale": 1.0},
    strong={"n": 30, "ratio": 4.3, "scale": 4.0, "count": 4096},
    larger={"n": 40, "ratio": 4.4, "scale": 1.0},
    dense={"n": 30, "ratio": 5.5, "count": 4096},
    sparse_strong={"n": 26, "ratio": 2.5, "scale": 10.0},
    sparse_stronger={"n": 24, "ratio": 3.0, "scale": 25.0},
)
def dense_3sat(seed: int, n: int, ratio: float, scale: float = 0.0) -> Case:
    """Planted 3-SAT near and above the threshold: a few clusters of solutions."""
    formula = Formula(blocks.planted(n, round(ratio * n), 3, seed), n_vars=n)
    return enumerated(formula, _theta(n, scale, seed))


@family(
    "adversarial",
    uniform={"n": 14, "k": 5},
    weighted={"n": 14, "k": 5, "scale": 1.0},
    strong={"n": 12, "k": 6, "scale": 10.0},
    at_most={"n": 14, "k": 4, "scale": 1.0, "relation": "at_most"},
)
def cardinality(seed: int, n: int, k: int, scale=0.0, relation="exactly") -> Case:
    """A cardinality with auxiliary variables, which tie the visible ones together."""
    formula = getattr(Formula([[1, 2, 3]], n_vars=n), relation)(range(1, n + 1), k)
    return enumerated(formula, _theta(n, scale, seed))


@family(
    "adversarial",
    weighted={"n": 24, "m": 14, "scale": 1.5},
    strong={"n": 16, "m": 9, "scale": 12.0},
    long={"n": 15, "m": 4, "k": 8, "scale": 1.0},
)
def parities(seed: int, n: int, m: int, k: int = 3, scale: float = 0.0) -> Case:
    """Random XORs: no single flip is possible. Long ones have auxiliary variables."""
    random = np.random.default_rng([seed, n, m])
    formula = Formula([], n_vars=n)
    hidden = random.random(n) < 0.5
    for _ in range(m):
        some = random.choice(n, k, replace=False)
        formula = formula.xor((some + 1).tolist(), bool(hidden[some].sum() % 2))
    return enumerated(formula, _theta(n, scale, seed))


@family(
    "adversarial",
    permutations={"scale": 2.0},
    permutations_strong={"scale": 10.0},
    latin={"what": "latin", "scale": 1.0, "count": 4096},
    colouring={"what": "colouring", "scale": 1.0},
    dominoes={"what": "dominoes", "scale": 1.0},
)
def one_hot(seed: int, what: str = "permutation", scale: float = 0.0) -> Case:
    """Groups of variables of which exactly one is true: single flips cannot move."""
    clauses: blocks.Clauses = []
    if what == "permutation":
        n = 25
        for i in range(5):
            clauses += blocks.exactly_one([5 * i + j + 1 for j in range(5)])
            clauses += blocks.exactly_one([5 * j + i + 1 for j in range(5)])
    elif what == "latin":
        n = 64
        code = np.arange(64).reshape(4, 4, 4) + 1
        for i, j in product(range(4), repeat=2):
            for group in (code[i, j], code[i, :, j], code[:, i, j]):
                clauses += blocks.exactly_one(group.tolist())
    elif what == "colouring":
        n = 27
        for v in range(9):
            clauses += blocks.exactly_one([3 * v + c + 1 for c in range(3)])
            clauses += [[-(3 * v + c + 1), -(3 * ((v + 1) % 9) + c + 1)] for c in range(3)]
    else:
        edges = blocks.grid(4, 6)
        n = len(edges)
        for v in range(24):
            clauses += blocks.exactly_one([e + 1 for e, edge in enumerate(edges) if v in edge])
    return enumerated(Formula(clauses, n_vars=n), _theta(n, scale, seed))


@family(
    "adversarial",
    lovasz={"call": "lovasz", "sweeps": 3},
    projected={"call": "chains", "project": True},
    lovasz_projected={"call": "lovasz", "sweeps": 8, "project": True},
)
def unseen(seed: int, sweeps: int | None = None, project: bool = False) -> Case:
    """Two clusters told apart by variables that no sweep moves: drawn without a diagnostic, with
    fewer than 64 samples, or with those variables projected away.
    """
    tied, loose = 6, 8
    clauses = blocks.all_equal(tied)
    clauses += [[-(i % tied + 1), v] for i, v in enumerate(range(tied + 1, tied + loose + 1))]
    clauses += [[1, -(tied + 1), -(tied + 2)], [2, -(tied + 3), -(tied + 4)]]
    case = enumerated(Formula(clauses, n_vars=tied + loose), np.repeat([0.0, 2.0], (tied, loose)))
    options: dict[str, Any] = {} if sweeps is None else {"sweeps": sweeps}
    if project:
        options["project"] = range(tied + 1, tied + loose + 1)
    return replace(case, options=options)
