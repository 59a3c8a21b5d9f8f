"""Pictures of orientations: arrows on a graph, heavier where somebody cares.

More than a few hundred arrows are a carpet: such graphs are shown as a matrix, a row the vertex
that an edge leaves, a column the one it enters.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nelson.tasks import drawing

if TYPE_CHECKING:
    from nelson.tasks.orientations.task import Orientations

#: Vertices up to which they are named.
NAMED = 40
#: Edges up to which they are drawn as arrows.
ARROWS = 200


def layout(graph: Any) -> dict[Any, np.ndarray]:
    """Where to draw each vertex: its attribute "pos" if all have one, a circle if the graph is
    dense, else by springs; components that are apart are drawn apart.
    """
    import networkx

    given = networkx.get_node_attributes(graph, "pos")
    n, m = graph.number_of_nodes(), graph.number_of_edges()
    if len(given) == n:
        return {node: np.asarray(place, float) for node, place in given.items()}
    if m > 2 * n:
        turn = np.pi / 2 - 2 * np.pi * np.arange(n) / n  # clockwise from the top
        return {node: np.array([np.cos(a), np.sin(a)]) for node, a in zip(graph, turn, strict=True)}
    found: dict[Any, np.ndarray] = {}
    right = 0.0
    for nodes in networkx.connected_components(graph):
        part = graph.subgraph(nodes)
        start = networkx.circular_layout(part)
        place = networkx.spring_layout(part, pos=start, seed=0, iterations=300)
        if len(part) > 1:
            try:  # smoother, but needs scipy
                place = networkx.kamada_kawai_layout(part, pos=place)
            except ImportError:
                pass
        xy = np.array(list(place.values()))
        size = max(float(np.ptp(xy, axis=0).max()), 1e-9)
        scale = np.sqrt(len(part)) / size
        for node, at in place.items():
            found[node] = (at - xy.min(axis=0)) * scale + (right, 0.0)
        right += float(np.ptp(xy[:, 0])) * scale + 1.0
    return found


def draw_orientation(
    task: Orientations,
    row: np.ndarray,
    theta: np.ndarray | None,
    path: str | os.PathLike[str],
    title: str | None,
) -> Path:
    place = layout(task.graph)
    wide, high = np.ptp(np.array(list(place.values())), axis=0) + 0.3
    tall = 6.0 * float(np.clip(high / wide, 0.4, 1.3)) if task.n_vars <= ARROWS else 6.0
    fig = drawing.figure(6.5, tall + (1.0 if theta is not None else 0.7))
    ax = fig.subplots()
    _graph(ax, task, row, theta, place)
    sinks = "orange vertices" if task.n_vars <= ARROWS else "vertices with an empty row"
    told = "no vertex is a sink" if task.valid(row)[0] else f"{sinks} are sinks"
    fig.suptitle(title or f"{task.n_vars} edges with their directions: {told}", fontsize=11)
    if theta is not None:
        _legend(fig)
    return drawing.save(fig, path)


def draw_overview(
    task: Orientations,
    data: np.ndarray,
    theta: np.ndarray,
    generated: np.ndarray,
    path: str | os.PathLike[str],
) -> Path:
    fig = drawing.figure(12.5, 8.4)
    grid = fig.subplot_mosaic("AABBCC;DDDEEE", height_ratios=(1, 1))
    place = layout(task.graph)
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
    _legend(fig)
    return drawing.save(fig, path)


def _graph(
    ax: Any,
    task: Orientations,
    row: np.ndarray,
    theta: np.ndarray | None,
    place: dict[Any, np.ndarray],
    mark: bool = True,
) -> None:
    """Arrows and vertices; `mark`: colour a vertex that nothing leaves."""
    if task.n_vars > ARROWS:
        _matrix(ax, task, row, theta)
        return
    drawing.bare(ax)
    wide = np.full(len(row), 1.2) if theta is None else drawing.widths(theta, 0.6, 3.6)
    gap = 8.0 if len(place) <= NAMED else 3.0
    leaves = dict.fromkeys(place, 0)
    met: dict[frozenset[Any], int] = {}
    for e, (u, v, *_) in enumerate(task.edges):
        tail, head = (u, v) if row[e] else (v, u)
        leaves[tail] += 1
        colour = drawing.INK
        if theta is not None:
            colour = drawing.BLUE if bool(row[e]) == bool(theta[e] >= 0) else drawing.ORANGE
        # Parallel edges bend, the first not at all, the others to either side of it.
        turn = met.get(frozenset((u, v)), 0)
        met[frozenset((u, v))] = turn + 1
        bend = 0.18 * ((turn + 1) // 2) * (1 if turn % 2 else -1)
        if place[u] is place[tail]:
            bend = -bend
        drawing.arrow(
            ax, place[tail], place[head], colour=colour, width=float(wide[e]), bend=bend, gap=gap
        )
    xy = np.array(list(place.values()))
    for node in task.looped:
        leaves[node] += 1
        _loop(ax, place[node], xy.mean(axis=0))
    sink = np.array([mark and not leaves[node] for node in place])
    named = len(place) <= NAMED
    ax.scatter(
        *xy.T,
        s=190 if named else 18,
        c=np.where(sink, drawing.ORANGE, "white"),
        edgecolors=drawing.INK,
        lw=0.9,
        zorder=3,
    )
    if named:
        for node, at in place.items():
            size = 8 if len(str(node)) <= 2 else 6
            ax.text(*at, str(node), ha="center", va="center", fontsize=size, zorder=4)
    ax.margins(0.08)


def _matrix(ax: Any, task: Orientations, row: np.ndarray, theta: np.ndarray | None) -> None:
    """Cell (u, v) is inked if u -> v; the fainter, the less theta cares."""
    from matplotlib.colors import to_rgb

    rank = {node: i for i, node in enumerate(task.graph)}
    image = np.ones((len(rank), len(rank), 3))
    ink = np.ones(len(row)) if theta is None else drawing.widths(theta, 0.2, 1.0)
    for e, (u, v, *_) in enumerate(task.edges):
        tail, head = (u, v) if row[e] else (v, u)
        colour = drawing.INK
        if theta is not None:
            colour = drawing.BLUE if bool(row[e]) == bool(theta[e] >= 0) else drawing.ORANGE
        image[rank[tail], rank[head]] = 1 - ink[e] * (1 - np.array(to_rgb(colour)))
    ax.imshow(image, interpolation="nearest")
    drawing.framed(ax, "", "to vertex", "from vertex")


def _loop(ax: Any, at: np.ndarray, centre: np.ndarray) -> None:
    """A small circle at the vertex, on the side that looks away from the others."""
    from matplotlib.patches import Circle

    away = at - centre
    away = away / max(float(np.hypot(*away)), 1e-9)
    ax.add_patch(Circle(at + 0.1 * away, 0.1, fill=False, ec=drawing.GREY, lw=1.0))


def _legend(fig: Any) -> None:
    from matplotlib.lines import Line2D

    lines = [
        Line2D([], [], color=drawing.BLUE, lw=2.5, label="the way that θ prefers"),
        Line2D([], [], color=drawing.ORANGE, lw=2.5, label="the other way"),
        Line2D([], [], color=drawing.GREY, lw=0.8, label="thin or faint: θ near 0"),
    ]
    fig.legend(handles=lines, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
