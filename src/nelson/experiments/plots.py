"""The look of all plots: one palette, log axes, names at the ends of lines instead of a legend.

    curves(ax, {"lovasz": (xs, ys), ...}, x="variables n", y="seconds")    lines, names at the ends
    steps(ax, {"lovasz": values, ...}, x="rounds")                         distributions
    save(draw, folder / "table1-time")                                     .png and .svg

A plot is a function draw(ax). It is called once for a light and once for a dark page, so it must
get colours from `color(name)` while it draws. The colours follow Okabe and Ito (2008), which people
with common colour blindness can distinguish, darkened or lightened for contrast with the page;
markers and dashes distinguish the series too. A series has the same colour in all plots of a run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nelson.io import atomic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.axes import Axes

LIGHT = ("#0072B2", "#D55E00", "#00855F", "#B3589A", "#9A6B00", "#2E93C9", "#6B5BB5", "#444444")
DARK = ("#5AB4F0", "#FF8A3D", "#2CC99A", "#E39AC8", "#E6B43C", "#9AD4F5", "#B3A7F0", "#C8C8C8")
MARKERS = "osD^vPX*"
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1.5, 1.5)))
#: Series with fixed colours, in the order of the palette; others get the colours after them.
KNOWN = (
    "lovasz", "lovasz + sweeps", "prs", "moser-tardos", "circuit", "gibbs", "auto", "rejection",
    "cmsgen", "unigen", "quicksampler", "kus", "waps", "weightgen", "xor", "enumerate",
)  # fmt: skip
SIZE = (7.0, 4.2)  # inches
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
    dashes = DASHES[turn % len(DASHES)]
    return {"color": colors[k], "marker": MARKERS[(k + turn) % len(MARKERS)], "linestyle": dashes}


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
) -> None:
    """One line for each series, its name at the end. None and non-finite values leave a gap."""
    others = [name for name in series if name not in KNOWN]
    ends: list[tuple[str, float, float, str]] = []
    for name, (xs, ys) in series.items():
        a, b = (np.array([np.nan if v is None else v for v in vs], float) for vs in (xs, ys))
        kept = np.isfinite(a) & np.isfinite(b)
        kept &= (b > 0) | ("y" not in log)
        kept &= (a > 0) | ("x" not in log)
        if not kept.any():
            continue
        style = look(name, others)
        ax.plot(a[kept], b[kept], **style)
        ends.append((name, a[kept][-1], b[kept][-1], style["color"]))
    frame(ax, x=x, y=y, log=log, title=title)
    label_ends(ax, ends)


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
    """Ticks at the sizes that were run, if they are few, written as plain numbers."""
    from matplotlib.ticker import FuncFormatter, NullLocator

    at = np.unique(np.concatenate([np.asarray(line.get_xdata(), float) for line in ax.lines]))
    if 0 < len(at) <= 8 and (np.diff(np.log(at)) > 0.16).all():
        ax.set_xticks(at)
        ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
        ax.xaxis.set_minor_locator(NullLocator())


def label_ends(ax: Axes, ends: Sequence[tuple[str, float, float, str]]) -> None:
    """Names (text, x, y, colour) right of the axes, pushed apart where they would overlap."""
    if not ends:
        return
    to_axes = ax.transData + ax.transAxes.inverted()
    ax.autoscale_view()
    places = sorted(
        (float(to_axes.transform((x, y))[1]), name, x, y, colour) for name, x, y, colour in ends
    )
    gap = min(0.062, 1.0 / max(len(places), 1))
    heights = spread([place[0] for place in places], gap)
    for height, (_, name, x, y, colour) in zip(heights, places, strict=True):
        ax.annotate(
            name,
            xy=(x, y),
            xytext=(1.035, height),
            textcoords="axes fraction",
            color=colour,
            va="center",
            fontsize="small",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": colour, "lw": 0.6, "alpha": 0.6, "shrinkB": 4},
        )


def spread(wanted: Sequence[float], gap: float) -> list[float]:
    """Sorted heights, moved as little as needed to be `gap` apart and, if they fit, in [0, 1]."""
    groups: list[tuple[float, int]] = []  # (mean of wanted heights, members), not overlapping
    for height in wanted:
        groups.append((height, 1))
        while len(groups) > 1:
            (low, k), (high, m) = groups[-2:]
            if high - low >= gap * (k + m) / 2:
                break
            groups[-2:] = [((low * k + high * m) / (k + m), k + m)]
    heights = [mean + gap * (j - (k - 1) / 2) for mean, k in groups for j in range(k)]
    if heights and heights[-1] > 1:  # push down from the top, then up from the bottom
        for j in reversed(range(len(heights))):
            heights[j] = min(heights[j], 1 - gap * (len(heights) - 1 - j))
    for j in range(len(heights)):
        heights[j] = max(heights[j], gap * j)
    return heights


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


def render(draw: Callable[[Axes], None], form: str, *, dark: bool = False) -> bytes:
    """One plot as the bytes of a "png" or "svg" file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with style(dark):
        figure = Figure(figsize=SIZE, layout="constrained")
        FigureCanvasAgg(figure)
        draw(figure.add_subplot())
        out = BytesIO()
        metadata = {"Date": None} if form == "svg" else {}
        figure.savefig(out, format=form, dpi=DPI, metadata=metadata)
    return out.getvalue()


def save(draw: Callable[[Axes], None], stem: Path) -> tuple[bytes, bytes]:
    """Write stem.png and stem.svg; return the SVG for light and for dark pages."""
    light = render(draw, "svg")
    atomic.write(stem.with_name(stem.name + ".svg"), light)
    atomic.write(stem.with_name(stem.name + ".png"), render(draw, "png"))
    return light, render(draw, "svg", dark=True)
