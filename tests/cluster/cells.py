"""What the workers of the tests of `nelson.cluster` import: a store that kills those who write to
it, and cells for `nelson_paper.experiments.ray_executor`, which takes them under the name
"tests.cluster.cells:EXPERIMENT".
"""

from __future__ import annotations

import os
import signal
import time
from types import SimpleNamespace
from typing import Any

from nelson.cluster.store import Store

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


class Deadly(Store):
    """Kills the process that writes one of `names`, before the file is there; once for each name.

    Who died is in the folder `graves`: a file for each name, that holds the process id.
    """

    def __init__(self, folder: Any, graves: Any, names: list[str]) -> None:
        super().__init__(folder)
        self.graves, self.names = os.fspath(graves), names

    def write(self, name: str, data: bytes) -> None:
        grave = os.path.join(self.graves, name)
        if name in self.names and not os.path.exists(grave):
            with open(grave, "x") as file:
                file.write(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)
        super().write(name, data)
