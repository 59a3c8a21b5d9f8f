"""Tables and plots of `nelson bench routes`, with the paper's numbers beside ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from nelson_paper.experiments.base import OK, Rows, Table
from nelson_paper.experiments.published import ROUTES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAPER_ROUNDS, PAPER_SECONDS = ROUTES["rounds"], ROUTES["seconds"]
PAPER_LOCATIONS, BATCH = int(ROUTES["locations"]), int(ROUTES["batch"])


#: Edge frequencies are like the data if their gap is at most this many times its noise, lengths if
#: the Kolmogorov-Smirnov test does not reject at this level.
GAP_SLACK, KS_LEVEL = 1.25, 0.01


def _of(rows: Rows, part: str, **fields: Any) -> list[dict[str, Any]]:
    """Successful rows of a part whose fields have these values."""
    wanted = {"part": part, "status": OK, **fields}
    return [dict(row) for row in rows if all(row.get(k) == v for k, v in wanted.items())]


def _failed(rows: Rows, part: str, first: Callable[[Any], str], width: int) -> list[list[str]]:
    """A line for each failed cell, with its status in every column after the first."""
    bad = [row for row in rows if row.get("part") == part and row.get("status") != OK]
    return [[first(row), *[str(row.get("status"))] * (width - 1)] for row in bad]


def tables(rows: Rows) -> list[Table]:
    return [
        table
        for make in (_uniform_table, _redraw_table, _bias_table, _enumerate_table, *_LEARNED)
        if (table := make(rows)).rows
    ]


def _uniform_table(rows: Rows) -> Table:
    lines = []
    for n in sorted({row["n"] for row in _of(rows, "uniform")}):
        here = _of(rows, "uniform", n=n)
        mean = {k: np.array([r[k] for r in here]) for k in ("rounds_mean", "rounds_max", "seconds")}
        paper = n == PAPER_LOCATIONS
        valid = sum(r["valid"] for r in here) / (BATCH * len(here))
        lines.append(
            [
                str(n),
                str(len(here)),
                f"{valid:.0%}",
                f"{mean['rounds_mean'].mean():.1f}",
                f"{mean['rounds_max'].mean():.0f}",
                f"about {PAPER_ROUNDS:.0f}" if paper else "",
                f"{1e3 * np.median(mean['seconds']):.3g} ms",
                f"{1e3 * PAPER_SECONDS:.0f} ms" if paper else "",
            ]
        )
    columns = (
        "locations",
        "batches of 100",
        "valid",
        "rounds per route",
        "rounds until all 100 are valid",
        "paper: rounds",
        "time per batch (median)",
        "paper: time",
    )
    lines += _failed(rows, "uniform", lambda row: str(row.get("n")), len(columns))
    note = (
        "If several positions of a route hold the same location, all but the first are redrawn. "
        "One thread."
    )
    return Table("Uniform routes by resampling", columns, lines, note)


def _redraw_table(rows: Rows) -> Table:
    words = {"first": "all but the first", "none": "all"}
    lines = [
        [words[r["keep"]], f"{r['rounds']:,}", f"{r['finished']} of {r['of']}"]
        for r in _of(rows, "redraw")
    ]
    columns = (
        "positions with the same location: redrawn",
        "largest number of rounds",
        "valid routes",
    )
    lines += _failed(rows, "redraw", lambda row: "both", len(columns))
    return Table("Which positions to redraw", columns, lines)


def _bias_table(rows: Rows) -> Table:
    lines = [[f"{r['spread']:g}", f"{r['l1']:.4f}", f"{r['floor']:.4f}"] for r in _of(rows, "bias")]
    columns = ("spread of log-weights", "L1 error of the law", "noise of exact draws")
    lines += _failed(rows, "bias", lambda row: str(row.get("spread")), len(columns))
    note = (
        "5 locations, 1,000,000 draws. All orders have the same weight, so the right law is "
        "uniform."
    )
    return Table("Resampling with unequal weights is biased", columns, lines, note)


def _enumerate_table(rows: Rows) -> Table:
    lines = [
        [
            str(r["n"]),
            f"{r['m']:,}",
            str(r["sweeps"]) if r["sweeps"] else "0 (uniform routes)",
            f"{r['chi2']:,.0f}",
            f"{r['degrees']:,}",
            f"{r['p']:.2g}",
        ]
        for r in _of(rows, "enumerate")
    ]
    columns = ("locations", "draws", "sweeps", "chi-square", "degrees of freedom", "p-value")
    lines += _failed(rows, "enumerate", lambda row: str(row.get("n")), len(columns))
    note = (
        "theta ~ N(0, 1). The p-value of a correct sampler is uniform on [0, 1]. Uniform routes "
        "are a wrong sample, which the test must reject."
    )
    return Table("Weighted routes by chains against enumeration", columns, lines, note)


def _fit_table(rows: Rows) -> Table:
    lines = []
    for r in _of(rows, "learn", row="fit"):
        edges = r["edge_gap"] <= GAP_SLACK * r["edge_noise"]
        lengths = r["length_p"] >= KS_LEVEL
        lines += [
            ["verdict on edge frequencies", "like the data" if edges else "NOT like the data",
             f"gap at most {GAP_SLACK:g} times its noise"],
            ["verdict on lengths", "like the data" if lengths else "NOT like the data",
             f"KS test at {KS_LEVEL:.0%}"],
            ["verdict on the fit", "converged" if r["converged"] else "NOT converged",
             "gap at most 1.25 times its noise"],
            ["new routes that are valid", f"{r['validity']:.0%}", "100%"],
            ["distinct among new routes", f"{r['distinct']:,}", f"{r['generated']:,}"],
            ["edge frequencies: correlation", f"{r['edge_correlation']:.4f}", "1"],
            ["edge frequencies: L1 gap", f"{r['edge_gap']:.2f}", f"{r['edge_noise']:.2f} (noise)"],
            ["lengths: KS distance", f"{r['length_ks']:.3f}", f"p = {r['length_p']:.2g}"],
            ["lengths of uniform routes: KS distance", f"{r['uniform_length_ks']:.3f}",
             f"p = {r['uniform_length_p']:.2g}"],
            ["moments at the end of learning: L1 gap", f"{r['fit_gap']:.2f}",
             f"{r['fit_floor']:.2f} (noise)"],
            ["time to learn", f"{r['fit_seconds']:.1f} s", ""],
        ]  # fmt: skip
    columns = ("new routes against held-out ones", "measured", "best value, noise or p-value")
    lines += _failed(rows, "learn", lambda row: "all", len(columns))
    lead = "Whether new routes of the learned model are like held-out ones, with the verdict first."
    return Table("Learned routes, 29 locations", columns, lines, lead=lead)


def _length_table(rows: Rows) -> Table:
    lines = [
        [r["quantile"], f"{r['held_out']:,.0f}", f"{r['model']:,.0f}"]
        for r in _of(rows, "learn", row="length")
    ]
    return Table("Lengths of routes", ("quantile", "held-out", "generated"), lines)


def _mixing_table(rows: Rows) -> Table:
    lines = [
        [
            r["statistic"],
            f"{r['rhat']:.3f}",
            f"{r['ess']:,.0f}",
            "" if r.get("time") is None else f"{r['time']:.0f}",
        ]
        for r in _of(rows, "learn", row="mixing")
    ]
    columns = ("statistic", "split R-hat", "effective size", "autocorrelation time, sweeps")
    note = "".join(
        f"{r['chains']} chains, {r['draws']:,} routes. The first row is the worst of the other "
        "statistics and of 40 edges."
        for r in _of(rows, "learn", row="mixing", statistic="worst of all")
    )
    return Table("Mixing of the chains, 29 locations, learned theta", columns, lines, note)


_LEARNED = (_fit_table, _length_table, _mixing_table)


def plots(rows: Rows) -> dict[str, Callable[[Axes], None]]:
    out: dict[str, Callable[[Axes], None]] = {}
    here = _of(rows, "uniform", n=PAPER_LOCATIONS)
    if here:
        out["rounds"] = lambda ax: _rounds(ax, here)
        out["seconds"] = lambda ax: _seconds(ax, here)
    if lengths := _of(rows, "learn", row="length"):
        out["lengths"] = lambda ax: _lengths(ax, lengths)
    return out


def _rounds(ax: Axes, here: list[dict[str, Any]]) -> None:
    until = [r["rounds_max"] for r in here]
    bins = np.linspace(0, max(until) + 1, 60).tolist()
    ax.hist([r["rounds_mean"] for r in here], bins, color="#0072b2", label="mean per route")
    ax.hist(until, bins, color="#e69f00", label="until all 100 are valid")
    ax.axvline(
        PAPER_ROUNDS, color="#222222", ls="--", lw=1, label=f"paper: about {PAPER_ROUNDS:.0f}"
    )
    ax.set(xlabel="rounds of resampling", ylabel="batches of 100", title="Rounds, 29 locations")
    ax.legend(frameon=False)


def _seconds(ax: Axes, here: list[dict[str, Any]]) -> None:
    times = 1e3 * np.array([r["seconds"] for r in here])
    ax.hist(times[times <= np.quantile(times, 0.99)], bins=30, color="#0072b2")
    ax.set(
        xlabel=f"milliseconds per batch of 100 (paper: {1e3 * PAPER_SECONDS:.0f})",
        ylabel="batches",
        title="Time, 29 locations, one thread",
    )


def _lengths(ax: Axes, rows: list[dict[str, Any]]) -> None:
    held, model = np.array([(r["held_out"], r["model"]) for r in rows]).T
    ends = [min(held.min(), model.min()), max(held.max(), model.max())]
    ax.plot(ends, ends, color="#767676", lw=0.8)
    ax.plot(held, model, "o", color="#0072b2")
    for r, a, b in zip(rows, held, model, strict=True):
        ax.annotate(r["quantile"], (a, b), (6, -10), textcoords="offset points", fontsize=8)
    ax.set(xlabel="held-out routes", ylabel="generated routes", title="Quantiles of route lengths")
