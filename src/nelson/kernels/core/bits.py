"""Packed samples: bit k of `packed[w, i]` is variable i of sample 64 w + k.

Bits behind the last sample are zero. Packed samples are eight times smaller than one byte per
variable, and a popcount counts them. So samples stay packed until the caller asks for booleans.
"""

import numpy as np

from nelson.kernels.core.compile import kernel


def words_for(count: int) -> int:
    """Words that hold `count` samples."""
    return -(-count // 64)


def tail_mask(count: int) -> np.ndarray:
    """(words,) uint64: ones in the first `count` bits, zeros behind."""
    mask = np.full(words_for(count), ~np.uint64(0))
    if count % 64:
        mask[-1] = last_mask(count)
    return mask


def last_mask(count: int) -> np.uint64:
    """The last word of `tail_mask(count)`."""
    return np.uint64(~(~0 << (count - 1) % 64 + 1))


def lanes_set(valid: np.ndarray) -> tuple[int, bool]:
    """How many lanes of valid (words,) are set, and whether they are the first ones."""
    if len(valid) == 1:
        word = int(valid[0])
        return word.bit_count(), word & (word + 1) == 0
    count = int(np.bitwise_count(valid).sum())
    return count, np.array_equal(valid[: words_for(count)], tail_mask(count))


def unpack(packed: np.ndarray, count: int) -> np.ndarray:
    """(words, n) uint64 -> (count, n) bool."""
    out = np.empty((count, packed.shape[1]), np.uint8)
    _unpack(np.ascontiguousarray(packed), out)
    return out.view(np.bool_)


def pack(x: np.ndarray) -> np.ndarray:
    """(count, n) bool -> (words, n) uint64."""
    packed = np.zeros((words_for(len(x)), x.shape[1]), np.uint64)
    _pack(np.ascontiguousarray(x, np.bool_).view(np.uint8), packed)
    return packed


def compact(packed: np.ndarray, valid: np.ndarray) -> tuple[np.ndarray, int]:
    """Keep the samples whose bit is set in valid (words,), in order. -> (packed, count)"""
    count = int(np.bitwise_count(valid).sum())
    out = np.zeros((words_for(count), packed.shape[1]), np.uint64)
    _compact(np.ascontiguousarray(packed), np.ascontiguousarray(valid), out)
    return out, count


def concatenate(parts: list[tuple[np.ndarray, int]], columns: int) -> tuple[np.ndarray, int]:
    """Join packed parts, given as (packed, count), of any count. -> (packed, count)

    If every part but the last fills its words, whole words are copied.
    """
    parts = [(packed[: words_for(count)], count) for packed, count in parts if count]
    if not parts:
        return np.zeros((0, columns), np.uint64), 0
    if len(parts) == 1:
        return parts[0]
    joined = np.concatenate([packed for packed, _ in parts])
    if all(count % 64 == 0 for _, count in parts[:-1]):
        return joined, sum(count for _, count in parts)
    return compact(joined, np.concatenate([tail_mask(count) for _, count in parts]))


@kernel
def _unpack(packed, out):
    # For each sample, one pass over a row that stays in L1: the compiler turns eight words into
    # eight bytes at a time.
    for i in range(out.shape[0]):
        word, shift = i >> 6, np.uint64(i & 63)
        for v in range(out.shape[1]):
            out[i, v] = np.uint8((packed[word, v] >> shift) & np.uint64(1))


@kernel
def _pack(x, packed):
    for i in range(x.shape[0]):
        word, shift = i >> 6, np.uint64(i & 63)
        for v in range(x.shape[1]):
            packed[word, v] |= np.uint64(x[i, v]) << shift


@kernel
def _compact(packed, valid, out):
    # Runs of valid lanes move together: most words are one run.
    to, every, one = 0, ~np.uint64(0), np.uint64(1)
    for word in range(packed.shape[0]):
        lane, left = 0, valid[word]
        while left != np.uint64(0):
            while left & one == np.uint64(0):
                left >>= one
                lane += 1
            size = 0
            while size < 64 and left & one != np.uint64(0):
                left >>= one
                size += 1
            mask, begin = every >> np.uint64(64 - size), np.uint64(lane)
            row, shift = to >> 6, np.uint64(to & 63)
            for v in range(packed.shape[1]):
                out[row, v] |= ((packed[word, v] >> begin) & mask) << shift
            if (to & 63) + size > 64:
                back = np.uint64(64) - shift
                for v in range(packed.shape[1]):
                    out[row + 1, v] |= ((packed[word, v] >> begin) & mask) >> back
            lane, to = lane + size, to + size
