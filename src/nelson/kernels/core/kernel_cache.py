"""Where compiled kernels are kept, and which of them are there.

They lie in the user's cache folder, under a name that hashes the source of *all* kernels of nelson
(every folder called `kernels`) and the versions of Numba and its LLVM bindings. Another package may
have kernels too, in folders of that name; below nelson's folder theirs are kept under a hash of
their own. A compiled function anywhere else is refused: no hash would see its edits.

Numba's cache files are pickles, and loading a pickle runs code. So the folder must be private
(`folders.private_folder`): a folder that another user prepared is never read. Without a private
folder nothing is cached, and a warning says so.
"""

import hashlib
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from nelson.kernels.core import deadline
from nelson.kernels.core.folders import cache_folder, private_folder

#: Folder of the package `nelson`.
PACKAGE = Path(__file__).resolve().parents[2]
#: Machine code that came with the package (`built_kernels.py`).
BUILT = PACKAGE / "kernels" / "built"
#: Names of all packages whose kernels were imported.
packages = {PACKAGE.name}


class _Listener:
    tell: Callable[[str], None] | None = None


def listen(listener: Callable[[str], None] | None) -> Callable[[str], None] | None:
    """Call `listener` with a text when compiling begins, and with "" when it ends. -> the last"""
    before, _Listener.tell = _Listener.tell, listener
    return before


def tell(text: str) -> None:
    deadline.compiling(bool(text))
    if _Listener.tell is not None:
        _Listener.tell(text)


def sources(package: Path = PACKAGE) -> list[Path]:
    """Every file that may hold a kernel: all below a folder called `kernels`."""
    return sorted(package.rglob("kernels/**/*.py"))


@cache
def package_of(file: str) -> Path | None:
    """The folder of the outermost package that holds a file; None if it lies in no package."""
    inside = [up for up in Path(file).resolve().parents if (up / "__init__.py").exists()]
    return inside[-1] if inside else None


@cache
def covers(file: str) -> bool:
    """Does a hash see edits of this file? If it lies in a package, below a folder `kernels`."""
    package = package_of(file)
    above = Path(file).resolve().parents
    return package is not None and any(
        up.name == "kernels" and up.is_relative_to(package) for up in above
    )


def digest(package: Path = PACKAGE) -> str:
    """Hash of all kernel sources of a package and of the versions of the compiler."""
    total = hashlib.sha256()
    for file in (*map(_version_file, ("numba", "llvmlite")), *sources(package)):
        total.update(file.read_bytes())
    return total.hexdigest()[:16]


def _version_file(package: str) -> Path:
    """The file that states the version of a package. Reading it does not import the package."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise ImportError(f"the package {package}, which compiles the kernels, is not installed")
    start = Path(spec.origin)
    named = start.with_name("_version.py")
    return named if named.exists() else start


def folder_name() -> str:
    """The name of a folder of kernels of these sources."""
    return f"kernels-{_digest_once(PACKAGE)}"


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
    name, reasons = folder_name(), []
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


class CompiledFolder(NamedTuple):
    """The compiled kernels in a folder."""

    folder: Path
    kernels: int  # kernels, each for one or more types of arguments
    bytes: int
    current: bool  # of this version of nelson and of Numba


def folders() -> list[CompiledFolder]:
    """All folders with compiled kernels of this user, also of other versions. Makes no folder."""
    current, compiled = folder_name(), []
    for base in (_user_cache, _temporary):
        try:
            name = "kernels-" + "[0-9a-f]" * 16
            places = sorted([*base().glob(name), *base().glob(f"built/*/{name}")])
        except (OSError, RuntimeError):
            continue
        for place in places:
            if place.is_dir() and not place.is_symlink():
                files = [file for file in place.rglob("*.nb[ci]") if file.is_file()]
                size = sum(file.stat().st_size for file in files)
                kernels = sum(file.suffix == ".nbi" for file in files)
                compiled.append(CompiledFolder(place, kernels, size, place.name == current))
    return compiled


def clear() -> None:
    """Remove all compiled kernels of this user, of all versions."""
    for compiled in folders():
        shutil.rmtree(compiled.folder)


def subfolder(file: str) -> str:
    """Name of the folder for the kernels of a source file, below `folder()`."""
    package = package_of(file) or PACKAGE
    name = "-".join(Path(file).resolve().relative_to(package).with_suffix("").parts)
    return name if package == PACKAGE else f"{package.name}-{_digest_once(package)}-{name}"


@cache
def _digest_once(package: Path) -> str:
    return digest(package)
