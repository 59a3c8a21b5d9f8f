"""Tables 1(c) and 3(c): the L1 error of the gradient of log Z, from m samples of each sampler.

The exact gradient is known (`law.py`). Below the errors stands the *floor*: the mean error of m
exact and independent draws. `table1.py` and `table3.py` say of which law.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nelson.formula import Formula
from nelson_paper.experiments import published, show, verdict
from nelson_paper.experiments.base import (
    ALLOWANCE,
    NOT_INSTALLED,
    TIMED_OUT,
    Cell,
    Row,
    Rows,
    Table,
)
from nelson_paper.experiments.law import exact_moments, floor
from nelson_paper.experiments.learning import warm
from nelson_paper.experiments.plots import curves
from nelson_paper.experiments.samplers import (
    Entry,
    draw,
    gave_up,
    lacking,
    nothing_kept,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Seconds for all formulas of a cell.
QUICK_GRADIENT_LIMIT = 2.0
#: Formulas of a cell.
GRADIENT_FORMULAS = 10


def gradient_cell(full: bool, *, sampler: str, count: int, **more: Any) -> Cell:
    limit = published.limit(sampler) if full else QUICK_GRADIENT_LIMIT
    key = {"part": "gradient", "sampler": sampler, **more, "limit": limit, "count": count}
    return Cell(key, 2 * limit + ALLOWANCE)


def gradient_rows(
    entry: Entry,
    case: Callable[[int], tuple[Formula, np.ndarray]],
    count: int,
    limit: float,
    seed: int,
    sizes: Sequence[int] = published.GRADIENT_SAMPLES[-1:],
    scale: float = 1.0,
) -> list[Row]:
    """Rows for each of `count` formulas that `limit` seconds allow, one for each number of samples
    in `sizes`; one row "T.O." if there is none. scale: by which errors of E[x] are multiplied.
    """
    if missing := lacking(entry):
        return [{"status": NOT_INSTALLED, "reason": ", ".join(missing)}]
    rows: list[Row] = []
    ended: Row = {"status": TIMED_OUT}
    with nothing_kept():
        warm(entry)
        left = limit  # seconds that the sampler still has; enumeration is not counted
        for k in range(count):
            formula, theta = case(k)
            mu, cov = exact_moments(formula, theta)
            started = time.monotonic()
            samples = draw(entry, formula, theta, max(sizes), seed + k, left)
            left -= time.monotonic() - started
            if len(samples) < max(sizes):
                reason = str(samples.info.get("reason", "the time was up"))
                ended = gave_up(entry, limit - left, limit, reason)
                break
            x = samples.to_numpy()
            valid = formula.satisfied(x)
            for m in sizes:
                mean, sd = floor(mu, cov, m)
                rows.append(
                    {
                        "formula": seed + k,
                        "m": m,
                        "error": scale * float(np.abs(x[:m].mean(axis=0) - mu).sum()),
                        "floor": scale * mean,
                        "floor_sd": scale * sd,
                        "guarantee": samples.guarantee,
                        "validity": float(np.mean(valid[:m])),
                    }
                )
    return rows or [ended]


def gradient_table(
    rows: Rows, paper: published.Published, name: str, m: int, note: str = ""
) -> Table:
    def errors(good: Rows) -> str:
        return f"{show.mean(good, 'error'):.3g}" + (f" [{len(good)}]" if len(good) > 1 else "")

    def floors(size: int) -> str:
        value = show.mean(show.pick(rows, n=size), "floor")
        return "" if value is None else f"{value:.3g}"

    def random_order(size: int) -> str:
        value = show.mean(show.pick(rows, n=size), "permuted")
        return "" if value is None else f"{value:.3g}"

    extra = [(f"Monte Carlo floor, m = {m}", floors)]
    if show.mean(rows, "permuted") is not None:
        extra.append(("gibbs, as published, clauses in random order, m = ∞", random_order))
    return show.grid(
        f"{name}: L1 error of grad log Z from m = {m} samples",
        rows,
        errors,
        paper=paper,
        best=min,
        value=lambda good: show.mean(good, "error"),
        extra=extra,
        lead=f"How far the mean of {m} samples is from the exact gradient; the floor is the error "
        "of exact draws.",
        notes=(
            "[k]: mean over k formulas.",
            note,
            below_floor(rows, paper, m),
            verdict.at_floor(rows),
        ),
    )


def below_floor(rows: Rows, paper: published.Published, m: int) -> str:
    """A sentence on the sizes where the paper's error is below that of m exact draws."""
    low, seen = [], []
    for size, figure in paper.figures["NELSON"].items():
        exact = show.mean(show.pick(rows, n=size), "floor")
        if exact is not None and isinstance(figure, float):
            seen.append(size)
            if figure < exact:
                low.append(f"{figure:g} at n = {size}, floor {exact:.3f}")
    if not seen:
        return ""
    if not low:
        sizes = ", ".join(map(str, seen))
        return f"The error of the paper's NELSON is at or above this floor at n = {sizes}."
    return (
        f"The error of the paper's NELSON is below this floor, the error of {m} exact draws: "
        f"{'; '.join(low)}. So these figures are not those of {m} independent samples of this law."
    )


def gradient_plot(ax: Axes, rows: Rows, paper: published.Published, x: str = "variables n") -> None:
    series = show.series(rows, "error")
    floors = show.series([{**row, "sampler": "floor"} for row in rows], "floor")
    m = ", ".join(map(str, show.sizes(rows, "m")))
    curves(
        ax,
        {**series, **floors},
        x=x,
        y="L1 error of grad log Z",
        log="y",
        title=f"Error of the gradient, m = {m} samples",
        paper=paper.series(),
    )
