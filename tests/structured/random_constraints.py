"""Random formulas with a hidden solution: clauses, parities, cardinalities, a knapsack."""

from __future__ import annotations

import numpy as np

from nelson.formula import Formula
from nelson.formula.encode import Linear, Xor, extend
from nelson.formula.random_ksat import distinct_variables


def planted_ksat(n: int, ratio: float = 4.2, k: int = 3, seed: int = 0) -> Formula:
    """ratio * n random clauses that a hidden assignment satisfies.

    The default ratio is near the threshold of 3-SAT, 4.267, where search is hardest.
    """
    random = np.random.default_rng([seed, 7])
    hidden = random.integers(0, 2, n) * 2 - 1
    m = round(ratio * n)
    variables = distinct_variables(random, n, k, m)
    signs = 2 * random.integers(0, 2, size=(m, k)) - 1
    while len(bad := np.flatnonzero((signs != hidden[variables - 1]).all(axis=1))):
        signs[bad] = 2 * random.integers(0, 2, size=(len(bad), k)) - 1
    return Formula((variables * signs).astype(np.int32), n_vars=n)


def xor_chain(n: int, width: int = 3, step: int | None = None, seed: int = 0) -> Formula:
    """Parities of windows of `width` variables, each `step` (default width - 1) after the last.

    Each window holds a variable that no other window holds: 2^(n - windows) solutions. Widths above
    5 need auxiliary variables.
    """
    random = np.random.default_rng([seed, 8])
    starts = range(1, n - width + 2, step or max(1, width - 1))
    parities = random.integers(0, 2, len(starts))
    rows = [
        Xor.of(range(a, a + width), bool(p)) for a, p in zip(starts, parities.tolist(), strict=True)
    ]
    return extend(Formula([], n_vars=n), rows)


def xor_system(n: int, rows: int, width: int = 3, seed: int = 0) -> Formula:
    """Random parities that a hidden assignment meets: the hardest case for local moves."""
    random = np.random.default_rng([seed, 9])
    hidden = random.integers(0, 2, n)
    chosen = distinct_variables(random, n, width, rows)
    parities = hidden[chosen - 1].sum(axis=1) % 2
    constraints = [Xor.of(row, bool(p)) for row, p in zip(chosen.tolist(), parities, strict=True)]
    return extend(Formula([], n_vars=n), constraints)


def cardinality(n: int, groups: int, size: int, seed: int = 0) -> Formula:
    """At most, at least or exactly k of each of `groups` random sets of `size` variables.

    k is the number of true variables of the set in a hidden assignment, which meets all of them.
    """
    random = np.random.default_rng([seed, 10])
    hidden = random.random(n) < 0.4
    constraints = []
    for _ in range(groups):
        chosen = random.choice(np.arange(1, n + 1), size, replace=False)
        true = int(hidden[chosen - 1].sum())
        relation = str(random.choice(["<=", ">=", "=="]))
        constraints.append(Linear.of([1] * size, chosen.tolist(), relation, true))
    return extend(Formula([], n_vars=n), constraints)


def knapsack(n: int, most: int = 20, seed: int = 0) -> Formula:
    """sum_i w_i x_i between a third and half of the total, w_i random in 1..most."""
    random = np.random.default_rng([seed, 11])
    weights = random.integers(1, most + 1, n).tolist()
    total, variables = sum(weights), range(1, n + 1)
    low, high = (
        Linear.of(weights, variables, relation, bound)
        for relation, bound in ((">=", total // 3), ("<=", total // 2))
    )
    return extend(Formula([], n_vars=n), [low, high])
