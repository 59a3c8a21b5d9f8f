"""How the kernels are compiled: once per machine, cached on disk, and said aloud.

Numba's own cache has three gaps that hurt here. It looks only at the file a kernel is defined in,
so an edit to `rng.py` would leave a stale `rounds.py` kernel behind. It prefers the package folder,
which may be read-only. And it names its folders after the path of the source, so that two checkouts
of the same code share nothing. So the kernels of this package are cached in the user's cache
folder, under a name that hashes the text of *all* of them (every folder called `kernels`, those of
the tasks too) together with the versions of Numba and its LLVM bindings.
"""

import hashlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
from numba.core import caching, event

#: Root of the package: cached kernels are named by the path below it.
_PACKAGE = Path(__file__).resolve().parents[2]


def _base_folder() -> Path:
    if given := os.environ.get("NUMBA_CACHE_DIR"):
        return Path(given)
    if given := os.environ.get("XDG_CACHE_HOME"):
        return Path(given) / "nelson"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "nelson"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", str(Path.home()))) / "nelson"
    return Path.home() / ".cache" / "nelson"


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except (OSError, RuntimeError):
        return False


def sources() -> list[Path]:
    """Every file that may hold a kernel: all below a folder called `kernels`."""
    return sorted(_PACKAGE.rglob("kernels/**/*.py"))


@cache
def folder() -> Path:
    """Where compiled kernels lie on this machine."""
    digest = hashlib.sha256(f"{numba.__version__} {llvmlite.__version__}".encode())
    for file in sources():
        digest.update(file.read_bytes())
    name = f"kernels-{digest.hexdigest()[:16]}"
    base = _base_folder()
    if not _writable(base / name):
        owner = os.getuid() if hasattr(os, "getuid") else "user"
        base = Path(tempfile.gettempdir()) / f"nelson-{owner}"
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
    return base / name


class Locator(caching.UserProvidedCacheLocator):
    """Names the cache folder of a kernel by its place in the package, not by its absolute path."""

    @classmethod
    def get_suitable_cache_subpath(cls, py_file: str) -> str:
        return "-".join(Path(py_file).resolve().relative_to(_PACKAGE).with_suffix("").parts)


@contextmanager
def _cache_folder() -> Iterator[None]:
    # A dispatcher picks its cache folder when it is made, so the settings need not outlive the
    # decorator.
    before = numba.config.CACHE_DIR, numba.config.CACHE_LOCATOR_CLASSES
    numba.config.CACHE_DIR = str(folder())
    numba.config.CACHE_LOCATOR_CLASSES = f"{__name__}.{Locator.__name__}"
    try:
        yield
    finally:
        numba.config.CACHE_DIR, numba.config.CACHE_LOCATOR_CLASSES = before


def kernel(function: Callable[..., Any]) -> Any:
    """Decorator of an entry point: compiled without the GIL, cached on disk. No closures: those
    never hit the cache.
    """
    with _cache_folder():
        return numba.njit(nogil=True, cache=True, _nrt=False)(function)


#: Decorators of functions that exist only inside kernels: merged into the caller, or called.
helper = numba.njit(_nrt=False)
inline = numba.njit(forceinline=True, _nrt=False)


class _Announcer(event.Listener):
    """Says, once, that a kernel is being compiled; a kernel that comes from the disk cache says
    nothing.
    """

    def __init__(self) -> None:
        self.said = False

    def on_start(self, event: event.Event) -> None:
        name = getattr(event.data.get("dispatcher"), "__module__", "") or ""
        if not self.said and name.startswith("nelson."):
            self.said = True
            print(
                f"nelson: compiling kernels for this machine (once; kept in {folder()})",
                file=sys.stderr,
                flush=True,
            )

    def on_end(self, event: event.Event) -> None:
        pass


event.register("numba:compile", _Announcer())
