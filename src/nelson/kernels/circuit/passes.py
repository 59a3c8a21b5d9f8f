"""Passes over the decisions of a circuit (`nelson.exact.circuit.decisions`): upward for log P(C),
downward for the probability that a draw passes a decision or a literal.

Upward, in log space, for each decision i from the bottom:

    term(b)  = sum of log w(l) over its literals + sum of value(j) over its decisions
    value(i) = log(e^term(2i) + e^term(2i + 1))
    thr(i)   = round(2^64 / (1 + e^(term(2i) - term(2i + 1))))

thr(i) / 2^64 is the probability of branch 1. If both branches are possible, thr(i) is clipped to
[1, 2^64 - 2], so that neither is ruled out; thr(i) = 0 means that only branch 0 is possible, and
CERTAIN = 2^64 - 1 that only branch 1 is. One exp and one log1p per decision.

Downward, in plain numbers, from reach(root) = 1: the reach of a decision is the probability that a
draw passes it, and the flow of a literal the probability that a draw passes a branch with it (the
derivatives of Darwiche: A differential approach to inference in Bayesian networks, J. ACM 2003,
times the values). These are sums and products of positive numbers: nothing cancels.

O(edges) each: measured 50 ns per decision upward, 30 ns downward.
"""

import math
from typing import NamedTuple

import numpy as np

from nelson.kernels.core.compile import inline, kernel

CERTAIN = np.uint64(2**64 - 1)
_ZERO, _ONE, _TWO = np.uint64(0), np.uint64(1), np.uint64(2)


class Decisions(NamedTuple):
    """As in `nelson.exact.circuit.decisions`."""

    lit_ptr: np.ndarray
    lits: np.ndarray
    kid_ptr: np.ndarray
    kids: np.ndarray
    single: np.ndarray


class PassValues(NamedTuple):
    """Arrays that the passes fill for one theta; each thread has its own."""

    log_w: np.ndarray  # (2 n,): log w of each literal, by code 2 v + s
    value: np.ndarray  # (decisions,)
    thr: np.ndarray  # (decisions,) uint64
    reach: np.ndarray  # (decisions,)
    flow: np.ndarray  # (2 n,)


def work(n: int, decisions: int) -> PassValues:
    return PassValues(
        np.empty(2 * n),
        np.empty(decisions),
        np.empty(decisions, np.uint64),
        np.empty(decisions),
        np.empty(2 * n),
    )


@inline
def odds_threshold(odds, rare_one):
    """The threshold, if the odds of the less likely branch are `odds`; rare_one: it is branch 1."""
    rare = np.uint64(odds / (1.0 + odds) * 2.0**64)  # at most 2^63
    return max(rare, _ONE) if rare_one else _ZERO - max(rare, _TWO)


@inline
def threshold(a, b):
    """round(2^64 e^b / (e^a + e^b)); a and b finite."""
    return odds_threshold(math.exp(min(a, b) - max(a, b)), b <= a)


@inline
def share(thr):
    """The probability of branch 1."""
    return 1.0 if thr == CERTAIN else np.float64(thr) * 2.0**-64


@inline
def log_weights(t):
    """log w of x_v = 0 and of x_v = 1."""
    soft = math.log1p(math.exp(-abs(t)))
    return -soft - max(t, 0.0), -soft + min(t, 0.0)


@inline
def weigh(theta, log_w):
    """log w of both literals of each variable: w(x) + w(not x) = 1. theta may be +-inf."""
    for v in range(theta.size):
        log_w[2 * v], log_w[2 * v + 1] = log_weights(theta[v])


@inline
def _term(c, b, log_w, value):
    total = 0.0
    for k in range(c.lit_ptr[b], c.lit_ptr[b + 1]):
        total += log_w[c.lits[k]]
    for k in range(c.kid_ptr[b], c.kid_ptr[b + 1]):
        total += value[c.kids[k]]
    return total


@inline
def upward(c, w):
    """Fill value and thr from log_w. -> log P(C)"""
    value, thr = w.value, w.thr
    for i in range(c.single.size):
        a = _term(c, 2 * i, w.log_w, value)
        if c.single[i]:
            value[i], thr[i] = a, _ZERO
            continue
        b = _term(c, 2 * i + 1, w.log_w, value)
        if a == -np.inf or b == -np.inf:
            value[i] = max(a, b)
            thr[i] = _ZERO if b == -np.inf else CERTAIN
            continue
        value[i] = max(a, b) + math.log1p(math.exp(min(a, b) - max(a, b)))
        thr[i] = threshold(a, b)
    return value[c.single.size - 1]


@inline
def downward(c, w):
    """Fill reach and flow from thr."""
    w.reach[:] = 0.0
    w.flow[:] = 0.0
    last = c.single.size - 1
    w.reach[last] = 1.0
    for i in range(last, -1, -1):
        here = w.reach[i]
        if here == 0.0:
            continue
        one = share(w.thr[i])
        for side in range(2):
            passed = here * (one if side else 1.0 - one)
            if passed == 0.0:
                continue
            b = 2 * i + side
            for k in range(c.lit_ptr[b], c.lit_ptr[b + 1]):
                w.flow[c.lits[k]] += passed
            for k in range(c.kid_ptr[b], c.kid_ptr[b + 1]):
                w.reach[c.kids[k]] += passed


@kernel
def solve(c, theta, w, log_p, mean, first, last):
    """log P(C) of rows first .. last - 1 of theta (b, n), and the means unless `mean` is empty:

    E[x_i] = flow(x_i) + (1 - flow(x_i) - flow(not x_i)) w(x_i), because a variable that no branch
    on the way mentions keeps its product distribution.
    """
    for r in range(first, last):
        weigh(theta[r], w.log_w)
        log_p[r] = upward(c, w)
        if mean.size == 0 or log_p[r] == -np.inf:
            continue
        downward(c, w)
        for v in range(theta.shape[1]):
            off, on = w.flow[2 * v], w.flow[2 * v + 1]
            p = on + max(0.0, 1.0 - on - off) * math.exp(w.log_w[2 * v + 1])
            mean[r, v] = min(1.0, max(0.0, p))


@kernel
def visits(c, most):
    """Decisions that one sample passes at most, as a float. most: (decisions,) float64, scratch.

    In a circuit whose conjunctions share no variable no sample passes a decision twice. In other
    arrays the number may double with every level.
    """
    for i in range(c.single.size):
        most[i] = 1.0
        for side in range(2):
            below = 1.0
            for k in range(c.kid_ptr[2 * i + side], c.kid_ptr[2 * i + side + 1]):
                below += most[c.kids[k]]
            most[i] = max(most[i], below)
    return most[c.single.size - 1]


@kernel
def always(c, first, word):
    """Bit k of word[i]: does every way through decision i mention variable first + k? -> root's
    word

    Both branches must mention it; in a branch, one literal or one decision is enough.
    """
    for i in range(c.single.size):
        both = CERTAIN
        for side in range(1 if c.single[i] else 2):
            seen = _ZERO
            b = 2 * i + side
            for k in range(c.lit_ptr[b], c.lit_ptr[b + 1]):
                bit = np.int64(c.lits[k] >> 1) - first
                if 0 <= bit < 64:
                    seen |= _ONE << np.uint64(bit)
            for k in range(c.kid_ptr[b], c.kid_ptr[b + 1]):
                seen |= word[c.kids[k]]
            both &= seen
        word[i] = both
    return word[c.single.size - 1]
