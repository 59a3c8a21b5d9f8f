"""Bernoulli(p) for a whole row of lanes, without a branch on the lanes or on the digits of p.

A lane reads random bits until the first 0. If that is bit k (from 0), the value of the lane is
binary digit p_k of p. Let u_k be the lanes still undecided after k random rows: u_0 are the lanes
wanted, and u_k = u_(k-1) & random row. With t_k = p_k xor p_(k-1)

    value = XOR_k  t_k u_k

because a lane that stops at bit k has u_0 = .. = u_k = 1, and t_0 ^ .. ^ t_k = p_k.

The t_k of a variable are stored as 16 int32 masks, one cache line (`table`). `draw` always takes
h = log2(lanes) + 1.3 random rows and returns the lanes that are still undecided; after h rows only
two rows in five have such a lane. The caller puts these rows into a queue, and `finish` completes
them in a second loop, so that the CPU mispredicts no loop exit. h changes the time, never a result.
For p = 1/2 one random row decides every lane.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from nelson.kernels.core.compile import inline, kernel
from nelson.kernels.core.rng import GOLDEN, scramble
from nelson.kernels.core.vector import aligned, any_lane, peek, splat, splat_bit, zeros

#: Digit masks per variable: 16 int32 are one cache line.
TABLE = 16
#: Random rows beyond log2(lanes wanted). Between 0.7 and 2.3 the time differs by 5% only.
SLACK = 1.3
_32 = np.uint64(32)


class ProductLaw(NamedTuple):
    """The product distribution of every context: P(x_v = 1) = thr / 2^32."""

    thr: np.ndarray  # (contexts * n) uint32
    table: np.ndarray  # (contexts * n * TABLE) int32, cache line aligned: the masks t_k
    max_rows: int  # the largest number of binary digits of any thr, at most TABLE - 1


def law(thr: np.ndarray) -> ProductLaw:
    """Build the tables for thresholds (contexts, n) uint32."""
    flat = np.ascontiguousarray(thr, np.uint32).reshape(-1)
    table = aligned(flat.size * TABLE, np.int32)
    digits = _fill_table(flat, table)
    return ProductLaw(flat, table, max(1, min(int(digits), TABLE - 1)))


@kernel
def _fill_table(thr, table):
    digits = 0
    for i in range(thr.size):
        p = np.uint32(thr[i])
        t = np.uint32(p ^ (p >> np.uint32(1)))
        for k in range(TABLE):
            table[i * TABLE + k] = -np.int32((t >> np.uint32(31 - k)) & np.uint32(1))
        k = 32
        while k > digits and (p >> np.uint32(32 - k)) & np.uint32(1) == np.uint32(0):
            k -= 1
        digits = max(digits, k)
    return digits


@inline
def rows_for(lanes: float, max_rows: int) -> Any:
    """Random rows to draw at once when about `lanes` lanes of a row are wanted."""
    return min(max(1, math.ceil(math.log2(max(1.0, lanes)) + SLACK)), max_rows)


@inline
def flips(tag, law, at, k):
    """Mask t_k of table entry `at`, in every lane."""
    return splat_bit(tag, peek(law.table, at * TABLE + k))


@inline
def unfinished(tag, law, at, h):
    """All lanes if p has a nonzero digit after the first h, else none."""
    more = (np.uint64(peek(law.thr, at)) << _32) << np.uint64(h) != np.uint64(0)
    return splat(tag, -np.int64(more))


@inline
def draw(tag, law, at, start, key1, lanes, h):
    """Bernoulli draw of `lanes` for table entry `at`, from h random rows. -> (undecided, value)

    start: key0 + counter of (round, variable, bit 0). value is 0 outside the decided lanes.
    """
    undecided, y = lanes, start
    value = undecided & flips(tag, law, at, 0)
    for k in range(h):
        undecided = undecided & scramble(y, key1)
        y = y + GOLDEN
        value = value ^ (undecided & flips(tag, law, at, k + 1))
    # If no digit of p is left, the undecided lanes get the value 0 and count as decided.
    return undecided & unfinished(tag, law, at, h), value & ~undecided


@inline
def finish(tag, law, at, start, key1, undecided, h):
    """Values of the lanes that `draw` left undecided after h random rows."""
    digits = (np.uint64(peek(law.thr, at)) << _32) << np.uint64(h)
    y = start + np.uint64(h) * GOLDEN
    value = zeros(tag)
    while digits != np.uint64(0) and any_lane(undecided):
        random = scramble(y, key1)
        y = y + GOLDEN
        value = value | ((undecided & ~random) & splat(tag, np.int64(digits) >> np.int64(63)))
        undecided = undecided & random
        digits = digits << np.uint64(1)
    return value
