"""Find an experiment by its name, and run one of its cells."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from nelson.errors import FormulaError
from nelson_paper.experiments import originals
from nelson_paper.experiments.base import OK, Cell, Experiment, plain_row

#: Name -> module, imported when the experiment is first used.
_REGISTRY = {
    "table1": "nelson_paper.experiments.table1",
    "table2": "nelson_paper.experiments.table2",
    "table3": "nelson_paper.experiments.table3",
    "uniform": "nelson_paper.experiments.uniform",
    "weighted": "nelson_paper.experiments.weighted",
    "rounds": "nelson_paper.experiments.rounds",
    "routes": "nelson_paper.experiments.routes",
    "bias": "nelson_paper.experiments.bias",
}


def names() -> list[str]:
    """All registered experiments, in the order of `nelson bench all`."""
    return list(_REGISTRY)


def get(name: str) -> Experiment:
    """The `Experiment` with this name, or the one that `module:ATTRIBUTE` names."""
    if name in _REGISTRY:
        return import_module(_REGISTRY[name]).EXPERIMENT
    module, colon, attribute = name.partition(":")
    if not (colon and module and attribute):
        raise FormulaError(
            f"no experiment {name!r}", expected="one of " + ", ".join(names()) + " or all"
        )
    return getattr(import_module(module), attribute)


def run_cell(name: str, key: Mapping[str, Any], seconds: float = math.inf) -> list[dict[str, Any]]:
    """Run one cell in this process. Each row gets the fields of the key, status and cell_seconds.

    The cell is told its time limit, `seconds`, but only `child_process.limited` enforces it.
    """
    started = time.perf_counter()
    cell = Cell(key, seconds, experiment=name)
    rows = get(name).run(cell)
    took = time.perf_counter() - started
    head = {**cell.head(), "status": OK}
    if program := originals.find(str(key.get("sampler"))):
        head["original"] = program
    return [{**head, **plain_row(row), "cell_seconds": took} for row in rows]
