"""Experiments on Ray: an executor for `nelson_paper.experiments.runner` whose cells are Ray tasks.

    runner.run(["table1"], "folder", executor=executor)        # on the cluster of this machine
    runner.run(["table1"], "folder", executor=partial(executor, address="host:6379"))

Each Ray worker runs its cells in a child process, under the limits `cell.seconds` and
`cell.memory`. A cell that exceeds a limit is killed with all processes that it started; its one row
has the status "T.O." or "out of memory", and the other cells are run. Ray schedules by cores and by
the memory limits of the cells. A task whose machine goes away is run again elsewhere; after
`RETRIES` times its row says that it was lost.

Cells that run side by side share a machine's memory bandwidth, so they take longer than alone.
"""

from __future__ import annotations

import atexit
from collections.abc import Iterable, Iterator
from typing import Any

from nelson.cluster import ray_cluster
from nelson_paper.experiments.child_process import Worker

#: How often a cell is run again after its machine went away.
RETRIES = 2

Rows = list[dict[str, Any]]


def executor(
    cells: Iterable[Any], *, address: str = "auto", workers: int | None = None
) -> Iterator[tuple[Any, Rows]]:
    """Run cells on a Ray cluster ("auto": of this machine); yields (cell, rows) as they end.

    A cell is taken from `cells` when Ray may have it: it runs, or waits for a core.
    """
    with ray_cluster.connected(address) as ray:
        largest = max((node["Resources"].get("memory", 0.0) for node in ray.nodes()), default=0.0)

        def memory(cell: Any) -> dict[str, Any]:
            limit = getattr(cell, "memory", 0)
            return {"memory": int(min(limit, largest))} if limit and largest else {}

        how: dict[str, Any] = {"workers": workers, "retries": RETRIES, "options": memory}
        for cell, rows in ray_cluster.results(address, run_cell, None, cells, **how):
            yield cell, _lost(cell, rows) if isinstance(rows, Exception) else rows


_child: list[Any] = []  # the child process of this Ray worker; started with its first cell


def run_cell(_: None, cell: Any) -> Rows:
    """In a Ray worker: run a cell in the worker's child process."""
    if not _child:
        _child.append(Worker())
        atexit.register(_child[0].end)
    rows: Rows = _child[0].run(cell)
    return rows


def _lost(cell: Any, error: Exception) -> Rows:
    head = {"experiment": getattr(cell, "experiment", ""), **cell.key}
    why = f"{type(error).__name__}: {error}"
    return [{**head, "status": f"failed: {why}", "cell_seconds": None}]
