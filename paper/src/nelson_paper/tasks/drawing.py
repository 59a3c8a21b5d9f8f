"""What the pictures of all tasks share: colours, a figure without pyplot, graphs, the usual panels.

`nelson_paper/style.py` has the colours. Figures are
made without pyplot: nothing global changes, no window opens, and several threads can draw.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from nelson.errors import FormulaError, NelsonError
from nelson.io import atomic
from nelson_paper.style import BLUE as BLUE
from nelson_paper.style import GREY as GREY
from nelson_paper.style import INK as INK
from nelson_paper.style import LIGHT as LIGHT
from nelson_paper.style import ORANGE as ORANGE
from nelson_paper.style import RED as RED

SUFFIXES = (".png", ".svg", ".pdf")
AnyPath = str | os.PathLike[str]


def figure(width: float, height: float) -> Any:
    """An empty matplotlib Figure, sizes in inches; its layout keeps labels apart."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise NelsonError('pictures need matplotlib: pip install "nelson-mrf[plots]"') from error
    return Figure(figsize=(width, height), layout="constrained", facecolor="white")


def save(fig: Any, path: AnyPath) -> Path:
    """Write the figure (.png, .svg or .pdf); the folder is made if it does not exist."""
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise FormulaError(f"picture {path.name!r}", expected="a name ending in .png, .svg or .pdf")
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic.writing(path) as out:
        fig.savefig(out, dpi=130, format=path.suffix[1:].lower())
    return path


def bare(ax: Any, title: str = "") -> None:
    """No frame, no ticks, equal scales: for maps and graphs."""
    ax.set_axis_off()
    ax.set(aspect="equal")
    if title:
        ax.set_title(title, fontsize=10)


