"""Cells for the tests of `nelson.cluster.bench`: what `nelson.experiments` takes under the name
"cluster_cells:EXPERIMENT".
"""

from __future__ import annotations

import os
import signal
import time
from types import SimpleNamespace
from typing import Any

NAME = "cluster_cells:EXPERIMENT"


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
