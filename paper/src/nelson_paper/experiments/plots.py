"""The look of all plots: one palette, log axes, a legend beside the axes that covers no data.

    curves(ax, {"lovasz": (xs, ys), ...}, x="variables n", y="seconds")    lines with markers
    steps(ax, {"lovasz": values, ...}, x="rounds")                         distributions
    Panels({"n = 10": draw, ...}, columns=3)                               one figure, many axes
    save(draw, folder / "table1-time")                                     .png and .svg

A plot is a function draw(ax), or `Panels` of such functions. It is called once for a light and once
for a dark page, so it must get colours from `color(name)` while it draws. The colours follow Okabe
and Ito (2008), which people with common colour blindness can distinguish, darkened or lightened for
contrast with the page; later ones, of which there are too many for that, also differ by marker.
Each sampler has one colour and one marker, the same in all plots. Our curves are solid. The paper's
are dashed, with hollow markers, in the colour of the same sampler. A dotted line is a noise floor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nelson.io import atomic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.axes import Axes

LIGHT = (
    "#0072B2", "#D55E00", "#00855F", "#B3589A", "#9A6B00", "#2E93C9", "#6B5BB5", "#444444",
    "#C1272D", "#4E7A00", "#7A3B1E", "#007C91", "#D6338A", "#1B2F87", "#8A8A00", "#8C8C8C",
    "#00A08A", "#E08A00", "#5B1A75", "#F0705A", "#34525C", "#B08BD9", "#000000",
)  # fmt: skip
DARK = (
    "#5AB4F0", "#FF8A3D", "#2CC99A", "#E39AC8", "#E6B43C", "#9AD4F5", "#B3A7F0", "#C8C8C8",
    "#DB8285", "#98B26B", "#BC9D8E", "#6BB3BF", "#E789BB", "#A4ACCF", "#BBBB6B", "#BCBCBC",
    "#6BC8BB", "#EDBB6B", "#BDA3C8", "#F6AC9F", "#A4B1B6", "#D9E38C", "#F2F2F2",
)  # fmt: skip
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
PANEL_HEIGHT = 2.3
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
    _legend(ax, bool(paper))


def _finite(
    points: tuple[Sequence[float], Sequence[float]], log: str
) -> tuple[np.ndarray, np.ndarray]:
    """The points that can be drawn: finite, and positive on a log axis."""
    a, b = (np.array([np.nan if v is None else v for v in vs], float) for vs in points)
    kept = np.isfinite(a) & np.isfinite(b)
    kept &= (b > 0) | ("y" not in log)
    kept &= (a > 0) | ("x" not in log)
    return a[kept], b[kept]


def _legend(ax: Axes, paper: bool) -> None:
    """Names beside the axes, from the highest last point to the lowest."""
    from matplotlib.lines import Line2D

    lines = [line for line in ax.lines if not str(line.get_label()).startswith("_")]
    if not lines:
        return
    lines.sort(key=lambda line: -float(np.asarray(line.get_ydata(), float)[-1]))
    shown = list(lines)
    if paper and len(lines) < len(ax.lines):
        grey = ax.xaxis.label.get_color()
        told: dict[str, Any] = {
            "linestyle": DASHED,
            "marker": "o",
            "markerfacecolor": "none",
            "lw": 1.1,
        }
        shown.append(Line2D([], [], color=grey, label="dashed: the paper", markersize=4, **told))
    ax.legend(
        handles=shown,
        loc="center left",
        bbox_to_anchor=(1.01, 0.5),
        borderaxespad=0.0,
        labelspacing=0.3,
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


@contextmanager
def style(dark: bool = False) -> Iterator[None]:
    """Our settings of matplotlib, within a `with` block. No window is opened."""
    import matplotlib as mpl
    from cycler import cycler  # comes with matplotlib

    ink, faint, ground = (
        ("#E4E7EA", "#3A4149", "#14171A") if dark else ("#22262A", "#DDE1E5", "white")
    )
    settings: dict[Any, Any] = {
        "axes.prop_cycle": cycler(color=DARK if dark else LIGHT),
        "text.color": ink,
        "axes.labelcolor": ink,
        "axes.edgecolor": ink,
        "axes.facecolor": ground,
        "figure.facecolor": ground,
        "savefig.facecolor": ground,
        "xtick.color": ink,
        "ytick.color": ink,
        "grid.color": faint,
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlelocation": "left",
        "axes.titlesize": 11,
        "axes.titleweight": "bold",
        "axes.titlepad": 10,
        "axes.labelsize": 10,
        "font.size": 10,
        "grid.linewidth": 0.7,
        "lines.linewidth": 1.8,
        "lines.markersize": 5,
        "legend.frameon": False,
        "legend.fontsize": "small",
        "svg.hashsalt": "nelson",  # equal plots give equal files
    }
    with mpl.rc_context(settings):
        yield


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
                ax.set_title(title)
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
