"""Table 2: learning quality on random 5-SAT with L = n, the same loop with every sampler.

(a) log-likelihood of the training set and of held-out examples, (b) MAP@10.

    LL = mean of theta . x over the examples - log Z(theta)

log Z is `nelson.log_z.log_partition` (exact where that is possible, else an estimate with a 95%
interval), computed in the same way for every sampler. The error bar of LL includes those of log Z
and of the mean over the examples. Two kinds of data: "paper", 400 models listed by Glucose4, half
of them held out; and "planted", 200 draws of a known theta* ~ N(0, 1) and 1000 held-out ones
(errata 16).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from nelson.errors import BudgetExceeded
from nelson.experiments import published, show, verdict
from nelson.experiments.base import Cell, Experiment, Row, Rows, Table
from nelson.experiments.learning import Fitted, learn_row
from nelson.experiments.plots import curves
from nelson.experiments.samplers import OURS, PEERS, get
from nelson.formula import Formula
from nelson.learning.metrics import log_likelihood, map_at_10
from nelson.log_z import log_partition
from nelson.tasks.ksat.task import KSat

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from nelson.tasks import KSat

SIZES = (100, 300, 500, 700, 1000)
KINDS = ("planted", "paper")
QUICK = (("planted", 100), ("planted", 1000), ("paper", 100))
QUICK_LIMIT = 3.0
#: Quick runs take fewer, longer steps: 200 at 0.5 come as far as 1000 at 0.1.
QUICK_ITERATIONS, QUICK_RATE = 200, 0.5
HELD_OUT = 1000
ALLOWANCE = 300.0


def cells(full: bool) -> list[Cell]:
    limit = published.LIMIT if full else QUICK_LIMIT
    cases = [(kind, n) for n in SIZES for kind in KINDS] if full else list(QUICK)
    return [
        Cell(
            {
                "data": kind,
                "sampler": entry.name,
                "n": n,
                "seed": seed,
                "limit": limit,
                "asked": published.ITERATIONS if full else QUICK_ITERATIONS,
                "eta": published.RATE if full else QUICK_RATE,
                "half_width": 0.05 if full else 0.2,
            },
            2 * limit + ALLOWANCE,
        )
        for seed in range(published.FORMULAS if full else 1)
        for kind, n in cases
        for entry in (*OURS, *PEERS)
    ]


def run(cell: Cell) -> list[Row]:
    key = cell.key
    seed = int(key["seed"])
    task = KSat.random(int(key["n"]), seed=seed)
    train, held_out = split(task, str(key["data"]), seed)

    def more(fitted: Fitted) -> Row:
        assert fitted.theta is not None
        row = likelihoods(task.formula, fitted.theta, train, held_out, float(key["half_width"]))
        others = task.sample(None, 1000, seed=seed).x  # the same for all samplers
        return row | {"map": map_at_10(fitted.theta, train, others)}

    return [
        learn_row(
            get(str(key["sampler"])),
            task.formula,
            train,
            limit=float(key["limit"]),
            seed=seed,
            iterations=int(key["asked"]),
            eta=float(key["eta"]),
            more=more,
        )
    ]


def split(task: KSat, kind: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Training and held-out examples."""
    if kind == "paper":  # one list of models, in random order
        rows = task.examples(2 * published.EXAMPLES, kind=kind, seed=seed)
        return rows[: published.EXAMPLES], rows[published.EXAMPLES :]
    train = task.examples(published.EXAMPLES, kind=kind, seed=seed)
    return train, task.examples(HELD_OUT, kind=kind, seed=seed + 1_000_000)


