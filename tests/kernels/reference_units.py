"""The specification of a sweep over units in plain NumPy: all lanes at once, clause by clause.

Tests compare `cpu/units.py` with it bit for bit: the same IEEE operations in the same order.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from nelson.kernels.core import rng
from nelson.kernels.core.reference import bernoulli, lanes


class Model(NamedTuple):
    """A formula, its units and its terms; the weights of one context."""

    clauses: Sequence[Sequence[int]]  # DIMACS literals
    units: Sequence[Sequence[int]]  # literals of which at most one is true
    threshold: np.ndarray  # (n,) uint32: 2^32 P(x_v = 1) for lone variables without terms
    theta: np.ndarray  # (n,) float64
    terms: Sequence[Sequence[int]] = ()  # variables, from 1
    fields: np.ndarray | None = None  # (n,) int64: theta / step
    coefficients: np.ndarray | None = None  # (terms,) int64: c / step
    step: float = 1.0


def exponential(h: np.ndarray, step: float) -> np.ndarray:
    """As in `cpu/lanes.py`: exp(h * step) for integers h <= 0, float32."""
    f = np.float32
    x = np.maximum(h.astype(f) * f(step), f(-80.0))
    t = x * f(1.4426950408889634) + f(1.5 * 2.0**23)
    r = x - (t - f(1.5 * 2.0**23)) * f(0.6931471805599453)
    p = np.full(x.shape, f(1 / 720))
    for factorial in (120, 24, 6, 2, 1, 1):
        p = p * r + f(1 / factorial)
    with np.errstate(over="ignore"):
        return (p.view(np.uint32) + (t.view(np.uint32) << np.uint32(23))).view(f)


def heat_bath(h: np.ndarray, step: float) -> np.ndarray:
    """As `cpu/lanes.threshold`: 2^32 / (1 + exp(-step h)), uint32."""
    e, f = exponential(-np.abs(h), step), np.float32
    rare = np.maximum(1, (e / (e + f(1)) * f(2.0**32)).astype(np.int64))
    return np.where(h > 0, 2**32 - rare, rare).astype(np.uint32)


def random_words(seed: int, context: int, words: np.ndarray, unit: int, round: int) -> np.ndarray:
    """(words, 64) uint64: the random words of a unit."""
    with np.errstate(over="ignore"):
        key0, key1 = rng.keys(
            rng.spread_seed(seed), np.uint64(context), words.astype(np.uint64)[:, None]
        )
        number = np.uint64(rng.FIRST_UNIT + 64 * unit) + np.arange(64, dtype=np.uint64)
        return rng.scramble(key0 + rng.counter(round, number, 0), key1)


def halves(seed: int, context: int, words: np.ndarray, unit: int, round: int) -> np.ndarray:
    """(64 words,) uint32: lanes 2 k and 2 k + 1 have the low and the high half of number k."""
    random = random_words(seed, context, words, unit, round)[:, :32]
    return np.stack([random, random >> np.uint64(32)], axis=2).astype(np.uint32).reshape(-1)


def digits(seed: int, context: int, words: np.ndarray, unit: int, round: int) -> np.ndarray:
    """(64 words,) uint32: digit j to base 256 of lane k is byte k mod 8 of number 8 j + k // 8."""
    random = random_words(seed, context, words, unit, round)[:, :32]
    each = random[:, :, None] >> np.arange(0, 64, 8, dtype=np.uint64) & np.uint64(255)
    each = each.reshape(len(words), 4, 64).astype(np.uint32)
    return np.asarray(each[:, 0] << 24 | each[:, 1] << 16 | each[:, 2] << 8 | each[:, 3]).reshape(
        -1
    )


