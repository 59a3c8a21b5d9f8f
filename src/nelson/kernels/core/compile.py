"""How the kernels run: as machine code that comes with the package, else compiled by Numba.

A kernel is a Python function over NumPy arrays that Numba can compile. Compiling takes 10 seconds
or more, and loading Numba 0.3 seconds. So a call looks for its machine code in the library that
comes with the package (`built_kernels.py`), which needs neither. What is not there is compiled, and
kept on the disk for the next process (`machine.py`). Both ways give the same bits.

Decorators: `kernel` for what the library calls, `helper` and `inline` for what kernels call.
`instruction` names what is written in LLVM's language. Helpers stay plain functions.
"""

import sys
import threading
from collections.abc import Callable
from typing import Any

from nelson.kernels.core import built_kernels, kernel_cache
from nelson.kernels.core.deadline import DEADLINE, NEVER, check_time

#: Every kernel of the modules that were imported.
kernels: list["EntryPoint"] = []
#: (function, options of Numba) for every helper, in the order of their definitions.
helpers: list[tuple[Callable[..., Any], dict[str, Any]]] = []
#: (function, module in which the machine code of the same name lies)
instructions: list[tuple[Callable[..., Any], str]] = []

#: Is Numba to be loaded without SciPy, which it needs only for BLAS in kernels?
hide_scipy = False
_one_at_a_time = threading.RLock()


def hashed(function: Any) -> Any:
    """Return the function; raise ImportError if the hash of the cache does not cover its file."""
    file = function.__code__.co_filename
    if not kernel_cache.covers(file):
        raise ImportError(
            f"{function.__name__} in {file} is to be compiled, but no folder above this file is "
            "called `kernels`, so the cache would not notice edits to it and would return stale "
            "machine code; move the function into such a folder"
        )
    kernel_cache.packages.add((function.__module__ or "").partition(".")[0])
    return function


class EntryPoint:
    """An entry point: built, or compiled at its first call."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.py_func = hashed(function)
        self.__name__, self.__doc__ = function.__name__, function.__doc__
        self.__module__ = function.__module__
        self.compiled: Any = None  # Numba's dispatcher
        self.name = f"{function.__module__}.{function.__qualname__}"  # in the library
        kernels.append(self)

    def __call__(self, *args: Any) -> Any:
        if DEADLINE.get() is not NEVER:
            check_time()
        library = built_kernels.library()
        if library is not None:
            try:
                return library.call(self.name, args)
            except built_kernels.NotBuilt:
                pass
        return self.compile()(*args)

    def compile(self) -> Any:
        """Numba's dispatcher of this kernel. It compiles, or reads the disk, when it is called."""
        with _one_at_a_time:
            if self.compiled is None:
                self.compiled = _machine().dispatcher(self.py_func)
        return self.compiled

    def __reduce__(self) -> str:
        return self.__name__  # pickled as a name of its module

    @property
    def _numba_type_(self) -> Any:  # asked for when another kernel that calls this one is compiled
        return self.compile()._numba_type_


def _machine() -> Any:
    """The module `machine`, which loads Numba."""
    hidden = hide_scipy and not {"numba", "scipy"} & set(sys.modules)
    if hidden:
        sys.modules["scipy"] = None  # type: ignore[assignment]  # makes `import scipy` fail
    try:
        from nelson.kernels.core import machine
    finally:
        if hidden:
            del sys.modules["scipy"]
    machine.know(helpers, instructions)
    return machine


def kernel(function: Callable[..., Any]) -> Any:
    """Decorator of an entry point: compiled without the GIL, cached on disk.

    The function must not be a closure: closures never hit the cache.
    """
    return EntryPoint(function)


def helper(function: Callable[..., Any]) -> Any:
    """Decorator of a function that kernels call."""
    return _register(function, {})


def inline(function: Callable[..., Any]) -> Any:
    """Decorator of a function that is merged into the kernels that call it."""
    return _register(function, {"forceinline": True})


def _register(function: Callable[..., Any], options: dict[str, Any]) -> Callable[..., Any]:
    function = hashed(function)
    helpers.append((function, options))
    return function


def instruction(module: str, name: str) -> Any:
    """What kernels call by this name is the Numba intrinsic of this name in `module`."""

    def stand_in(*args: Any) -> Any:
        raise NotImplementedError(f"{name} exists as machine code only")

    stand_in.__name__ = name
    instructions.append((stand_in, module))
    return stand_in
