"""Pictures of orientations: arrows on a graph, wider if the preference is stronger.

A few hundred arrows would cover each other. Larger graphs are shown as a matrix: an edge stands in
the row of the vertex that it leaves and in the column of the vertex that it enters.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nelson_paper.tasks import drawing

if TYPE_CHECKING:
    from nelson_paper.tasks.orientations.task import Orientations

#: Up to this number of vertices they carry names.
_MAX_NAMED = 40
#: Up to this number of edges they are drawn as arrows.
_MAX_ARROWS = 200


def draw_orientation(
    task: Orientations,
    row: np.ndarray,
    theta: np.ndarray | None,
    path: drawing.AnyPath,
    title: str | None,
) -> Path:
    place = drawing.layout(task.graph)
    wide, high = np.ptp(np.array(list(place.values())), axis=0) + 0.3
    tall = 6.0 * float(np.clip(high / wide, 0.4, 1.3)) if task.n_vars <= _MAX_ARROWS else 6.0
    fig = drawing.figure(6.5, tall + (1.0 if theta is not None else 0.7))
    ax = fig.subplots()
    _graph(ax, task, row, theta, place)
    sinks = "orange vertices" if task.n_vars <= _MAX_ARROWS else "vertices with an empty row"
    told = "no vertex is a sink" if task.valid(row)[0] else f"{sinks} are sinks"
    fig.suptitle(title or f"{task.n_vars} edges with their directions: {told}", fontsize=11)
    if theta is not None:
        _legend(fig, theta)
    return drawing.save(fig, path)


def draw_overview(
    task: Orientations,
    data: np.ndarray,
    theta: np.ndarray,
    generated: np.ndarray,
    path: drawing.AnyPath,
) -> Path:
    fig = drawing.figure(12.5, 8.4)
    grid = fig.subplot_mosaic("AABBCC;DDDEEE", height_ratios=(1, 1))
    place = drawing.layout(task.graph)
    for key, row, weights, title in (
        ("A", data[0], theta, f"One of {len(data):,} examples"),
        ("B", theta >= 0, theta, "What was learned: the preferred direction"),
        ("C", generated[0], theta, f"One of {len(generated):,} new orientations"),
    ):
        _graph(grid[key], task, row, weights, place, mark=key != "B")
        grid[key].set_title(title, fontsize=10)
    if task.planted is not None:
        drawing.recovered(grid["D"], task.planted, theta)
    drawing.means(grid["E"], data, generated, "edge's direction")
    n = task.graph.number_of_nodes()
    fig.suptitle(f"Sink-free orientations: {n} vertices, {task.n_vars} edges", fontsize=12)
    _legend(fig, theta)
    return drawing.save(fig, path)


def _directions(
    task: Orientations, row: np.ndarray, theta: np.ndarray | None
) -> Iterator[tuple[int, Any, Any, str]]:
    """(edge, tail, head, colour): blue in the direction that theta prefers, orange against it."""
    for e, (u, v, *_) in enumerate(task.edges):
        colour = drawing.INK
        if theta is not None:
            colour = drawing.BLUE if bool(row[e]) == bool(theta[e] >= 0) else drawing.ORANGE
        yield (e, u, v, colour) if row[e] else (e, v, u, colour)


def _graph(
    ax: Any,
    task: Orientations,
    row: np.ndarray,
    theta: np.ndarray | None,
    place: dict[Any, np.ndarray],
    mark: bool = True,
) -> None:
    """Arrows and vertices; `mark`: colour the sinks."""
    if task.n_vars > _MAX_ARROWS:
        _matrix(ax, task, row, theta)
        return
    drawing.bare(ax)
    named = len(place) <= _MAX_NAMED
    wide = np.full(len(row), 1.2) if theta is None else drawing.widths(theta, 0.6, 3.6)
    leaves = dict.fromkeys(place, 0)
    met: dict[frozenset[Any], int] = {}
    for e, tail, head, colour in _directions(task, row, theta):
        leaves[tail] += 1
        # The first of several parallel edges is straight, the others bend to either side of it.
        turn = met.get(frozenset((tail, head)), 0)
        met[frozenset((tail, head))] = turn + 1
        bend = 0.18 * ((turn + 1) // 2) * (1 if turn % 2 else -1) * (-1 if row[e] else 1)
        drawing.arrow(
            ax,
            place[tail],
            place[head],
            colour=colour,
            width=float(wide[e]),
            bend=bend,
            gap=8.0 if named else 3.0,
        )
    xy = np.array(list(place.values()))
    for node in task.looped:
        leaves[node] += 1
        _loop(ax, place[node], xy.mean(axis=0))
    sink = np.array([mark and not leaves[node] for node in place])
    tint = np.where(sink, drawing.ORANGE, "white")
    drawing.vertices(ax, xy, 190 if named else 18, colour=tint)
    if named:
        names = [str(node) for node in place]
        drawing.vertex_names(ax, xy, names, 8 if max(map(len, names)) <= 2 else 6)
    ax.margins(0.08)


def _matrix(ax: Any, task: Orientations, row: np.ndarray, theta: np.ndarray | None) -> None:
    """Cell (u, v) is inked if u -> v; the fainter, the closer theta is to 0."""
    from matplotlib.colors import to_rgb

    rank = {node: i for i, node in enumerate(task.graph)}
    image = np.ones((len(rank), len(rank), 3))
    ink = np.ones(len(row)) if theta is None else drawing.widths(theta, 0.2, 1.0)
    for e, tail, head, colour in _directions(task, row, theta):
        image[rank[tail], rank[head]] = 1 - ink[e] * (1 - np.array(to_rgb(colour)))
    ax.imshow(image, interpolation="nearest")
    drawing.framed(ax, "", "to vertex", "from vertex")


def _loop(ax: Any, at: np.ndarray, centre: np.ndarray) -> None:
    """A small circle at the vertex, on the side away from the centre of the graph."""
    from matplotlib.patches import Circle

    away = at - centre
    away = away / max(float(np.hypot(*away)), 1e-9)
    ax.add_patch(Circle(at + 0.1 * away, 0.1, fill=False, ec=drawing.GREY, lw=1.0))


def _legend(fig: Any, theta: np.ndarray) -> None:
    from matplotlib.lines import Line2D

    most = float(np.abs(theta[np.isfinite(theta)]).max(initial=0.0))
    lines = [
        Line2D([], [], color=drawing.BLUE, lw=2.5, label="the way that θ prefers"),
        Line2D([], [], color=drawing.ORANGE, lw=2.5, label="the other way"),
        Line2D([], [], color=drawing.GREY, lw=0.8, label=f"width: |θ|, thin 0, wide {most:.2g}"),
    ]
    fig.legend(handles=lines, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
