"""Maps: one route, or training routes, learned edges and new routes side by side.

The depot is a square. The overview has an arrow for each of the edges that together are nine tenths
of all edges driven. The width is the frequency of an edge; the colour of learned edges is theta_ij
without the part a_i + b_j that changes no probability.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nelson_paper.tasks import drawing
from nelson_paper.tasks.routes.convert import frequencies, summed, to_matrix

if TYPE_CHECKING:
    from nelson_paper.tasks.routes.task import Routes


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


def _frequent(p: np.ndarray) -> list[tuple[int, int]]:
    """The most frequent edges, which together are 9/10 of all edges driven, the rarest first."""
    order = np.argsort(-p, axis=None)
    enough = int(np.searchsorted(p.reshape(-1)[order].cumsum(), 0.9 * p.sum())) + 1
    return [(int(e) // len(p), int(e) % len(p)) for e in order[:enough]][::-1]


def _roads(ax: Any, task: Routes, p: np.ndarray, colour: Any) -> None:
    """Arrows for the most frequent edges; colour: of an edge (i, j)."""
    for i, j in _frequent(p):  # the most frequent edge on top
        drawing.arrow(
            ax, task.places[i], task.places[j],
            colour=colour(i, j), width=_width(p[i, j]), bend=0.12, gap=4.0,
        )  # fmt: skip
    ax.update_datalim(task.places)
    ax.autoscale_view()


def _width(share: float) -> float:
    return float(0.3 + 2.7 * share)


def _width_scale(ax: Any) -> None:
    """What the widths of arrows mean: three lines below the map."""
    for k, share in enumerate((0.1, 0.5, 1.0)):
        x = 0.2 + 0.22 * k
        line = {"color": drawing.GREY, "lw": _width(share), "transform": ax.transAxes}
        ax.plot([x, x + 0.06], [-0.04, -0.04], clip_on=False, **line)
        told = f"in {share:.0%} of routes" if k == 2 else f"{share:.0%}"
        ax.text(x + 0.075, -0.04, told, transform=ax.transAxes, va="center", fontsize=8)


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
    """How often roads are driven in examples | learned weights | how often in new routes."""
    fig = drawing.figure(14.0, 6.0)
    left, middle, right = fig.subplots(1, 3)
    given, made = (to_matrix(frequencies(routes), task.n) for routes in (data, generated))
    weight = centred(theta)
    values = np.array([weight[e] for e in _frequent(made)])
    scale = _scale(float(values.min()), float(values.max()))
    _roads(left, task, given, lambda i, j: drawing.GREY)
    _roads(middle, task, made, lambda i, j: scale.to_rgba(weight[i, j]))
    _roads(right, task, made, lambda i, j: drawing.BLUE)
    likeness = np.corrcoef(frequencies(data), frequencies(generated))[0, 1]
    titles = (
        f"Roads in {len(data):,} examples",
        "Roads that the model likes (dark)",
        f"Roads in {len(generated):,} new routes: correlation {likeness:.3f} with left",
    )
    for ax, title, common in zip((left, middle, right), titles, (given, made, made), strict=True):
        _locations(ax, task, common)
        drawing.bare(ax, title)
    _width_scale(left)
    _colour_bar(fig, scale, [left, middle, right], "learned weight θ", 0.3)
    return drawing.save(fig, path)
