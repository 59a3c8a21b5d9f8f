"""Where the files of a job lie: a folder of this machine, or a URI that pyarrow knows (s3://, ...).

A name appears only when its content is complete. In a local folder: temporary file, fsync, rename,
fsync of the folder. In an object store: an upload that was not ended leaves no object, and ending
it is the rename. Besides, a part counts only if its manifest is there, which is written after it.

Tested: local folders; the remote code against pyarrow's own local file system. No object store was
at hand.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from nelson.errors import NelsonError

_TEMPORARY = ".tmp-"
#: Bytes after which what was written is sent to the disk.
_AHEAD = 4 << 20


class Store(Protocol):
    """Can be pickled: workers get a copy."""

    def __str__(self) -> str: ...
    def sizes(self) -> dict[str, int]: ...
    def open(self, name: str) -> Any: ...
    def writing(self, name: str) -> contextlib.AbstractContextManager[Sink]: ...
    def make(self) -> None: ...
    def tidy(self) -> None: ...
    def arrow(self) -> tuple[Any, str]: ...


class Sink:
    """A binary file that counts and sums what it is given."""

    def __init__(self, out: Any) -> None:
        self._out = out
        self.bytes = 0
        self.crc32 = 0
        self.closed = False

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self._out.write(view)
        self.crc32 = zlib.crc32(view, self.crc32)
        self.bytes += len(view)
        return len(view)

    def tell(self) -> int:
        return self.bytes

    def flush(self) -> None:
        pass

    def close(self) -> None:
        """The file ends when its content is known to be whole, not when a writer is done."""

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False


class Local:
    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = os.path.abspath(os.fspath(folder))

    def __str__(self) -> str:
        return self.folder

    def make(self) -> None:
        if os.path.exists(self.folder) and not os.path.isdir(self.folder):
            raise NelsonError(f"{self.folder} is a file; expected a folder")
        os.makedirs(self.folder, exist_ok=True)

    def sizes(self) -> dict[str, int]:
        """Every file and its bytes; temporary ones are not files yet."""
        if not os.path.isdir(self.folder):
            return {}
        found = {}
        for item in os.scandir(self.folder):
            with contextlib.suppress(FileNotFoundError):
                if item.is_file() and not item.name.startswith(_TEMPORARY):
                    found[item.name] = item.stat().st_size
        return found

    def open(self, name: str) -> Any:
        return open(os.path.join(self.folder, name), "rb")

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[Sink]:
        handle, scratch = tempfile.mkstemp(prefix=_TEMPORARY, dir=self.folder)
        try:
            with os.fdopen(handle, "wb", buffering=0) as out:
                yield Sink(_Unbuffered(out))
                os.fsync(out.fileno())
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(scratch, 0o666 & ~umask)
            os.replace(scratch, os.path.join(self.folder, name))
            self._sync_folder()
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(scratch)
            raise

    def _sync_folder(self) -> None:
        """The rename itself must outlive a power cut. Not every system lets a folder be opened."""
        with contextlib.suppress(OSError):
            handle = os.open(self.folder, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    def tidy(self) -> None:
        """Remove what writers that died left behind."""
        for path in Path(self.folder).glob(f"{_TEMPORARY}*"):
            with contextlib.suppress(OSError):
                path.unlink()

    def arrow(self) -> tuple[Any, str]:
        from pyarrow import fs

        return fs.LocalFileSystem(), self.folder


class _Unbuffered:
    """A raw file, whose pages go to the disk while the next samples are drawn.

    Else they would wait for the fsync, and the worker for them.
    """

    def __init__(self, out: Any) -> None:
        self._out = out
        self._sent = self._there = 0

    def write(self, data: memoryview) -> None:
        while len(data):  # a raw file may take only a part
            taken = self._out.write(data)
            data, self._there = data[taken:], self._there + taken
        if self._there - self._sent >= _AHEAD and hasattr(os, "posix_fadvise"):
            size = self._there - self._sent
            with contextlib.suppress(OSError):  # "not needed soon": Linux begins to write them
                os.posix_fadvise(self._out.fileno(), self._sent, size, os.POSIX_FADV_DONTNEED)
            self._sent = self._there


class Remote:
    """A folder of a pyarrow file system.

    (`filesystem` is for tests; by default it follows from the URI.)
    """

    def __init__(self, uri: str, filesystem: Any = None, path: str = "") -> None:
        self.uri = uri.rstrip("/")
        if filesystem is None:
            from pyarrow import fs

            try:
                filesystem, path = fs.FileSystem.from_uri(self.uri)
            except Exception as error:  # pyarrow raises several kinds
                raise NelsonError(f"{uri}: cannot be opened: {error}") from None
        self._fs, self._path = filesystem, path.rstrip("/")

    def __str__(self) -> str:
        return self.uri

    def make(self) -> None:
        self._fs.create_dir(self._path, recursive=True)

    def sizes(self) -> dict[str, int]:
        from pyarrow import fs

        chosen = fs.FileSelector(self._path, allow_not_found=True)
        found = self._fs.get_file_info(chosen)
        return {item.base_name: item.size for item in found if item.type == fs.FileType.File}

    def open(self, name: str) -> Any:
        return self._fs.open_input_file(f"{self._path}/{name}")

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[Sink]:
        out = self._fs.open_output_stream(f"{self._path}/{name}")
        try:
            yield Sink(out)
        except BaseException:
            with contextlib.suppress(Exception):  # pyarrow cannot drop an upload, only end it
                out.close()
                self._fs.delete_file(f"{self._path}/{name}")
            raise
        out.close()

    def tidy(self) -> None:
        pass

    def arrow(self) -> tuple[Any, str]:
        return self._fs, self._path


def store(out: str | os.PathLike[str]) -> Store:
    """The store that a path or URI names."""
    name = os.fspath(out)
    if name.startswith("file://"):
        from urllib.parse import unquote, urlparse

        return Local(unquote(urlparse(name).path))
    if "://" in name:
        return Remote(name)
    return Local(name)
