"""A row of W 64-bit words as one value.

In machine code a row is LLVM's `<W x i64>` (`vector_llvm.py`); in the interpreter it is a NumPy
array of W words that is never changed. Both give the same bits.

Why not arrays in machine code, with the auto-vectoriser: between two array statements LLVM must
assume that a store may overlap the next load, so it neither keeps the W words of a row in registers
nor fuses a loop over them with the next loop. As a single value a row lives in vector registers
(two AVX-512 registers for W = 16) and needs no aliasing check. It runs on any CPU: LLVM splits the
vector to the registers of the machine.

The width is part of a *type*, as the length of a tuple (`tag`), because kernels that close over a
constant never hit Numba's disk cache. Operators `& | ^ + * >> ~` work between rows, and between a
row and a scalar on the right, so that one Python function serves rows here, scalars on a GPU, and
NumPy arrays in the reference.

`load` and `store` address row i of a flat, 64-byte aligned uint64 array: words i*W .. i*W + W-1.
`peek` and `poke` are scalar accesses without Python's rule for negative indices. In machine code
none of them checks bounds.

`bare` turns the arrays of a named tuple into pointers. Numba passes an array as seven scalars, so
three tuples of arrays passed to an inner function are a few hundred instructions for LLVM to see
through; with pointers the kernel compiles in half the time.
"""

from typing import Any

import numpy as np

from nelson.kernels.core.compile import instruction
from nelson.kernels.core.interpret import spend

_EVERY = int(np.iinfo(np.uint64).max)
#: Steps that the interpreter counts for a row that is read or written, and for a digit of a draw,
#: which comes with a random row.
_ROW, _DRAW = 3, 15

_of_rows = instruction("nelson.kernels.core.vector_llvm")


def tag(width: int) -> tuple[int, ...]:
    """A value whose *type* holds the width."""
    return (0,) * width


def aligned(count: int, dtype: Any = np.uint64, fill: int | None = None) -> np.ndarray:
    """A flat array whose first element starts a cache line."""
    size = int(count) * np.dtype(dtype).itemsize
    raw = np.empty(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    array = raw[start : start + size].view(dtype)
    if fill is not None:
        array[:] = fill
    return array


@_of_rows
def bare(fields):
    """A named tuple with its arrays replaced by pointers; in the interpreter, by flat views."""
    return type(fields)(
        *(field.reshape(-1) if isinstance(field, np.ndarray) else field for field in fields)
    )


@_of_rows
def zeros(tag):
    """No lane."""
    return np.zeros(len(tag), np.uint64)


@_of_rows
def ones(tag):
    """Every lane."""
    return np.full(len(tag), _EVERY, np.uint64)


@_of_rows
def splat(tag, scalar):
    """The same word W times."""
    return np.full(len(tag), int(scalar) & _EVERY, np.uint64)


@_of_rows
def splat_bit(tag, scalar):
    """An int32 that is 0 or -1 as a row of zeros or ones."""
    spend(_DRAW)
    return np.full(len(tag), int(scalar) & _EVERY, np.uint64)


@_of_rows
def load(tag, array, index):
    """Row `index` of an array."""
    spend(_ROW)
    width = len(tag)
    return array[index * width : (index + 1) * width].copy()


@_of_rows
def store(array, index, row):
    """Write row `index` of an array."""
    spend(_ROW)
    width = len(row)
    array[index * width : (index + 1) * width] = row


@_of_rows
def prefetch(tag, array, index):
    """Tell the CPU that a row is needed soon."""


@_of_rows
def peek(array, index):
    """Read a cell."""
    return array[index]


@_of_rows
def peek_volatile(array, index):
    """Read a cell that another thread may write: never hoisted out of a loop."""
    return array[index]


@_of_rows
def poke(array, index, value):
    """Write a cell."""
    array[index] = value


@_of_rows
def any_lane(row):
    """Is any bit of a row set?"""
    return bool(row.any())


@_of_rows
def popcount(row):
    """Number of bits set, word by word."""
    return np.bitwise_count(row).astype(np.uint64)


@_of_rows
def total(row):
    """Sum of the words, as int64."""
    return int(row.sum())
