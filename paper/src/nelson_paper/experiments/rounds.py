"""The appendix figure: how many rounds a sample takes, with `lovasz` and with `moser-tardos`.

    F(r) = share of samples that are valid after at most r rounds

In a round, `lovasz` resamples all violated clauses and `moser-tardos` (Algorithmic-LLL) only the
first one. Sample i of a seed does not depend on the budget of rounds, so F(r) is the number of
samples that a call with `max_rounds=r` returns, divided by the number requested. On an extremal
formula both resample the same number of constraints on average, but in different numbers of rounds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from nelson.formula import Formula
from nelson.sampling.sample_stream import sample
from nelson_paper.experiments import formulas, published, show
from nelson_paper.experiments.base import (
    ALLOWANCE,
    TIMED_OUT,
    Cell,
    Experiment,
    Row,
    Rows,
    Sizes,
    Table,
)
from nelson_paper.experiments.plots import Panels, color, frame
from nelson_paper.experiments.samplers import label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SAMPLERS = ("lovasz", "moser-tardos")
CASES = ("uniform", "weighted")
SIZES = (10, 50, 100, 300, 500, 1000, 1500)
QUICK_SIZES = (10, 100, 1000)
#: Samples of a cell.
COUNT = 100_000
QUICK_COUNT = 10_000
#: Seconds for drawing the samples of a cell in a quick run.
QUICK_LIMIT = 60.0


def cells(full: bool) -> list[Cell]:
    sizes = SIZES if full else QUICK_SIZES
    return cells_on_files(full, dict.fromkeys(sizes, published.FORMULAS))


def cells_on_files(full: bool, sizes: Sizes) -> list[Cell]:
    return [
        Cell(
            {
                "case": case,
                "sampler": sampler,
                "n": n,
                "seed": seed,
                "count": COUNT if full else QUICK_COUNT,
            },
            (published.LIMIT if full else QUICK_LIMIT) + ALLOWANCE,
        )
        for case in CASES
        for seed, n in formulas.each(sizes, full)
        for sampler in SAMPLERS
    ]


def run(cell: Cell) -> list[Row]:
    """One row for each number of rounds that occurred: `rounds`, `share` of the samples."""
    key = cell.key
    task = formulas.ksat(key)
    theta = None
    if key["case"] == "weighted":
        theta = formulas.published_weights(int(key["n"]), int(key["seed"]))
    count = int(key["count"])
    done, resampled = distribution(
        task.formula, theta, str(key["sampler"]), count, int(key["seed"])
    )
    shares = np.diff(done, prepend=0) / count
    rows: list[Row] = [
        {"rounds": r, "share": float(share), "resampled": resampled / count}
        for r, share in enumerate(shares)
        if share
    ]
    if done[-1] < count:  # still invalid after the paper's T_tryout rounds
        rows.append({"status": TIMED_OUT, "share": 1 - done[-1] / count})
    return rows


def distribution(
    formula: Formula, theta: np.ndarray | None, method: str, count: int, seed: int
) -> tuple[list[int], int]:
    """Numbers of samples valid after at most 0, 1, 2, .. 1000 rounds, and constraints resampled."""

    def within(rounds: int) -> Any:
        options: dict[str, Any] = {"method": method, "seed": seed, "sweeps": 0}
        return sample(formula, theta, count, max_rounds=rounds, **options)

    whole = within(published.TRYOUTS)
    last = int(whole.info["rounds"])
    done = [len(within(r)) for r in range(last)]
    return [*done, len(whole)], int(whole.info["resampled"])


def moments(rows: Rows) -> dict[str, float]:
    """Mean, s.d., median, 95% point and maximum of rows with `rounds` and `share`."""
    ordered = sorted(rows, key=lambda row: row["rounds"])
    r = np.array([row["rounds"] for row in ordered], float)
    p = np.array([row["share"] for row in ordered], float)
    p = p / p.sum()
    mean = float(p @ r)
    below = np.cumsum(p) + 1e-12
    return {
        "mean": mean,
        "sd": float(np.sqrt(max(p @ (r - mean) ** 2, 0.0))),
        "median": float(r[np.searchsorted(below, 0.5)]),
        "95%": float(r[np.searchsorted(below, 0.95)]),
        "most": float(r.max()),
    }


def tables(rows: Rows) -> list[Table]:
    body, fewer = [], []
    for case in CASES:
        for n in show.sizes(show.pick(rows, case=case)):
            means = {}
            for sampler in SAMPLERS:
                here = show.pick(rows, case=case, n=n, sampler=sampler)
                good = show.good(here)
                if not here:
                    continue
                if not good:
                    body.append([case, f"{n}", label(sampler), *[here[0]["status"]] * 6])
                    continue
                m = moments(good)
                means[sampler] = m["mean"]
                late = sum(row["share"] for row in here if row["status"] == TIMED_OUT)
                body.append(
                    [
                        case,
                        f"{n}",
                        label(sampler),
                        f"{m['mean']:.4g} ± {m['sd']:.3g}",
                        f"{m['median']:g}",
                        f"{m['95%']:g}",
                        f"{m['most']:g}",
                        f"{show.mean(good, 'resampled'):.4g}",
                        show.percent(late) if late else "none",
                    ]
                )
            if len(means) == 2:
                fewer.append((case, n, means["moser-tardos"] / max(means["lovasz"], 1e-9)))
    if not body:
        return []
    note = (
        "In a round, `lovasz` resamples all violated clauses and `moser-tardos` only the first "
        f"one. Unfinished: samples not valid after {published.TRYOUTS} rounds, the paper's "
        "T_tryout. "
    )
    wins = sum(ratio > 1 for _, _, ratio in fewer)
    note += f"`lovasz` takes fewer rounds in {wins} of {len(fewer)} cells"
    if fewer:
        note += f" (up to a factor of {max(ratio for *_, ratio in fewer):.3g})"
    broken = [f"{case} n = {n}" for case, n, ratio in fewer if ratio <= 1]
    note += f"; NOT in {', '.join(broken)}." if broken else "."
    columns = (
        "law",
        "n",
        "sampler",
        "rounds, mean ± s.d.",
        "median",
        "95% quantile",
        "maximum",
        "constraints resampled per sample",
        "unfinished",
    )
    lead = (
        "How many rounds a sample takes if all violated clauses are resampled, or only the first."
    )
    return [Table("Rounds of resampling per sample", columns, body, note, lead=lead)]


def plots(rows: Rows) -> dict[str, Panels]:
    """One figure, as in the paper: a row of panels for each law, a panel for each size."""

    def one(case: str, n: int) -> Callable[[Axes], None]:
        return lambda ax: _plot(ax, show.good(show.pick(rows, case=case, n=n)))

    panels = {
        f"{case}, n = {n}": one(case, n)
        for case in CASES
        for n in show.sizes(show.pick(rows, case=case))
    }
    return {"rounds": Panels(panels)} if panels else {}


def _plot(ax: Axes, rows: Rows) -> None:
    for sampler in SAMPLERS:
        own = show.pick(rows, sampler=sampler)
        if not own:
            continue
        shares = np.zeros(max(row["rounds"] for row in own) + 1)
        np.add.at(shares, [row["rounds"] for row in own], [row["share"] for row in own])
        shares /= shares.sum()
        edges = np.arange(len(shares) + 1) - 0.5
        told = f"{sampler}\nmean {moments(own)['mean']:.3g}"
        ax.stairs(shares, edges, fill=True, color=color(sampler), alpha=0.25)
        ax.stairs(shares, edges, color=color(sampler), label=told)
    if ax.has_data():
        ax.legend(loc="upper right", fontsize="x-small")
    frame(ax, x="rounds of resampling", y="share of samples")


EXPERIMENT = Experiment(
    name="rounds",
    title="Rounds of resampling: lovasz against moser-tardos",
    reproduces="the appendix figure on resampling steps",
    cells=cells,
    run=run,
    tables=tables,
    plots=plots,
    cells_on_files=cells_on_files,
)
