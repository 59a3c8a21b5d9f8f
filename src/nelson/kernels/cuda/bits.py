"""Packed samples on the card: counting ones, and unpacking, without a trip to the host.

packed is (contexts, words, columns) uint64, bit k of word w being sample 64 w + k; neighbouring
threads take neighbouring columns, so that memory is read and written in whole lines.
"""

import numpy as np
from numba import cuda

from nelson.kernels.cuda.setup import atomic_add, popcount

#: Threads a block, and words a thread counts before it adds to the total.
_THREADS = 128
_WORDS = 64


@cuda.jit
def _count(packed, words, columns, out):
    c = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    first = cuda.blockIdx.y * _WORDS
    context = cuda.blockIdx.z
    if c < columns:
        total = 0
        for w in range(first, min(first + _WORDS, words)):
            total += popcount(packed[(context * words + w) * columns + c])
        atomic_add(out, context * columns + c, np.int64(total))


@cuda.jit
def _unpack(packed, words, columns, count, out):
    c = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    w = cuda.blockIdx.y
    context = cuda.blockIdx.z
    if c < columns:
        word = packed[(context * words + w) * columns + c]
        for k in range(min(64, count - 64 * w)):
            bit = (word >> np.uint64(k)) & np.uint64(1)
            out[((context * count) + 64 * w + k) * columns + c] = bit


#: Blocks that one launch may have along its second and third axis.
_MAX_BLOCKS = 65_535


def count(packed, contexts: int, words: int, columns: int, out, stream=0) -> None:
    """Ones of each column, added to out (contexts * columns,) int64. Arrays are flat."""
    if not (contexts and words and columns):
        return
    blocks = -(-columns // _THREADS), -(-words // _WORDS)
    if blocks[1] > _MAX_BLOCKS or contexts > _MAX_BLOCKS:
        raise ValueError("too many words for one count")
    _count[(*blocks, contexts), _THREADS, stream](packed, words, columns, out)


def unpack(packed, contexts: int, words: int, columns: int, samples: int, out, stream=0) -> None:
    """0 or 1 a sample and column to out (contexts * samples * columns,), of any numeric type."""
    if not (contexts and samples and columns):
        return
    across = -(-columns // _THREADS)
    for context in range(0, contexts, _MAX_BLOCKS):
        some = min(_MAX_BLOCKS, contexts - context)
        for first in range(0, words, _MAX_BLOCKS):
            held = min(_MAX_BLOCKS, words - first)
            if held == words:
                part, into = packed[context * words * columns :], out[context * samples * columns :]
                _unpack[(across, held, some), _THREADS, stream](part, words, columns, samples, into)
                continue
            for k in range(context, context + some):  # more words than one launch has blocks
                part = packed[(k * words + first) * columns :]
                into = out[(k * samples + 64 * first) * columns :]
                left = samples - 64 * first
                _unpack[(across, held, 1), _THREADS, stream](part, words, columns, left, into)
