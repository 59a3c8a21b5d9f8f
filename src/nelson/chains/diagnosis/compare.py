"""Two questions to chains, and the statistics that answer them.

`memory`     have chains forgotten, after 2k sweeps, where they were after k sweeps?
`agreement`  have chains that began elsewhere come to the same law?

Each statistic is a number that is at most 1 if the answer is yes. Directions and features that are
picked by their size are picked on one half of the chains and judged on the other half, so that no
allowance for the largest of many noises is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nelson.chains.diagnosis.features import Features, principal

#: A correlation is gone when it is at most this, measured on LANES chains. The largest of a few
#: correlations is larger by chance if there are fewer chains (`_excess`).
GONE = 0.1
LANES = 4096
#: A feature is slow while its correlation is above this.
SLOW = 0.5
#: Means may drift, over the second half of a run, by at most this many standard deviations: the
#: next k sweeps reduce what is left by the factor GONE, and so do the k sweeps after them.
DRIFT = 0.2
#: Probability of a false alarm of all tests of one comparison together.
ALPHA = 1e-3
#: A value that fewer lanes than this take is rare: its counts are tested as Poisson numbers.
RARE = 64
#: Features that are picked by their correlation.
_PICKED = 16


@dataclass(frozen=True)
class Comparison:
    worst: float  # at most 1: yes
    what: str  # the quantity that is worst
    rho: float = 0.0  # `memory`: the largest correlation
    drift: float = 0.0  # `memory`: the largest drift, in standard deviations
    slow: int = 0  # `memory`: features of correlation above SLOW

    @property
    def yes(self) -> bool:
        return self.worst <= 1


@dataclass(frozen=True)
class ChainGroup:
    """Chains that began in the same way."""

    name: str
    words: np.ndarray  # (words, n) uint64: their states; every lane is valid
    replicas: int = 0  # lanes that share a start, side by side; 0: each lane has its own


def ones(bits: np.ndarray) -> np.ndarray:
    """(words, k) -> (k,) number of lanes with a 1."""
    return np.bitwise_count(bits).sum(axis=0, dtype=np.int64).astype(float)


def z_bound(tests: int) -> float:
    """Largest of `tests` standard normal numbers, but for a false alarm with probability ALPHA."""
    return float(np.sqrt(2 * np.log(2 * max(1, tests) / ALPHA)))


def memory(features: Features, early: np.ndarray, late: np.ndarray) -> Comparison:
    """States (words, n) of the same chains after k and after 2k sweeps, all lanes valid."""
    bits = features.bits(early), features.bits(late)
    answers = [_rare_memory(*bits), _bit_memory(*bits)]
    if len(features.columns):
        answers.append(_sum_memory(features, early, late))
    worst = max(answers, key=lambda answer: answer.worst)
    return Comparison(
        worst.worst,
        worst.what,
        max(answer.rho for answer in answers),
        max(answer.drift for answer in answers),
        sum(answer.slow for answer in answers),
    )


def _excess(lanes: float) -> float:
    """How much larger the largest of _PICKED correlations is by chance, on half of these lanes,
    than on half of LANES lanes.
    """
    largest = np.sqrt(2 * np.log(_PICKED))
    return float(max(0.0, largest * (np.sqrt(2 / lanes) - np.sqrt(2 / LANES))))


def _bit_memory(a: np.ndarray, b: np.ndarray) -> Comparison:
    rho = _correlation(a[::2], b[::2])
    picked = np.argsort(-np.abs(rho))[:_PICKED]
    correlation = np.abs(_correlation(a[1::2][:, picked], b[1::2][:, picked])).max(initial=0.0)
    m = 64.0 * len(a)
    before, after = ones(a) / m, ones(b) / m
    p = (before + after) / 2
    spread = np.sqrt(p * (1 - p))
    noise = z_bound(len(p)) * np.sqrt(np.maximum(2 * p * (1 - p), z_bound(len(p)) / m) / m)
    drift = (np.abs(after - before) - noise) / np.maximum(spread, 1e-9)
    largest = float(np.max(drift, initial=0.0))
    worst = max((float(correlation) - _excess(m)) / GONE, largest / DRIFT)
    slow = int((np.abs(rho) > SLOW).sum())
    return Comparison(worst, "a variable or a pair of variables", float(correlation), largest, slow)


def _correlation(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Of each column between two looks (words, k); 0 for columns that are nearly constant."""
    m = 64.0 * max(1, len(a))
    share_a, share_b, both = ones(a) / m, ones(b) / m, ones(a & b) / m
    spread = np.sqrt(share_a * (1 - share_a) * share_b * (1 - share_b))
    varies = spread * m > RARE / 4
    return np.where(varies, (both - share_a * share_b) / np.where(varies, spread, 1.0), 0.0)


def _rare_memory(a: np.ndarray, b: np.ndarray) -> Comparison:
    """Do the few lanes with a rare value of a feature keep it?"""
    m = 64.0 * len(a)
    flip = np.where(ones(a) + ones(b) > m, ~np.uint64(0), np.uint64(0))
    a, b = a ^ flip, b ^ flip
    before, after, both = ones(a), ones(b), ones(a & b)
    rare = (np.maximum(before, after) < RARE) & (both > 0)
    expected = np.maximum(before * after / m, 1e-12)
    log_p = _log_poisson_tail(both, expected)[rare]
    bound = np.log(ALPHA / max(1, len(both)))
    return Comparison(float(np.max(log_p / bound, initial=0.0)), "a rare value of a variable")


