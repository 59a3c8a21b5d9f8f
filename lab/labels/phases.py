"""Adversarial families: several phases of one law, slow collective modes, strong weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lab.labels import blocks
from lab.labels.case import Case, Quantity, Watch, enumerated, family
from nelson.formula import Formula


def parts_case(sizes: Sequence[int], theta: Sequence[float]) -> Case:
    """Independent sets of a complete multipartite graph: at most one part is occupied, so

    Z = 1 + sum_j ((1 + e^theta_j)^size_j - 1)
    """
    label = np.repeat(np.arange(len(sizes)), sizes)
    n = len(label)
    edges = [(a, b) for a in range(n) for b in range(a) if label[a] != label[b]]
    t, m = np.array(theta, float), np.array(sizes)
    score = m * np.logaddexp(0, t)
    log_z = float(np.logaddexp.reduce([*(score + np.log1p(-np.exp(-score))), 0.0]))
    means = np.exp(t + (m - 1) * np.logaddexp(0, t) - log_z)
    watch = tuple(
        Watch(
            f"P(part {j})",
            _any_of(label == j),
            float(np.exp(score[j] - log_z) - np.exp(-log_z)),
        )
        for j in range(len(sizes))
    )
    formula = blocks.independent_sets(edges, n)
    return Case(formula, np.repeat(t, m), watch, np.repeat(means, m), log_z=log_z)


def _any_of(columns: np.ndarray) -> Quantity:
    return lambda x: x[:, columns].any(axis=1)


@family(
    "adversarial",
    star={"sizes": (1, 12), "theta": (10, 2)},
    star_strong={"sizes": (1, 20), "theta": (25, 2)},
    star_even={"sizes": (1, 12), "theta": (25, 2)},
    k_4_14={"sizes": (4, 14), "theta": (6, 2)},
    k_4_14_even={"sizes": (4, 14), "theta": (7.5, 2)},
    k_5_40={"sizes": (5, 40), "theta": (10, 1)},
    k_30_8={"sizes": (30, 8), "theta": (0.0, 3)},
    k_10_10={"sizes": (10, 10), "theta": (3, 2.9)},
    k_10_10_disguised={"sizes": (10, 10), "theta": (3, 2.9), "disguise": True},
    k_6_8={"sizes": (6, 8), "theta": (1.2, 1)},
    three_phases={"sizes": (2, 8, 20), "theta": (20, 5, 2)},
    three_phases_even={"sizes": (2, 6, 16), "theta": (17, 5.6, 1.6)},
    four_phases={"sizes": (1, 3, 9, 27), "theta": (30, 10, 3.2, 0.5), "disguise": True},
    star_swept={"sizes": (1, 12), "theta": (10, 2), "call": "lovasz", "options": {"sweeps": 8}},
    k_4_14_swept={"sizes": (4, 14), "theta": (6, 2), "call": "lovasz", "options": {"sweeps": 50}},
    star_few={"sizes": (1, 12), "theta": (10, 2), "count": 63},
    star_projected={"sizes": (1, 12), "theta": (10, 2), "options": {"project": range(2, 14)}},
    star_log_z={"sizes": (1, 12), "theta": (10, 2), "call": "log_z"},
    k_4_14_log_z={"sizes": (4, 14), "theta": (6, 2), "call": "log_z"},
)
def kab(seed: int, sizes: Sequence[int], theta: Sequence[float]) -> Case:
    """Wrong phase: the part that dominates is neither the first found nor that of the mode."""
    return parts_case(sizes, theta)


@family(
    "adversarial",
    pairs={"sizes": (2, 4), "theta": (3, 1), "copies": 60},
    larger={"sizes": (3, 5), "theta": (2.5, 1.4), "copies": 40},
    many={"sizes": (2, 3), "theta": (3, 1.7), "copies": 150},
)
def many_small(seed: int, sizes: Sequence[int], theta: Sequence[float], copies: int) -> Case:
    """Many copies of a small graph with two phases: small errors add up. A clause over one
    variable of every copy ties them together; it fails once in 10^20 draws or less often.
    """
    one, n = parts_case(sizes, theta), sum(sizes)
    assert one.means is not None
    clauses = [c for k in range(copies) for c in blocks.shifted(list(one.formula), k * n)]
    clauses.append([n * k + 1 for k in range(copies)])
    p, first = one.watch[0].truth, sizes[0]
    watch = Watch(
        "copies in phase 1",
        lambda x: x.reshape(len(x), copies, n)[:, :, :first].any(axis=2).sum(axis=1),
        copies * p,
        float(np.sqrt(copies * p * (1 - p))),
    )
    tiled = np.tile(one.theta, copies), np.tile(one.means, copies)
    return Case(Formula(clauses, n_vars=n * copies), tiled[0], (watch,), tiled[1])


@family(
    "adversarial",
    star={"sizes": (1, 12), "theta": (10, 2), "call": "auto"},
    many={"sizes": (1, 12), "theta": (10, 2), "copies": 10, "call": "auto"},
    k_4_14={"sizes": (4, 14), "theta": (6, 1.8), "call": "auto", "disguise": True},
)
def in_5sat(seed: int, sizes: Sequence[int], theta: Sequence[float], copies: int = 1) -> Case:
    """Stars in a large 5-SAT formula that mixes well. One clause per star ties its centre to the
    formula; it changes the odds of the centre by a factor near 1, which does not matter at 10^-3.
    """
    one, more = parts_case(sizes, theta), 500
    assert one.means is not None
    n = len(one.means)
    clauses = blocks.shifted(blocks.planted(more, 2 * more, 5, seed), n * copies)
    for k in range(copies):
        clauses[k][0] = -(n * k + 1)
        clauses += blocks.shifted(list(one.formula), n * k)
    size = n * copies + more
    means = np.concatenate([np.tile(one.means, copies), np.full(more, np.nan)])
    weights = np.concatenate([np.tile(one.theta, copies), np.zeros(more)])
    return Case(Formula(clauses, n_vars=size), weights, means=means, means_error=1e-3)


@family(
    "adversarial",
    issue={"hubs": 40, "leaves": 300, "degree": 14, "weights": (12, 2), "call": "auto"},
    hurried={
        "hubs": 40,
        "leaves": 300,
        "degree": 14,
        "weights": (12, 2),
        "call": "auto",
        "options": {"seconds": 1.0},
    },
    small={"hubs": 8, "leaves": 40, "degree": 14, "weights": (9, 2)},
    even={"hubs": 6, "leaves": 30, "degree": 15, "weights": (6.4, 1)},
    medium={"hubs": 12, "leaves": 80, "degree": 16, "weights": (13, 2)},
    strong={"hubs": 10, "leaves": 90, "degree": 24, "weights": (16, 2), "disguise": True},
)
def hubs(seed: int, hubs: int, leaves: int, degree: int, weights: Sequence[float]) -> Case:
    """Each hub is in conflict with random leaves. Summed over sets S of hubs:

    Z = sum_S exp(a |S|) (1 + e^b)^(leaves - |N(S)|)
    """
    random = np.random.default_rng([seed, hubs, leaves])
    near = np.zeros((hubs, leaves), bool)
    for row in near:
        row[random.choice(leaves, degree, replace=False)] = True
    edges = [(int(h), hubs + int(v)) for h, v in np.argwhere(near)]
    theta = np.repeat(np.array(weights, float), (hubs, leaves))
    formula = blocks.independent_sets(edges, hubs + leaves)
    if hubs > 16:  # a single hub has probability e^-17.8, larger sets of hubs less
        free = 1 / (1 + np.exp(-weights[1]))
        return Case(formula, theta, means=np.repeat([0.0, free], (hubs, leaves)), means_error=1e-4)
    sets = blocks.cube(hubs)
    reached = sets @ near > 0
    score = sets.sum(axis=1) * weights[0] - reached.sum(axis=1) * np.logaddexp(0, weights[1])
    p = np.exp(score - score.max())
    p /= p.sum()
    leaf = (p @ ~reached) / (1 + np.exp(-weights[1]))
    most = Watch(
        "P(most hubs)", lambda x: x[:, :hubs].sum(1) > hubs / 2, float(p @ (sets.sum(1) > hubs / 2))
    )
    return Case(formula, theta, (most,), np.concatenate([p @ sets, leaf]))


@family(
    "adversarial",
    issue={"rows": 40, "columns": 16, "theta": 0.9, "call": "auto"},
    colder={"rows": 30, "columns": 12, "theta": 1.2, "count": 4096},
    cold={"rows": 16, "columns": 10, "theta": 2.0},
    frozen={"rows": 10, "columns": 8, "theta": 4.0},
    square={"rows": 24, "columns": 14, "theta": 1.0},
    field={"rows": 9, "columns": 9, "theta": 2.5, "field": 0.1},
    field_log_z={"rows": 9, "columns": 9, "theta": 2.5, "field": 0.1, "call": "log_z"},
    field_weak={"rows": 12, "columns": 10, "theta": 2.0, "field": 0.02},
    field_strong={"rows": 8, "columns": 8, "theta": 5.0, "field": 0.2, "disguise": True},
    ladder={"rows": 120, "columns": 2, "theta": 5.0},
    path={"rows": 150, "columns": 1, "theta": 7.0},
    path_strong={"rows": 60, "columns": 1, "theta": 12.0},
)
def grid_phase(seed: int, rows: int, columns: int, theta: float, field: float = 0.0) -> Case:
    """Independent sets of a grid: two checkerboard phases that the staggered sum tells apart. Truth
    by a transfer matrix (and 0 by reflection without a field, if rows or columns are even).
    """
    sign = blocks.checkerboard(rows, columns)
    weights = theta + field * sign
    log_z, means = blocks.strip_means(weights.reshape(rows, columns))
    watch = Watch("staggered", lambda x: x @ sign, float(means @ sign))
    formula = blocks.independent_sets(blocks.grid(rows, columns), rows * columns)
    return Case(formula, weights, (watch,), means, log_z=log_z)


@family(
    "adversarial",
    even_cycle={"n": 40, "theta": 8.0},
    torus={"n": 0, "theta": 2.2},
    bipartite={"n": 60, "theta": 4.0},
)
def symmetric_phase(seed: int, n: int, theta: float) -> Case:
    """Two phases that a symmetry exchanges, with independent sets on a ring, a torus, or a random
    bipartite graph joined with its mirror image: the staggered sum is 0.
    """
    if not n:
        edges, sign = blocks.grid(10, 10, torus=True), blocks.checkerboard(10, 10)
    elif n == 40:
        edges, sign = blocks.cycle(n), 1 - 2 * (np.arange(n) % 2)
    else:
        half = n // 2
        random = np.random.default_rng([seed, n])
        pairs = {(i, int(j)) for i in range(half) for j in random.choice(half, 4, replace=False)}
        edges = sorted({(a, half + b) for a, b in pairs} | {(b, half + a) for a, b in pairs})
        sign = np.repeat([1, -1], half)
    zero = Watch("staggered", lambda x: x @ sign, 0.0)
    phase = Watch("P(first phase)", lambda x: np.sign(x @ sign) * 0.5 + 0.5, 0.5, 0.5)
    return Case(blocks.independent_sets(edges, len(sign)), np.full(len(sign), theta), (zero, phase))


@family(
    "adversarial",
    chain_60={"n": 60},
    chain_300={"n": 300},
    chain_1000={"n": 1000},
    chain_tilted={"n": 200, "theta": 0.01},
    chain_wells={"n": 80, "wells": 0.1},
    chain_deep_wells={"n": 40, "wells": 0.4},
)
def implications(seed: int, n: int, theta: float = 0.0, wells: float = 0.0) -> Case:
    """x1 -> x2 -> ... -> xn: n + 1 solutions in a row, along which a wall moves step by step. With
    wells it stays near one of the two ends.
    """
    # The longer implications make the formula not extremal: an extremal one is drawn exactly.
    clauses = [[-v, v + d] for d in (1, 2, 3) for v in range(1, n + 1 - d)]
    tilt = np.full(n, theta)
    tilt[: n // 2] += wells
    tilt[n // 2 :] -= wells
    return enumerated(Formula(clauses, n_vars=n), tilt, weight=lambda x: x.sum(axis=1))


@family("adversarial", nine={"a": 9, "b": 9}, long={"a": 4, "b": 20})
def ideals(seed: int, a: int, b: int) -> Case:
    """Down-closed sets of an a x b grid, C(a + b, a) of them: a path moves by its corners."""
    clauses = [[-(v + 1), u + 1] for u, v in blocks.grid(a, b)]
    half = np.arange(a * b) // b < a // 2
    return enumerated(
        Formula(clauses, n_vars=a * b),
        None,
        area=lambda x: x.sum(1),
        upper=lambda x: x[:, half].sum(1),
    )


@family(
    "adversarial",
    grid={"edges": blocks.grid(3, 4), "n": 12, "coupling": 2.0},
    grid_cold={"edges": blocks.grid(3, 4), "n": 12, "coupling": 4.0, "field": 0.05},
    complete={"edges": [(a, b) for a in range(8) for b in range(a)], "n": 8, "coupling": 1.0},
    ring={"edges": blocks.cycle(14), "n": 14, "coupling": 6.0, "field": 0.02, "disguise": True},
    grid_warm={"edges": blocks.grid(4, 4), "n": 16, "coupling": 0.9, "field": 0.01},
)
def ferromagnet(
    seed: int, edges: blocks.Edges, n: int, coupling: float, field: float = 0.1
) -> Case:
    """Spins in a small field, and a variable for each edge that may be true only if its ends are
    equal: the joint law of Edwards and Sokal. The truth is a sum over the spins.
    """
    clauses = []
    for k, (a, b) in enumerate(edges, n + 1):
        clauses += [[-k, a + 1, -(b + 1)], [-k, -(a + 1), b + 1]]
    weight = float(np.log(np.expm1(coupling)))
    spins = blocks.cube(n)
    equal = np.stack([spins[:, a] == spins[:, b] for a, b in edges], axis=1)
    score = field * spins.sum(1) + coupling * equal.sum(1)
    p = np.exp(score - score.max())
    p /= p.sum()
    means = np.concatenate([p @ spins, (p @ equal) * (1 - np.exp(-coupling))])
    value = spins.sum(1)
    mean = float(p @ value)
    watch = Watch(
        "spins up", lambda x: x[:, :n].sum(1), mean, float(np.sqrt(p @ (value - mean) ** 2))
    )
    theta = np.repeat([field, weight], (n, len(edges)))
    return Case(Formula(clauses, n_vars=n + len(edges)), theta, (watch,), means)


@family(
    "adversarial",
    issue={"hard": (10, 2)},
    even={"hard": (25, 2)},
    one_of_twenty={"hard": (10, 2), "at": (13,), "rows": 20},
    weak_is_hard={"sizes": (10, 10), "hard": (3, 2.9), "easy": (8, -8)},
    weakest_of_nine={"sizes": (6, 8), "hard": (1.2, 1), "easy": (-9, 9), "at": (5,), "rows": 9},
)
def contexts(seed: int, hard, easy=(0, 0), sizes=(1, 12), at=(1, 3), rows=5) -> Case:
    """Several rows of theta, of which only those at the places `at` are hard."""
    cases = [parts_case(sizes, hard if row in at else easy) for row in range(rows)]
    means = np.stack([np.asarray(case.means) for case in cases])
    theta = np.stack([case.theta for case in cases])
    return Case(cases[0].formula, theta, means=means, count=4096)


@family(
    "adversarial", product={"size": 12, "weight": 14.0}, product_of_ten={"size": 10, "weight": 11.0}
)
def polynomial(seed: int, size: int, weight: float) -> Case:
    """One product of many variables with a large weight, drawn by chains."""
    n = size + 2
    f = Formula([[n - 1, n]], n_vars=n)
    states = blocks.cube(n)
    states = states[f.satisfied(states)]
    score = weight * states[:, :size].all(axis=1)
    p = np.exp(score - score.max())
    p /= p.sum()
    terms = {tuple(range(1, size + 1)): weight}
    return Case(f, None, (), p @ states, call="terms", options={"terms": terms}, count=4096)
