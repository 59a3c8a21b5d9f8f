"""Table 2: learning quality on random 5-SAT with L = n, the same loop with every sampler.

(a) log-likelihood of the training set and of held-out examples, (b) MAP@10.

    LL = mean of theta . x over the examples - log Z(theta)

log Z comes from `nelson.log_z.log_partition`, in the same way for every sampler: exact where that
is possible, otherwise an estimate with a 95% interval. The error bar of LL combines those of log Z
and of the mean over the examples. There are two kinds of data (errata 16): "paper", 400 solutions
that the SAT solver Glucose4 enumerates, half of them held out; and "planted", 200 draws from a
known theta* ~ N(0, 1) and 1000 held-out ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from nelson.errors import BudgetExceeded
from nelson.experiments import published, show, verdict
from nelson.experiments.base import ALLOWANCE, Cell, Experiment, Row, Rows, Table
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
#: Data and sizes of a quick run.
QUICK = (("planted", 100), ("planted", 1000), ("paper", 100))
#: Seconds that a sampler gets in a quick run.
QUICK_LIMIT = 3.0
#: Quick runs make fewer and longer steps: 200 steps at rate 0.5 come as far as 1000 at rate 0.1.
QUICK_ITERATIONS = 200
QUICK_RATE = 0.5
#: Half-width of the 95% interval of log Z.
HALF_WIDTH = 0.05
QUICK_HALF_WIDTH = 0.2
#: Held-out examples of planted data.
HELD_OUT = 1000
#: Seconds for log Z.
LOG_Z_SECONDS = 60.0


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
                "half_width": HALF_WIDTH if full else QUICK_HALF_WIDTH,
            },
            2 * limit + LOG_Z_SECONDS + ALLOWANCE,
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
    seconds: float = LOG_Z_SECONDS,
) -> Row:
    """Mean log-likelihoods of both sets with their 95% error bars, from one log Z."""
    method = "auto" if formula.n_vars < 100 else "telescope"  # exact methods would be too slow
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
    out = []
    for kind in KINDS:
        here = show.pick(rows, data=kind)
        if not here:
            continue
        paper = kind == "paper"
        data = "solutions enumerated by Glucose4" if paper else "draws from a planted theta*"
        out.append(
            show.grid(
                f"Table 2(a): log-likelihood of the training set, {data}",
                here,
                lambda good: _bar(good, "train"),
                paper=published.TABLE_2A if paper else None,
                notes=(_note(here),),
            )
        )
        out.append(
            show.grid(
                f"Table 2(a), held out: {data}",
                here,
                lambda good: _bar(good, "held_out"),
                notes=(
                    "Examples that were not used for learning. " + verdict.valid(here),
                    verdict.best(here, "held_out", "held_out_bar"),
                ),
            )
        )
        out.append(
            show.grid(
                f"Table 2(b): MAP@10, {data}",
                here,
                lambda good: show.percent(show.mean(good, "map") or 0.0),
                paper=published.TABLE_2B if paper else None,
                scale=lambda figure: f"{figure:g}%",
                notes=(
                    "The model ranks ten training examples and ten uniform valid structures; mean "
                    "over 100 choices of these twenty.",
                ),
            )
        )
    return out


def _bar(rows: Rows, field: str) -> str:
    """Mean over the formulas, its error bar, and the number of steps if a run ended early."""
    known = [row for row in rows if row.get(field) is not None]
    if not known:
        return "no log Z"
    value = show.mean(known, field)
    bar = np.sqrt(sum(row[f"{field}_bar"] ** 2 for row in known)) / len(known)
    text = f"{value:.2f} ± {bar:.2g}"
    steps = min(row["iterations"] for row in known)
    asked = max(row.get("asked", row["iterations"]) for row in known)
    return text + (f" ({steps} steps)" if steps < asked else "")


def _note(rows: Rows) -> str:
    key = show.good(rows) or list(rows)
    limits = ", ".join(f"{limit:g} s" for limit in show.sizes(rows, "limit"))
    rates = ", ".join(f"{eta:g}" for eta in show.sizes(rows, "eta"))
    asked = max((row.get("asked") or 0 for row in key), default=0)
    return (
        "Nats per example, ± the half-width of the 95% interval. Learning starts at theta = 0 and "
        f"makes {asked} steps with m = 200 and eta = {rates}. If a sampler made fewer within "
        f"{limits}, the table shows how many. The paper's formulas and data are not published, so "
        "its figures can only be compared with each other."
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
