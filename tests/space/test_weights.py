"""Weights from 1e-300 to 1e300 on values and rules of random spaces, against fractions.

A right sampler fails one count of rows with probability 1e-7; seeds are fixed.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from nelson.space import Space
from tests.space.random_spaces import legal_rows, random_space

DRAWS = 4000
Law = dict[tuple[Any, ...], Fraction]


def weighted(seed: int, size: float) -> tuple[Space, dict[str, Any], Law]:
    """A space, random weights of some values (now and then 0), and the weight of each row."""
    rng, space = np.random.default_rng([seed, 77]), random_space(seed)
    weights: dict[str, dict[Any, float]] = {}
    for name, field in space.fields.items():
        values = [field.value(k) for k in range(field.size) if rng.random() < 0.5]
        if values and rng.random() < 0.7:
            factors = np.where(rng.random(len(values)) < 0.06, 0, 10 ** rng.uniform(-size, size))
            weights[name] = dict(zip(values, factors.tolist(), strict=True))
    law: Law = {}
    for row in legal_rows(space):
        of_values = zip(space.fields, row, strict=True)
        factor = [Fraction(weights.get(name, {}).get(value, 1.0)) for name, value in of_values]
        law[row] = math.prod(factor, start=Fraction(1))
    return space, weights, {row: weight for row, weight in law.items() if weight}


def wrong_counts(space: Space, law: Law, rows: Any) -> list[tuple[Any, ...]]:
    """Rows that were drawn too often or too seldom, or that cannot be."""
    z = sum(law.values())
    found = Counter(zip(*(rows[name].tolist() for name in space.fields), strict=True))
    bad = [row for row in found if row not in law]
    for row, weight in law.items():
        p = float(weight / z)
        sigma = math.sqrt(DRAWS * p * max(0.0, 1 - p))
        if abs(found[row] - DRAWS * p) > 5.5 * sigma + 3:
            bad.append(row)
    return bad


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 20, 300])
def test_every_answer_under_weights_of_all_sizes(size):
    tried = rejected = 0
    for seed in range(40):
        space, weights, law = weighted(seed, size)
        if not law or len(law) > 2000:
            continue
        tried += 1
        z, best = sum(law.values()), max(law.values())
        rows = space.sample(DRAWS, weights=weights, seed=seed)
        assert rows.guarantee == "exact" and rows.tv_bound <= 1e-6
        assert not wrong_counts(space, law, rows), seed
        rejected += bool(wrong_counts(space, law, space.sample(DRAWS, seed=seed)))  # the twin
        mode = space.mode(weights=weights)
        assert law[tuple(mode[name] for name in space.fields)] >= best * (1 - Fraction(1, 10**9))
        shares = space.marginals(weights=weights)
        assert shares.guarantee == "exact"
        for k, name in enumerate(space.fields):
            for value, share in shares[name].items():
                p = sum((w for row, w in law.items() if row[k] == value), Fraction(0)) / z
                assert share == pytest.approx(float(p), abs=1e-9), (seed, name, value)
    assert tried >= 15 and rejected >= tried // 3
