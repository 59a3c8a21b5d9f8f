"""From words of 64 samples to one row of bits per sample, and back. Files hold such rows.

    packed[w, v] bit k  =  rows[64 w + k, v // 8] bit v % 8

Squares of 64 variables by 64 samples are transposed by swapping smaller and smaller squares inside
them (32, 16, .. 1 bits; Warren: Hacker's Delight, 7-3), three sizes at a time in eight registers.
Up to 16 squares lie side by side, word k of all of them in one row: then a swap is one vector
operation, and each row of the result is the bytes of a sample. Little-endian machines only.
"""

import sys

import numpy as np

from nelson.kernels.core.bits import words_for
from nelson.kernels.core.compile import inline, kernel

#: Squares that lie side by side: 8 KB, which fits the first-level cache.
_SIDE = 16
_TWO, _3, _FOUR, _EIGHT, _ROW = (np.uint64(k) for k in (2, 3, 4, 8, _SIDE))
#: Masks of the low half of each square of 64, 32, .. 2 bits.
_MASKS = tuple(np.uint64((2**64 - 1) // (2**k + 1)) for k in (32, 16, 8, 4, 2, 1))
assert sys.byteorder == "little"


def to_rows(packed: np.ndarray, count: int) -> np.ndarray:
    """(words, n) uint64 -> (count, max(1, ceil(n / 8))) uint8."""
    rows = np.zeros((count, max(1, -(-packed.shape[1] // 8))), np.uint8)
    flat = rows.reshape(-1)
    _to_rows(np.ascontiguousarray(packed, np.uint64), flat, rows.shape[1], count, *_space())
    return rows


def from_rows(rows: np.ndarray, n: int) -> np.ndarray:
    """(count, ceil(n / 8)) uint8 -> (words, n) uint64; bits behind the last sample are 0."""
    packed = np.zeros((words_for(len(rows)), n), np.uint64)
    flat = np.ascontiguousarray(rows, np.uint8).reshape(-1).view()
    flat.flags.writeable = False  # like Arrow's arrays: one compiled kernel serves both
    _from_rows(flat, rows.shape[1], len(rows), packed, *_space())
    return packed


def _space() -> tuple[np.ndarray, np.ndarray]:
    squares = np.empty(64 * _SIDE, np.uint64)  # flat, so that distances of rows are constants
    return squares, squares.view(np.uint8)


@inline
def _swap(low, high, shift, mask):
    swap = ((low >> shift) ^ high) & mask
    return low ^ (swap << shift), high ^ swap


@inline
def _three(squares, between, step, mask4, mask2, mask1):
    """Swap over 4, 2 and 1 steps in rows 0, step, .. 7 step from each of 8 first rows.

    Unsigned indices tell LLVM that they do not wrap, so it uses vector instructions.
    """
    d, shift = np.uint64(step) * _ROW, np.uint64(step)
    for group in range(_EIGHT):
        for b in range(_ROW):
            p = group * np.uint64(between) * _ROW + b
            q = p + _FOUR * d
            a0, a1, a2, a3 = squares[p], squares[p + d], squares[p + _TWO * d], squares[p + _3 * d]
            a4, a5, a6, a7 = squares[q], squares[q + d], squares[q + _TWO * d], squares[q + _3 * d]
            a0, a4 = _swap(a0, a4, _FOUR * shift, mask4)
            a1, a5 = _swap(a1, a5, _FOUR * shift, mask4)
            a2, a6 = _swap(a2, a6, _FOUR * shift, mask4)
            a3, a7 = _swap(a3, a7, _FOUR * shift, mask4)
            a0, a2 = _swap(a0, a2, _TWO * shift, mask2)
            a1, a3 = _swap(a1, a3, _TWO * shift, mask2)
            a4, a6 = _swap(a4, a6, _TWO * shift, mask2)
            a5, a7 = _swap(a5, a7, _TWO * shift, mask2)
            a0, a1 = _swap(a0, a1, shift, mask1)
            a2, a3 = _swap(a2, a3, shift, mask1)
            a4, a5 = _swap(a4, a5, shift, mask1)
            a6, a7 = _swap(a6, a7, shift, mask1)
            squares[p], squares[p + d], squares[p + _TWO * d], squares[p + _3 * d] = a0, a1, a2, a3
            squares[q], squares[q + d], squares[q + _TWO * d], squares[q + _3 * d] = a4, a5, a6, a7


@inline
def _transpose(squares):
    """In every square: bit j of word k <-> bit k of word j."""
    _three(squares, 1, 8, _MASKS[0], _MASKS[1], _MASKS[2])
    _three(squares, 8, 1, _MASKS[3], _MASKS[4], _MASKS[5])


@inline
def _copy(source, at, target, to, size):
    for byte in range(np.uint64(size)):
        target[np.uint64(to) + byte] = source[np.uint64(at) + byte]


@kernel
def _to_rows(packed, rows, width, count, squares, octets):
    n = packed.shape[1]
    for word in range((count + 63) >> 6):
        for first in range(0, n, 64 * _SIDE):
            some = min(64 * _SIDE, n - first)
            for j in range(some):
                squares[_SIDE * (j & 63) + (j >> 6)] = packed[word, first + j]
            for j in range(some, 64 * _SIDE):
                squares[_SIDE * (j & 63) + (j >> 6)] = np.uint64(0)
            _transpose(squares)
            at = first >> 3
            size = min(8 * _SIDE, width - at)
            for k in range(min(64, count - 64 * word)):
                _copy(octets, 8 * _SIDE * k, rows, (64 * word + k) * width + at, size)


@kernel
def _from_rows(rows, width, count, packed, squares, octets):
    n = packed.shape[1]
    for word in range(packed.shape[0]):
        lanes = min(64, count - 64 * word)
        for first in range(0, n, 64 * _SIDE):
            at = first >> 3
            size = min(8 * _SIDE, width - at)
            if lanes < 64 or size < 8 * _SIDE:
                for k in range(64 * _SIDE):
                    squares[k] = np.uint64(0)
            for k in range(lanes):
                _copy(rows, (64 * word + k) * width + at, octets, 8 * _SIDE * k, size)
            _transpose(squares)
            for j in range(min(64 * _SIDE, n - first)):
                packed[word, first + j] = squares[_SIDE * (j & 63) + (j >> 6)]
