"""Table 1: sampling inside learning, on random 5-SAT with L = n.

(a) time of a training iteration, (b) share of valid structures that the learned model generates,
(c) L1 error of grad log Z = E_theta[x], estimated from m = 2000 samples.

(a) and (b) come from one run of Algorithm 2 (`learning.py` says what is timed) on the paper's data,
200 solutions that the SAT solver Glucose4 enumerates. In (c) theta ~ N(0, 1) is fixed and
E_theta[x] is computed by enumeration. Below the errors stands the *floor*: the mean error of 2000
exact and independent draws.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from nelson.experiments import published, show, verdict
from nelson.experiments.base import (
    ALLOWANCE,
    NOT_INSTALLED,
    TIMED_OUT,
    Cell,
    Experiment,
    Row,
    Rows,
    Table,
)
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
#: Formulas of a cell of (c).
GRADIENT_FORMULAS = 10


def cells(full: bool) -> list[Cell]:
    """Ordered by formula, so that an interrupted run has all sizes of some formulas."""
    limit = published.LIMIT if full else QUICK_LIMIT
    learn = [
        _cell("learn", entry, n, seed, limit, loop=limit if full else QUICK_LOOP)
        for seed in range(published.FORMULAS if full else 1)
        for n in (SIZES if full else QUICK_SIZES)
        for entry in (*OURS, *PEERS)
    ]
    limit = published.LIMIT if full else QUICK_GRADIENT_LIMIT
    count = GRADIENT_FORMULAS
    return learn + [
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
        left = limit  # seconds that the sampler still has; enumeration is not counted
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
    out = []
    if learned:
        out += time_tables(learned, published.TABLE_1A, "Table 1(a)", "iteration")
        out.append(validity_table(learned, published.TABLE_1B, "Table 1(b)"))
    if gradient:
        out.append(gradient_table(gradient, published.TABLE_1C, "Table 1(c)"))
    return out


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
                "Mean over a run of 1000 iterations with m = 200 samples each, on one thread, "
                "extrapolated: (first + 999 later) / 1000, where `later` is the mean time of the "
                f"iterations made within {loops} after the first. T.O.: the first iteration took "
                f"longer than {limits}. The paper states no time limit, and of its machine only "
                "that it has a GPU.",
                guarantees(rows),
                verdict.fastest(rows),
            ),
        ),
        show.grid(
            f"{name}, first {unit} only: set-up of the sampler, and one draw",
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
            "Share of 1000 samples, before invalid ones are dropped. `gibbs` makes 100 sweeps here "
            "and penalises violated clauses instead of forbidding them; the paper does not say how "
            "many sweeps its own makes.",
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
            "theta ~ N(0, 1). [k]: mean over k formulas. `kus`, `unigen` and `quicksampler` ignore "
            "theta. The paper does not state its theta, so its figures can only be compared with "
            "each other.",
            below_floor(rows, paper),
            verdict.at_floor(rows),
        ),
    )


def below_floor(rows: Rows, paper: published.Published) -> str:
    """A sentence on sizes where the paper's error is clearly below that of 2000 exact draws."""
    low = []
    for size, figure in paper.figures["NELSON"].items():
        exact = show.mean(show.pick(rows, n=size), "floor")
        if exact is not None and isinstance(figure, float) and figure < 0.8 * exact:
            low.append(str(size))
    if not low:
        return ""
    return (
        f"At n = {', '.join(low)} the error of the paper's NELSON is smaller than that of 2000 "
        "exact draws here, so the paper must use another theta or another norm."
    )


def plots(rows: Rows) -> dict[str, Callable[[Axes], None]]:
    learned, gradient = show.pick(rows, part="learn"), show.pick(rows, part="gradient")
    out: dict[str, Callable[[Axes], None]] = {}
    if learned:
        out["time"] = lambda ax: time_plot(ax, learned, "seconds per iteration")
    if gradient:
        out["gradient"] = lambda ax: gradient_plot(ax, gradient)
    return out


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