def _log_poisson_tail(count: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Chernoff's bound of log P(Poisson(mean) >= count); 0 if count <= mean."""
    more = np.maximum(count, mean)
    return more - mean - more * np.log(more / mean)


def _sum_memory(features: Features, early: np.ndarray, late: np.ndarray) -> Comparison:
    a, b = features.rows(early), features.rows(late)
    moved = (b[::2].mean(0) - a[::2].mean(0))[:, None]
    ways = np.concatenate([features.directions, principal(b[::2]), moved], axis=1)
    before, after = a[1::2] @ ways, b[1::2] @ ways
    centred_before, centred_after = before - before.mean(0), after - after.mean(0)
    spread = np.sqrt((centred_before**2).mean(0) * (centred_after**2).mean(0))
    varies = spread > 1e-6 * np.maximum(1.0, np.abs(ways).sum(0))
    rho = np.abs((centred_before * centred_after).mean(0)) / np.where(varies, spread, 1.0) * varies
    change = after - before
    noise = z_bound(ways.shape[1]) * change.std(0) / np.sqrt(len(change))
    drift = (np.abs(change.mean(0)) - noise) / np.where(varies, np.sqrt(spread), 1.0) * varies
    largest, furthest = float(rho.max(initial=0.0)), float(drift.max(initial=0.0))
    worst = max((largest - _excess(2.0 * len(before))) / GONE, furthest / DRIFT)
    return Comparison(worst, "a sum of variables", largest, furthest)


def agreement(features: Features, base: np.ndarray, groups: Sequence[ChainGroup]) -> Comparison:
    """Groups of chains against chains with states `base` (words, n), after the same sweeps."""
    answers = [Comparison(0.0, "")]
    known, rows, ways = features.bits(base), features.rows(base), features.directions
    others = [features.rows(group.words) for group in groups]
    if groups and len(features.columns):
        # Components of all chains together: if some are in another phase, the first leads there.
        every = np.concatenate([rows[:1024:2], *(group_rows[::2] for group_rows in others)])
        ways = np.concatenate([ways, principal(every)], axis=1)
    for group, group_rows in zip(groups, others, strict=True):
        differences = _bit_differences(known, features.bits(group.words), group, len(groups))
        if len(features.columns):
            differences += _sum_differences(rows, group_rows, ways, group, len(groups))
        for answer in differences:
            answers.append(Comparison(answer.worst, f"{answer.what} in chains from {group.name}"))
    return max(answers, key=lambda answer: answer.worst)


def _bit_differences(
    known: np.ndarray, group_bits: np.ndarray, group: ChainGroup, groups: int
) -> list[Comparison]:
    m, k = 64.0 * len(known), 64.0 * len(group_bits)
    z = z_bound(known.shape[1] * groups)
    p, q = ones(known) / m, ones(group_bits) / k
    pooled = (p * m + q * k) / (m + k)
    # The variance is at least z / lanes: a nearly constant feature has heavier tails than a normal
    # number.
    spread = np.sqrt(np.maximum(pooled * (1 - pooled), z / min(m, k)) * (1 / m + 1 / k))
    far = float(np.max(np.abs(p - q) / (z * spread), initial=0.0))
    answers = [Comparison(far, "the mean of a variable or a pair")]
    if group.replicas:
        answers.append(_rare_starts(group_bits, p, m, group.replicas, groups))
    return answers


def _sum_differences(
    x: np.ndarray, y: np.ndarray, ways: np.ndarray, group: ChainGroup, groups: int
) -> list[Comparison]:
    apart = (y[::2].mean(0) - x[::2].mean(0))[:, None]
    ways = np.concatenate([ways, apart], axis=1)
    x, y = x[1::2] @ ways, y @ ways
    mean, spread = x.mean(0), np.maximum(x.std(0), 1e-6 * np.maximum(1.0, np.abs(ways).sum(0)))
    odd = y[1::2]
    z = z_bound(ways.shape[1] * groups)
    far = np.abs(odd.mean(0) - mean) / (spread * np.sqrt(1 / len(odd) + 1 / len(x)))
    answers = [Comparison(float(far.max(initial=0.0)) / z, "the mean of a sum")]
    if group.replicas > 1:
        each = y[: len(y) // group.replicas * group.replicas]
        each = each.reshape(-1, group.replicas, each.shape[1])[:, 1::2]
        z = z_bound(each.shape[0] * each.shape[2] * groups) + 1  # few lanes: heavier tails
        far = np.abs(each.mean(1) - mean) / (spread * np.sqrt(1 / each.shape[1] + 1 / len(x)))
        answers.append(Comparison(float(far.max(initial=0.0)) / z, "a sum, by its start,"))
    return answers


def _rare_starts(
    group_bits: np.ndarray, p: np.ndarray, m: float, replicas: int, groups: int
) -> Comparison:
    """Does a start keep a value of a feature that is rare in the other chains?"""
    flip = np.where(p > 0.5, ~np.uint64(0), np.uint64(0))
    rare = np.minimum(p, 1 - p) < 1 / 20
    if not rare.any():
        return Comparison(0.0, "")
    group_bits = (group_bits ^ flip)[:, rare]
    shifts = np.arange(0, 64, replicas, dtype=np.uint64)
    mask = np.uint64((1 << replicas) - 1)
    counts = np.bitwise_count((group_bits[:, None] >> shifts[None, :, None]) & mask).astype(float)
    expected = replicas * (np.minimum(p, 1 - p)[rare] * m + 3) / m
    log_p = _log_poisson_tail(counts, np.broadcast_to(expected, counts.shape))
    bound = np.log(ALPHA / (counts.size * groups))
    return Comparison(float(np.max(log_p / bound, initial=0.0)), "a rare value of a variable")
