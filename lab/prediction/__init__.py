"""Tasks with published figures: hierarchies, grid paths, sushi. `python -m lab prediction`

One cell trains one network with one method and one seed. `--full` takes ten seeds and 150 epochs,
the quick run three seeds and 30 (small tasks: 300 and 100). `--only task=cellcycle --only seed=0`
chooses cells.
"""

from __future__ import annotations

import os
from typing import Any

from lab.prediction import hierarchies, small
from lab.prediction.tables import plots, tables
from lab.prediction.tasks import Task
from nelson_paper.experiments.base import Cell, Experiment, Row

SEEDS, FULL_SECONDS = (3, 10), (1800.0, 14_400.0)
EPOCHS = (30, 150)
#: The small tasks have few steps in an epoch.
SMALL_EPOCHS = (100, 300)
#: Sets of the quick run; the others take hours.
QUICK = ("imclef07d", "enron", "cellcycle", "imclef07a", "diatoms", small.PATHS, small.SUSHI)
METHODS = ("network", "likelihood", "mixture", "max-constraint", "semantic loss", "contrastive")


def load(folder: str, name: str, seed: int) -> Task:
    if name == small.PATHS:
        return small.paths(folder, seed)
    if name == small.SUSHI:
        return small.sushi(folder, seed)
    return hierarchies.load(folder, name, seed)


def cells(full: bool, data: str) -> list[Cell]:
    names = (*hierarchies.NAMES, small.PATHS, small.SUSHI) if full else QUICK
    planned = []
    for seed in range(SEEDS[full]):
        for name in names:
            for method in METHODS:
                if method == "max-constraint" and name in (small.PATHS, small.SUSHI):
                    continue  # a layer for hierarchies alone
                key: dict[str, Any] = {"task": name, "method": method, "seed": seed}
                epochs = (SMALL_EPOCHS if name in (small.PATHS, small.SUSHI) else EPOCHS)[full]
                key |= {"epochs": epochs, "data": os.path.abspath(data)}
                planned.append(Cell(key, FULL_SECONDS[full]))
    return planned


def run(cell: Cell) -> list[Row]:
    import torch

    from lab.prediction.methods import method
    from lab.prediction.training import train

    torch.set_num_threads(1)
    key = dict(cell.key)
    task = load(key["data"], key["task"], key["seed"])
    rows = train(task, method(key["method"], task), key["seed"], key["epochs"])
    sizes = {"labels": task.outputs, "train": len(task.train.x), "rows": len(task.test.x)}
    return [{**row, **sizes} for row in rows]


EXPERIMENT = Experiment(
    name="prediction",
    title="Structured prediction, side by side",
    reproduces="ours: hierarchies, grid paths and rankings beside published figures (--data)",
    cells=cells,
    run=run,
    tables=tables,
    plots=plots,
    from_data=True,
)
