"""Machine code that comes with the package: a first large draw does not wait for a compiler.

`tools/build_kernels.py` compiles the kernels for two levels of x86 processors and puts them below
this package, into a folder whose name hashes their sources (`kernel_cache.digest`): machine code
of other sources is never read. A wheel brings that folder. Whoever can write there can write the
sources beside it, so it is as trusted as they are. On other processors, and for types of arguments
that were not built, Numba compiles.

A processor with more instructions than its level can have kernels of its own: `nelson cache --warm`
compiles them, and they come first. The bits of samples are the same.
"""

from functools import cache
from pathlib import Path

from nelson.kernels.core import kernel_cache

# fmt: off
_V3 = [
    "64bit", "cmov", "cx8", "cx16", "fxsr", "mmx", "sahf", "sse", "sse2", "sse3", "ssse3", "sse4.1",
    "sse4.2", "popcnt", "crc32", "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe",
    "xsave",
]
_V4 = [*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"]
# fmt: on
#: The instructions of each level of the x86-64 psABI, the highest level first.
LEVELS = {"x86-64-v4": _V4, "x86-64-v3": _V3}


def features(level: str) -> str:
    """The instructions of a level as LLVM writes them."""
    return ",".join(f"+{name}" for name in LEVELS[level])


@cache
def folder(level: str) -> Path:
    """Where the kernels of a level are, or would be. Nothing is made."""
    return kernel_cache.BUILT / level / kernel_cache.folder_name()


@cache
def built_levels() -> tuple[str, ...]:
    """The levels that were built from these sources, the highest first."""
    return tuple(level for level in LEVELS if folder(level).is_dir())


def usable(level: str, instructions: dict[str, bool]) -> bool:
    """Does a processor with these instructions have all of the level?"""
    return all(instructions.get(name, False) for name in LEVELS[level])
