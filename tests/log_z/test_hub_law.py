"""The law of held units: its probabilities add up, draws follow it, rules are kept."""

from __future__ import annotations

from itertools import product

import numpy as np
from scipy.stats import chi2

from nelson.log_z.hub_law import HubLaw

SIZES = np.array([2, 3, 2, 4])
#: Units 0 and 1 are not both 1; 1 and 3 differ; 0, 2 and 3 are not all 0.
RULES = [
    [(0, np.array([False, True])), (1, np.array([False, True, False]))],
    *[[(1, np.arange(3) == k), (3, np.arange(4) == k)] for k in range(3)],
    [(0, np.arange(2) == 0), (2, np.arange(2) == 0), (3, np.arange(4) == 0)],
]
EVERY = np.array(list(product(*map(range, SIZES))), np.int8)
DRAWS = 40_000


def broken(values: np.ndarray) -> np.ndarray:
    return np.logical_or.reduce(
        [np.logical_and.reduce([false[values[:, u]] for u, false in rule]) for rule in RULES]
    )


def samples(seed: int) -> np.ndarray:
    """Values that depend on each other along 0 - 1 - 3 and 1 - 2, and keep the rules."""
    rng = np.random.default_rng(seed)
    x = np.stack([rng.integers(0, s, 20_000) for s in SIZES], axis=1)
    x[:, 1] = np.where(rng.random(len(x)) < 0.7, x[:, 0], x[:, 1])
    x[:, 3] = np.where(rng.random(len(x)) < 0.6, x[:, 1] + 1, x[:, 3])
    x[:, 2] = np.where(rng.random(len(x)) < 0.5, x[:, 1] % 2, x[:, 2])
    return x[~broken(x)].astype(np.int8)


def p_value(values: np.ndarray, law: np.ndarray) -> float:
    """Of the chi-square test of draws against the probabilities of EVERY."""
    code = np.ravel_multi_index(values.T.astype(int), tuple(SIZES))
    count = np.bincount(code, minlength=len(EVERY))
    often = law * len(values) >= 5
    count = np.append(count[often], count[~often].sum())
    law = np.append(law[often], law[~often].sum())
    expected = law / law.sum() * len(values)
    return float(
        chi2.sf(((count - expected) ** 2 / np.maximum(expected, 1e-9)).sum(), len(count) - 1)
    )


def test_probabilities_add_up() -> None:
    """To 1 without rules; with rules to 1 less the share of draws that fail."""
    free = HubLaw.fitted(samples(1), SIZES, [])
    assert np.isclose(np.exp(free.log_q(EVERY)).sum(), 1.0, atol=1e-12)
    law = HubLaw.fitted(samples(1), SIZES, RULES)
    allowed = EVERY[~broken(EVERY)]
    total = float(np.exp(law.log_q(allowed)).sum())
    _, log_q = law.draw(DRAWS, 3)
    failed = float(np.isposinf(log_q).mean())
    # 5 sigma: a right law fails in 6e-7 of the cases
    assert abs(1 - total - failed) <= 5 * np.sqrt(0.25 / DRAWS) and total <= 1 + 1e-12


def test_draws_follow_the_law_and_keep_the_rules() -> None:
    """A right sampler fails at 1e-4; the twin is another law of the same values."""
    law = HubLaw.fitted(samples(1), SIZES, RULES)
    values, log_q = law.draw(DRAWS, 5)
    kept = ~np.isposinf(log_q)
    assert not broken(values[kept]).any() and kept.mean() > 0.5
    assert np.allclose(log_q[kept], law.log_q(values[kept]), atol=1e-12)
    chance = np.where(broken(EVERY), 0.0, np.exp(law.log_q(EVERY)))
    assert p_value(values[kept], chance) > 1e-4
    other = HubLaw.fitted(samples(2)[:300], SIZES, RULES)
    assert p_value(values[kept], np.where(broken(EVERY), 0.0, np.exp(other.log_q(EVERY)))) < 1e-4
    again, _ = law.draw(DRAWS, 5)
    assert np.array_equal(values, again)


def test_the_tree_is_the_one_of_the_samples() -> None:
    """A chain of six units, each equal to the one before it in 80% of the samples."""
    rng = np.random.default_rng(7)
    x = np.zeros((20_000, 6), np.int8)
    x[:, 0] = rng.integers(0, 3, len(x))
    for u in range(1, 6):
        x[:, u] = np.where(rng.random(len(x)) < 0.8, x[:, u - 1], rng.integers(0, 3, len(x)))
    law = HubLaw.fitted(x, np.full(6, 3), [])
    edges = {frozenset((u, int(p))) for u, p in enumerate(law.parent) if p >= 0}
    assert edges == {frozenset((u, u + 1)) for u in range(5)}
    assert len(HubLaw.fitted(np.zeros((9, 0), np.int8), np.zeros(0, np.int64), []).order) == 0
