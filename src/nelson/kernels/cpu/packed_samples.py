"""Packed samples, 64 at a time: C(x), pair counts, linear functions, and the text of the literals.

packed is (words, n) uint64; bit k of word w is sample 64 w + k, and bits behind the last sample are
zero. Nothing here unpacks a sample.

For text, the spelling of every literal, "-17 " or "17 ", is stored NUL-padded in `width` 64-bit
words, with its length. The kernel writes a literal with its padding, and starts the next literal
where the characters end. These are eight byte stores, which the compiler merges into one unaligned
store, and no branch depends on the number of digits.
"""

import numpy as np

from nelson.kernels.core.compile import inline, kernel

#: Bytes of the buffer of `spell` behind the text: the padding of the last literal.
SPELL_SLACK = 16
_M1, _M2 = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333)
_M4, _H01 = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(0x0101010101010101)
_1, _2, _4, _56 = np.uint64(1), np.uint64(2), np.uint64(4), np.uint64(56)


def holds(
    literals: np.ndarray, offsets: np.ndarray, packed: np.ndarray, lanes: np.ndarray
) -> np.ndarray:
    """The lanes (words,), of those given, in which all clauses hold.

    literals, offsets: clauses in CSR form, DIMACS literals. packed: (words, n) uint64, variable v
    in column v - 1. O(words * total literals).
    """
    out = lanes.copy()
    _holds(literals, offsets, np.ascontiguousarray(packed), out)
    return out


@kernel
def _holds(literals, offsets, packed, lanes):
    for w in range(packed.shape[0]):
        good = lanes[w]
        for j in range(offsets.size - 1):
            bad = good
            for e in range(offsets[j], offsets[j + 1]):
                literal = literals[e]
                if literal > 0:
                    bad &= ~packed[w, literal - 1]
                else:
                    bad &= packed[w, -literal - 1]
            good &= ~bad
            if good == np.uint64(0):
                break
        lanes[w] = good


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


@kernel
def spell(row, tokens, lengths, lanes, out):
    """Write `lanes` lines, each ending in "0\\n", to out (uint8). -> bytes written. O(lanes * n)

    row (n,) uint64; tokens (n, 2, width) uint64 and lengths (n, 2): first the false literal of a
    variable, then the true one.
    """
    at = 0
    for lane in range(lanes):
        for j in range(row.shape[0]):
            value = np.int64((row[j] >> np.uint64(lane)) & np.uint64(1))
            for w in range(tokens.shape[2]):
                token = tokens[j, value, w]
                for byte in range(8):
                    out[at + 8 * w + byte] = np.uint8(
                        (token >> np.uint64(8 * byte)) & np.uint64(255)
                    )
            at += lengths[j, value]
        out[at] = 48
        out[at + 1] = 10
        at += 2
    return at
