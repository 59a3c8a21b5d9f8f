"""Maps: one route, or training routes, learned edges and new routes side by side.

Locations stand where they are; the depot is a square. The overview draws many routes on top of
each other, thin and transparent, so that common edges add up. Learned edges are the likeliest ones
under the model, as arrows: width is how often an edge is driven, colour is theta_ij with its free
part (a_i + b_j, which changes no probability) taken out.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nelson.tasks import drawing
from nelson.tasks.routes.convert import to_matrix
from nelson.tasks.routes.learn import frequencies

if TYPE_CHECKING:
    from nelson.tasks.routes.task import Routes

SHOWN = 60  # routes drawn on top of each other


def centred(theta: np.ndarray) -> np.ndarray:
    """theta (n, n) less a_i + b_j such that rows and columns have mean 0 off the diagonal.

    The law stays: every location is left once and entered once.
    """
    n = len(theta)
    found, off = theta.copy(), ~np.eye(n, dtype=bool)
    for _ in range(100):
        rows = found.sum(axis=1, where=off) / (n - 1)
        found -= rows[:, None]
        columns = found.sum(axis=0, where=off) / (n - 1)
        found -= columns
        if max(np.abs(rows).max(), np.abs(columns).max()) < 1e-9:
            break
    found[~off] = 0.0
    return found


def _scale(low: float, high: float) -> Any:
    """Colours of weights: no yellow, which does not show on white."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap, Normalize

    seen = ListedColormap(colormaps["viridis_r"](np.linspace(0.2, 1.0, 256)))
    return ScalarMappable(Normalize(min(0.0, low), max(high, 1e-9)), seen)


def _bar(fig: Any, scale: Any, ax: Any, label: str, shrink: float) -> None:
    bar = fig.colorbar(
        scale, ax=ax, location="bottom", shrink=shrink, aspect=35, pad=0.03, fraction=0.05
    )
    bar.set_label(label, fontsize=8)
    bar.ax.tick_params(labelsize=7)


def _quiet(places: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """For each location the direction (n, 2) in which fewest lines leave it: room for its name.

    drawn: (n, n) how heavily i -> j is drawn.
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

    x, y = task.places.T
    ax.scatter(x[1:], y[1:], s=size, color="white", edgecolor=drawing.INK, lw=0.9, zorder=5)
    ax.scatter(x[:1], y[:1], s=2.2 * size, marker="s", color=drawing.INK, zorder=6)
    away = 10 * _quiet(task.places, drawn)
    for place, shift, name in zip(task.places, away, task.locations, strict=True):
        ax.annotate(
            name, place, shift, textcoords="offset points", fontsize=7, color=drawing.INK,
            ha="center", va="center", zorder=7,
            path_effects=[withStroke(linewidth=1.5, foreground="white")],
        )  # fmt: skip


def _many(ax: Any, task: Routes, routes: np.ndarray, colour: str) -> None:
    from matplotlib.collections import LineCollection

    routes = routes[:SHOWN]
    closed = np.concatenate([routes, routes[:, :1]], axis=1)
    alpha = max(0.04, min(0.5, 4 / max(len(routes), 1)))
    ax.add_collection(LineCollection(task.places[closed], colors=colour, lw=1.3, alpha=alpha))
    ax.autoscale_view()


def _edges(ax: Any, task: Routes, theta: np.ndarray, generated: np.ndarray) -> Any:
    """The edges that make up nine tenths of what is driven; -> what a colour bar needs."""
    p, weight = to_matrix(frequencies(generated), task.n), centred(theta)
    order = np.argsort(-p, axis=None)
    enough = int(np.searchsorted(p.reshape(-1)[order].cumsum(), 0.9 * p.sum())) + 1
    shown = [divmod(int(e), task.n) for e in order[:enough]]
    values = np.array([weight[e] for e in shown])
    scale = _scale(float(values.min()), float(values.max()))
    for i, j in reversed(shown):  # the commonest on top
        drawing.arrow(
            ax, task.places[i], task.places[j],
            colour=scale.to_rgba(weight[i, j]), width=0.3 + 2.7 * p[i, j], bend=0.12, gap=4.0,
        )  # fmt: skip
    ax.update_datalim(task.places)
    ax.autoscale_view()
    return scale


def one_route(
    task: Routes,
    route: np.ndarray,
    path: str | os.PathLike[str],
    theta: np.ndarray | None = None,
    title: str | None = None,
) -> Path:
    """One route with the direction it is driven; edges coloured by theta where it is given."""
    fig = drawing.figure(5.6, 6.2 if theta is not None else 5.8)
    ax = fig.subplots()
    to = np.roll(route, -1)
    length = float(task.distances[route, to].sum())
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
        _bar(fig, scale, ax, "weight θ of the edge", 0.7)
    return drawing.save(fig, path)


def overview(
    task: Routes,
    data: np.ndarray,
    theta: np.ndarray,
    generated: np.ndarray,
    path: str | os.PathLike[str],
) -> Path:
    """Training routes | learned edges | new routes."""
    fig = drawing.figure(14.0, 6.0)
    left, middle, right = fig.subplots(1, 3)
    _many(left, task, data, drawing.GREY)
    scale = _edges(middle, task, theta, generated)
    _many(right, task, generated, drawing.BLUE)
    shown = min(SHOWN, len(data)), min(SHOWN, len(generated))
    titles = (
        f"Training: {shown[0]} of {len(data):,} routes",
        "Learned: the edges of nine tenths of the way",
        f"Generated: {shown[1]} of {len(generated):,} new routes",
    )
    drawn = [to_matrix(frequencies(r), task.n) for r in (data, generated, generated)]
    for ax, title, common in zip((left, middle, right), titles, drawn, strict=True):
        _locations(ax, task, common)
        drawing.bare(ax, title)
    _bar(fig, scale, [left, middle, right], "learned weight θ (wide arrows: driven often)", 0.3)
    return drawing.save(fig, path)
