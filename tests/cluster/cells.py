"""What the workers of the tests of `nelson.cluster` import: a store that kills those who write to
it, and cells for `nelson_paper.experiments.ray_executor`, which takes them under the name
"tests.cluster.cells:EXPERIMENT".
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from nelson.cluster.job_files import LocalFiles, Sink

NAME = "tests.cluster.cells:EXPERIMENT"


def run(cell: Any) -> list[dict[str, Any]]:
    what = cell.key["what"]
    if what == "hang":
        time.sleep(600)
    if what == "hog":
        hog = []
        while True:
            hog.append(bytearray(b"x") * (16 << 20))
            time.sleep(0.02)
    if what == "raise":
        raise ValueError("this cell raises")
    if what == "shoot":  # the Ray worker, whose child this is: as if its machine went away
        os.kill(os.getppid(), signal.SIGKILL)
        os._exit(1)
    return [{"square": cell.key["x"] ** 2}]


EXPERIMENT = SimpleNamespace(run=run)


class Deadly(LocalFiles):
    """Kills the process that writes to one of `names`, in the middle of it; once for each name.

    Who died is in the folder `graves`: a file for each name, that holds the process id.
    """

    def __init__(self, folder: Any, graves: Any, names: list[str]) -> None:
        super().__init__(folder)
        self.graves, self.names = os.fspath(graves), names

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[Sink]:
        grave = os.path.join(self.graves, name)
        with super().writing(name) as sink:
            yield _Fatal(sink, grave) if name in self.names and not os.path.exists(grave) else sink


class _Fatal:
    """A sink: the first write of more than a few bytes is the last thing the process does."""

    def __init__(self, sink: Sink, grave: str) -> None:
        self._sink, self._grave = sink, grave

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sink, name)

    def write(self, data: Any) -> int:
        written = self._sink.write(data)
        if written > 1000:
            with open(self._grave, "x") as file:
                file.write(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)
        return written
