"""Table 2: learning quality on random 5-SAT with L = n, the same loop with every sampler.

(a) log-likelihood, (b) MAP@10. There are two kinds of data (errata 16):

    glucose4   the published kind: 200 solutions that the SAT solver Glucose4 enumerates. A random
               half is the training set ("preferred"), the other half is held out ("less preferred")
    planted    200 draws from a known theta* ~ N(0, 1), and 1000 held-out ones

The true log-likelihood is LL = mean of theta . x over the examples - log Z(theta). log Z comes from
`nelson.log_z`, in the same way for every sampler: exact where that is possible,
otherwise an estimate with a 95% interval. The error bar of LL combines those of log Z and of the
mean over the examples. The published number is another one (`published_likelihood`): minus the mean
potential of the training set, without log Z. It is measured where the paper measured it, after the
ten steps of the authors' loop (`published_learning.py`; the cells "authors' loop").

MAP@10 has two protocols as well: the published one (`published_map`) ranks the two halves of the
solution list, after the same ten steps; ours ranks ten examples among ten uniform valid structures.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from nelson.errors import BudgetExceeded
from nelson.formula import Formula
from nelson.learning.metrics import log_likelihood, map_at_10
from nelson.log_z import compute
from nelson_paper.experiments import formulas, published, show, verdict
from nelson_paper.experiments.base import (
    ALLOWANCE,
    Cell,
    Experiment,
    Row,
    Rows,
    Sizes,
    Table,
)
from nelson_paper.experiments.learning import Fitted, learn_row, prepare
from nelson_paper.experiments.plots import curves
from nelson_paper.experiments.published_learning import published_row
from nelson_paper.experiments.published_scores import MAP_NOTE, RANDOM_MAP_SD, within_chance
from nelson_paper.experiments.samplers import LEARNERS, PRINTED, get
from nelson_paper.tasks.ksat.task import KSat

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from nelson_paper.tasks import KSat

SIZES = (100, 300, 500, 700, 1000)
#: Kinds of data and how tables name them.
KINDS = {
    "glucose4": "solutions listed by Glucose4",
    "planted": "draws from a planted law",
}
#: The data are a solution list as well, and the loop is the authors'.
AUTHORS = "authors' loop"
#: Data and sizes of a quick run.
QUICK = (("glucose4", 100), ("planted", 100), ("planted", 1000))
QUICK_AUTHORS = (100, 500, 1000)
#: Seconds that a sampler gets in a quick run.
QUICK_LIMIT = 3.0
#: The same for the authors' loop: ten steps of their Gibbs sampler take 9 s at n = 1000.
QUICK_AUTHORS_LIMIT = 12.0
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
    if full:
        return cells_on_files(full, dict.fromkeys(SIZES, published.FORMULAS))
    ours = [
        _cell(False, kind, n, 0, entry.name)
        for kind, n in QUICK
        for entry in LEARNERS
        if kind == "glucose4" or not entry.twin
    ]
    return ours + [_cell(False, AUTHORS, n, 0, name) for n in QUICK_AUTHORS for name in PRINTED]


def cells_on_files(full: bool, sizes: Sizes) -> list[Cell]:
    return [
        _cell(full, kind, n, seed, entry.name)
        for seed, n in formulas.each(sizes, full)
        for kind in (*KINDS, AUTHORS)
        for entry in LEARNERS
    ]


def _cell(full: bool, kind: str, n: int, seed: int, sampler: str) -> Cell:
    quick = QUICK_AUTHORS_LIMIT if kind == AUTHORS else QUICK_LIMIT
    limit = published.limit(sampler) if full else quick
    key: dict[str, str | int | float | bool] = {
        "data": kind,
        "sampler": sampler,
        "n": n,
        "seed": seed,
        "limit": limit,
    }
    if kind == AUTHORS:
        return Cell(key, 2 * limit + ALLOWANCE)
    key |= {
        "asked": published.ITERATIONS if full else QUICK_ITERATIONS,
        "eta": published.RATE if full else QUICK_RATE,
        "half_width": HALF_WIDTH if full else QUICK_HALF_WIDTH,
    }
    return Cell(key, 2 * limit + LOG_Z_SECONDS + ALLOWANCE)


def run(cell: Cell) -> list[Row]:
    key = cell.key
    seed, kind = int(key["seed"]), str(key["data"])
    task, entry = formulas.ksat(key), get(str(key["sampler"]))
    train, held_out = split(task, kind, seed)
    if kind == AUTHORS:
        return [published_row(entry, task.formula, train, held_out, cell.limit(), seed)]

    def more(fitted: Fitted) -> Row:
        assert fitted.theta is not None
        row = likelihoods(task.formula, fitted.theta, train, held_out, float(key["half_width"]))
        others = task.sample(None, 1000, seed=seed).x  # the same for all samplers
        return row | {"map": map_at_10(fitted.theta, train, others)}

    return [
        learn_row(
            entry,
            task.formula,
            train,
            limit=cell.limit(),
            seed=seed,
            iterations=int(key["asked"]),
            eta=float(key["eta"]),
            more=more,
        )
    ]


def split(task: KSat, kind: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Training and held-out examples."""
    if kind != "planted":
        rows = formulas.solution_list(task.formula, published.SOLUTIONS, seed)
        return rows[: len(rows) // 2], rows[len(rows) // 2 :]
    train = task.examples(published.EXAMPLES, kind="planted", seed=seed)
    return train, task.examples(HELD_OUT, kind="planted", seed=seed + 1_000_000)


def likelihoods(
    formula: Formula,
    theta: np.ndarray,
    train: np.ndarray,
    held_out: np.ndarray,
    half_width: float,
    seconds: float = LOG_Z_SECONDS,
) -> Row:
    """Mean log-likelihoods of both sets with their 95% error bars, from one log Z."""
    method = "auto" if formula.n_vars < 100 else "bridge"  # exact methods would be too slow
    try:
        log_z = compute.log_z(
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
    if theirs := show.pick(rows, data=AUTHORS):
        out += [_published_likelihoods(theirs), _published_map(theirs)]
    for kind, data in KINDS.items():
        here = show.pick(rows, data=kind)
        if not here:
            continue
        out += [
            _likelihoods("train", f"Table 2(a), true log-likelihood: {data}, training set", here),
            _likelihoods("held_out", f"Table 2(a), true log-likelihood: {data}, held out", here),
            show.grid(
                f"Table 2(b), our protocol: MAP@10 against uniform structures, {data}",
                here,
                lambda good: show.percent(show.mean(good, "map") or 0.0),
                best=max,
                value=lambda good: show.mean(good, "map"),
                lead="Whether the model prefers examples to other valid structures.",
                notes=(
                    "The model ranks ten training examples and ten uniform valid structures; mean "
                    "over 100 choices of these twenty. This is easier than the published protocol, "
                    "so the paper's figures are not shown here.",
                ),
            ),
        ]
    return out


def _likelihoods(field: str, title: str, rows: Rows) -> Table:
    notes = [_note(rows), formulas.told(rows)]
    if field == "held_out":
        told = "Examples that were not used for learning."
        notes = [told, verdict.valid(rows), verdict.best(rows, field, f"{field}_bar")]
    return show.grid(
        title,
        rows,
        lambda good: _bar(good, field),
        best=max,
        value=lambda good: show.mean(good, field),
        within=lambda good: show.mean(good, f"{field}_bar"),
        lead="How likely the examples are under the learned model, log Z included.",
        notes=notes,
    )


def _published_likelihoods(rows: Rows) -> Table:
    return show.grid(
        "Table 2(a) as published: minus the mean potential of the training set, the authors' loop",
        rows,
        lambda good: _number(good, "published_likelihood"),
        paper=published.TABLE_2A,
        extra=[("theta = 0", lambda n: f"{-n / 2:.2f}")],
        lead="The number that the authors' script prints as log-likelihood, after its ten steps.",
        notes=(
            "The authors' script makes ten steps from random weights, prints minus the mean "
            "potential of the training set as the log-likelihood, and exits. log Z is missing, so "
            "the number is no likelihood: all weights 0 would give -n/2. Its steps lower the "
            "potential of the examples. The next tables have true likelihoods, of our loop. The "
            "paper's CMSGen has lower numbers than CMSGen without weights here; we know no reason.",
            formulas.told(rows),
        ),
    )


def _published_map(rows: Rows) -> Table:
    return show.grid(
        "Table 2(b) as published: MAP@10, the authors' loop",
        rows,
        lambda good: _percent(good, "published_map"),
        paper=published.TABLE_2B,
        scale=lambda figure: f"{figure:g}%",
        best=max,
        value=lambda good: show.mean(good, "published_map"),
        within=lambda good: RANDOM_MAP_SD / len(good) ** 0.5,
        lead="How well the model of the authors' loop tells its examples from the other solutions.",
        notes=(
            MAP_NOTE,
            within_chance(published.TABLE_2B),
            verdict.ties(rows, "published_map", RANDOM_MAP_SD),
        ),
    )


def _number(rows: Rows, field: str) -> str:
    value = show.mean(rows, field)
    return "" if value is None else f"{value:.2f}"


def _percent(rows: Rows, field: str) -> str:
    value = show.mean(rows, field)
    return "" if value is None else show.percent(value)


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
    return text + (f" ({steps} step{'s' * (steps != 1)})" if steps < asked else "")


def _note(rows: Rows) -> str:
    key = show.good(rows) or list(rows)
    limits = ", ".join(f"{limit:g} s" for limit in show.sizes(rows, "limit"))
    rates = ", ".join(f"{eta:g}" for eta in show.sizes(rows, "eta"))
    asked = max((row.get("asked") or 0 for row in key), default=0)
    return (
        "Nats per example, ± the half-width of the 95% interval. Learning starts at theta = 0 and "
        f"makes {asked} steps with m = 200 and eta = {rates}. If a sampler made fewer within "
        f"{limits}, the table shows how many. The paper prints no such number."
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
            title=f"Held-out likelihood, {KINDS[kind]}",
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
    prepare=prepare,
    cells_on_files=cells_on_files,
)
