"""Honest families: heat-bath chains mix on them, and the label `diagnosed` is deserved."""

from __future__ import annotations

import numpy as np

from lab.labels import blocks
from lab.labels.case import Case, Watch, family, measured
from nelson.formula import Formula
from nelson.formula.random_ksat import random_ksat


def _theta(n: int, scale: float, seed: int) -> np.ndarray:
    return scale * np.random.default_rng([seed, 4]).normal(size=n)


@family(
    "honest",
    sparse_5sat_60={"n": 60, "ratio": 1},
    sparse_5sat_60_weighted={"n": 60, "ratio": 2, "scale": 1.0},
    sparse_5sat_60_strong={"n": 60, "ratio": 2, "scale": 2.0},
    dense_5sat_60={"n": 60, "ratio": 4, "scale": 1.0},
    denser_5sat_60={"n": 60, "ratio": 8, "scale": 0.0},
    sparse_5sat_300={"n": 300, "ratio": 2, "scale": 1.0},
    dense_5sat_300={"n": 300, "ratio": 4, "scale": 0.5},
    sparse_5sat_1000={"n": 1000, "ratio": 1, "scale": 1.0, "call": "auto"},
    sparse_5sat_5000={"n": 5000, "ratio": 1, "scale": 0.0, "call": "auto", "count": 4096},
    sparse_7sat_100={"n": 100, "ratio": 5, "k": 7, "scale": 2.0},
    sparse_7sat_1000={"n": 1000, "ratio": 4, "k": 7, "scale": 1.0, "call": "auto"},
    dense_7sat_200={"n": 200, "ratio": 12, "k": 7},
    sparse_3sat_60={"n": 60, "ratio": 1, "k": 3, "scale": 1.0},
    sparse_3sat_80={"n": 80, "ratio": 2, "k": 3},
    sparse_3sat_300={"n": 300, "ratio": 1.5, "k": 3, "scale": 0.5},
    sparse_3sat_1000={"n": 1000, "ratio": 1, "k": 3},
    sparse_4sat_200={"n": 200, "ratio": 3, "k": 4, "scale": 1.0},
)
def random(seed: int, n: int, ratio: float, k: int = 5, scale: float = 0.0) -> Case:
    """Random k-SAT far below its clustering threshold."""
    return measured(random_ksat(n, round(ratio * n), k, seed), _theta(n, scale, seed))


@family(
    "honest",
    warm={"rows": 10, "columns": 10, "theta": -1.0},
    zero={"rows": 20, "columns": 12, "theta": 0.0},
    weighted={"rows": 12, "columns": 10, "theta": -0.5, "scale": 1.0},
    large={"rows": 100, "columns": 10, "theta": -0.5},
    path={"rows": 80, "columns": 1, "theta": 1.0},
    long_path={"rows": 2000, "columns": 1, "theta": 0.5, "scale": 1.0},
    log_z={"rows": 12, "columns": 6, "theta": 0.0, "call": "log_z"},
    path_log_z={"rows": 60, "columns": 1, "theta": 1.0, "scale": 1.0, "call": "log_z"},
    ladder={"rows": 60, "columns": 2, "theta": 0.5},
    disguised={"rows": 16, "columns": 8, "theta": 0.0, "disguise": True},
)
def grid(seed: int, rows: int, columns: int, theta: float, scale: float = 0.0) -> Case:
    """Independent sets of a grid, below the phase transition (theta = 1.33). Truth by a transfer
    matrix.
    """
    weights = theta + _theta(rows * columns, scale, seed)
    sign = blocks.checkerboard(rows, columns)
    log_z, means = blocks.strip_means(weights.reshape(rows, columns))
    watch = Watch("staggered", lambda x: x @ sign, float(means @ sign))
    formula = blocks.independent_sets(blocks.grid(rows, columns), rows * columns)
    return Case(formula, weights, (watch,), means, log_z=log_z)


