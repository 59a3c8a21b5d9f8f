"""Every table and figure of the paper, and what it does not show, as commands: `nelson bench`.

    names()                    what there is
    get("table1")              the `Experiment`
    run_cell("table1", key)    the rows of one cell, here and now: for a child process or a Ray task

One experiment = one file and one registry line. A name with a colon, `module:ATTRIBUTE`, is taken
from any importable module: an experiment of your own needs no registry line.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from nelson.errors import FormulaError

if TYPE_CHECKING:
    from nelson.experiments.base import Experiment

_REGISTRY = {
    "table1": "nelson.experiments.table1",
    "table2": "nelson.experiments.table2",
    "table3": "nelson.experiments.table3",
    "uniform": "nelson.experiments.uniform",
    "weighted": "nelson.experiments.weighted",
    "rounds": "nelson.experiments.rounds",
    "routes": "nelson.experiments.routes",
    "bias": "nelson.experiments.bias",
}


def names() -> list[str]:
    """All registered experiments, in the order of `nelson bench all`."""
    return list(_REGISTRY)


def get(name: str) -> Experiment:
    """The `Experiment` of that name."""
    if name in _REGISTRY:
        return import_module(_REGISTRY[name]).EXPERIMENT
    module, colon, attribute = name.partition(":")
    if not (colon and module and attribute):
        raise FormulaError(
            f"no experiment {name!r}", expected="one of " + ", ".join(names()) + " or all"
        )
    return getattr(import_module(module), attribute)


def run_cell(name: str, key: Mapping[str, Any], seconds: float = math.inf) -> list[dict[str, Any]]:
    """The rows of one cell, run in this process: the key's fields, its own, status, cell_seconds.

    seconds: what the cell is told of its limit; `child.limited` enforces it, nothing here does.
    """
    from nelson.experiments.base import OK, Cell, plain_row

    started = time.perf_counter()
    rows = get(name).run(Cell(key, seconds, experiment=name))
    took = time.perf_counter() - started
    head = {"experiment": name, **key, "status": OK}
    return [{**head, **plain_row(row), "cell_seconds": took} for row in rows]
