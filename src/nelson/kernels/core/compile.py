"""How the kernels are compiled: once per machine, cached on disk, and announced on stderr.

Numba's own cache has three gaps that hurt here. It watches only the file that defines a kernel, so
an edit to `rng.py` would leave a stale `rounds.py` kernel behind. It prefers the package folder,
which may be read-only. And it names its folders after the path of the source, so that two checkouts
of the same code share nothing. So the kernels of this package are cached in the user's cache
folder, under a name that hashes the source of *all* kernels (every folder called `kernels`, also
those of the tasks) and the versions of Numba and its LLVM bindings. A compiled function in any
other folder is refused: the hash would not see its edits.

Numba's cache files are pickles, and loading a pickle runs code. So the folder must be private
(`folders.private_folder`): a folder that another user prepared is never read. Without a private
folder nothing is cached, and a warning says so.
"""

import hashlib
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
from numba.core import caching, event

from nelson.kernels.core.folders import cache_folder, private_folder

#: Folder of the package `nelson`.
_PACKAGE = Path(__file__).resolve().parents[2]


def sources(package: Path = _PACKAGE) -> list[Path]:
    """Every file that may hold a kernel: all below a folder called `kernels`."""
    return sorted(package.rglob("kernels/**/*.py"))


def digest(package: Path = _PACKAGE) -> str:
    """Hash of all kernel sources and of the versions of the compiler."""
    total = hashlib.sha256(f"{numba.__version__} {llvmlite.__version__}".encode())
    for file in sources(package):
        total.update(file.read_bytes())
    return total.hexdigest()[:16]


def _user_cache() -> Path:
    """$NUMBA_CACHE_DIR, else the user's cache folder."""
    return Path(os.environ.get("NUMBA_CACHE_DIR") or cache_folder())


def _temporary() -> Path:
    """For users without a home that can be written to."""
    owner = os.geteuid() if hasattr(os, "geteuid") else "user"
    return Path(tempfile.gettempdir()) / f"nelson-{owner}"


@cache
def folder() -> Path | None:
    """Folder of the compiled kernels on this machine; None if there is no private one."""
    name, reasons = f"kernels-{digest()}", []
    for base in (_user_cache, _temporary):
        try:
            return private_folder(base() / name)
        except (OSError, RuntimeError) as error:  # RuntimeError: the user has no home
            reasons.append(str(error))
    warnings.warn(
        "compiled kernels are not kept, and every start of nelson compiles them again, because no "
        f"cache folder is private to this user: {'; '.join(reasons)}. Set NUMBA_CACHE_DIR to a "
        "folder of your own that nobody else can write to",
        RuntimeWarning,
        stacklevel=2,
    )
    return None


class Locator(caching.UserProvidedCacheLocator):
    """Names the cache folder of a kernel by its path in the package, not by its absolute path."""

    @classmethod
    def get_suitable_cache_subpath(cls, py_file: str) -> str:
        return "-".join(Path(py_file).resolve().relative_to(_PACKAGE).with_suffix("").parts)


@contextmanager
def _cache_folder(place: Path) -> Iterator[None]:
    # Numba picks the cache folder of a function when it is decorated, so the settings need not
    # outlive the decorator.
    before = numba.config.CACHE_DIR, numba.config.CACHE_LOCATOR_CLASSES
    numba.config.CACHE_DIR = str(place)
    numba.config.CACHE_LOCATOR_CLASSES = f"{__name__}.{Locator.__name__}"
    try:
        yield
    finally:
        numba.config.CACHE_DIR, numba.config.CACHE_LOCATOR_CLASSES = before


def _hashed(function: Any) -> Any:
    """Return the function; raise ImportError if `digest` does not cover its file."""
    file = Path(function.__code__.co_filename).resolve()
    if not any(up.name == "kernels" and up.is_relative_to(_PACKAGE) for up in file.parents):
        raise ImportError(
            f"{function.__name__} in {file} is to be compiled, but no folder above this file is "
            "called `kernels`, so the cache would not notice edits to it and would return stale "
            "machine code; move the function into such a folder"
        )
    return function


def kernel(function: Callable[..., Any]) -> Any:
    """Decorator of an entry point: compiled without the GIL, cached on disk.

    The function must not be a closure: closures never hit the cache.
    """
    options = {"nogil": True, "_nrt": False}
    place = folder()
    if place is None:
        return numba.njit(**options)(_hashed(function))
    with _cache_folder(place):
        return numba.njit(cache=True, **options)(_hashed(function))


def helper(function: Callable[..., Any]) -> Any:
    """Decorator of a function that kernels call."""
    return numba.njit(_nrt=False)(_hashed(function))


def inline(function: Callable[..., Any]) -> Any:
    """Decorator of a function that is merged into the kernels that call it."""
    return numba.njit(forceinline=True, _nrt=False)(_hashed(function))


class _Announcer(event.Listener):
    """Prints one line when the first kernel is compiled; kernels from the disk cache print none."""

    def __init__(self) -> None:
        self.said = False

    def on_start(self, event: event.Event) -> None:
        name = getattr(event.data.get("dispatcher"), "__module__", "") or ""
        if not self.said and name.startswith("nelson."):
            self.said = True
            kept = "not kept" if folder() is None else f"once; kept in {folder()}"
            print(
                f"nelson: compiling kernels for this machine ({kept})", file=sys.stderr, flush=True
            )

    def on_end(self, event: event.Event) -> None:
        pass


event.register("numba:compile", _Announcer())
