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
    """2^-k for a number in [2^k, 2^(k+1)) below 2^-64 or from 2 on, else 1."""
    exponent = most.view(np.uint64) >> np.uint64(52)
    power = ((np.uint64(2046) - exponent) << np.uint64(52)).view(np.float64)
    return np.where((most < 2.0**-64) | (most >= 2), power, 1.0)


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


def _values(entry: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """(digits, entries): the digits of numbers, the lowest first."""
    strides = np.cumprod([1, *sizes[:-1]])
    return entry // strides[:, None] % np.asarray(sizes)[:, None]


def _apply(p: Any, c: int, x: np.ndarray, table: np.ndarray, digits: np.ndarray) -> None:
    """Entries to which factor c applies are 0 in the lanes in which its held literals are false."""
    held = p.held[p.held_at[c] : p.held_at[c + 1]]
    active = (x[:, held >> 1] != (held & 1).astype(bool)).all(1)
    applies = np.ones(len(table), bool)
    for k in range(p.part_at[c], p.part_at[c + 1]):
        applies &= (p.values[k] >> digits[p.digit[k]] & 1).astype(bool)
    table[applies] *= ~active


def _message(
    p: Any, c: int, tables: list[np.ndarray], digits: np.ndarray, sizes: np.ndarray
) -> np.ndarray:
    """The message of child c for each entry of the table that receives it."""
    within = [j for j in range(len(sizes)) if p.within[c] >> j & 1]
    strides = np.cumprod([1, *sizes[within]])[:-1]
    return tables[p.child[c]][strides @ digits[within]]


def move(
    cutset: Any,
    units: Any,
    x: np.ndarray,
    weights: np.ndarray,
    seed: int,
    number: int,
    context: int = 0,
    first_word: int = 0,
) -> np.ndarray:
    """One move of states x (lanes, variables) bool, a multiple of 64 of them.

    cutset, units: of `kernels.cpu.cutset`. weights: of all values of all units.
    """
    p, x = cutset, x.copy()
    words, lane = first_word + np.arange(len(x) // 64), np.arange(len(x))
    dead = np.zeros(len(x), bool)
    tables: list[np.ndarray] = []  # (entries, lanes): the message, then F(., 1), F(., 2), ...
    for b in range(p.n_bags):
        sizes = p.size[p.scope_at[b] : p.scope_at[b + 1]]
        message, size = int(p.message[b]), int(sizes[-1])
        digits = _values(np.arange(message * size), sizes)
        table = np.repeat(weights[units.at[p.variable[b]] + digits[-1]][:, None], len(x), axis=1)
        last, first = p.child_at[b + 1], p.child_at[b]
        hub = last - first > 16
        for low in reversed(range(len(sizes))):
            for c in range(p.factor_at[b], p.factor_at[b + 1]):
                if p.digit[p.part_at[c]] == low:
                    _apply(p, c, x, table, digits)
            for c in range(first, last):
                if not hub and p.within[c] & -p.within[c] == 1 << low:
                    table *= _message(p, c, tables, digits, sizes)
        powers = np.zeros(table.shape, np.int64)
        for c in range(first, last if hub else first):
            table *= _message(p, c, tables, digits, sizes)
            if (c + 1 - first) % 16 == 0 or c + 1 == last:
                table, more = _aside(table)
                powers += more
        if hub:
            table = _back(table, powers)
        total = table[(size - 1) * message :]
        for a in reversed(range(size - 1)):
            total = table[a * message : (a + 1) * message] + total
        table[:message] = total
        most = total.max(0)
        dead |= most == 0
        tables.append(table * _scale(most))
    for b in reversed(range(p.n_bags)):
        sizes = p.size[p.scope_at[b] : p.scope_at[b + 1]]
        look = slice(p.look_at[b], p.look_at[b + 1])
        true = x[:, p.look[look] >> 1] == (p.look[look] & 1)
        at = (true * p.adds[look]).sum(1).astype(np.int64)
        first, size = int(units.at[p.variable[b]]), int(sizes[-1])
        literals = units.literal[first : first + size]
        u = uniform(seed, context, words, int(literals[1]) >> 1, rng.JOINT_ROUND + number)
        bound, above, left = u * tables[b][at, lane], np.zeros(len(x)), ~dead
        for a in reversed(range(size)):
            if a:
                above = tables[b][at + a * int(p.message[b]), lane] + above
            drawn = left & (bound < above) if a else left
            left = left & ~drawn
            if literals[a] >= 0:
                v = literals[a] >> 1
                x[:, v] = np.where(dead, x[:, v], drawn == (literals[a] & 1))
    return x


def _chance(t: Any, k: int, h: int, x: np.ndarray) -> float:
    """The chance of the value 1 of hub h in tree k, given x (hubs,) of those drawn before."""
    parent = t.parent[k, h]
    value = float(t.chance[k, h, 0 if parent < 0 else x[parent]])
    for c in range(t.clause_at[k, h], t.clause_at[k, h + 1]):
        others = t.literal[k, t.literal_at[k, c] : t.literal_at[k, c + 1]]
        if (x[others >> 1] != (others & 1)).all():
            value = float(t.sign[k, c])
    return value


def hubs(
    trees: Any, tree: np.ndarray, seed: int, number: int, context: int = 0, first_word: int = 0
) -> np.ndarray:
    """(lanes, hubs): values of the hubs of trees of `kernels.cpu.hubs`, from tree[lane]."""
    words, x = first_word + np.arange(len(tree) // 64), np.zeros((len(tree), trees.n), np.uint8)
    names = [rng.FIRST_UNIT // 64 + int(v) for v in trees.variable]
    u = [uniform(seed, context, words, name, rng.JOINT_ROUND + number) for name in names]
    for lane, k in enumerate(tree.tolist()):
        for h in trees.order[k].tolist():
            x[lane, h] = u[h][lane] < _chance(trees, k, h, x[lane])
    return x


def hubs_log2(trees: Any, k: int, x: np.ndarray) -> float:
    """log2 of the probability of the values x (hubs,) in tree k."""
    chances = [(_chance(trees, k, h, x), x[h]) for h in trees.order[k].tolist()]
    return float(sum(np.log2(p if one else 1 - p) for p, one in chances))
