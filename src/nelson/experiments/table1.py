"""Table 1: sampling inside learning, on random 5-SAT with L = n.

(a) time of a training iteration, (b) share of valid structures that the learned model generates,
(c) L1 error of grad log Z = E_theta[x], estimated from m = 2000 samples.

(a) and (b) are one run of Algorithm 2 (`learning.py` says what is timed) on 200 models of Glucose4,
the paper's data. In (c) theta ~ N(0, 1) is fixed, E_theta[x] is enumerated, and beside every error
stands the *floor*: the mean error of 2000 exact and independent draws.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from nelson.experiments import published, show, verdict
from nelson.experiments.base import NOT_INSTALLED, TIMED_OUT, Cell, Experiment, Row, Rows, Table
from nelson.experiments.law import exact_moments, floor
from nelson.experiments.learning import learn_row, warm
from nelson.experiments.plots import curves
from nelson.experiments.samplers import OURS, PEERS, Entry, draw, get, lacking, nothing_kept
from nelson.formula import Formula
from nelson.tasks.ksat.task import KSat

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZES = (10, 20, 30, 40, 50, 500, 1000)
QUICK_SIZES = (10, 50, 1000)
GRADIENT_SIZES = (10, 12, 14, 16, 18)
QUICK_GRADIENT_SIZES = (10, 14, 18)
#: Seconds until the first iteration must be done.
QUICK_LIMIT = 4.0
#: Seconds for further iterations.
QUICK_LOOP = 0.6
#: Seconds for all formulas of a cell of (c).
QUICK_GRADIENT_LIMIT = 2.0
QUICK_GRADIENT_FORMULAS = 10
#: Seconds that a cell gets beyond the sampler's limit: to generate data, to measure validity, and
#: to compile our kernels once on a new machine.
ALLOWANCE = 240.0


def cells(full: bool) -> list[Cell]:
    """Ordered by formula, so that an interrupted run has all sizes of some formulas."""
    limit = published.LIMIT if full else QUICK_LIMIT
    found = [
        _cell("learn", entry, n, seed, limit, loop=limit if full else QUICK_LOOP)
        for seed in range(published.FORMULAS if full else 1)
        for n in (SIZES if full else QUICK_SIZES)
        for entry in (*OURS, *PEERS)
    ]
    limit = published.LIMIT if full else QUICK_GRADIENT_LIMIT
    count = 10 if full else QUICK_GRADIENT_FORMULAS
    return found + [
        _cell("gradient", entry, n, seed, limit, formulas=count)
        for seed in range(0, published.FORMULAS if full else count, count)
        for n in (GRADIENT_SIZES if full else QUICK_GRADIENT_SIZES)
        for entry in (*OURS, *PEERS)
    ]


def _cell(part: str, entry: Entry, n: int, seed: int, limit: float, **more: float) -> Cell:
    key: dict[str, str | float] = {
        "part": part,
        "sampler": entry.name,
        "n": n,
        "seed": seed,
        "limit": limit,
        **more,
    }
    return Cell(key, 2 * limit + ALLOWANCE)


def run(cell: Cell) -> list[Row]:
    key = cell.key
    entry, n, seed = get(str(key["sampler"])), int(key["n"]), int(key["seed"])
    limit = float(key["limit"])
    if key["part"] == "learn":
        task = KSat.random(n, seed=seed)
        data = task.examples(published.EXAMPLES, kind="paper", seed=seed)
        loop = float(key["loop"])
        return [learn_row(entry, task.formula, data, limit=limit, loop=loop, seed=seed)]

    def case(k: int) -> tuple[Formula, np.ndarray]:
        task = KSat.random(n, seed=seed + k)
        assert task.planted is not None
        return task.formula, task.planted

    return gradient_rows(entry, case, int(key["formulas"]), limit, seed)


def gradient_rows(
    entry: Entry,
    case: Callable[[int], tuple[Formula, np.ndarray]],
    formulas: int,
    limit: float,
    seed: int,
    m: int = published.GRADIENT_SAMPLES,
) -> list[Row]:
    """One row for each formula that `limit` seconds allow; one row "T.O." if there is none."""
    if missing := lacking(entry):
        return [{"status": NOT_INSTALLED, "reason": ", ".join(missing)}]
    rows: list[Row] = []
    with nothing_kept():
        warm(entry)
        left = limit  # of the sampler's time; enumeration does not count
        for k in range(formulas):
            formula, theta = case(k)
            mu, cov = exact_moments(formula, theta)
            started = time.monotonic()
            samples = draw(entry, formula, theta, m, seed + k, left)
            left -= time.monotonic() - started
            if len(samples) < m:
                break
            mean, sd = floor(mu, cov, m)
            error = float(np.abs(samples.mean() - mu).sum())
            rows.append(
                {
                    "formula": seed + k,
                    "error": error,
                    "floor": mean,
                    "floor_sd": sd,
                    "guarantee": samples.guarantee,
                    "validity": float(np.mean(formula.satisfied(samples.to_numpy()))),
                }
            )
    return rows or [{"status": TIMED_OUT}]


def tables(rows: Rows) -> list[Table]:
    learned, gradient = show.pick(rows, part="learn"), show.pick(rows, part="gradient")
    found = []
    if learned:
        found += time_tables(learned, published.TABLE_1A, "Table 1(a)", "iteration")
        found.append(validity_table(learned, published.TABLE_1B, "Table 1(b)"))
    if gradient:
        found.append(gradient_table(gradient, published.TABLE_1C, "Table 1(c)"))
    return found


def time_tables(rows: Rows, paper: published.Published, name: str, unit: str) -> list[Table]:
    limits, loops = (
        " and ".join(show.duration(seconds) for seconds in show.sizes(rows, field))
        for field in ("limit", "loop")
    )
    return [
        show.grid(
            f"{name}: time of a training {unit}, set-up included",
            rows,
            lambda good: _time(good, "seconds"),
            paper=paper,
            scale=lambda minutes: show.duration(60 * minutes),
            notes=(
                "Mean over a run of 1000 iterations with m = 200 samples each, on one thread: "
                "(first + 999 further) / 1000, where a further one is the mean of those made in "
                f"{loops}. T.O.: the first not done in {limits}. The paper gives no limit, and of "
                "its machine only that it has a GPU.",
                guarantees(rows),
                verdict.fastest(rows),
            ),
        ),
        show.grid(
            f"{name}, first {unit} only: what a sampler sets up, and one draw",
            rows,
            lambda good: _time(good, "first"),
        ),
    ]


def guarantees(rows: Rows, name: str = "auto") -> str:
    """The guarantees that `auto` reached, by size."""
    kept: dict[str, list[str]] = {}
    for row in sorted(show.good(show.pick(rows, sampler=name)), key=lambda row: row["n"]):
        sizes = kept.setdefault(row["guarantee"], [])
        if f"{row['n']}" not in sizes:
            sizes.append(f"{row['n']}")
    told = "; ".join(f"{word} at n = {', '.join(sizes)}" for word, sizes in kept.items())
    return f"`{name}` draws with the strongest guarantee it finds: {told}." if told else ""


def _time(rows: Rows, field: str) -> str:
    value = show.mean(rows, field)
    return "" if value is None else show.duration(value)


def validity_table(rows: Rows, paper: published.Published, name: str) -> Table:
    def shares(good: Rows) -> str:
        share = show.mean(good, "validity")
        return TIMED_OUT if share is None else show.percent(share)

    return show.grid(
        f"{name}: valid structures generated by the learned model",
        rows,
        shares,
        paper=paper,
        scale=lambda figure: f"{figure:g}%",
        notes=(
            "Of 1000, as the sampler drew them. `gibbs` makes 100 sweeps of a soft formula here; "
            "what the paper's makes is not said.",
            verdict.valid(rows),
        ),
    )


def gradient_table(rows: Rows, paper: published.Published, name: str) -> Table:
    def errors(good: Rows) -> str:
        return f"{show.mean(good, 'error'):.3g}" + (f" [{len(good)}]" if len(good) > 1 else "")

    def floors(size: int) -> str:
        value = show.mean(show.pick(rows, n=size), "floor")
        return "" if value is None else f"{value:.3g}"

    return show.grid(
        f"{name}: L1 error of grad log Z from m = 2000 samples",
        rows,
        errors,
        paper=paper,
        extra=[("Monte Carlo floor", floors)],
        notes=(
            "theta ~ N(0, 1); [k]: mean over k formulas. `kus`, `unigen`, `quicksampler` know no "
            "theta. The paper's theta is not given, so its figures compare among themselves only.",
            below_floor(rows, paper),
            verdict.at_floor(rows),
        ),
    )


def below_floor(rows: Rows, paper: published.Published) -> str:
    """A sentence on sizes where the paper's error is below that of 2000 exact draws."""
    low = []
    for size, figure in paper.figures["NELSON"].items():
        least = show.mean(show.pick(rows, n=size), "floor")
        if least is not None and isinstance(figure, float) and figure < 0.8 * least:
            low.append(str(size))
    if not low:
        return ""
    return (
        f"At n = {', '.join(low)} the paper's NELSON lies below what 2000 exact draws leave here: "
        "its theta or its norm must be another."
    )


def plots(rows: Rows) -> dict[str, Callable[[Axes], None]]:
    learned, gradient = show.pick(rows, part="learn"), show.pick(rows, part="gradient")
    found: dict[str, Callable[[Axes], None]] = {}
    if learned:
        found["time"] = lambda ax: time_plot(ax, learned, "seconds an iteration")
    if gradient:
        found["gradient"] = lambda ax: gradient_plot(ax, gradient)
    return found


def time_plot(ax: Axes, rows: Rows, y: str, x: str = "variables n") -> None:
    curves(ax, show.series(rows, "seconds"), x=x, y=y, title="Time of a training iteration")


def gradient_plot(ax: Axes, rows: Rows, x: str = "variables n") -> None:
    series = show.series(rows, "error")
    floors = show.series([{**row, "sampler": "floor"} for row in rows], "floor")
    curves(ax, {**series, **floors}, x=x, y="L1 error", log="y", title="Error of grad log Z")


EXPERIMENT = Experiment(
    name="table1",
    title="Table 1: sampling efficiency and accuracy, K-SAT",
    reproduces="Table 1 (a), (b), (c)",
    cells=cells,
    run=run,
    tables=tables,
    plots=plots,
)
