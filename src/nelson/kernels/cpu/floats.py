"""Rows of float64, kept in the rows of 64-bit words of `kernels/core/vector.py`.

Each operation rounds as IEEE 754 says and nothing is fused or reordered, so that NumPy gives the
same bits. The instructions are those of `floats_llvm.py`, under names that load no LLVM.
"""

from nelson.kernels.core.compile import instruction

_LLVM = "nelson.kernels.cpu.floats_llvm"

converted = instruction(_LLVM, "converted")
larger = instruction(_LLVM, "larger")
less = instruction(_LLVM, "less")
plus = instruction(_LLVM, "plus")
times = instruction(_LLVM, "times")
