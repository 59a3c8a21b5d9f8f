"""Plots of experiments: log axes, names at the ends of lines, one file for light and dark pages.

    curves(ax, {"lovasz": (xs, ys), ...}, x="variables n", y="seconds")    lines with markers
    steps(ax, {"lovasz": values, ...}, x="rounds")                         distributions
    Panels({"n = 10": draw, ...}, columns=3)                               one figure, many axes
    save(draw, folder / "table1-time")                                     .png and .svg

A plot is a function draw(ax), or `Panels` of such functions. It is called once for a light and once
for a dark page, so it must get colours from `color(name)` while it draws. `nelson_paper/style.py`
has palette and settings. Each sampler has one colour and one marker, the same in all plots. Our
curves are solid. The paper's are dashed, with hollow markers, in the colour of the same sampler. A
dotted line is a noise floor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nelson.io import atomic
from nelson_paper.experiments.samplers import label
from nelson_paper.style import label_ends, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKERS = "osD^vPX*<>hp"
#: The paper's curves.
DASHED = (0, (4, 2))
#: Series with fixed colours, in the order of the palette; others get the colours after them.
KNOWN = (
    "lovasz", "auto", "prs", "lovasz + sweeps", "circuit", "gibbs", "cmsgen", "rejection",
    "unigen", "quicksampler", "kus", "waps", "weightgen", "xor", "gibbs-published", "enumerate",
    "moser-tardos", "cftp", "spur", "uniform", "weighted", "cmsgen-published",
    "floor",
)  # fmt: skip
SIZE = (7.5, 4.4)  # inches: 1200 pixels wide
#: Inches of the height of one row of panels.
PANEL_HEIGHT = 1.9
DPI = 160


def _colors() -> list[str]:
    import matplotlib as mpl

    return mpl.rcParams["axes.prop_cycle"].by_key()["color"]


def look(name: str, others: Sequence[str] = ()) -> dict[str, Any]:
    """Keywords for `ax.plot`. `others`: all names of this plot that are not in KNOWN.

    The position in `others` decides the colour of such a name, so that they differ.
    """
    place = KNOWN.index(name) if name in KNOWN else len(KNOWN) + list(others or [name]).index(name)
    colors = _colors()
    k, turn = place % len(colors), place // len(colors)
    if name == "floor":
        return {"color": colors[k], "marker": "", "linestyle": ":"}
    return {"color": colors[k], "marker": MARKERS[(k + turn) % len(MARKERS)], "linestyle": "-"}


def color(name: str) -> str:
    """The colour of a series in the current palette."""
    return look(name)["color"]


def curves(
    ax: Axes,
    series: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    *,
    x: str,
    y: str,
    log: str = "xy",
    title: str = "",
    paper: Mapping[str, tuple[Sequence[float], Sequence[float]]] | None = None,
) -> None:
    """One line for each series. None and non-finite values leave a gap.

    paper: the paper's figures for samplers of these names, drawn dashed.
    """
    others = [name for name in series if name not in KNOWN]
    for name, points in series.items():
        a, b = _finite(points, log)
        if len(a):
            ax.plot(a, b, label=name, **look(name, others))
    for name, points in (paper or {}).items():
        a, b = _finite(points, log)
        if len(a):
            kind = {**look(name, others), "linestyle": DASHED, "linewidth": 1.1, "alpha": 0.8}
            ax.plot(a, b, markerfacecolor="none", markersize=4, label=f"_{name}", **kind)
    frame(ax, x=x, y=y, log=log, title=title)
    _names(ax, bool(paper))


def multiples(
    series: Mapping[str, tuple[Sequence[float], Sequence[float]]], *, x: str, y: str
) -> Panels:
    """A panel for each series, in colour, with all others in grey: nothing hides anything."""
    known = {name: _finite(points, "xy") for name, points in series.items()}
    known = {name: points for name, points in known.items() if len(points[0])}
    if not known:
        return Panels({"": lambda ax: frame(ax, x=x, y=y)})
    highest = max((float(b.max()) for _, b in known.values()), default=1.0)
    lowest = min((float(b.min()) for _, b in known.values()), default=0.1)

    def panel(name: str) -> Callable[[Axes], None]:
        def draw(ax: Axes) -> None:
            for other, (a, b) in known.items():
                if other != name:
                    ax.plot(a, b, color=ax.spines["left"].get_edgecolor(), lw=0.7, alpha=0.25)
            mine = {**look(name), "color": color("lovasz"), "markersize": 4}
            ax.plot(*known[name], label=name, **mine)
            place = ax.get_subplotspec()
            left = place is None or place.is_first_col()
            last = place is None or place.is_last_row()
            frame(ax, x=x if last else "", y=y if left else "", log="xy")
            ax.set_ylim(lowest / 2, highest * 2)
            ax.tick_params(labelleft=left)

        return draw

    return Panels({label(name): panel(name) for name in known}, columns=3)


def _finite(
    points: tuple[Sequence[float], Sequence[float]], log: str
) -> tuple[np.ndarray, np.ndarray]:
    """The points that can be drawn: finite, and positive on a log axis."""
    a, b = (np.array([np.nan if v is None else v for v in vs], float) for vs in points)
    kept = np.isfinite(a) & np.isfinite(b)
    kept &= (b > 0) | ("y" not in log)
    kept &= (a > 0) | ("x" not in log)
    return a[kept], b[kept]


def _names(ax: Axes, paper: bool) -> None:
    """A name at the end of each of our lines; in a corner what dashes mean."""
    lines = [line for line in ax.lines if not str(line.get_label()).startswith("_")]
    ends = [
        (float(np.asarray(line.get_ydata(), float)[-1]), label(str(line.get_label())), line)
        for line in lines
    ]
    label_ends(ax, [(y, name, str(line.get_color())) for y, name, line in ends])
    if paper and len(lines) < len(ax.lines):
        ax.text(
            1.0, 1.02, "dashed: the paper", transform=ax.transAxes, ha="right", fontsize="small"
        )


def frame(ax: Axes, *, x: str, y: str, log: str = "", title: str = "") -> None:
    """Scales, axis names, title. An axis without data stays linear: a log axis needs some."""
    if "x" in log and ax.has_data():
        ax.set_xscale("log")
        _plain_ticks(ax)
    if "y" in log and ax.has_data():
        ax.set_yscale("log")
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    if title:
        ax.set_title(title)
    if not ax.has_data():
        ax.text(0.5, 0.5, "no finished cells", ha="center", va="center", transform=ax.transAxes)


def _plain_ticks(ax: Axes) -> None:
    """Ticks at sizes that were run, our own first, as far as there is room; plain numbers."""
    from matplotlib.ticker import FuncFormatter, NullLocator

    ours = [line for line in ax.lines if not str(line.get_label()).startswith("_")]
    kept: list[float] = []
    for lines in (ours, ax.lines):
        for at in sorted({float(v) for line in lines for v in np.asarray(line.get_xdata(), float)}):
            if all(abs(np.log(at / other)) > 0.16 for other in kept):
                kept.append(at)
    if 0 < len(kept) <= 12:
        ax.set_xticks(sorted(kept))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
        ax.xaxis.set_minor_locator(NullLocator())


def steps(
    ax: Axes,
    series: Mapping[str, Sequence[float]],
    *,
    x: str,
    y: str = "share",
    bins: int = 30,
    log: str = "",
    title: str = "",
) -> None:
    """Distributions on shared bins, as outlines over a light fill; the median is in the legend."""
    kept = {name: np.asarray(values, float) for name, values in series.items() if len(values)}
    if kept:
        edges = _edges(np.concatenate(list(kept.values())), bins, "x" in log)
        others = [name for name in kept if name not in KNOWN]
        for name, values in kept.items():
            style = look(name, others)
            shares = np.histogram(values, edges)[0] / len(values)
            told = f"{name} (median {np.median(values):.3g})"
            ax.stairs(shares, edges, fill=True, color=style["color"], alpha=0.18)
            ax.stairs(shares, edges, color=style["color"], label=told, lw=1.6)
        ax.legend(loc="upper right")
    frame(ax, x=x, y=y, log=log, title=title)


def _edges(values: np.ndarray, bins: int, log: bool) -> np.ndarray:
    low, high = float(values.min()), float(values.max())
    whole = bool((values == np.round(values)).all())
    if whole and high - low <= 2 * bins:
        return np.arange(low - 0.5, high + 1.0)
    if low == high:
        return np.array([low - 0.5, high + 0.5])
    if log and low > 0:
        return np.geomspace(low, high, bins + 1)
    return np.linspace(low, high, bins + 1)


@dataclass(frozen=True)
class Panels:
    """One figure with several axes, in rows of `columns`: title -> draws onto one axes."""

    draws: Mapping[str, Callable[[Axes], None]]
    columns: int = 3


Plot = Callable[["Axes"], None] | Panels


def render(draw: Plot, form: str, *, dark: bool = False) -> bytes:
    """One plot as the bytes of a "png" or "svg" file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    panels = draw.draws if isinstance(draw, Panels) else {"": draw}
    columns = min(draw.columns, len(panels)) if isinstance(draw, Panels) else 1
    rows = -(-len(panels) // columns)
    with style(dark):
        height = SIZE[1] if rows == columns == 1 else PANEL_HEIGHT * rows
        figure = Figure(figsize=(SIZE[0], height), layout="constrained")
        FigureCanvasAgg(figure)
        for k, (title, one) in enumerate(panels.items(), start=1):
            ax = figure.add_subplot(rows, columns, k)
            one(ax)
            if title:
                ax.set_title(title, fontsize=9)
        out = BytesIO()
        metadata = {"Date": None} if form == "svg" else {}
        figure.savefig(out, format=form, dpi=DPI, metadata=metadata)
    return out.getvalue()


def save(draw: Plot, stem: Path) -> tuple[bytes, bytes]:
    """Write stem.png and stem.svg; return the SVG for light and for dark pages."""
    light = render(draw, "svg")
    atomic.write(stem.with_name(stem.name + ".svg"), light)
    atomic.write(stem.with_name(stem.name + ".png"), render(draw, "png"))
    return light, render(draw, "svg", dark=True)
