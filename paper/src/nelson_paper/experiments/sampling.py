"""Sampling without learning: the figures `uniform` and `weighted`, a cell per sampler and size.

Each sampler draws 1000 samples of random 5-SAT with L = n in one call, on one thread; in the
weighted figure also 100 samples at n = 10, 20, .., 100, as in the authors' script. A cell measures

- the seconds of the call, set-up included. Kernels are compiled before. The median of up to five
  calls counts, each on a new formula object, if they are short;
- the share of valid samples, before invalid ones are dropped;
- for samplers that resample: the rounds of the slowest sample, and the constraints resampled per
  sample.
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

from nelson_paper.experiments import formulas, originals, published, show, verdict
from nelson_paper.experiments.base import (
    ALLOWANCE,
    NOT_INSTALLED,
    Cell,
    Key,
    Row,
    Rows,
    Sizes,
    Table,
)
from nelson_paper.experiments.learning import shares, warm
from nelson_paper.experiments.plots import Plot, curves, multiples
from nelson_paper.experiments.samplers import (
    OTHERS,
    OURS,
    PEERS,
    SPUR,
    SWEPT,
    draw,
    gave_up,
    get,
    lacking,
    nothing_kept,
    overhead,
)
from nelson_paper.experiments.table1 import as_published_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZES = (10, 20, 30, 40, 50, 100, 200, 300, 500, 700, 1000, 1500)
QUICK_SIZES = (10, 50, 200, 1000)
#: Seconds that a sampler gets in a quick run.
QUICK_LIMIT = 2.5
#: Samples of a call.
COUNT = 1000
#: Size of a quick run with as many samples as published: their largest.
QUICK_PUBLISHED_SIZES = (100,)
#: The call is repeated at most this often ...
MAX_CALLS = 5
#: ... and no call begins after this many seconds.
MAX_CALL_SECONDS = 0.5
#: Samplers that report how often they resampled.
RESAMPLING = ("lovasz", "lovasz + sweeps", "prs", "moser-tardos", "auto")


def cells(full: bool, weighted: bool) -> list[Cell]:
    sizes: tuple[int, ...] = SIZES if full else QUICK_SIZES
    out = _cells(full, dict.fromkeys(sizes, published.FORMULAS), weighted, COUNT)
    if weighted:
        sizes = published.WEIGHTED_SIZES if full else QUICK_PUBLISHED_SIZES
        theirs = dict.fromkeys(sizes, published.FORMULAS)
        out += _cells(full, theirs, weighted, published.WEIGHTED_SAMPLES)
    return out


def cells_on_files(full: bool, sizes: Sizes, weighted: bool) -> list[Cell]:
    counts = (COUNT, published.WEIGHTED_SAMPLES) if weighted else (COUNT,)
    return [cell for count in counts for cell in _cells(full, sizes, weighted, count)]


def _cells(full: bool, sizes: Sizes, weighted: bool, count: int) -> list[Cell]:
    every = [entry for entry in (*OURS, SWEPT, *PEERS, *OTHERS) if not entry.twin]
    entries = [entry for entry in every if entry.weighted or not weighted]
    if not weighted and originals.find(SPUR.name):
        entries.append(SPUR)
    out = []
    for seed, n in formulas.each(sizes, full):
        for entry in entries:
            limit = published.WEIGHTED_LIMIT if weighted else published.limit(entry.name)
            limit = limit if full else QUICK_LIMIT
            key: Key = {"sampler": entry.name, "n": n, "seed": seed, "limit": limit, "count": count}
            out.append(Cell(key, 2 * limit + ALLOWANCE))
    return out


def run(cell: Cell, weighted: bool) -> list[Row]:
    key = cell.key
    entry, seed, limit = get(str(key["sampler"])), int(key["seed"]), cell.limit()
    count = int(key["count"])
    if missing := lacking(entry):
        return [{"status": NOT_INSTALLED, "reason": ", ".join(missing)}]
    task = formulas.ksat(key)
    with nothing_kept():
        warm(entry)
        process_start = overhead(entry)
        theta = formulas.published_weights(int(key["n"]), seed) if weighted else None
        times: list[float] = []
        while not times or (len(times) < MAX_CALLS and sum(times) < MAX_CALL_SECONDS):
            # A new object, for which nothing is memoised.
            formula = formulas.ksat(key).formula
            started = time.perf_counter()
            samples = draw(entry, formula, theta, count, seed, limit)
            times.append(time.perf_counter() - started)
    seconds = statistics.median(times)
    if len(samples) < count:
        reason = str(samples.info.get("reason", ""))
        return [{**gave_up(entry, seconds, limit, reason), "made": len(samples)}]
    row: Row = {
        "seconds": seconds,
        "fastest": min(times),
        "slowest": max(times),
        "calls": len(times),
        "overhead": process_start,
        "made": len(samples),
        "guarantee": samples.guarantee,
        **shares(entry, task.formula, samples),
    }
    if samples.info.get("method") in RESAMPLING and samples.info.get("rounds"):
        row |= {
            "rounds": int(samples.info["rounds"]),
            "resampled": samples.info["resampled"] / count,
        }
    return [row]


def tables(rows: Rows, title: str) -> list[Table]:
    counts = reversed(show.sizes(rows, "count"))
    return [table for n in counts for table in _tables(show.pick(rows, count=n), title, n)]


def _tables(rows: Rows, title: str, count: int) -> list[Table]:
    title = title if count == COUNT else f"{title}, {count} samples as in the authors' script"
    limits = " and ".join(f"{limit:g} s" for limit in show.sizes(rows, "limit"))
    resampling = [row for row in rows if row.get("sampler") in RESAMPLING]

    def rounds(good: Rows) -> str:
        known = [row for row in good if row.get("rounds") is not None]
        if not known:
            return "none"
        return f"{show.mean(known, 'rounds'):.3g} / {show.mean(known, 'resampled'):.3g}"

    return [
        show.grid(
            f"{title}: time of {count} samples",
            rows,
            lambda good: show.measured_time(show.mean(good, "seconds") or 0.0),
            best=min,
            value=lambda good: show.mean(good, "seconds"),
            lead=f"How long one call takes that draws {count} samples.",
            notes=(
                f"One call on one thread, set-up included. T.O.: fewer than {count} samples within "
                f"{limits}; that says nothing about validity. The paper shows curves only.",
                formulas.told(rows),
                verdict.fastest(rows),
            ),
        ),
        show.grid(
            f"{title}: valid samples",
            rows,
            lambda good: show.percent(show.mean(good, "validity") or 0.0),
            best=max,
            value=lambda good: show.mean(good, "validity"),
            extra=as_published_rows(rows),
            lead="Which share of these samples satisfies the formula.",
            notes=(
                "Share of valid samples, before invalid ones are dropped.",
                verdict.valid(rows),
            ),
        ),
        show.grid(
            f"{title}: rounds of the slowest sample / constraints resampled per sample",
            resampling,
            rounds,
            lead="How often a sampler that resamples has to do it.",
            notes=("none: `auto` drew by a method that does not resample.",),
        ),
    ]


def plots(rows: Rows, title: str) -> dict[str, Plot]:
    rows = show.pick(rows, count=COUNT)

    times = show.series(rows, "seconds")

    def validity_plot(ax: Axes) -> None:
        shares = show.series(rows, "validity")
        short = {name: points for name, points in shares.items() if min(points[1]) < 1}
        drawn = {name: (xs, [100 * y for y in ys]) for name, (xs, ys) in short.items()}
        every = sorted({x for xs, _ in shares.values() for x in xs})
        if len(short) < len(shares):
            drawn[f"all {len(shares) - len(short)} others"] = (every, [100.0] * len(every))
        curves(ax, drawn, x="variables n", y="% valid", log="x", title=f"{title}: validity")

    def rounds_plot(ax: Axes) -> None:
        curves(
            ax,
            show.series(rows, "rounds"),
            x="variables n",
            y="rounds of the slowest sample",
            title=f"{title}: rounds of resampling",
        )

    if not rows:
        return {}
    time = multiples(times, x="variables n", y=f"s, {COUNT} samples")
    return {"time": time, "validity": validity_plot, "rounds": rounds_plot}
