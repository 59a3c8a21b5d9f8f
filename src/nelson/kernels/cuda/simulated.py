"""The functions of `instructions.py` for Numba's simulator, where a warp is one thread.

They are plain Python functions. The simulator replaces the name `cuda` in the module of a device
function while it runs, which goes wrong with many threads and modules.
"""

import threading
from typing import Any

import numpy as np
from numba import cuda

_lock = threading.Lock()


def device(function):
    return function


def kernel(function):
    return cuda.jit(function)


def peek(array, i):
    return array[i]


def poke(array, i, value):
    array[i] = value


def peek2(array, i):
    return array[2 * i], array[2 * i + 1]


def poke2(array, i, first, second):
    array[2 * i] = first
    array[2 * i + 1] = second


def load2(array, code):
    return peek2(array, code >> 4)


def sign(word):
    return ~np.uint64(0) if word >> np.uint32(31) else np.uint64(0)


def sign_low(word):
    return sign(np.uint32(word << np.uint32(16)))


def masked(word, mask):
    return np.uint32(word & mask)


def multiply_add(y, factor, more):
    return y * factor + more


def pinned(array):
    return array


pinned_far = pinned


def rolled():
    pass


def ballot(flag):
    return np.uint32(flag)


def popcount(mask):
    return np.int32(int(mask).bit_count())


def below(rank):
    return np.uint32(0)


def sync_warp():
    pass


def sync(team, which):
    if team > 1:  # the simulator has only a barrier for the whole block
        simulated: Any = threading.current_thread()
        with _lock:
            barriers = vars(simulated._manager).setdefault("barriers", {})
            barrier = barriers.setdefault((which, team), threading.Barrier(team, timeout=60))
        barrier.wait()


def sync_block():
    simulated: Any = threading.current_thread()
    simulated.syncthreads()


def _atomic(array, i, change):
    with _lock:
        old = array[i]
        array[i] = change(old)
    return old


def atomic_add(array, i, value):
    return _atomic(array, i, lambda old: old + value)


def atomic_or(array, i, value):
    return _atomic(array, i, lambda old: old | value)


def atomic_and(array, i, value):
    return _atomic(array, i, lambda old: old & value)


def atomic_max(array, i, value):
    return _atomic(array, i, lambda old: max(old, value))