def likelihoods(
    formula: Formula,
    theta: np.ndarray,
    train: np.ndarray,
    held_out: np.ndarray,
    half_width: float,
    seconds: float = 60.0,
) -> Row:
    """Mean log-likelihoods with their 95% bars, one log Z for both."""
    method = "auto" if formula.n_vars < 100 else "telescope"  # exact methods end here
    try:
        log_z = log_partition(
            formula, theta, method=method, half_width=half_width, seconds=seconds, seed=1
        )
    except BudgetExceeded as error:
        return {"reason": f"no log Z: {error}"}
    seen = log_likelihood(formula, theta, train, log_z=log_z)
    unseen = log_likelihood(formula, theta, held_out, log_z=log_z)
    return {
        "train": seen.value,
        "train_bar": seen.half_width,
        "held_out": unseen.value,
        "held_out_bar": unseen.half_width,
        "log_z_bar": unseen.log_z_half_width,
        "log_z_method": unseen.method,
    }


def tables(rows: Rows) -> list[Table]:
    found = []
    for kind in KINDS:
        here = show.pick(rows, data=kind)
        if not here:
            continue
        paper = kind == "paper"
        data = "models listed by Glucose4" if paper else "draws of a planted theta*"
        found.append(
            show.grid(
                f"Table 2(a): log-likelihood of the training set, {data}",
                here,
                lambda good: _bar(good, "train"),
                paper=published.TABLE_2A if paper else None,
                notes=(_note(here),),
            )
        )
        found.append(
            show.grid(
                f"Table 2(a), held out: {data}",
                here,
                lambda good: _bar(good, "held_out"),
                notes=(
                    "Examples that were not learned from. " + verdict.valid(here),
                    verdict.best(here, "held_out", "held_out_bar"),
                ),
            )
        )
        found.append(
            show.grid(
                f"Table 2(b): MAP@10, {data}",
                here,
                lambda good: show.percent(show.mean(good, "map") or 0.0),
                paper=published.TABLE_2B if paper else None,
                scale=lambda figure: f"{figure:g}%",
                notes=("Ten training examples among ten uniform valid structures, 100 times.",),
            )
        )
    return found


def _bar(rows: Rows, field: str) -> str:
    """Mean over the formulas, its error bar, and the number of steps if the run ended early."""
    known = [row for row in rows if row.get(field) is not None]
    if not known:
        return "no log Z"
    value = show.mean(known, field)
    bar = np.sqrt(sum(row[f"{field}_bar"] ** 2 for row in known)) / len(known)
    told = f"{value:.2f} ± {bar:.2g}"
    steps = min(row["iterations"] for row in known)
    asked = max(row.get("asked", row["iterations"]) for row in known)
    return told + (f" ({steps} steps)" if steps < asked else "")


def _note(rows: Rows) -> str:
    key = show.good(rows) or list(rows)
    limits = ", ".join(f"{limit:g} s" for limit in show.sizes(rows, "limit"))
    rates = ", ".join(f"{eta:g}" for eta in show.sizes(rows, "eta"))
    asked = max((row.get("asked") or 0 for row in key), default=0)
    return (
        f"Nats an example, ± its 95% bar. {asked} iterations, m = 200, eta = {rates}, from theta = "
        f"0; a sampler that makes fewer within {limits} is shown with as many as it made. The "
        "paper's formulas and data are not published: its figures compare among themselves only."
    )


def plots(rows: Rows) -> dict[str, Callable[[Axes], None]]:
    def held_out(kind: str) -> Callable[[Axes], None]:
        here = show.pick(rows, data=kind)
        series = {
            name: (xs, [y / x for x, y in zip(xs, ys, strict=True)])
            for name, (xs, ys) in show.series(here, "held_out").items()
        }
        return lambda ax: curves(
            ax,
            series,
            x="variables n",
            y="held-out log-likelihood / n",
            log="x",
            title=f"Learning quality, {kind} data",
        )

    return {f"held-out-{kind}": held_out(kind) for kind in KINDS if show.pick(rows, data=kind)}


EXPERIMENT = Experiment(
    name="table2",
    title="Table 2: learning quality, K-SAT",
    reproduces="Table 2 (a), (b); held-out likelihood and error bars are ours",
    cells=cells,
    run=run,
    tables=tables,
    plots=plots,
)