def sweep(
    model: Model, x: np.ndarray, seed: int, number: int, context: int = 0, first_word: int = 0
) -> np.ndarray:
    """Sweep `number` of states x (lanes, n) bool, a multiple of 64 of them."""
    x, words = x.copy(), first_word + np.arange(len(x) // 64)
    count = len(model.units)
    with np.errstate(over="ignore"):
        first, step = rng.cyclic_order(
            rng.spread_seed(seed), np.uint64(context), count, rng.UNIT_ROUND
        )
    for i in range(count):
        _move(model, x, (first + i * step) % count, seed, number, context, words)
    return x


def _holds(x: np.ndarray, literals: Sequence[int]) -> np.ndarray:
    """(lanes,): is a literal true?"""
    found = [x[:, abs(one) - 1] == (one > 0) for one in literals]
    return np.asarray(np.array(found, bool).reshape(len(found), len(x)).any(0))


def _move(
    model: Model, x: np.ndarray, unit: int, seed: int, number: int, context: int, words: np.ndarray
) -> None:
    literals = model.units[unit]
    own = {abs(one) for one in literals}
    touched = [clause for clause in model.clauses if own & {abs(one) for one in clause}]
    states = []  # x with the unit at each of its patterns
    for k in range(len(literals) + 1):
        state = x.copy()
        for j, one in enumerate(literals):
            state[:, abs(one) - 1] = (one > 0) == (j + 1 == k)
        states.append(state)
    good = np.array([_all(_holds(state, clause) for clause in touched) for state in states])
    good = np.broadcast_to(good.reshape(len(states), -1), (len(states), len(x)))
    present = np.array([(state == x).all(1) for state in states])
    free = (good.sum(0) >= 2) & (present & good).any(0)

    has_terms = any(own & set(term) for term in model.terms)
    round = rng.UNIT_ROUND + number
    random = halves(seed, context, words, unit, round)
    if len(literals) == 1 and not has_terms:
        v = np.array([abs(literals[0]) - 1])
        value = bernoulli(seed, context, words, v, round, model.threshold[v])
        drawn = lanes(value, len(x))[:, 0].astype(int)
    elif len(literals) == 1:
        most = heat_bath(_field(model, x, literals[0]), model.step)
        drawn = (digits(seed, context, words, unit, round) < most).astype(int)
    else:
        weight = _weights(model, x, literals, good) if has_terms else constants(model, literals)
        reached = np.cumsum(weight * good, axis=0)
        drawn = (((random * reached[-1]) >> np.uint64(32)) < reached).argmax(0)
    for k, state in enumerate(states):
        chosen = free & (drawn == k)
        x[chosen] = state[chosen]


def _all(rows: Iterable[np.ndarray]) -> np.ndarray:
    """Are all true? With no rows, yes in every lane."""
    found = list(rows)
    return np.asarray(np.array(found).all(0)) if found else np.ones(1, bool)


def constants(model: Model, literals: Sequence[int]) -> np.ndarray:
    """(patterns, 1) uint64: the weights of the patterns of a unit without terms."""
    energy = np.array([0.0] + [np.sign(one) * model.theta[abs(one) - 1] for one in literals])
    most = 2.0**31 / len(energy)
    return np.maximum(1, np.rint(most * np.exp(energy - energy.max()))).astype(np.uint64)[:, None]


def _weights(model: Model, x: np.ndarray, literals: Sequence[int], good: np.ndarray) -> np.ndarray:
    """(patterns, lanes) uint64: the weights of the patterns of a unit with terms."""
    energy = [np.zeros(len(x), np.int64)]
    energy += [np.sign(one) * _field(model, x, one) for one in literals]
    below = np.array(energy) - np.where(good, energy, -(2**31)).max(0)
    most = np.float32(2.0**31) / np.float32(len(energy))
    return (exponential(np.minimum(below, 0), model.step) * most).astype(np.uint64)


def _field(model: Model, x: np.ndarray, literal: int) -> np.ndarray:
    """h_v / step, an integer for each lane."""
    assert model.fields is not None and model.coefficients is not None
    v = abs(literal)
    total = np.full(len(x), model.fields[v - 1])
    for term, coefficient in zip(model.terms, model.coefficients, strict=True):
        if v in term:
            others = [u - 1 for u in term if u != v]
            total = total + coefficient * x[:, others].all(1)
    return total
