"""Sums over packed samples that need more than one column: pair counts and linear functions.

packed is (words, n) uint64; bit k of word w is sample 64 w + k, and bits behind the last sample are
zero. Nothing here unpacks a sample.
"""

import numpy as np

from nelson.kernels.core.compile import inline, kernel

_M1, _M2 = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333)
_M4, _H01 = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(0x0101010101010101)
_1, _2, _4, _56 = np.uint64(1), np.uint64(2), np.uint64(4), np.uint64(56)


def pair_counts(packed: np.ndarray) -> np.ndarray:
    """X^T X: the number of samples with x_i = x_j = 1, (n, n) int64. n^2 / 2 ANDs per word."""
    rows = np.ascontiguousarray(packed.T)
    out = np.zeros((len(rows), len(rows)), np.int64)
    _pair_counts(rows, out)
    return out


def dot(packed: np.ndarray, count: int, weights: np.ndarray) -> np.ndarray:
    """X w: sum_i w_i x_i of each sample, (count,) float64, added in the order of the variables."""
    out = np.zeros((packed.shape[0], 64))
    _dot(np.ascontiguousarray(packed), np.ascontiguousarray(weights, np.float64), out)
    return out.reshape(-1)[:count]


@inline
def _popcount(x):
    # LLVM recognises this form as a popcount.
    x = x - ((x >> _1) & _M1)
    x = (x & _M2) + ((x >> _2) & _M2)
    x = (x + (x >> _4)) & _M4
    return (x * _H01) >> _56


@kernel
def _pair_counts(rows, out):
    for i in range(rows.shape[0]):
        for j in range(i + 1):
            both = np.uint64(0)
            for w in range(rows.shape[1]):
                both += _popcount(rows[i, w] & rows[j, w])
            out[i, j] = both
            out[j, i] = both


@kernel
def _dot(packed, weights, out):
    for w in range(packed.shape[0]):
        for i in range(packed.shape[1]):
            word, weight = packed[w, i], weights[i]
            for k in range(64):
                out[w, k] += weight * np.float64((word >> np.uint64(k)) & _1)
