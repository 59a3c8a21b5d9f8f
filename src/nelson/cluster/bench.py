"""Sweeps on Ray: an executor for `nelson.experiments.runner`, whose cells are Ray tasks.

    runner.run(["table1"], "folder", executor=bench.executor)
    runner.run(["table1"], "folder", executor=partial(bench.executor, address="host:6379"))

Each task hands its cell to a process of its own, under the limits `cell.seconds` and `cell.memory`:
a cell that exceeds them is killed with all that it started, has one row whose status says so
("T.O.", "out of memory"), and the sweep goes on. Ray schedules by cores and by the memory that
cells may take. A task whose machine goes away is run again elsewhere; in the end it has a row that
says that it was lost.

Cells that run side by side share a machine's memory bandwidth: times are those of a busy machine.
"""

from __future__ import annotations

import atexit
from collections.abc import Iterable, Iterator
from typing import Any

from nelson.cluster import engine

#: Times that a cell is run again if its machine goes away.
RETRIES = 2

Rows = list[dict[str, Any]]


def executor(
    cells: Iterable[Any], *, address: str | None = None, workers: int | None = None
) -> Iterator[tuple[Any, Rows]]:
    """Run cells on a Ray cluster (None: one of our own); yields (cell, rows) as they end.

    A cell is taken from `cells` when there is a core for it.
    """
    with engine.cluster(address, workers) as ray:
        tasks = engine.Tasks(ray, workers, retries=RETRIES)
        most = max((node["Resources"].get("memory", 0.0) for node in ray.nodes()), default=0.0)

        def memory(cell: Any) -> dict[str, Any]:
            asked = getattr(cell, "memory", 0)
            return {"memory": int(min(asked, most))} if asked and most else {}

        yield from tasks.results(run_cell, None, cells, ahead=1, lost=_lost, options=memory)


_workers: list[Any] = []  # of this process: one, once there is a cell


def run_cell(_: None, cell: Any) -> tuple[Any, Rows]:
    """In a Ray worker: one process that runs cells, for all that come here."""
    if not _workers:
        from nelson.experiments.child_process import Worker

        _workers.append(Worker())
        atexit.register(_workers[0].end)
    return cell, _workers[0].run(cell)


def _lost(cell: Any, why: str) -> tuple[Any, Rows]:
    head = {"experiment": getattr(cell, "experiment", ""), **cell.key}
    return cell, [{**head, "status": f"failed: {why}", "cell_seconds": None}]
