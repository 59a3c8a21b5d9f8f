"""Run kernels as plain Python, as long as that is cheaper than to load or to make machine code.

A process has a budget of *steps*: rounds of loops, counted as a loop begins (`counted`), and
accesses to rows, which count several times (`spend`). It is small if the kernel lies compiled on
the disk (loading Numba costs 0.3 s) and larger if the kernel would have to be compiled (10 s and
more). A call that exceeds the budget is undone and done again as machine code, so nobody has to
know in advance how long a call will take. Steps are counted, never timed: the same program
interprets the same calls whatever else the machine does.

Why the bits are the same: `_Cells` gives Python numbers for integers (Numba computes in 64 bits
whatever the array holds, NumPy does not) and for float64; words stay np.uint64, which wrap around
as in machine code; functions such as exp are those of the C library in both (`math`, not `np`). Any
exception, such as a number that does not fit its array, undoes the call, and machine code decides.
"""

import builtins
import math
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import zip_longest
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from nelson.kernels.core import kernel_cache


class InterpreterLimits(NamedTuple):
    """What is interpreted, at most."""

    steps: int  # of the process, all kernels together; a step takes about 0.4 microseconds
    bytes: int  # of the arrays of a call: they are copied, so that the call can be undone


#: For kernels that lie compiled on the disk: loading Numba and them takes 0.4 s.
KEPT = InterpreterLimits(250_000, 1 << 17)
#: For kernels that would have to be compiled, which takes 10 s and more.
NEW = InterpreterLimits(5_000_000, 1 << 20)
#: How kernels run: "interpreted" has no limits and raises errors, for tests.
MODES = ("auto", "compiled", "interpreted")

_lock = threading.RLock()


class _Enough(Exception):
    """The budget is spent."""


class _Steps:
    """Of this process. All changes happen under the lock."""

    mode = os.environ.get("NELSON_KERNELS", MODES[0])
    spent = 0
    limit: float = 0
    running = False


def choose(mode: str) -> str:
    """Set how the kernels of this process run. -> how they ran before"""
    if mode not in MODES:
        raise ValueError(f"NELSON_KERNELS is {mode!r}; expected {', '.join(MODES)}")
    before, _Steps.mode = _Steps.mode, mode
    return before


choose(_Steps.mode)


def _after_fork() -> None:
    """In a child process, no thread holds the lock, whatever the parent was doing."""
    global _lock
    _lock, _Steps.running = threading.RLock(), False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def as_machine_code() -> Iterator[None]:
    """Inside, and in other threads meanwhile, kernels are compiled before a clock starts."""
    before = _Steps.mode
    if before == "auto":
        choose("compiled")
    try:
        yield
    finally:
        choose(before)


def compiler_is_loaded() -> bool:
    """Was Numba imported, by nelson or by anybody?"""
    return "numba" in sys.modules


def spend(steps: int) -> None:
    """Count steps of the kernel that is interpreted."""
    _Steps.spent += steps


def counted(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with a `range` that counts steps."""
    assert isinstance(function, FunctionType)
    scope = function.__globals__
    own = scope["__builtins__"]
    scope["__builtins__"] = _BUILTINS  # a function gets its builtins when it is made
    try:
        copy = FunctionType(function.__code__, scope, function.__name__, function.__defaults__)
    finally:
        scope["__builtins__"] = own
    copy.__doc__, copy.__module__ = function.__doc__, function.__module__
    copy.__qualname__, copy.__annotations__ = function.__qualname__, function.__annotations__
    return copy


def _range(*bounds: Any) -> range:
    """`range` that counts its steps and ends the call if the budget is spent."""
    steps = range(*bounds)
    _Steps.spent += len(steps) + 1
    if _Steps.spent > _Steps.limit:
        raise _Enough
    return steps


#: Numbers with which Python would compute otherwise: they wrap around, or round to 24 bits.
_AS_THEY_ARE = {np.uint64, np.float32}
_BUILTINS = {**vars(builtins), "range": _range}


class _Cells(np.ndarray):
    """A flat array that gives its elements as Python numbers."""

    def __getitem__(self, index: Any) -> Any:
        try:
            return self.item(index)
        except TypeError:  # a slice
            return super().__getitem__(index)


class _Grid(np.ndarray):
    """The same for an array with rows."""

    def __getitem__(self, index: Any) -> Any:
        return _view(super().__getitem__(index))


def attempt(function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[bool, Any]:
    """Interpret a kernel: (True, its result), or (False, None) with all arrays as before."""
    if _Steps.mode == "compiled":
        return False, None
    strict = _Steps.mode == "interpreted"
    with _lock:
        if _Steps.running:  # a kernel that an interpreted kernel calls
            return True, function(*args)
        kept = kernel_cache.is_kept(function)
        if kept and not strict and compiler_is_loaded():
            return False, None  # machine code costs 20 ms then, once
        limits = KEPT if kept else NEW
        arrays = list(_arrays(args, function.__code__.co_varnames))
        size = sum(array.nbytes for array in arrays)
        _Steps.spent += 100 + (size >> 10)  # the time to prepare the arguments
        if not strict and (_Steps.spent > limits.steps or size > limits.bytes):
            return False, None
        before = [(array, array.copy()) for array in arrays if array.flags.writeable]
        _Steps.running, _Steps.limit = True, math.inf if strict else limits.steps
        try:
            with np.errstate(all="ignore"):
                return True, _plain(function(*map(_view, args)))
        except BaseException as error:
            for array, copy in before:
                array[...] = copy
            if strict or not isinstance(error, Exception):
                raise
            return False, None
        finally:
            _Steps.running = False


def _arrays(args: tuple[Any, ...], names: tuple[str, ...] = ()) -> Iterator[np.ndarray]:
    """The arrays that a kernel may write: not `stop`, which other threads set."""
    for arg, name in zip_longest(args, names[: len(args)]):
        if isinstance(arg, np.ndarray) and name != "stop":
            yield arg
        elif isinstance(arg, tuple):
            yield from _arrays(arg)


def _view(arg: Any) -> Any:
    """The argument as the interpreter gets it."""
    if isinstance(arg, np.ndarray):
        if arg.dtype.type in _AS_THEY_ARE:
            return arg.view(np.ndarray)
        return arg.view(_Cells if arg.ndim == 1 else _Grid)
    if isinstance(arg, np.generic) and type(arg) not in _AS_THEY_ARE:
        return arg.item()
    if isinstance(arg, tuple) and hasattr(arg, "_fields"):
        return type(arg)(*map(_view, arg))
    return tuple(map(_view, arg)) if isinstance(arg, tuple) else arg


def _plain(result: Any) -> Any:
    """The result as machine code hands it out: Python numbers."""
    if isinstance(result, np.generic):
        return result.item()
    if isinstance(result, tuple):
        return tuple(map(_plain, result))
    return result
