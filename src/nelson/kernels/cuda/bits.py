"""Packed samples on the GPU: count ones and unpack without a copy to the host.

packed is (contexts, words, columns) uint64; bit k of word w is sample 64 w + k. Neighbouring
threads handle neighbouring columns, so that memory is read and written in whole lines.
"""

import numpy as np
from numba import cuda

from nelson.kernels.cuda.setup import atomic_add, popcount

#: Threads of a block.
_THREADS = 128
#: Words that a thread counts before it adds to the total.
_WORDS = 64
#: Most blocks of a launch along its second and third axis.
_MAX_BLOCKS = 65_535


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


def count(packed, contexts: int, words: int, columns: int, out, stream=0) -> None:
    """Add the number of ones of each column to out (contexts * columns,) int64. Arrays are flat."""
    if not (contexts and words and columns):
        return
    blocks = -(-columns // _THREADS), -(-words // _WORDS)
    if blocks[1] > _MAX_BLOCKS or contexts > _MAX_BLOCKS:
        raise ValueError(
            f"{words} words of {contexts} contexts are too many for one count: at most "
            f"{_MAX_BLOCKS * _WORDS} words and {_MAX_BLOCKS} contexts; count them in parts"
        )
    _count[(*blocks, contexts), _THREADS, stream](packed, words, columns, out)


def unpack(packed, contexts: int, words: int, columns: int, samples: int, out, stream=0) -> None:
    """Write 0 or 1 for each sample and column to out (contexts * samples * columns,), any dtype."""
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
