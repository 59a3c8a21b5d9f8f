"""Where the files of a job lie: a folder on this machine, or a URI that pyarrow opens (s3://, ...).

A file appears under its name only when it is complete. A local file is written under another name,
flushed to the disk, and renamed. An object store shows an object only after its upload has ended.
Moreover a part counts only together with its manifest, which is written after it.

Tested with local folders, and the remote code with pyarrow's own local file system. It was never
run against an object store.
"""

from __future__ import annotations

import contextlib
import io
import os
import zlib
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urlparse

from nelson.errors import NelsonError
from nelson.io import atomic


class Sink(io.RawIOBase):
    """A binary file that counts its bytes and computes their CRC-32.

    `close` leaves the file below open: only `writing` knows whether its content is complete.
    """

    def __init__(self, out: Any) -> None:
        self._out = out
        self.bytes = 0
        self.crc32 = 0

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self._out.write(view)
        self.crc32 = zlib.crc32(view, self.crc32)
        self.bytes += len(view)
        return len(view)

    def tell(self) -> int:
        return self.bytes

    def writable(self) -> bool:
        return True


class JobFiles:
    """The files of one job, at a URI. Can be pickled: every worker gets a copy.

    filesystem, path: follow from the URI by default.
    """

    def __init__(self, uri: str, filesystem: Any = None, path: str = "") -> None:
        self.uri = uri.rstrip("/")
        if filesystem is None:
            from pyarrow import fs

            try:
                filesystem, path = fs.FileSystem.from_uri(self.uri)
            except Exception as error:  # pyarrow raises several kinds
                raise NelsonError(f"{uri}: cannot be opened: {error}") from None
        self.filesystem, self.path = filesystem, path.rstrip("/")

    def __str__(self) -> str:
        return self.uri

    def make(self) -> None:
        """Make the folder."""
        self.filesystem.create_dir(self.path, recursive=True)

    def sizes(self) -> dict[str, int]:
        """Every complete file and its bytes."""
        from pyarrow import fs

        items = self.filesystem.get_file_info(fs.FileSelector(self.path, allow_not_found=True))
        return {item.base_name: item.size for item in items if item.type == fs.FileType.File}

    def open(self, name: str) -> Any:
        return self.filesystem.open_input_file(f"{self.path}/{name}")

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[Sink]:
        """A file that appears under its name when the block ends without an error."""
        out = self.filesystem.open_output_stream(f"{self.path}/{name}")
        try:
            yield Sink(out)
        except BaseException:
            with contextlib.suppress(Exception):  # pyarrow cannot abort an upload, only end it
                out.close()
                self.filesystem.delete_file(f"{self.path}/{name}")
            raise
        out.close()

    def tidy(self) -> None:
        """Remove unfinished files of writers that died; in an object store there are none."""


class LocalFiles(JobFiles):
    """A folder on this machine."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        from pyarrow import fs

        path = os.path.abspath(os.fspath(folder))
        super().__init__(path, fs.LocalFileSystem(), path)

    def make(self) -> None:
        if os.path.exists(self.path) and not os.path.isdir(self.path):
            raise NelsonError(f"{self.path} is a file; expected a folder")
        super().make()

    def sizes(self) -> dict[str, int]:
        if not os.path.isdir(self.path):
            return {}
        return {n: size for n, size in super().sizes().items() if not n.startswith(atomic.PREFIX)}

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[Sink]:
        path = os.path.join(self.path, name)
        with atomic.writing(path, sync=True, buffering=0) as out:
            yield Sink(_FlushedEarly(out))

    def tidy(self) -> None:
        atomic.tidy(self.path)


class _FlushedEarly:
    """A raw file whose pages go to the disk while the next samples are drawn.

    Otherwise the worker would wait for all of them in the final fsync.
    """

    def __init__(self, out: Any, piece: int = 4 << 20) -> None:
        self._out, self._piece = out, piece  # the disk gets pieces of this many bytes
        self._written = self._flushed = 0

    def write(self, data: memoryview) -> None:
        while len(data):  # a raw file may take only a part
            taken = self._out.write(data)
            data, self._written = data[taken:], self._written + taken
        size = self._written - self._flushed
        if size >= self._piece and hasattr(os, "posix_fadvise"):
            with contextlib.suppress(OSError):  # "not needed soon": Linux starts to write them
                os.posix_fadvise(self._out.fileno(), self._flushed, size, os.POSIX_FADV_DONTNEED)
            self._flushed = self._written


def files_at(out: str | os.PathLike[str]) -> JobFiles:
    """The files at a path or URI."""
    name = os.fspath(out)
    if name.startswith("file://"):
        return LocalFiles(unquote(urlparse(name).path))
    return JobFiles(name) if "://" in name else LocalFiles(name)
