"""The vocabulary of the CUDA code: decorators, loads and stores, bits of words, warps, barriers.

On a GPU a warp is 32 threads. In Numba's simulator (NUMBA_ENABLE_CUDASIM=1) it is one thread, so
a ballot is the flag of that thread; the rest of the kernel is the same code.
"""

# ruff: noqa: E402, F403, F405  (numba-cuda is imported after NumPy got back the names that it
# needs; the instructions come from one of two modules)

from types import FunctionType

import numpy as np

# numba-cuda up to 0.30 calls the old names, which NumPy 2.5 no longer has.
for _old, _new in (("row_stack", "vstack"), ("in1d", "isin"), ("trapz", "trapezoid")):
    if not hasattr(np, _old):
        setattr(np, _old, getattr(np, _new))

from numba import config

config.CUDA_LOW_OCCUPANCY_WARNINGS = False  # launches of few blocks are intended
SIMULATED = bool(config.ENABLE_CUDASIM)
WARP = 1 if SIMULATED else 32

if SIMULATED:
    from nelson.kernels.cuda.simulated import *
else:
    from nelson.kernels.cuda.instructions import *


def on_device(function, **replaced):
    """A function of `core` compiled for the GPU, with some of its globals replaced."""
    function = getattr(function, "py_func", function)
    scope = {**function.__globals__, **replaced}
    copy = FunctionType(
        function.__code__, scope, function.__name__, function.__defaults__, function.__closure__
    )
    return device(copy)
