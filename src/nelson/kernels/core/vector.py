"""A row of W 64-bit words as one value.

A row is LLVM's `<W x i64>`. `vector_llvm.py` has the instructions and what they do; here are their
names, which load neither Numba nor LLVM.

Why not arrays, with the auto-vectoriser: between two array statements LLVM must assume that a store
may overlap the next load, so it neither keeps the W words of a row in registers nor fuses a loop
over them with the next loop. As a single value a row lives in vector registers
(two AVX-512 registers for W = 16) and needs no aliasing check. It runs on any CPU: LLVM splits the
vector to the registers of the machine.

The width is part of a *type*, as the length of a tuple (`tag`), because kernels that close over a
constant never hit Numba's disk cache. Operators `& | ^ + * >> ~` work between rows, and between a
row and a scalar on the right, so that one Python function serves rows here, scalars on a GPU, and
NumPy arrays in the reference.

`load` and `store` address row i of a flat, 64-byte aligned uint64 array: words i*W .. i*W + W-1.
`peek` and `poke` are scalar accesses without Python's rule for negative indices. None of them
checks bounds.

`bare` turns the arrays of a named tuple into pointers. Numba passes an array as seven scalars, so
three tuples of arrays passed to an inner function are a few hundred instructions for LLVM to see
through; with pointers the kernel compiles in half the time.
"""

from typing import Any

import numpy as np

from nelson.kernels.core.compile import instruction

_LLVM = "nelson.kernels.core.vector_llvm"

any_lane = instruction(_LLVM, "any_lane")
bare = instruction(_LLVM, "bare")
load = instruction(_LLVM, "load")
ones = instruction(_LLVM, "ones")
peek = instruction(_LLVM, "peek")
peek_volatile = instruction(_LLVM, "peek_volatile")
poke = instruction(_LLVM, "poke")
popcount = instruction(_LLVM, "popcount")
prefetch = instruction(_LLVM, "prefetch")
splat = instruction(_LLVM, "splat")
splat_bit = instruction(_LLVM, "splat_bit")
store = instruction(_LLVM, "store")
total = instruction(_LLVM, "total")
zeros = instruction(_LLVM, "zeros")


#: Bytes of an element.
_BYTES = {np.uint8: 1, np.int32: 4, np.int64: 8, np.uint64: 8}


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


def aligned_arrays(*sizes: tuple[int, Any]) -> list[np.ndarray]:
    """Flat arrays of zeros in one block of memory, each of (elements, type) and from the start of a
    cache line on. The system zeroes a large block page by page as it is used.
    """
    starts, end = [], 0
    for count, kind in sizes:
        starts.append(end)
        end += -(-count * _BYTES[kind] // 64) * 64
    raw = np.zeros(end + 64, np.uint8)
    first = -raw.ctypes.data % 64
    return [
        np.ndarray(count, kind, raw, first + start)
        for (count, kind), start in zip(sizes, starts, strict=True)
    ]