def framed(ax: Any, title: str = "", x: str = "", y: str = "") -> None:
    """Axes on two sides, with labels: for charts."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.set(xlabel=x, ylabel=y)
    ax.tick_params(labelsize=8)
    if title:
        ax.set_title(title, fontsize=10)


def arrow(
    ax: Any,
    tail: Any,
    head: Any,
    *,
    colour: str = INK,
    width: float = 1.0,
    bend: float = 0.0,
    gap: float = 7.0,
    pointed: bool = True,
) -> None:
    """An arrow between two places, `gap` points away from each; `bend` != 0 curves it."""
    from matplotlib.patches import FancyArrowPatch

    ax.add_patch(
        FancyArrowPatch(
            (float(tail[0]), float(tail[1])),
            (float(head[0]), float(head[1])),
            arrowstyle="-|>" if pointed else "-",
            mutation_scale=6 + 3 * min(width, 4.0),
            shrinkA=gap,
            shrinkB=gap,
            lw=width,
            color=colour,
            connectionstyle=f"arc3,rad={bend}",
            joinstyle="miter",
            capstyle="butt",
        )
    )


def vertices(
    ax: Any,
    places: np.ndarray,
    size: float,
    *,
    colour: Any = "white",
    root: int | None = None,
    root_colour: str = ORANGE,
    root_size: float = 1.6,
) -> None:
    """Circles at places (n, 2); the root is a square, `root_size` times as large."""
    others = np.arange(len(places)) != (-1 if root is None else root)
    ax.scatter(*places[others].T, s=size, c=colour, edgecolors=INK, linewidths=0.9, zorder=3)
    if root is not None:
        mark = {"marker": "s", "color": root_colour, "edgecolors": INK, "label": "root"}
        ax.scatter(*places[root], s=root_size * size, zorder=3, **mark)


def vertex_names(ax: Any, places: np.ndarray, names: list[str], size: float) -> None:
    """Names in the middle of the vertices; size in points."""
    for place, name in zip(places, names, strict=True):
        ax.text(*place, name, ha="center", va="center", fontsize=size, zorder=4)


def layout(graph: Any) -> dict[Any, np.ndarray]:
    """Where to draw each vertex of a networkx graph, (x, y).

    Its attribute "pos" if all have one; a circle if the graph is dense; else by springs, with
    components side by side.
    """
    import networkx

    given = networkx.get_node_attributes(graph, "pos")
    n, m = graph.number_of_nodes(), graph.number_of_edges()
    if len(given) == n:
        return {node: np.asarray(place, float) for node, place in given.items()}
    if m > 2 * n:
        turn = np.pi / 2 - 2 * np.pi * np.arange(n) / n  # clockwise from the top
        return {node: np.array([np.cos(a), np.sin(a)]) for node, a in zip(graph, turn, strict=True)}
    places: dict[Any, np.ndarray] = {}
    right = 0.0
    for nodes in networkx.connected_components(graph):
        component = graph.subgraph(nodes)
        start = networkx.circular_layout(component)
        place = networkx.spring_layout(component, pos=start, seed=0, iterations=300)
        if len(component) > 1:
            try:  # smoother, but needs scipy
                place = networkx.kamada_kawai_layout(component, pos=place)
            except ImportError:
                pass
        xy = np.array(list(place.values()))
        scale = np.sqrt(len(component)) / max(float(np.ptp(xy, axis=0).max()), 1e-9)
        for node, at in place.items():
            places[node] = (at - xy.min(axis=0)) * scale + (right, 0.0)
        right += float(np.ptp(xy[:, 0])) * scale + 1.0
    return places


def widths(theta: np.ndarray, least: float = 0.8, most: float = 4.0) -> np.ndarray:
    """Line widths that grow with |theta|: `least` at 0, `most` at the largest |theta|."""
    size = np.abs(np.asarray(theta, float))
    size = np.where(np.isfinite(size), size, np.max(size[np.isfinite(size)], initial=1.0))
    return least + (most - least) * size / max(float(size.max(initial=0.0)), 1e-12)


def means(ax: Any, data: np.ndarray, generated: np.ndarray, what: str = "variable") -> None:
    """Marginals of new structures against marginals of the examples, with a band for the noise.

    data (N, n) bool, generated (m, n) bool. The band is +-2 sigma, sigma^2 = p (1 - p) (1/N + 1/m):
    if both come from one law, about one point in twenty lies outside.
    """
    p = np.linspace(0, 1, 101)
    sigma = np.sqrt(p * (1 - p) * (1 / len(data) + 1 / len(generated)))
    ax.fill_between(p, p - 2 * sigma, p + 2 * sigma, color=LIGHT, lw=0, label="noise, ±2σ")
    ax.plot([0, 1], [0, 1], color=GREY, lw=0.8)
    ax.plot(
        data.mean(axis=0), generated.mean(axis=0), "o", ms=4, color=BLUE, alpha=0.75, mec="none"
    )
    ax.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), aspect="equal")
    ax.legend(frameon=False, fontsize=8, loc="upper left")
    framed(ax, f"Frequency of each {what}", f"in {len(data):,} examples", "in new structures")


def recovered(ax: Any, planted: np.ndarray, theta: np.ndarray) -> None:
    """Learned weights against the hidden weights that the examples were drawn with."""
    low = float(min(planted.min(), theta.min()))
    high = float(max(planted.max(), theta.max()))
    ends = [low - 0.1 * (high - low + 1e-9), high + 0.1 * (high - low + 1e-9)]
    ax.plot(ends, ends, color=GREY, lw=0.8)
    ax.plot(planted, theta, "o", ms=4, color=RED, alpha=0.75, mec="none")
    ax.set(xlim=ends, ylim=ends, aspect="equal")
    r = float(np.corrcoef(planted, theta)[0, 1]) if len(theta) > 1 else float("nan")
    ax.text(0.04, 0.96, f"correlation {r:.2f}", transform=ax.transAxes, va="top", fontsize=8)
    framed(ax, "Weights", "hidden θ*", "learned θ")
