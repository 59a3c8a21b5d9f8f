"""Table 3: sink-free orientations of Erdos-Renyi graphs, p = 0.55; n counts vertices.

(a) time of an epoch, (b) share of valid orientations that the learned model generates, (c) L1 error
of grad log Z from m = 2000 samples, (d) MAP@10.

The formula is extremal, so Theorem 1 holds: plain resampling is exact. The data are of the two
kinds of Table 2 (`table2.py`): solutions that Glucose4 lists, as published, and draws from a
planted theta* ~ N(0, 1). A minibatch has all examples, so an epoch is one iteration of Algorithm 2
(`learning.py` says what is timed). In (c) theta ~ N(0, 1); the exact E_theta[x] is computed by
inclusion and exclusion over sets of vertices (`law.py`), which is possible for graphs with 40 edges
too. The authors' code for graphs is not published, so the graphs are our own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nelson.formula import Formula
from nelson.learning.metrics import map_at_10
from nelson_paper.experiments import formulas, published, show, verdict
from nelson_paper.experiments.base import Cell, Experiment, Row, Rows, Table
from nelson_paper.experiments.gradient import (
    GRADIENT_FORMULAS,
    gradient_cell,
    gradient_plot,
    gradient_rows,
    gradient_table,
)
from nelson_paper.experiments.learning import Fitted, learn_row, prepare
from nelson_paper.experiments.plots import Plot, multiples
from nelson_paper.experiments.published_scores import MAP_NOTE, RANDOM_MAP_SD, published_map
from nelson_paper.experiments.samplers import LEARNERS, get
from nelson_paper.experiments.table1 import learn_cell, time_tables, validity_table
from nelson_paper.experiments.table2 import KINDS
from nelson_paper.tasks.orientations.task import Orientations

if TYPE_CHECKING:
    pass

SIZES = (7, 8, 9, 10, 11, 20, 30, 40, 50)
QUICK_SIZES = (7, 10, 30, 50)
GRADIENT_SIZES = (5, 7, 9, 11, 13)
QUICK_GRADIENT_SIZES = (5, 9, 13)
#: Sizes of a quick run with planted data.
QUICK_PLANTED = (10,)
#: Seconds until the first iteration must be done.
QUICK_LIMIT = 2.75


def cells(full: bool) -> list[Cell]:
    entries = LEARNERS
    graphs = dict.fromkeys(SIZES if full else QUICK_SIZES, published.FORMULAS)
    small = dict.fromkeys(GRADIENT_SIZES if full else QUICK_GRADIENT_SIZES, published.FORMULAS)
    step = GRADIENT_FORMULAS
    return [
        learn_cell(full, QUICK_LIMIT, sampler=entry.name, data=kind, n=n, seed=seed)
        for seed, n in formulas.each(graphs, full)
        for kind in KINDS
        if full or kind == "glucose4" or n in QUICK_PLANTED
        for entry in entries
        if kind == "glucose4" or not entry.twin
    ] + [
        gradient_cell(full, sampler=entry.name, n=n, seed=seed, count=step)
        for seed, n in formulas.each(small, full, step)
        for entry in entries
    ]


def run(cell: Cell) -> list[Row]:
    key = cell.key
    entry, n, seed = get(str(key["sampler"])), int(key["n"]), int(key["seed"])
    p = published.EDGE_PROBABILITY
    if key["part"] == "gradient":

        def case(k: int) -> tuple[Formula, np.ndarray]:
            task = Orientations.random(n, p, seed=seed + k)
            assert task.planted is not None
            return task.formula, task.planted

        return gradient_rows(entry, case, int(key["count"]), cell.limit(), seed)
    task = Orientations.random(n, p, seed=seed)
    listed = key["data"] == "glucose4"
    if listed:
        rows = formulas.solution_list(task.formula, published.SOLUTIONS, seed)
        data, less = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    else:
        data = task.examples(published.EXAMPLES, seed=seed)

    def more(fitted: Fitted) -> Row:
        assert fitted.theta is not None
        others = task.sample(None, 1000, seed=seed).x  # the same for all samplers
        row: Row = {"map": map_at_10(fitted.theta, data, others)}
        return row | ({"published_map": published_map(fitted.theta, data, less)} if listed else {})

    limit, loop = cell.limit(), cell.limit("loop")
    return [learn_row(entry, task.formula, data, limit=limit, loop=loop, seed=seed, more=more)]


def tables(rows: Rows) -> list[Table]:
    learned, gradient = show.pick(rows, part="learn"), show.pick(rows, part="gradient")
    listed = show.pick(learned, data="glucose4")
    out = []
    if listed:
        out += time_tables(listed, published.TABLE_3A, "Table 3(a)", "epoch")
        out.append(validity_table(listed, published.TABLE_3B, "Table 3(b)"))
    if gradient:
        note = "theta ~ N(0, 1), gradient in x: the authors' code for graphs is not published."
        m = published.GRADIENT_SAMPLES[-1]
        out.append(gradient_table(gradient, published.TABLE_3C, "Table 3(c)", m, note))
    if listed:
        out.append(_map(listed, "published_map"))
    for kind in KINDS:
        if here := show.pick(learned, data=kind):
            out.append(_map(here, "map", kind))
    return out


def _map(rows: Rows, field: str, kind: str = "glucose4") -> Table:
    theirs = field == "published_map"
    protocol = (
        "published protocol: MAP@10" if theirs else "our protocol: MAP@10 against uniform ones"
    )
    ours = (
        "The model ranks ten training examples and ten uniform sink-free orientations; mean over "
        "100 choices of these twenty. The paper's figures are of another protocol."
    )

    def told(good: Rows) -> str:
        value = show.mean(good, field)
        return "" if value is None else show.percent(value)

    return show.grid(
        f"Table 3(d), {protocol}, {KINDS[kind]}",
        rows,
        told,
        paper=published.TABLE_3D if theirs else None,
        scale=lambda figure: f"{figure:g}%",
        best=max,
        value=lambda good: show.mean(good, field),
        within=lambda good: RANDOM_MAP_SD / len(good) ** 0.5 if theirs else 0.0,
        lead="Whether the learned model prefers its examples to other orientations.",
        notes=(
            MAP_NOTE if theirs else ours,
            "Each sampler made as many iterations as its time allowed.",
            verdict.ties(rows, field, RANDOM_MAP_SD if theirs else 0.0),
        ),
    )


def plots(rows: Rows) -> dict[str, Plot]:
    learned, gradient = show.pick(rows, part="learn"), show.pick(rows, part="gradient")
    out: dict[str, Plot] = {}
    if learned:
        listed = show.pick(learned, data="glucose4") or learned
        times = show.series(listed, "seconds")
        out["time"] = multiples(times, x="vertices n", y="s per epoch")
    if gradient:
        out["gradient"] = lambda ax: gradient_plot(ax, gradient, published.TABLE_3C, "vertices n")
    return out


EXPERIMENT = Experiment(
    name="table3",
    title="Table 3: sink-free orientations",
    reproduces="Table 3 (a), (b), (c), (d)",
    cells=cells,
    run=run,
    tables=tables,
    plots=plots,
    prepare=prepare,
)
