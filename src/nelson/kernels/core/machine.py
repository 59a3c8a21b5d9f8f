"""Kernels as machine code: compiled once per machine, cached on disk, announced on stderr.

Numba's own cache has three gaps that hurt here. It watches only the file that defines a kernel, so
an edit to `rng.py` would leave a stale `rounds.py` kernel behind. It prefers the package folder,
which may be read-only. And it names its folders after the path of the source, so that two checkouts
of the same code share nothing. So the kernels of this package are cached in the user's cache
folder, under a name that hashes the source of *all* kernels (`kernel_cache.py`). And it trusts its
files: machine code with a flipped bit ends the process. So each file begins with a digest.

This module loads Numba, so it is imported when a kernel is called that did not come with the
package. Helpers and instructions are known to Numba (`_link`) only when something is compiled: a
kernel that is read from the disk needs none of them.
"""

import contextlib
import hashlib
import importlib
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import numba
import numba.np.arraymath
from numba.core import caching, event
from numba.core.registry import cpu_target

from nelson.kernels.core import kernel_cache

Helpers = list[tuple[Callable[..., Any], dict[str, Any]]]
Instructions = list[tuple[Callable[..., Any], str]]

#: Removes a text that a command wrote to the current line of a terminal.
_CLEAR_LINE = "\r\x1b[K"


class _Known:
    """What kernels may call and Numba was not told of yet: lists of `compile.py`."""

    helpers: ClassVar[Helpers] = []
    instructions: ClassVar[Instructions] = []
    #: Numba keeps only weak references to the dispatchers of helpers.
    alive: ClassVar[list[Any]] = []


def know(helpers: Helpers, instructions: Instructions) -> None:
    """Take these lists, which grow as more modules are imported."""
    _Known.helpers, _Known.instructions = helpers, instructions


class Locator(caching.UserProvidedCacheLocator):
    """Names the cache folder of a kernel by its path in the package, not by its absolute path."""

    @classmethod
    def get_suitable_cache_subpath(cls, py_file: str) -> str:
        return kernel_cache.subfolder(py_file)


def _say(text: str) -> None:
    start = _CLEAR_LINE if sys.stderr.isatty() else ""
    print(f"{start}nelson: {text}", file=sys.stderr, flush=True)


class CheckedFiles(caching.IndexDataCacheFile):
    """The files of a kernel, each behind a digest of its place and its content.

    A file that is damaged, or that lies in the place of another one, is removed, and its kernel is
    compiled again. If a kernel cannot be written, as on a full disk, it is used all the same.
    """

    said: ClassVar[set[str]] = set()  # each line once in a process

    def save(self, key: Any, data: Any) -> None:
        try:
            names = self._load_index()
            taken = set(names.values())
            free = (
                name for k in range(1, len(taken) + 2) if (name := self._data_name(k)) not in taken
            )
            name = names.get(key) or next(free)
            self._write(name, (key, data))
            self._write(self._index_name, (self._source_stamp, {**names, key: name}))
        except OSError as error:
            self._once(
                f"compiled kernels cannot be kept ({error.strerror}); they are used all the same"
            )

    def load(self, key: Any) -> Any:
        name = self._load_index().get(key)
        entry = None if name is None else self._read(name)
        return entry[1] if entry is not None and entry[0] == key else None

    def _load_index(self) -> dict[Any, str]:
        stamp, names = self._read(self._index_name) or (None, {})
        return names if stamp == self._source_stamp else {}

    def _save_index(self, overloads: dict[Any, str]) -> None:
        self._write(self._index_name, (self._source_stamp, overloads))

    def _digest(self, name: str, content: bytes) -> bytes:
        place = "/".join([*Path(self._cache_path).parts[-2:], name, self._version])
        return hashlib.sha256(f"{place}\n".encode() + content).digest()

    def _write(self, name: str, value: Any) -> None:
        content = self._dump(value)
        with self._open_for_write(self._data_path(name)) as file:
            file.write(self._digest(name, content) + content)

    def _read(self, name: str) -> Any:
        path = self._data_path(name)
        try:
            content = Path(path).read_bytes()
        except OSError:  # not there, or removed by another process
            return None
        digest, content = content[:32], content[32:]
        if digest == self._digest(name, content):
            return pickle.loads(content)
        self._once(
            f"a compiled kernel in {Path(self._cache_path).parent} is damaged; it is compiled again"
        )
        with contextlib.suppress(OSError):
            os.unlink(path)
        return None

    def _once(self, text: str) -> None:
        if text not in self.said:
            self.said.add(text)
            _say(text)


