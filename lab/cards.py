"""The nine small pictures of the first page: `python -m lab page cards`.

Each shows what its card promises, drawn by this library from the seeds below.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

import nelson
from lab import gpu_page
from nelson.formula.random_ksat import random_ksat
from nelson.pictures import BLUE, GREEN, GREY, ORANGE
from nelson_paper import style

Draw = Callable[[Any], None]
INCHES = (3.2, 1.6)


def rules(axes: Any) -> None:
    """Legal transactions of the bus of the first page, near the end of the addresses."""
    bus = nelson.Space()
    addr, length = bus.integer("addr", 0, 31), bus.integer("len", 1, 15)
    burst = bus.choice("burst", ["INCR", "WRAP"])
    bus.require(addr + length <= 31, (burst == "WRAP").implies(length.isin([2, 4, 8])))
    rows = bus.sample(150, seed=0).to_pandas()
    for kind, colour in (("INCR", BLUE), ("WRAP", ORANGE)):
        some = rows[rows["burst"] == kind]
        axes.plot(some["addr"], some["len"], ".", ms=4, color=colour, label=kind)
    axes.fill_between([16, 31], [15, 0], [15.5, 15.5], color=GREY, alpha=0.25, lw=0)
    axes.text(24.5, 11, "illegal", ha="center", color=GREY, fontsize=8)
    axes.set(xlabel="address", ylabel="length")


def table(axes: Any) -> None:
    """Two columns of a table, and of new rows."""
    from sklearn.datasets import load_diabetes

    real = load_diabetes(as_frame=True, scaled=False).frame[["bmi", "target"]][:200]
    new = nelson.TableEstimator(random_state=0).fit(real).sample(len(real), random_state=0)
    for frame, colour, name in ((real, GREY, "real"), (new, BLUE, "new")):
        axes.plot(frame["bmi"], frame["target"], ".", ms=3, color=colour, alpha=0.6, label=name)
    axes.legend(loc="upper left", fontsize=7, handletextpad=0.1, borderpad=0.1)
    axes.set(xlabel="body mass", ylabel="disease")


def _small() -> tuple[nelson.Formula, np.ndarray]:
    formula = random_ksat(9, 24, 3, seed=5)
    bits = (np.arange(2**9)[:, None] >> np.arange(9) & 1).astype(bool)
    return formula, bits[formula.satisfied(bits)]


def _frequencies(method: str, draws: int) -> np.ndarray:
    formula, solutions = _small()
    weights = 1 << np.arange(formula.n_vars)
    drawn = nelson.sample(formula, None, draws, method=method, seed=1).to_numpy() @ weights
    return np.array([(drawn == code).mean() for code in solutions @ weights]) * len(solutions)


def solutions(axes: Any) -> None:
    """How often each solution of a small formula comes: uniform, and by a heuristic sampler."""
    for method, colour in (("cmsgen", ORANGE), ("auto", BLUE)):
        axes.plot(np.sort(_frequencies(method, 20_000))[::-1], color=colour)
    axes.text(1.5, 1.75, "CMSGen", color=ORANGE, fontsize=8)
    axes.text(3, 0.5, "nelson", color=BLUE, fontsize=8)
    axes.set(xlabel="solutions", ylabel="frequency", ylim=(0, None))


def features(axes: Any) -> None:
    """The share of the products of a phone that have each feature."""
    phone = nelson.Space("phone")
    screen, media = (
        phone.choice("screen", ["basic", "high"]),
        phone.flag("media", ["camera", "mp3"]),
    )
    gps, lte = phone.flag("gps"), phone.flag("lte")
    phone.require(
        media["camera"].implies(screen == "high"), ~(gps & (screen == "basic")),
        (media["camera"] & lte).implies(gps), media.count() >= 1,
    )  # fmt: skip
    shares = {name: share[True] for name, share in phone.marginals().items() if True in share}
    names = [name.split(".")[-1] for name in shares]
    axes.barh(names, shares.values(), color=BLUE, height=0.6)
    axes.invert_yaxis()
    axes.set(xlabel="share of products", xlim=(0, 1))


def learned(axes: Any) -> None:
    """Weights that examples were drawn with, and what was learned from them."""
    rng = np.random.default_rng(0)
    formula, hidden = random_ksat(40, 60, 4, seed=1), rng.normal(size=40)
    fit = nelson.learn(formula, nelson.sample(formula, hidden, 3_000, seed=1), seed=0)
    axes.plot([-3, 3], [-3, 3], color=GREY, lw=0.8)
    axes.plot(hidden, fit.theta, ".", color=BLUE, ms=4)
    axes.set(xlabel="hidden weight", ylabel="learned", xlim=(-3, 3), ylim=(-3, 3))


def layer(axes: Any) -> None:
    """Bits of a network that are no path, and the most likely path."""
    likely = [(0, 0), (1, 0), (1, 1), (2, 1), (3, 1), (3, 2)]
    invalid = [((0, 0), (1, 0)), ((1, 1), (2, 1)), ((2, 1), (2, 2)), ((3, 1), (3, 2))]
    for shift, edges, colour in ((0, invalid, ORANGE), (5, list(pairwise(likely)), BLUE)):
        for (a, b), (c, d) in edges:
            axes.plot([a + shift, c + shift], [b, d], color=colour, lw=2.5)
        grid = np.array([(x + shift, y) for x in range(4) for y in range(3)])
        axes.plot(*grid.T, ".", color=GREY, ms=4)
    axes.text(1.5, -0.8, "bits alone", ha="center", color=ORANGE, fontsize=8)
    axes.text(6.5, -0.8, "with the layer", ha="center", color=BLUE, fontsize=8)
    axes.set(ylim=(-1.2, 2.4))
    axes.axis("off")


def judged(axes: Any) -> None:
    """Frequencies of solutions beside the band that noise explains."""
    draws, count = 20_000, len(_small()[1])
    band = 3 * np.sqrt(count / draws)
    axes.axhspan(1 - band, 1 + band, color=GREY, alpha=0.25, lw=0)
    for method, colour, verdict in (("auto", BLUE, "accept"), ("cmsgen", ORANGE, "reject")):
        axes.plot(_frequencies(method, draws), ".", ms=4, color=colour, label=verdict)
    axes.legend(fontsize=7, ncols=2, loc="upper left", handletextpad=0.1, borderpad=0.1)
    axes.set(xlabel="solutions", ylabel="frequency", ylim=(0, 2.9))


def paper(axes: Any) -> None:
    """Resampling alone is biased on formulas that are not extremal; sweeps mend it."""
    ratios = (1, 2, 3, 4)
    for sweeps, colour, name in ((0, ORANGE, "resampling"), (16, GREEN, "+ sweeps")):
        errors = []
        for ratio in ratios:
            formula = random_ksat(16, 16 * ratio, 4, seed=ratio)
            x = nelson.sample(formula, None, 100_000, method="lovasz", sweeps=sweeps, seed=0)
            errors.append(np.abs(x.mean() - nelson.marginals(formula)).sum())
        axes.plot(ratios, errors, ".-", color=colour, label=name)
    axes.legend(fontsize=7, borderpad=0.1)
    axes.set(xlabel="clauses per variable", ylabel="error", ylim=(0, None), xticks=ratios)


def huge(axes: Any) -> None:
    """Samples a second of one GPU over the samples of a call, from the page of the GPU."""
    figures = json.loads(gpu_page.FIGURES.read_text())
    calls = [(it["samples"], it["samples"] / np.median(it["call"])) for it in figures["latencies"]]
    axes.loglog(*np.array(sorted(calls)).T, ".-", color=BLUE)
    axes.set(xlabel="samples of a call", ylabel="samples / s")


CARDS: tuple[Draw, ...] = (
    rules, table, solutions, features, learned, layer, judged, paper, huge,
)  # fmt: skip
_SMALL_TYPE: dict[Any, Any] = {
    "font.size": 8, "axes.labelsize": 8, "axes.grid": False, "lines.linewidth": 1.5,
}  # fmt: skip


def draw(folder: Path) -> None:
    """Write all of them, as NAME.svg."""
    folder.mkdir(parents=True, exist_ok=True)
    with style.style(), mpl.rc_context(_SMALL_TYPE):
        for card in CARDS:
            figure = Figure(figsize=INCHES, layout="constrained")
            axes = figure.subplots()
            card(axes)
            axes.tick_params(length=2, labelsize=7)
            figure.savefig(folder / f"{card.__name__}.svg", metadata={"Date": None})
