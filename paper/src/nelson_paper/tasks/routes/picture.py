"""Maps: one route, or training routes, learned edges and new routes side by side.

The depot is a square. The overview draws many routes on top of each other, thin and transparent, so
that common edges add up. Learned edges are the most frequent edges of the generated routes, as
arrows: the width is the frequency of an edge, the colour is theta_ij without the part a_i + b_j
that changes no probability.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nelson_paper.tasks import drawing
from nelson_paper.tasks.routes.convert import frequencies, summed, to_matrix

if TYPE_CHECKING:
    from nelson_paper.tasks.routes.task import Routes

#: Routes drawn on top of each other: more would hide the differences between edges.
_MAX_ROUTES = 60


def centred(theta: np.ndarray) -> np.ndarray:
    """theta (n, n) minus a_i + b_j such that rows and columns have mean 0 off the diagonal.

    The law does not change: every location is left once and entered once.
    """
    n = len(theta)
    rest, off = theta.copy(), ~np.eye(n, dtype=bool)
    for _ in range(100):
        rows = rest.sum(axis=1, where=off) / (n - 1)
        rest -= rows[:, None]
        columns = rest.sum(axis=0, where=off) / (n - 1)
        rest -= columns
        if max(np.abs(rows).max(), np.abs(columns).max()) < 1e-9:
            break
    rest[~off] = 0.0
    return rest


def _scale(low: float, high: float) -> Any:
    """Colours of weights, without yellow: it is hard to see on white."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap, Normalize

    visible = ListedColormap(colormaps["viridis_r"](np.linspace(0.2, 1.0, 256)))
    return ScalarMappable(Normalize(min(0.0, low), max(high, 1e-9)), visible)


def _colour_bar(fig: Any, scale: Any, ax: Any, label: str, shrink: float) -> None:
    bar = fig.colorbar(
        scale, ax=ax, location="bottom", shrink=shrink, aspect=35, pad=0.03, fraction=0.05
    )
    bar.set_label(label, fontsize=8)
    bar.ax.tick_params(labelsize=7)


def _quiet_directions(places: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """For each location the direction (n, 2) with the fewest lines: room for its name.

    drawn: (n, n) how heavy the line i -> j is.
    """
    angles = np.arange(16) * np.pi / 8
    rays = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    to = places[None] - places[:, None]
    far = np.maximum(np.sqrt((to**2).sum(axis=2, keepdims=True)), 1e-12)
    towards = np.maximum(np.einsum("ijd,kd->ijk", to / far, rays), 0.0) ** 3
    busy = np.einsum("ij,ijk->ik", drawn + drawn.T, towards)
    return rays[np.argmin(busy, axis=1)]


def _locations(ax: Any, task: Routes, drawn: np.ndarray, size: float = 26.0) -> None:
    from matplotlib.patheffects import withStroke

    drawing.vertices(ax, task.places, size, root=0, root_colour=drawing.INK, root_size=2.2)
    away = 10 * _quiet_directions(task.places, drawn)
    for place, shift, name in zip(task.places, away, task.locations, strict=True):
        ax.annotate(
            name, place, shift, textcoords="offset points", fontsize=7, color=drawing.INK,
            ha="center", va="center", zorder=7,
            path_effects=[withStroke(linewidth=1.5, foreground="white")],
        )  # fmt: skip


def _many_routes(ax: Any, task: Routes, routes: np.ndarray, colour: str) -> None:
    from matplotlib.collections import LineCollection

    routes = routes[:_MAX_ROUTES]
    closed = np.concatenate([routes, routes[:, :1]], axis=1)
    alpha = max(0.04, min(0.5, 4 / max(len(routes), 1)))
    ax.add_collection(LineCollection(task.places[closed], colors=colour, lw=1.3, alpha=alpha))
    ax.autoscale_view()


def _common_edges(ax: Any, task: Routes, theta: np.ndarray, generated: np.ndarray) -> Any:
    """The most frequent edges, 9/10 of all edges driven. -> the scale for the colour bar"""
    p, weight = to_matrix(frequencies(generated), task.n), centred(theta)
    order = np.argsort(-p, axis=None)
    enough = int(np.searchsorted(p.reshape(-1)[order].cumsum(), 0.9 * p.sum())) + 1
    shown = [divmod(int(e), task.n) for e in order[:enough]]
    values = np.array([weight[e] for e in shown])
    scale = _scale(float(values.min()), float(values.max()))
    for i, j in reversed(shown):  # the most frequent edge on top
        drawing.arrow(
            ax, task.places[i], task.places[j],
            colour=scale.to_rgba(weight[i, j]), width=0.3 + 2.7 * p[i, j], bend=0.12, gap=4.0,
        )  # fmt: skip
    ax.update_datalim(task.places)
    ax.autoscale_view()
    return scale


def draw_route(
    task: Routes,
    route: np.ndarray,
    path: drawing.AnyPath,
    theta: np.ndarray | None = None,
    title: str | None = None,
) -> Path:
    """One route with its direction; given theta, edges are coloured by their weights."""
    fig = drawing.figure(5.6, 6.2 if theta is not None else 5.8)
    ax = fig.subplots()
    to = np.roll(route, -1)
    length = float(summed(task.distances, route))
    scale = None
    if theta is not None:
        weight = centred(theta)[route, to]
        scale = _scale(float(weight.min()), float(weight.max()))
    for k, (i, j) in enumerate(zip(route, to, strict=True)):
        colour = drawing.BLUE if scale is None else scale.to_rgba(weight[k])
        drawing.arrow(ax, task.places[i], task.places[j], colour=colour, width=1.6, gap=4.5)
    ax.update_datalim(task.places)
    ax.autoscale_view()
    driven = np.zeros((task.n, task.n))
    driven[route, to] = 1.0
    _locations(ax, task, driven)
    drawing.bare(ax, f"Round trip of length {length:,.0f}" if title is None else title)
    if scale is not None:
        _colour_bar(fig, scale, ax, "weight θ of the edge", 0.7)
    return drawing.save(fig, path)


def draw_overview(
    task: Routes,
    data: np.ndarray,
    theta: np.ndarray,
    generated: np.ndarray,
    path: drawing.AnyPath,
) -> Path:
    """Training routes | learned edges | new routes."""
    fig = drawing.figure(14.0, 6.0)
    left, middle, right = fig.subplots(1, 3)
    _many_routes(left, task, data, drawing.GREY)
    scale = _common_edges(middle, task, theta, generated)
    _many_routes(right, task, generated, drawing.BLUE)
    shown = min(_MAX_ROUTES, len(data)), min(_MAX_ROUTES, len(generated))
    titles = (
        f"Training: {shown[0]} of {len(data):,} routes",
        "Learned: the edges of nine tenths of the way",
        f"Generated: {shown[1]} of {len(generated):,} new routes",
    )
    drawn = [to_matrix(frequencies(r), task.n) for r in (data, generated, generated)]
    for ax, title, common in zip((left, middle, right), titles, drawn, strict=True):
        _locations(ax, task, common)
        drawing.bare(ax, title)
    label = "learned weight θ (wide arrows: driven often)"
    _colour_bar(fig, scale, [left, middle, right], label, 0.3)
    return drawing.save(fig, path)
