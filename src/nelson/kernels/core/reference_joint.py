"""The specification of a joint move in plain NumPy: all lanes at once, one table for each bag.

Tests compare `cpu/joint.py` with it bit for bit: the same IEEE operations in the same order.
"""

from typing import Any

import numpy as np

from nelson.kernels.core import rng


def uniform(seed: int, context: int, words: np.ndarray, variable: int, round: int) -> np.ndarray:
    """(64 words,) float64 in [0, 1): one number for each lane, multiples of 2^-53."""
    with np.errstate(over="ignore"):
        key0, key1 = rng.keys(
            rng.spread_seed(seed), np.uint64(context), words.astype(np.uint64)[:, None]
        )
        lanes = np.uint64(64 * variable) + np.arange(64, dtype=np.uint64)
        random = rng.scramble(key0 + rng.counter(round, lanes, 0), key1)
    return ((random >> np.uint64(11)).astype(np.float64) * 2.0**-53).reshape(-1)


def _scale(most: np.ndarray) -> np.ndarray:
    """2^-k for a number in [2^k, 2^(k+1)) below 2^-64, else 1."""
    exponent = most.view(np.uint64) >> np.uint64(52)
    power = ((np.uint64(2046) - exponent) << np.uint64(52)).view(np.float64)
    return np.where(most < 2.0**-64, power, 1.0)


def _aside(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers in [1, 2) or 0, and their exponents of two."""
    bits = table.view(np.uint64)
    power = (bits >> np.uint64(52)).astype(np.int64)
    one = (bits & np.uint64((1 << 52) - 1)) | np.uint64(1023 << 52)
    return np.where(power > 0, one.view(np.float64), 0.0), power - 1023


def _back(table: np.ndarray, powers: np.ndarray) -> np.ndarray:
    """The numbers times their powers of two, relative to the largest power of the lane."""
    most = np.where(table > 0, powers, -(1 << 62)).max(0)
    power = np.clip(powers - most, -1023, 0)
    return np.where(power > -1023, np.ldexp(table, power), 0.0)


def move(
    cutset: Any,
    x: np.ndarray,
    one: np.ndarray,
    seed: int,
    number: int,
    context: int = 0,
    first_word: int = 0,
) -> np.ndarray:
    """One move of states x (lanes, n) bool, a multiple of 64 of them; one (n,): P(x_v = 1).

    cutset: a `kernels.cpu.cutset.Cutset`.
    """
    p, x = cutset, x.copy()
    words = first_word + np.arange(len(x) // 64)
    dead = np.zeros(len(x), bool)
    tables: list[np.ndarray] = []  # (2 ** (width + 1), lanes): the message, then F(., 1)
    for b in range(p.n_bags):
        d = int(p.width[b])
        entry = np.arange(2 << d)
        weight = np.where(entry < 1 << d, 1 - one[p.variable[b]], one[p.variable[b]])
        table = np.repeat(weight[:, None], len(x), axis=1)
        for c in range(p.clause_at[b], p.clause_at[b + 1]):
            held = p.held[p.held_at[c] : p.held_at[c + 1]]
            active = (x[:, held >> 1] != (held & 1).astype(bool)).all(1)
            violated = (entry & p.mask[c]) == p.false[c]
            table[violated[:, None] & active] = 0.0
        first, last = p.child_at[b], p.child_at[b + 1]
        powers = np.zeros(table.shape, np.int64)
        for c in range(first, last):
            bits = [j for j in range(d + 1) if p.within[c] >> j & 1]
            at = sum(((entry >> j & 1) << i for i, j in enumerate(bits)), np.zeros_like(entry))
            table = table * tables[p.child[c]][at]
            if last - first > 16 and ((c + 1 - first) % 16 == 0 or c + 1 == last):
                table, more = _aside(table)
                powers += more
        if last - first > 16:
            table = _back(table, powers)
        table[: 1 << d] += table[1 << d :]
        most = table[: 1 << d].max(0)
        dead |= most == 0
        tables.append(table * _scale(most))
    for b in reversed(range(p.n_bags)):
        v, d = p.variable[b], int(p.width[b])
        scope = p.scope[p.scope_at[b] : p.scope_at[b + 1]]
        at = (x[:, scope] << np.arange(d)).sum(1)
        lane = np.arange(len(x))
        u = uniform(seed, context, words, int(v), rng.JOINT_ROUND + number)
        drawn = u * tables[b][at, lane] < tables[b][at + (1 << d), lane]
        x[:, v] = np.where(dead, x[:, v], drawn)
    return x
