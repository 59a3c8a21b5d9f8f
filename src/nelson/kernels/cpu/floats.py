"""Rows of float64, kept in the rows of 64-bit words of `kernels/core/vector.py`.

Each operation rounds as IEEE 754 says and nothing is fused or reordered, so that NumPy gives the
same bits as machine code (`floats_llvm.py`).
"""

import numpy as np

from nelson.kernels.core.compile import instruction

_of_floats = instruction("nelson.kernels.cpu.floats_llvm")


@_of_floats
def times(a, b):
    """a * b"""
    return (a.view(np.float64) * b.view(np.float64)).view(np.uint64)


@_of_floats
def plus(a, b):
    """a + b"""
    return (a.view(np.float64) + b.view(np.float64)).view(np.uint64)


@_of_floats
def larger(a, b):
    """The larger of two numbers that are no NaN."""
    return np.where(a.view(np.float64) < b.view(np.float64), b, a)


@_of_floats
def less(a, b):
    """All ones in the words where a < b, else zeros."""
    return -(a.view(np.float64) < b.view(np.float64)).astype(np.uint64)


@_of_floats
def converted(a):
    """Integers below 2^63 to float64."""
    return a.view(np.int64).astype(np.float64).view(np.uint64)
