"""Where the files of a job lie: a folder on this machine, or a URI that fsspec opens (s3://, ...).

A file appears under its name only when it is complete: a local one gets its name at the end
(`io/atomic.py`), and an object store shows an object only after its upload has ended. fsspec needs
a package for each kind of store: s3fs for s3://, gcsfs for gs://, adlfs for abfs://. Credentials
and endpoints come from where these look for them (AWS_ENDPOINT_URL, ~/.aws, ...).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar
from urllib.parse import unquote, urlparse

from nelson.errors import NelsonError
from nelson.io import atomic

T = TypeVar("T")
_AN_ERROR = object()


class StoreError(NelsonError, OSError):
    """A store does not answer, or refuses. Ray runs a task that raises OSError again."""


class Store:
    """The files of one job. Small, and can be pickled: every worker opens the store by itself."""

    #: Seconds in which a remote store must answer for the first time, and in which one part, or
    #: the listing, must travel later.
    first_answer, transfer = 60.0, 900.0

    def __init__(self, where: str | os.PathLike[str]) -> None:
        name = os.fspath(where)
        if name.startswith("file://"):
            name = unquote(urlparse(name).path)
        self.remote = "://" in name
        self.uri = name.rstrip("/") if self.remote else os.path.abspath(name)
        self._answered = False

    def __str__(self) -> str:
        return self.uri

    def sizes(self) -> dict[str, int]:
        """The names and bytes of all complete files, from one listing."""
        if not self.remote:
            if not os.path.isdir(self.uri):
                return {}
            with os.scandir(self.uri) as items:
                files = (item for item in items if not item.name.startswith(atomic.PREFIX))
                return {item.name: item.stat().st_size for item in files if item.is_file()}

        def listed(fs: Any, path: str) -> list[dict[str, Any]]:
            fs.invalidate_cache()
            return list(fs.ls(path, detail=True))

        entries = [item for item in self._remote(listed, absent=[]) if item["type"] == "file"]
        return {str(item["name"]).rpartition("/")[2]: int(item["size"] or 0) for item in entries}

    def read(self, name: str) -> bytes | None:
        """The bytes of a file; None: there is none."""
        if self.remote:
            return self._remote(lambda fs, path: fs.cat_file(f"{path}/{name}"), absent=None)
        try:
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

        return self._remote(put)

    def write(self, name: str, data: bytes) -> None:
        """Write a file, or replace it."""
        if self.remote:
            self._remote(lambda fs, path: fs.pipe_file(f"{path}/{name}", data))
            return
        while not atomic.create(os.path.join(self.uri, name), data):
            self.remove(name)

    def remove(self, name: str) -> None:
        if self.remote:
            self._remote(lambda fs, path: fs.rm_file(f"{path}/{name}"))
        else:
            os.unlink(os.path.join(self.uri, name))

    def _remote(self, call: Callable[[Any, str], T], absent: Any = _AN_ERROR) -> T:
        """call(file system, path); absent: the result if it finds no file. It runs in a thread, so
        that Ctrl-C and SIGTERM are obeyed while a library waits for a network without an answer.
        """
        answer: Future[T] = Future()

        def run() -> None:
            try:
                import fsspec

                answer.set_result(call(*fsspec.core.url_to_fs(self.uri)))
            except BaseException as error:
                if isinstance(error, FileNotFoundError) and absent is not _AN_ERROR:
                    answer.set_result(absent)
                else:
                    answer.set_exception(error)

        threading.Thread(target=run, daemon=True, name=f"nelson {self.uri}").start()
        seconds = self.transfer if self._answered else self.first_answer
        try:
            value = answer.result(seconds)
        except TimeoutError:
            raise StoreError(f"{self.uri}: no answer within {seconds:.0f} s") from None
        except (ImportError, ValueError) as error:
            raise NelsonError(f"{self.uri}: cannot be opened: {error}") from None
        except Exception as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise StoreError(f"{self.uri}: {reason}") from None
        self._answered = True
        return value
