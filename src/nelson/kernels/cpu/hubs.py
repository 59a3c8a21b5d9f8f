"""Values of a few variables (*hubs*) from a mixture of trees, and the probability of given values.

In a tree each hub has a chance that depends on the value of one other hub, its parent, which is
drawn before. Some clauses have all their literals among the hubs. Where such a clause has only its
last literal left, this literal is made true. If two clauses force opposite values, no value is
right: one of them is violated, and the caller must find out.

The probability of given values is a product of hundreds of chances. It is a mantissa and an
exponent of two, so that it does not underflow.

Hub h of a tree, drawn in move number k, takes the counter (JOINT_ROUND + k, FIRST_UNIT + 64 v +
lane, 0), where v is its variable. Joint moves take numbers below FIRST_UNIT in these rounds.
"""

from typing import NamedTuple

import numpy as np

from nelson.kernels.core.compile import inline, kernel
from nelson.kernels.core.rng import FIRST_UNIT, JOINT_ROUND, counter, scramble

_11 = np.uint64(11)
#: A mantissa below _SMALL is multiplied by 2^_SHIFT.
_SHIFT = 256
_SMALL, _LARGE = 2.0**-_SHIFT, 2.0**_SHIFT


class Trees(NamedTuple):
    """A mixture of `n_trees` trees over the same `n` hubs; one row of each array for each tree."""

    n_trees: int
    n: int
    variable: np.ndarray  # (n,) int64: the hubs
    order: np.ndarray  # (n_trees, n) int32: hubs as they are drawn
    parent: np.ndarray  # (n_trees, n) int32: of each hub; -1: none
    chance: np.ndarray  # (n_trees, n, 2): of the value 1, given the value of the parent
    clause_at: np.ndarray  # (n_trees, n + 1) int64: the clauses of which hub h is the last
    sign: np.ndarray  # (n_trees, clauses) uint8: the value of h that makes the clause true
    literal_at: np.ndarray  # (n_trees, clauses + 1) int64
    literal: np.ndarray  # (n_trees, literals) int32: the others, 2 h + s


@inline
def _chance(t, k, h, x, lane):
    """The chance of the value 1 of hub h in tree k, given the hubs drawn before."""
    parent = t.parent[k, h]
    value = t.chance[k, h, 0 if parent < 0 else np.int64(x[lane, parent])]
    for c in range(t.clause_at[k, h], t.clause_at[k, h + 1]):
        holds = False
        for z in range(t.literal_at[k, c], t.literal_at[k, c + 1]):
            holds |= np.int64(x[lane, t.literal[k, z] >> 1]) == (t.literal[k, z] & 1)
        if not holds:
            value = np.float64(t.sign[k, c])
    return value


@kernel
def draw(trees, tree, key0, key1, number, x):
    """Fill x (lanes, n) uint8 with hubs drawn from tree[lane].

    key0, key1: of each word of 64 lanes. number: of the move.
    """
    for lane in range(x.shape[0]):
        k, word, bit = tree[lane], lane // 64, lane % 64
        for place in range(trees.n):
            h = np.int64(trees.order[k, place])
            at = counter(JOINT_ROUND + number, FIRST_UNIT + 64 * trees.variable[h] + bit, 0)
            u = np.float64(scramble(key0[word] + at, key1[word]) >> _11) * 2.0**-53
            x[lane, h] = u < _chance(trees, k, h, x, lane)


@kernel
def score(trees, x, mantissa, exponent):
    """The probability of x (lanes, n) uint8 in each tree: mantissa, exponent (lanes, n_trees)."""
    for lane in range(x.shape[0]):
        for k in range(trees.n_trees):
            product, power = 1.0, 0
            for place in range(trees.n):
                h = np.int64(trees.order[k, place])
                value = _chance(trees, k, h, x, lane)
                product *= value if x[lane, h] else 1.0 - value
                if product == 0.0:
                    break
                if product < _SMALL:
                    product *= _LARGE
                    power -= _SHIFT
            mantissa[lane, k], exponent[lane, k] = product, power