@family(
    "honest",
    cubic_60={"n": 60, "degree": 3, "theta": 0.0},
    cubic_300={"n": 300, "degree": 3, "theta": -0.5, "scale": 0.5},
    cubic_1000={"n": 1000, "degree": 3, "theta": 0.0},
    quartic_100={"n": 100, "degree": 4, "theta": -0.5},
    degree_6={"n": 200, "degree": 6, "theta": -1.5},
)
def regular(seed: int, n: int, degree: int, theta: float, scale: float = 0.0) -> Case:
    """Independent sets of random regular graphs below the uniqueness threshold."""
    edges = blocks.regular(n, degree, seed)
    return measured(blocks.independent_sets(edges, n), theta + _theta(n, scale, seed))


@family(
    "honest",
    cycle={"n": 200, "theta": 0.0},
    grid={"n": 0, "theta": 0.5},
    cubic={"n": 100, "theta": -0.5},
)
def matchings(seed: int, n: int, theta: float) -> Case:
    """Matchings of a graph: no two edges share an end."""
    edges = blocks.cycle(n) if n == 200 else blocks.regular(n, 3, seed) if n else blocks.grid(8, 8)
    pairs = [(a, b) for a in range(len(edges)) for b in range(a) if set(edges[a]) & set(edges[b])]
    return measured(blocks.independent_sets(pairs, len(edges)), np.full(len(edges), theta))


@family(
    "honest",
    light={"n": 100, "m": 80, "theta": -0.5},
    heavier={"n": 80, "m": 100, "k": 6, "theta": -1.0},
    large={"n": 1500, "m": 1500, "theta": -0.3},
)
def covers(seed: int, n: int, m: int, theta: float, k: int = 5) -> Case:
    """Hitting sets of random k-sets (monotone CNF)."""
    clauses = [[abs(v) for v in clause] for clause in random_ksat(n, m, k, seed)]
    return measured(Formula(clauses, n_vars=n), theta + _theta(n, 0.5, seed))


@family("honest", quartic={"n": 40, "degree": 4}, degree_6={"n": 100, "degree": 6, "scale": 0.5})
def orientations(seed: int, n: int, degree: int, scale: float = 0.0) -> Case:
    """Orientations of a regular graph without sinks and without sources."""
    edges = blocks.regular(n, degree, seed)
    out: list[list[int]] = [[] for _ in range(n)]
    for e, (a, b) in enumerate(edges, 1):
        out[a].append(e)
        out[b].append(-e)
    clauses = out + [[-v for v in clause] for clause in out]
    return measured(Formula(clauses, n_vars=len(edges)), _theta(len(edges), scale, seed))


@family("honest", sparse={"n": 80, "m": 60}, larger={"n": 600, "m": 500, "k": 6})
def not_all_equal(seed: int, n: int, m: int, k: int = 5) -> Case:
    """Sparse not-all-equal SAT: every marginal is 1/2 by symmetry."""
    clauses = [list(clause) for clause in random_ksat(n, m, k, seed)]
    formula = Formula(clauses + [[-v for v in clause] for clause in clauses], n_vars=n)
    return Case(formula, means=np.full(n, 0.5))


@family("honest", cubic={"n": 90, "degree": 3}, quartic={"n": 200, "degree": 4, "theta": -0.5})
def dominating(seed: int, n: int, degree: int, theta: float = 0.0) -> Case:
    """Dominating sets of random regular graphs."""
    near = [[v + 1] for v in range(n)]
    for a, b in blocks.regular(n, degree, seed):
        near[a].append(b + 1)
        near[b].append(a + 1)
    return measured(Formula(near, n_vars=n), np.full(n, theta))


@family("honest", cycle={"n": 30, "colours": 5}, cubic={"n": 30, "colours": 8, "theta": -0.5})
def partial_colourings(seed: int, n: int, colours: int, theta: float = 0.0) -> Case:
    """Each vertex has at most one colour, and neighbours have different ones."""
    edges = blocks.cycle(n) if colours == 5 else blocks.regular(n, 3, seed)
    pairs = [
        (v * colours + a, v * colours + b)
        for v in range(n)
        for a in range(colours)
        for b in range(a)
    ]
    pairs += [(u * colours + a, v * colours + a) for u, v in edges for a in range(colours)]
    return measured(blocks.independent_sets(pairs, n * colours), np.full(n * colours, theta))
