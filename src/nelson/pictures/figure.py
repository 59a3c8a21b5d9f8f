"""A figure, its look, and its file.

    figure([bars(names, values, x="clauses", title="..."), ...], "report.png")

Figures are made without pyplot, so that no window opens and nothing stays in memory. A notebook
shows the figure that a cell ends with. The colours follow Okabe and Ito (2008): people with common
colour blindness can tell them apart.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nelson.errors import NelsonError
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

#: Draws one panel.
Panel = Callable[["Axes"], None]


def figure(panels: Sequence[Panel], path: str | os.PathLike[str] | None = None) -> Any:
    """A figure with these panels; written to `path` (.png, .svg, .pdf) if given."""
    try:
        import matplotlib as mpl
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise NelsonError('a plot needs matplotlib: pip install "nelson-mrf[plots]"') from error
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
