"""Pictures of results: samples, fits, reports and verdicts. Plain arrays in, a figure out.

    figure([bars(names, values, x="clauses", title="..."), ...], "report.png")

A panel is a function that draws on given axes. Figures are made without pyplot, so that no window
opens and nothing stays in memory. A notebook shows the figure that a cell ends with. The colours
follow Okabe and Ito (2008): people with common colour blindness can tell them apart.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nelson.errors import NelsonError, installed
from nelson.io import atomic

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#00855F", "#777777"
_STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.alpha": 0.3,
    "legend.frameon": False,
}

#: More variables than this are not named one by one.
MOST_NAMED = 40
#: Error bars and bands show this many standard errors.
SIGMAS = 2.0
_BAND = "noise alone (95%)"

#: Draws one panel.
Panel = Callable[["Axes"], None]


def figure(panels: Sequence[Panel], path: str | os.PathLike[str] | None = None) -> Any:
    """A figure with these panels; written to `path` (.png, .svg, .pdf) if given."""
    with installed('a plot needs matplotlib: pip install "nelson-mrf[plots]"'):
        import matplotlib as mpl
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    rows = 1 if len(panels) < 4 else 2
    columns = -(-len(panels) // rows)

    class Shown(Figure):
        """A notebook shows a figure of pyplot only; this one it shows in any case."""

        def _repr_png_(self) -> bytes:
            out = BytesIO()
            self.savefig(out, dpi=100, format="png")
            return out.getvalue()

    with mpl.rc_context(_STYLE):
        made = Shown(figsize=(5.2 * columns, 3.8 * rows), layout="constrained")
        FigureCanvasAgg(made)
        places = made.subplots(rows, columns, squeeze=False).reshape(-1)
        for axes, draw in zip(places, panels, strict=False):
            draw(axes)
        for axes in places[len(panels) :]:
            axes.remove()
        if path is not None:
            kind = Path(path).suffix[1:] or "png"
            if kind not in made.canvas.get_supported_filetypes():
                known = ", ".join(f".{one}" for one in ("png", "svg", "pdf"))
                raise NelsonError(f"cannot write a picture as {path}: give a name in {known}")
            with atomic.writing(path) as out:
                made.savefig(out, dpi=150, format=kind)
    return made


# --- panels ---------------------------------------------------------------------------------------


def noise(p: np.ndarray, m: int) -> np.ndarray:
    """Standard error of a share p that m independent samples estimate."""
    return np.sqrt(np.clip(p * (1 - p), 0, None) / max(1, m))


def marginals(
    names: Sequence[str], shares: Mapping[str, tuple[np.ndarray, int]], title: str
) -> Panel:
    """Shares of true samples, {series: (shares (n,), number of samples)}, with error bars."""

    def draw(axes: Axes) -> None:
        n = len(names)
        few = n <= MOST_NAMED
        first = next(iter(shares.values()))[0]
        order = np.arange(n) if few else np.argsort(first, kind="stable")
        for k, ((label, (p, m)), colour, marker) in enumerate(
            zip(shares.items(), (BLUE, ORANGE, GREEN), "osD", strict=False)
        ):
            at = np.arange(n) + 0.22 * (k - (len(shares) - 1) / 2)
            error = SIGMAS * noise(p, m)[order]
            style: dict[str, Any] = {"color": colour, "label": label, "markersize": 4 if few else 2}
            axes.errorbar(at, p[order], error, fmt=marker, capsize=2 if few else 0, lw=1, **style)
        if few:
            axes.set_xticks(np.arange(n), names, rotation=90 if n > 12 else 0, fontsize="small")
        axes.set_xlabel("variable" if few else f"{n:,} variables, sorted")
        axes.set_ylabel("share of samples in which it is true")
        axes.set_ylim(-0.03, 1.03)
        axes.set_title(title)
        if len(shares) > 1:
            axes.legend(loc="best")

    return draw


def correlations(names: Sequence[str], x: np.ndarray, title: str) -> Panel:
    """Correlations of all pairs of columns of x (m, n)."""

    def draw(axes: Axes) -> None:
        y = x - x.mean(axis=0)
        spread = np.sqrt((y**2).mean(axis=0))
        with np.errstate(invalid="ignore", divide="ignore"):
            table = (y.T @ y) / len(x) / np.outer(spread, spread)
        np.fill_diagonal(table, np.nan)
        most = float(np.nanmax(np.abs(table))) if np.isfinite(table).any() else 1.0
        image = axes.imshow(table, cmap="RdBu_r", vmin=-most or -1.0, vmax=most or 1.0)
        axes.figure.colorbar(image, ax=axes, label="correlation", shrink=0.85)
        axes.grid(False)
        if len(names) <= MOST_NAMED:
            at = np.arange(len(names))
            axes.set_xticks(at, names, rotation=90, fontsize="x-small")
            axes.set_yticks(at, names, fontsize="x-small")
        axes.set_title(title)

    return draw


def agreement(
    expected: np.ndarray, seen: np.ndarray, error: np.ndarray, *, x: str, y: str, title: str
) -> Panel:
    """Shares that were seen against those expected; points off by more than the noise stand out."""

    def draw(axes: Axes) -> None:
        with np.errstate(divide="ignore", invalid="ignore"):
            z = np.where(error > 0, np.abs(seen - expected) / error, 0.0)
        far = z > 4
        low = float(min(expected.min(), seen.min()))
        high = float(max(expected.max(), seen.max()))
        line = np.linspace(low, high, 2)
        axes.plot(line, line, color=GREY, lw=1, label="equal")
        size = 12 if len(expected) <= 500 else 4
        axes.scatter(expected[~far], seen[~far], s=size, color=BLUE, label="within the noise")
        if far.any():
            axes.scatter(
                expected[far], seen[far], s=size + 8, color=ORANGE, marker="D",
                label="off by more than 4 standard errors",
            )  # fmt: skip
        axes.set_xlabel(x)
        axes.set_ylabel(y)
        axes.set_title(title)
        axes.legend(loc="best")

    return draw


def ratios(expected: np.ndarray, seen: np.ndarray, *, what: str, title: str) -> Panel:
    """Counts over expected counts, sorted by what is expected, with the band of noise."""

    def draw(axes: Axes) -> None:
        order = np.argsort(-expected, kind="stable")
        e, o = expected[order], seen[order]
        at = np.arange(len(e))
        band = SIGMAS / np.sqrt(e)
        axes.fill_between(at, 1 - band, 1 + band, color=GREY, alpha=0.25, lw=0, label=_BAND)
        axes.axhline(1.0, color=GREY, lw=1)
        style = "o" if len(e) <= 200 else "."
        axes.plot(at, o / e, style, color=BLUE, markersize=4 if len(e) <= 200 else 2)
        axes.set_xlabel(f"{len(e):,} {what}, most likely first")
        axes.set_ylabel("samples seen / expected")
        axes.set_ylim(0, 1.1 * max(1.0, float(max((o / e).max(), (1 + band).max()))))
        axes.set_title(title)
        axes.legend(loc="best")

    return draw


def curve(
    points: Sequence[tuple[float, float | None]], *, y: str, title: str, at: float | None = None
) -> Panel:
    """A learning curve on a log axis; at: a level to reach."""

    def draw(axes: Axes) -> None:
        kept = [(a, b) for a, b in points if b is not None and math.isfinite(b) and b > 0]
        style = "-" if len(kept) > 60 else "o-"
        axes.plot([a for a, _ in kept], [b for _, b in kept], style, color=BLUE, markersize=3)
        if kept:
            axes.set_yscale("log")
        if at is not None:
            axes.axhline(at, color=GREY, linestyle=":")
        axes.set_xlabel("iteration")
        axes.set_ylabel(y)
        axes.set_title(title)

    return draw


def bars(
    names: Sequence[str], values: np.ndarray, *, x: str, title: str, colours: Sequence[str] = ()
) -> Panel:
    """Horizontal bars, the first one at the top."""

    def draw(axes: Axes) -> None:
        at = np.arange(len(names))
        axes.barh(at, values, color=colours or BLUE)
        axes.set_ylim(max(len(names), 4) - 0.5, -0.5)
        axes.set_yticks(at, names, fontsize="small")
        axes.axvline(0.0, color=GREY, lw=1)
        axes.set_xlabel(x)
        axes.grid(visible=False, axis="y")
        axes.set_title(title)

    return draw
