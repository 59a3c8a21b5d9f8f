"""Where the files of a job lie: a folder on this machine, or a URI that fsspec opens (s3://, ...).

A file appears under its name only when it is complete: a local one gets its name at the end
(`io/atomic.py`), and an object store shows an object only after its upload has ended.

fsspec needs a package for each kind of store: s3fs for s3://, gcsfs for gs://, adlfs for abfs://.
Credentials and endpoints come from where these look for them (AWS_ENDPOINT_URL, ~/.aws, ...).
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import unquote, urlparse

from nelson.errors import NelsonError
from nelson.io import atomic

T = TypeVar("T")


class StoreError(NelsonError, OSError):
    """A store does not answer, or refuses. Ray runs a task that raises OSError again."""


class Store:
    """The files of one job. Small, and can be pickled: every worker opens the store by itself."""

    #: Seconds in which a remote store must answer for the first time, and in which one part, or
    #: the listing, must travel.
    first_answer, transfer = 60.0, 900.0

    def __init__(self, where: str | os.PathLike[str]) -> None:
        name = os.fspath(where)
        if name.startswith("file://"):
            name = unquote(urlparse(name).path)
        self.remote = "://" in name
        self.uri = name.rstrip("/") if self.remote else os.path.abspath(name)

    def __str__(self) -> str:
        return self.uri

    def filesystem(self) -> tuple[Any, str]:
        """What pyarrow takes: an fsspec file system, and the path of the folder in it."""
        try:
            import fsspec

            fs, path = fsspec.core.url_to_fs(self.uri)
        except (ImportError, ValueError) as error:
            raise NelsonError(f"{self.uri}: cannot be opened: {error}") from None
        return fs, str(path)

    def sizes(self) -> dict[str, int]:
        """The names and bytes of all complete files, from one listing."""
        if not self.remote:
            try:
                with os.scandir(self.uri) as items:
                    files = (item for item in items if not item.name.startswith(atomic.PREFIX))
                    return {item.name: item.stat().st_size for item in files if item.is_file()}
            except FileNotFoundError:
                return {}
            except NotADirectoryError:
                raise NelsonError(f"{self.uri} is a file; expected a folder") from None

        def listed(fs: Any, path: str) -> list[dict[str, Any]]:
            fs.invalidate_cache()
            try:
                return list(fs.ls(path, detail=True))
            except FileNotFoundError:
                return []

        found = self._remote(self.transfer, listed)
        return {
            str(item["name"]).rpartition("/")[2]: int(item["size"] or 0)
            for item in found
            if item["type"] == "file"
        }

    def read(self, name: str, first: bool = False) -> bytes | None:
        """The bytes of a file; None: there is none. first: nothing is known of the store yet."""
        try:
            if self.remote:
                seconds = self.first_answer if first else self.transfer
                return self._remote(seconds, lambda fs, path: bytes(fs.cat_file(f"{path}/{name}")))
            with open(os.path.join(self.uri, name), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None
        except NotADirectoryError:
            raise NelsonError(f"{self.uri} is a file; expected a folder") from None

    def begin(self, name: str, data: bytes) -> bool:
        """Make the folder and its first file; False: the file was there, and stays.

        Of two processes that begin at once, one gets False. A remote store must know conditional
        writes, as S3, Google and Azure do.
        """
        if not self.remote:
            os.makedirs(self.uri, exist_ok=True)
            return atomic.create(os.path.join(self.uri, name), data)

        def put(fs: Any, path: str) -> bool:
            try:
                fs.pipe_file(f"{path}/{name}", data, mode="create")
            except FileExistsError:
                return False
            return bytes(fs.cat_file(f"{path}/{name}")) == data  # not every store keeps its word

        return self._remote(self.first_answer, put)

    def write(self, name: str, data: bytes | memoryview) -> None:
        """Write a file, or replace it."""
        if self.remote:
            self._remote(
                self.transfer, lambda fs, path: fs.pipe_file(f"{path}/{name}", bytes(data))
            )
            return
        path = os.path.join(self.uri, name)
        while not atomic.create(path, data):
            os.unlink(path)

    def remove(self, name: str) -> None:
        """Remove a file that is there."""
        if self.remote:
            self._remote(self.transfer, lambda fs, path: fs.rm_file(f"{path}/{name}"))
        else:
            os.unlink(os.path.join(self.uri, name))

    def _remote(self, seconds: float, call: Callable[[Any, str], T]) -> T:
        """call(file system, path), for at most that long. It runs in a thread, so that Ctrl-C and
        SIGTERM are obeyed while a library waits for a network that does not answer.
        """
        answer: queue.Queue[tuple[bool, Any]] = queue.Queue()

        def run() -> None:
            try:
                answer.put((True, call(*self.filesystem())))
            except BaseException as error:
                answer.put((False, error))

        threading.Thread(target=run, daemon=True, name=f"nelson {self.uri}").start()
        try:
            good, value = answer.get(timeout=seconds)
        except queue.Empty:
            raise StoreError(f"{self.uri}: no answer within {seconds:.0f} s") from None
        if good:
            return value
        if isinstance(value, (FileNotFoundError, NelsonError)):
            raise value
        reason = " ".join(str(value).split()) or type(value).__name__
        raise StoreError(f"{self.uri}: {reason}") from None
