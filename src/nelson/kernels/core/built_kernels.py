"""Machine code that comes with the package: no process loads Numba or waits for a compiler.

`tools/build_kernels.py` compiles the kernels for two levels of x86 processors and links those of a
level into one shared library, which a wheel brings. Its name hashes the sources of all kernels
(`kernel_cache.digest`): machine code of other sources is never loaded. Whoever can write to its
folder can write the sources beside it, so it is as trusted as they are. On other processors, and
for types of arguments that were not built, Numba compiles (`machine.py`).

The library has one function for each kernel and signature. Its symbol is the name of the kernel
with the types of its arguments. It takes two arrays of 64-bit words: all arguments one after the
other (`_flatten`), and room for the result. It returns the type of the result. An array is passed
as the address of its Python object, and the function reads FIELDS of it, which are part of NumPy's
binary interface: to ask NumPy for them costs 2 microseconds an array, and a draw passes 40.
"""

from __future__ import annotations

import ctypes
import struct
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from nelson.kernels.core import kernel_cache

# fmt: off
_V3 = [
    "64bit", "cmov", "cx8", "cx16", "fxsr", "mmx", "sahf", "sse", "sse2", "sse3", "ssse3", "sse4.1",
    "sse4.2", "popcnt", "crc32", "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe",
    "xsave",
]
_V4 = [*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"]
# fmt: on
#: The instructions of each level of the x86-64 psABI, as LLVM calls them, the highest level first.
LEVELS = {"x86-64-v4": _V4, "x86-64-v3": _V3}
#: What Linux calls them, if the name differs. Every processor with sse4.2 has crc32.
_LINUX = {
    "64bit": "lm", "sahf": "lahf_lm", "sse3": "pni", "sse4.1": "sse4_1", "sse4.2": "sse4_2",
    "crc32": "sse4_2", "bmi": "bmi1", "lzcnt": "abm",
}  # fmt: skip
#: Where the object of an array holds the addresses of its data, its shape and its strides.
FIELDS = 16, 32, 40
#: The type of a result, as the functions of the library return it; TUPLE + n: n integers.
NONE, INT, UINT, BOOL, FLOAT, TUPLE = 0, 1, 2, 3, 4, 16
#: Words of the room for a result.
RESULT_WORDS = 8
#: Type of the elements -> the names of its arrays of 0, 1, 2, .. dimensions. A draw passes 40
#: arrays: to write their names anew takes as long as all else that a call of a kernel does.
_ARRAYS = {np.dtype(char): [f"{char}{ndim}" for ndim in range(8)] for char in "?bBhHiIlLfd"}


def features(level: str) -> str:
    """The instructions of a level as LLVM writes them."""
    return ",".join(f"+{name}" for name in LEVELS[level])


@cache
def path(level: str) -> Path:
    """Where the library of a level is, or would be. Nothing is made."""
    return kernel_cache.BUILT / level / f"{kernel_cache.folder_name()}.so"


@cache
def built_levels() -> tuple[str, ...]:
    """The levels that were built from these sources, the highest first."""
    return tuple(level for level in LEVELS if path(level).is_file())


def usable(level: str, instructions: set[str]) -> bool:
    """Does a processor with these instructions, as Linux calls them, have all of the level?"""
    return all(_LINUX.get(name, name) in instructions for name in LEVELS[level])


def instructions() -> set[str]:
    """The instructions of this processor that the system supports; none where it is not Linux."""
    try:
        with open("/proc/cpuinfo") as lines:
            return next((set(line.split()) for line in lines if line.startswith("flags")), set())
    except OSError:
        return set()


class NotBuilt(Exception):
    """The library has no machine code for these arguments."""


@cache
def library() -> Library | None:
    """The highest level that was built and that this processor has."""
    have = instructions()
    for level in built_levels():
        if usable(level, have) and _fields_are_right():
            return Library(path(level))
    return None


def _fields_are_right() -> bool:
    """Are FIELDS where this NumPy keeps them? In a Python without the GIL they are not."""
    array = np.zeros((3, 5), np.int32)
    data, shape, strides = (ctypes.c_int64.from_address(id(array) + at).value for at in FIELDS)
    if data != array.ctypes.data:
        return False
    pair = ctypes.c_int64 * 2
    read = (*pair.from_address(shape), *pair.from_address(strides))
    return read == (*array.shape, *array.strides)


class Library:
    """The kernels of one level."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._loaded = ctypes.CDLL(str(file))
        self._functions: dict[str, Any] = {}  # by symbol; None: not built

    def call(self, name: str, args: tuple[Any, ...]) -> Any:
        """The result of the kernel. Raises NotBuilt, before anything is done."""
        words: list[int] = []
        types: list[str] = [name]
        _flatten(args, types, words)
        symbol = "".join(types)
        try:
            function = self._functions[symbol]
        except KeyError:
            function = self._functions[symbol] = getattr(self._loaded, symbol, None)
        if function is None:
            raise NotBuilt(symbol)
        result = (ctypes.c_int64 * RESULT_WORDS)()
        kind = function(struct.pack(f"{len(words)}q", *words), result)
        if kind == NONE:
            return None
        if kind == INT:
            return result[0]
        if kind > TUPLE:
            return tuple(result[: kind - TUPLE])
        if kind == BOOL:
            return bool(result[0] & 1)
        if kind == UINT:
            return result[0] % 2**64
        if kind == FLOAT:
            return struct.unpack("d", struct.pack("q", result[0]))[0]
        raise RuntimeError(f"the kernel {name} failed")


def _flatten(args: Any, types: list[str], words: list[int]) -> None:
    """Append the types of the arguments, and a word for each."""
    types.append("(")
    for arg in args:
        kind = type(arg)
        if kind is np.ndarray:
            names = _ARRAYS.get(arg.dtype)
            if names is None:
                raise NotBuilt(f"an array of {arg.dtype}")
            name = names[arg.ndim]
            types.append(name if arg.flags.c_contiguous else f"{name}A")
            words.append(id(arg))
        elif kind is int and arg < 2**63:
            types.append("q")
            words.append(arg)
        elif isinstance(arg, tuple):
            _flatten(arg, types, words)
        elif isinstance(arg, (bool, np.bool_)):
            types.append("?")
            words.append(int(arg))
        elif isinstance(arg, (int, np.int64, np.uint64)):
            unsigned = isinstance(arg, np.uint64) or arg >= 2**63
            types.append("Q" if unsigned else "q")
            words.append(int(arg) - 2**64 if arg >= 2**63 else int(arg))
        elif isinstance(arg, float):
            types.append("d")
            words.append(struct.unpack("q", struct.pack("d", arg))[0])
        else:
            raise NotBuilt(type(arg).__name__)
    types.append(")")
