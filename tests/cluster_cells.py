"""Cells for the tests of `nelson.cluster.bench`, and a stand-in for what runs them.

`EXPERIMENT` is what `nelson.experiments` takes under the name "cluster_cells:EXPERIMENT". Where
that package is not there, `Cell` and `Worker` stand for it: a process a cell, killed when its time
is over or when it holds too much memory.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

NAME = "cluster_cells:EXPERIMENT"


@dataclass(frozen=True)
class Cell:
    key: Mapping[str, Any]
    seconds: float
    memory: int = 1 << 30
    experiment: str = ""


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


class Worker:
    """The interface of `nelson.experiments.child.Worker`."""

    def run(self, cell: Cell) -> list[dict[str, Any]]:
        head = {"experiment": cell.experiment, **cell.key}
        code = (
            "import cluster_cells as c, json;"
            f"print(json.dumps(c.run(c.Cell({dict(cell.key)!r}, {cell.seconds}))))"
        )
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)
        }
        child = subprocess.Popen(
            [sys.executable, "-c", code],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        )
        started, status = time.monotonic(), ""
        while child.poll() is None and not status:
            time.sleep(0.02)
            if time.monotonic() - started > cell.seconds:
                status = "T.O."
            elif _resident(child.pid) > cell.memory:
                status = "out of memory"
        if status:
            child.kill()
        out, errors = child.communicate()
        if not status and child.returncode:
            status = f"failed: {errors.decode().splitlines()[-1]}"
        took = {"cell_seconds": time.monotonic() - started}
        if status:
            return [{**head, "status": status, **took}]
        return [{**head, "status": "ok", **row, **took} for row in json.loads(out)]

    def end(self) -> None:
        pass


def _resident(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
