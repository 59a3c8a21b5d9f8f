"""Table 3: sink-free orientations of Erdos-Renyi graphs, p = 0.55; n counts vertices.

(a) time of an epoch, (b) share of valid orientations that the learned model generates, (c) L1 error
of grad log Z from m = 2000 samples, (d) MAP@10.

The formula is extremal, so Theorem 1 holds: plain resampling is exact. 200 examples are drawn from
a planted theta* ~ N(0, 1). A minibatch has 200 examples, so an epoch is one iteration of Algorithm
2 (`learning.py` says what is timed). In (c) the exact E_theta[x] is computed by inclusion and
exclusion over sets of vertices (`law.py`), which is possible for graphs with 40 edges too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from nelson.experiments import published, show
from nelson.experiments.base import ALLOWANCE, Cell, Experiment, Row, Rows, Table
from nelson.experiments.learning import Fitted, learn_row
from nelson.experiments.samplers import OURS, PEERS, get
from nelson.experiments.table1 import (
    GRADIENT_FORMULAS,
    QUICK_GRADIENT_LIMIT,
    QUICK_LOOP,
    gradient_plot,
    gradient_rows,
    gradient_table,
    time_plot,
    time_tables,
    validity_table,
)
from nelson.formula import Formula
from nelson.learning.metrics import map_at_10
from nelson.tasks.orientations.task import Orientations

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZES = (7, 8, 9, 10, 11, 20, 30, 40, 50)
QUICK_SIZES = (7, 10, 30, 50)
GRADIENT_SIZES = (5, 7, 9, 11, 13)
QUICK_GRADIENT_SIZES = (5, 9, 13)
#: Seconds until the first iteration must be done.
QUICK_LIMIT = 3.0


def cells(full: bool) -> list[Cell]:
    limit = published.LIMIT if full else QUICK_LIMIT
    loop = limit if full else QUICK_LOOP
    count = GRADIENT_FORMULAS
    keys: list[dict[str, str | float]] = [
        {"part": "learn", "sampler": entry.name, "n": n, "seed": seed, "limit": limit, "loop": loop}
        for seed in range(published.FORMULAS if full else 1)
        for n in (SIZES if full else QUICK_SIZES)
        for entry in (*OURS, *PEERS)
    ]
    keys += [
        {
            "part": "gradient",
            "sampler": entry.name,
            "n": n,
            "seed": seed,
            "limit": limit if full else QUICK_GRADIENT_LIMIT,
            "formulas": count,
        }
        for seed in range(0, published.FORMULAS if full else count, count)
        for n in (GRADIENT_SIZES if full else QUICK_GRADIENT_SIZES)
        for entry in (*OURS, *PEERS)
    ]
    return [Cell(key, 2 * limit + ALLOWANCE) for key in keys]


def run(cell: Cell) -> list[Row]:
    key = cell.key
    entry, n, seed = get(str(key["sampler"])), int(key["n"]), int(key["seed"])
    limit, p = float(key["limit"]), published.EDGE_PROBABILITY
    if key["part"] == "gradient":

        def case(k: int) -> tuple[Formula, np.ndarray]:
            task = Orientations.random(n, p, seed=seed + k)
            assert task.planted is not None
            return task.formula, task.planted

        return gradient_rows(entry, case, int(key["formulas"]), limit, seed)
    task = Orientations.random(n, p, seed=seed)
    data = task.examples(published.EXAMPLES, seed=seed)

    def more(fitted: Fitted) -> Row:
        assert fitted.theta is not None
        others = task.sample(None, 1000, seed=seed).x  # the same for all samplers
        return {"map": map_at_10(fitted.theta, data, others)}

    loop = float(key["loop"])
    return [learn_row(entry, task.formula, data, limit=limit, loop=loop, seed=seed, more=more)]


def tables(rows: Rows) -> list[Table]:
    learned, gradient = show.pick(rows, part="learn"), show.pick(rows, part="gradient")
    out = []
    if learned:
        out += time_tables(learned, published.TABLE_3A, "Table 3(a)", "epoch")
        out.append(validity_table(learned, published.TABLE_3B, "Table 3(b)"))
    if gradient:
        out.append(gradient_table(gradient, published.TABLE_3C, "Table 3(c)"))
    if learned:
        out.append(
            show.grid(
                "Table 3(d): MAP@10",
                learned,
                lambda good: show.percent(show.mean(good, "map") or 0.0),
                paper=published.TABLE_3D,
                scale=lambda figure: f"{figure:g}%",
                notes=(
                    "The model ranks ten training examples and ten uniform sink-free orientations; "
                    "mean over 100 choices of these twenty. Each sampler made as many iterations "
                    "as its time allowed.",
                ),
            )
        )
    return out


def plots(rows: Rows) -> dict[str, Callable[[Axes], None]]:
    learned, gradient = show.pick(rows, part="learn"), show.pick(rows, part="gradient")
    out: dict[str, Callable[[Axes], None]] = {}
    if learned:
        out["time"] = lambda ax: time_plot(ax, learned, "seconds per epoch", "vertices n")
    if gradient:
        out["gradient"] = lambda ax: gradient_plot(ax, gradient, "vertices n")
    return out


EXPERIMENT = Experiment(
    name="table3",
    title="Table 3: sink-free orientations",
    reproduces="Table 3 (a), (b), (c), (d)",
    cells=cells,
    run=run,
    tables=tables,
    plots=plots,
)
