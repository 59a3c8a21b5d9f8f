"""One look for all figures: of the experiments, of the tasks, of the laboratory.

The colours follow Okabe and Ito (2008), which people with common colour blindness can tell apart,
darkened or lightened for contrast with the page; later ones, of which there are too many for that,
also differ by marker. A drawing function reads colours while it draws, because it is called once
for a light and once for a dark page.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Colours of pictures on white paper.
BLUE, ORANGE, RED = "#0072b2", "#e69f00", "#d55e00"
GREY, LIGHT, INK = "#767676", "#d9d9d9", "#222222"
LIGHT_PALETTE = (
    "#0072B2", "#D55E00", "#00855F", "#B3589A", "#9A6B00", "#2E93C9", "#6B5BB5", "#444444",
    "#C1272D", "#4E7A00", "#7A3B1E", "#007C91", "#D6338A", "#1B2F87", "#8A8A00", "#8C8C8C",
    "#00A08A", "#E08A00", "#5B1A75", "#F0705A", "#34525C", "#B08BD9", "#000000",
)  # fmt: skip
DARK_PALETTE = (
    "#5AB4F0", "#FF8A3D", "#2CC99A", "#E39AC8", "#E6B43C", "#9AD4F5", "#B3A7F0", "#C8C8C8",
    "#DB8285", "#98B26B", "#BC9D8E", "#6BB3BF", "#E789BB", "#A4ACCF", "#BBBB6B", "#BCBCBC",
    "#6BC8BB", "#EDBB6B", "#BDA3C8", "#F6AC9F", "#A4B1B6", "#D9E38C", "#F2F2F2",
)  # fmt: skip


@contextmanager
def style(dark: bool = False) -> Iterator[None]:
    """Our settings of matplotlib, within a `with` block. No window is opened."""
    import matplotlib as mpl
    from cycler import cycler  # comes with matplotlib

    ink, faint, ground = (
        ("#E4E7EA", "#3A4149", "#14171A") if dark else ("#22262A", "#DDE1E5", "white")
    )
    settings: dict[Any, Any] = {
        "axes.prop_cycle": cycler(color=DARK_PALETTE if dark else LIGHT_PALETTE),
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


def label_ends(ax: Axes, ends: Sequence[tuple[float, str, str]]) -> None:
    """Names at the right end of lines instead of a legend. ends: (last y, name, colour).

    Names that would overlap move apart, and a thin line joins a name with its end. Call it when
    scales and limits are final.
    """
    if not ends:
        return
    place = ax.transData + ax.transAxes.inverted()
    x = ax.get_xlim()[1]
    heights = [float(place.transform((x, y))[1]) for y, _, _ in ends]
    gap = min(0.055, 1 / len(ends))
    order = np.argsort(heights, kind="stable")
    spread = np.clip(np.array(heights)[order], 0.0, 1.0)
    for k in range(1, len(spread)):  # up, until no two are closer than `gap`; then back below 1
        spread[k] = max(spread[k], spread[k - 1] + gap)
    spread[-1] = min(spread[-1], 1.0)
    for k in range(len(spread) - 2, -1, -1):
        spread[k] = min(spread[k], spread[k + 1] - gap)
    for k, y in zip(order, spread, strict=True):
        _, name, colour = ends[k]
        ax.annotate(
            name,
            (1.0, heights[k]),
            (1.04, float(y)),
            xycoords="axes fraction",
            textcoords="axes fraction",
            va="center",
            fontsize="small",
            color=colour,
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": colour,
                "lw": 0.6,
                "relpos": (0, 0.5),
                "shrinkA": 1,
                "shrinkB": 0,
            },
        )


def measured(ax: Axes, **words: Any) -> None:
    """Axes on two sides only, a light grid, and words for `ax.set`."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(alpha=0.4, lw=0.6)
    ax.set(**words)