@contextmanager
def _cache_folder(place: Path) -> Iterator[None]:
    # Numba picks the cache folder of a function when its cache is made, so the settings need not
    # outlive that.
    before = numba.config.CACHE_DIR, numba.config.CACHE_LOCATOR_CLASSES
    numba.config.CACHE_DIR = str(place)
    numba.config.CACHE_LOCATOR_CLASSES = f"{__name__}.{Locator.__name__}"
    try:
        yield
    finally:
        numba.config.CACHE_DIR, numba.config.CACHE_LOCATOR_CLASSES = before


class _KernelCache:
    """Numba's view of the machine code of a kernel in the user's folder, with checked files."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._user: Any = caching.NullCache()
        if (place := kernel_cache.folder()) is not None:
            with contextlib.suppress(RuntimeError), _cache_folder(place):  # a full disk: no cache
                self._user = caching.FunctionCache(function)
                self._user._cache_file.__class__ = CheckedFiles
        self.load_overload = self._user.load_overload
        self.save_overload = self._user.save_overload
        self.cache_path, self.flush = self._user.cache_path, self._user.flush


def dispatcher(function: Callable[..., Any]) -> Any:
    """The function as Numba compiles it: without the GIL, cached on disk."""
    compiled = numba.njit(nogil=True, _nrt=False)(function)
    compiled._cache = _KernelCache(function)
    return compiled


def _link() -> None:
    """Tell Numba what each helper and each instruction is that was defined since the last time."""
    while _Known.helpers:
        function, options = _Known.helpers.pop()
        compiled = numba.njit(_nrt=False, **options)(function)
        _Known.alive.append(compiled)
        function._numba_type_ = compiled._numba_type_  # type: ignore[attr-defined]
    while _Known.instructions:
        function, module = _Known.instructions.pop()
        intrinsic = getattr(importlib.import_module(module), function.__name__)
        cpu_target.typing_context.refresh()
        kind = cpu_target.typing_context.resolve_value_type(intrinsic)
        function._numba_type_ = kind  # type: ignore[attr-defined]


def _ours(event: event.Event) -> bool:
    name = getattr(event.data.get("dispatcher"), "__module__", "") or ""
    return name.partition(".")[0] in kernel_cache.packages


class _Announcer(event.Listener):
    """Prints one line when the first kernel is compiled; kernels from the disk cache print none.

    Tells the listener of `kernel_cache` when compiling begins and when it ends.
    """

    def __init__(self) -> None:
        self.said = False
        self.inside = 0  # a kernel that is compiled compiles its helpers

    def on_start(self, event: event.Event) -> None:
        if not _ours(event):
            return
        _link()
        self.inside += 1
        if not self.said:
            self.said = True
            place = kernel_cache.folder()
            storage = "not kept" if place is None else f"once; kept in {place}"
            _say(f"compiling kernels for this machine ({storage})")
        if self.inside == 1:
            kernel_cache.tell("compiling kernels; this takes 5 to 45 s once for each method")

    def on_end(self, event: event.Event) -> None:
        if _ours(event):
            self.inside -= 1
            if self.inside == 0:
                kernel_cache.tell("")


event.register("numba:compile", _Announcer())
