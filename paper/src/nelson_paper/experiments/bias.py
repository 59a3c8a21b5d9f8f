"""Ours: how far the marginals are from the truth, over the density L/n of random 5-SAT, n = 18.

    error = sum_i |mean of x_i over the draws - E[x_i]|,       E[x] by enumeration

with 2 million draws, or as many as a sampler makes in its time. The table also shows the *floor*:
the mean error of as many exact and independent draws. theta ~ N(0, 1); samplers that only draw
uniformly are compared with the uniform law. On these formulas Theorem 1 does not hold (errata 3):
`lovasz` alone is biased, sweeps remove the bias, `prs` and `circuit` have none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from nelson_paper.experiments import formulas, published, show, verdict
from nelson_paper.experiments.base import (
    ALLOWANCE,
    NOT_INSTALLED,
    Cell,
    Experiment,
    Key,
    Row,
    Rows,
    Table,
)
from nelson_paper.experiments.law import exact_moments, floor
from nelson_paper.experiments.plots import color, frame
from nelson_paper.experiments.samplers import (
    LOVASZ,
    OTHERS,
    OURS,
    PEERS,
    Entry,
    draw,
    gave_up,
    get,
    label,
    lacking,
    nothing_kept,
)
from nelson_paper.style import label_ends

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Variables: few enough to enumerate all assignments.
N = 18
#: Draws: the floor is then about 0.005.
DRAWS = 2_000_000
#: Densities L/n of clauses.
RATIOS = (1, 2, 4, 8)
#: Numbers of sweeps after `lovasz`.
SWEEPS = (1, 2, 4, 8, 16)
#: Seconds that a sampler gets in a quick run.
QUICK_LIMIT = 2.5


def swept(sweeps: int) -> str:
    return f"lovasz + {sweeps}"


def entry_of(name: str) -> Entry:
    """A sampler of the tables, or `lovasz + k`: k sweeps after resampling."""
    _, plus, sweeps = name.partition(" + ")
    if plus and sweeps.isdigit():
        return replace(LOVASZ, name=name, sweeps=int(sweeps))
    return get(name)


def cells(full: bool) -> list[Cell]:
    names = [entry.name for entry in OURS]
    names[2:2] = [swept(k) for k in SWEEPS]
    # `gibbs-published` is NumPy: it makes too few of the draws to show its error.
    peers = [entry for entry in (*OTHERS, *PEERS) if entry.own is None]
    names += [entry.name for entry in peers if not entry.twin]  # a twin has another law
    out = []
    for seed, r, name in product(range(published.FORMULAS if full else 1), RATIOS, names):
        limit = published.limit(name) if full else QUICK_LIMIT
        key: Key = {
            "sampler": name,
            "ratio": r,
            "seed": seed,
            "n": N,
            "draws": DRAWS,
            "limit": limit,
        }
        out.append(Cell(key, 2 * limit + ALLOWANCE))
    return out


def run(cell: Cell) -> list[Row]:
    key = cell.key
    entry, n, seed = entry_of(str(key["sampler"])), int(key["n"]), int(key["seed"])
    if missing := lacking(entry):
        return [{"status": NOT_INSTALLED, "reason": ", ".join(missing)}]
    task = formulas.own(n, seed, int(key["ratio"]) * n)
    theta = task.planted if entry.weighted else np.zeros(n)
    assert theta is not None
    mu, cov = exact_moments(task.formula, theta)
    limit, draws = cell.limit(), int(key["draws"])
    with nothing_kept():
        started = time.monotonic()
        samples = draw(entry, task.formula, theta, draws, seed, limit, threads=None, check=True)
        seconds = time.monotonic() - started
    if not len(samples):
        reason = str(samples.info.get("reason", ""))
        return [gave_up(entry, seconds, limit, reason)]
    mean, sd = floor(mu, cov, len(samples))
    return [
        {
            "error": float(np.abs(samples.mean() - mu).sum()),
            "floor": mean,
            "floor_sd": sd,
            "made": len(samples),
            "law": "weighted" if entry.weighted else "uniform",
            "guarantee": samples.guarantee,
            "seconds": seconds,
        }
    ]


def tables(rows: Rows) -> list[Table]:
    if not rows:
        return []

    def cell(good: Rows) -> str:
        text = f"{show.mean(good, 'error'):.3g} (floor {show.mean(good, 'floor'):.2g}"
        made = min(row["made"] for row in good)
        return text + (f", {made:,} draws)" if made < good[0]["draws"] else ")")

    claimed = ("auto", "prs", "circuit")
    uniform = sorted({row["sampler"] for row in rows if row.get("law") == "uniform"})
    names = ", ".join(f"`{name}`" for name in uniform)
    n = ", ".join(map(str, show.sizes(rows, "n")))
    draws = ", ".join(_count(d) for d in show.sizes(rows, "draws"))
    notes = [
        f"5-SAT, n = {n}; {draws} draws, or as many as the sampler made in "
        f"{', '.join(f'{limit:g} s' for limit in show.sizes(rows, 'limit'))} (then the table shows "
        "their number). Invalid draws are dropped. The floor is the mean error of as many exact "
        "and independent draws.",
    ]
    if uniform:
        notes.append(f"Compared with the uniform law, because they draw from no other: {names}.")
    notes.append(verdict.at_floor(rows, "ratio", claimed))
    return [
        show.grid(
            "L1 error of the marginals over the density of clauses",
            rows,
            cell,
            key="ratio",
            lead="How far the mean of many draws is from the exact marginals, by density.",
            head=lambda ratio: "L = n" if ratio == 1 else f"L = {ratio}n",
            notes=notes,
        )
    ]


def _count(value: int) -> str:
    return f"{value / 1e6:.3g} million" if value >= 1_000_000 else f"{value:,}"


def plots(rows: Rows) -> dict[str, Callable[[Axes], None]]:
    def ours(ax: Axes) -> None:
        _plot(ax, [row for row in rows if _ours(row.get("sampler", ""))], "ours")

    def peers(ax: Axes) -> None:
        theirs = [row for row in rows if not _ours(row.get("sampler", ""))]
        shown = {row["sampler"] for row in show.good(theirs) if biased(row)}
        others = [name for name in show.samplers(show.good(theirs)) if name not in shown]
        theirs = [row for row in theirs if row["sampler"] in shown]
        _plot(ax, theirs + show.pick(rows, sampler="lovasz"), "peers")
        if others:
            text = f"no bias visible in their draws: {', '.join(others)}"
            ax.set_xlabel(f"{ax.get_xlabel()}\n{text}", fontsize="small")

    return {"ours": ours, "peers": peers} if rows else {}


def biased(row: Mapping[str, Any]) -> bool:
    """Is the error larger than the noise of as many exact draws explains?"""
    return bool(row["error"] > row["floor"] + verdict.SIGMAS * row["floor_sd"])


def _plot(ax: Axes, rows: Rows, whose: str) -> None:
    """Error over density, with bars of two standard deviations, and the floor as a band."""
    full = show.good(show.pick(rows, sampler="lovasz")) or show.good(rows)
    ends = []
    for name in show.samplers(show.good(rows)):
        own = sorted(show.good(show.pick(rows, sampler=name)), key=lambda row: row["ratio"])
        x = [row["ratio"] for row in own]
        y = np.array([row["error"] for row in own])
        bar = np.minimum(2 * np.array([row["floor_sd"] for row in own]), 0.9 * y)
        colour = _colour(name)
        ax.errorbar(x, y, bar, color=colour, marker="o", ms=3.5, capsize=2, lw=1.5)
        ends.append((float(y[-1]), _named(name), colour))
    by_ratio = sorted(full, key=lambda row: row["ratio"])
    if by_ratio:
        low = [row["floor"] - 2 * row["floor_sd"] for row in by_ratio]
        high = [row["floor"] + 2 * row["floor_sd"] for row in by_ratio]
        ax.fill_between(
            [row["ratio"] for row in by_ratio], low, high, color=color("floor"), alpha=0.25, lw=0
        )
        told = "grey: error of exact draws, ±2σ"
        ax.text(0.01, 0.02, told, transform=ax.transAxes, fontsize="small")
    frame(
        ax,
        x="clauses per variable, L/n",
        y="L1 error of the marginals",
        log="xy",
        title=f"Bias of the marginals: {whose}",
    )
    label_ends(ax, ends)


def _sweeps(name: str) -> int | None:
    """0 for `lovasz`, k for `lovasz + k`."""
    base, plus, sweeps = name.partition(" + ")
    if base != "lovasz" or (plus and not sweeps.isdigit()):
        return None
    return int(sweeps) if plus else 0


def _named(name: str) -> str:
    k = _sweeps(name)
    return label(name) if not k else f"lovasz, then {k} sweep{'s' * (k > 1)}"


def _colour(name: str) -> str:
    """`lovasz` with sweeps: one hue, the lighter the more sweeps. Others have their own colour."""
    from matplotlib.colors import to_hex, to_rgb

    k = _sweeps(name)
    if k is None:
        return color(name)
    share = np.log2(k + 1) / np.log2(max(SWEEPS) + 1) * 0.65
    return to_hex(
        tuple((1 - share) * np.array(to_rgb(color("lovasz"))) + share * np.array([0.6] * 3))
    )


def _ours(name: str) -> bool:
    return name.startswith("lovasz + ") or name in {entry.name for entry in OURS}


EXPERIMENT = Experiment(
    name="bias",
    title="Bias of the marginals over the density of clauses",
    reproduces="ours: not in the paper",
    cells=cells,
    run=run,
    tables=tables,
    plots=plots,
)
