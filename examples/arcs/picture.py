"""Pictures of rooted graphs: the root is a square, kept arcs are heavy, all others pale."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from examples.arcs.arcs import Arcs
from nelson_paper.tasks.drawing import (
    BLUE,
    LIGHT,
    AnyPath,
    arrow,
    bare,
    figure,
    layout,
    save,
    vertex_names,
    vertices,
)


def places(arcs: Arcs) -> np.ndarray:
    """(vertices, 2) in the unit square: the graph's own places, or a computed layout."""
    at = arcs.place
    if not np.isfinite(at).all():
        import networkx

        graph = networkx.Graph(zip(arcs.tail.tolist(), arcs.head.tolist(), strict=True))
        computed = layout(graph)
        at = np.array([computed[v] for v in range(arcs.n)])
    size = np.ptp(at, axis=0).max()
    return (at - at.min(axis=0)) / (size if size > 0 else 1.0)


def draw_graph(
    ax: Any, arcs: Arcs, at: np.ndarray, width: np.ndarray, colours: list[str], scale: float
) -> None:
    """Each variable with its width (0: not drawn) and colour; scale 1 is a large panel."""
    tail, head = arcs.tail[arcs.first], arcs.head[arcs.first]
    shown = set(zip(tail[width > 0].tolist(), head[width > 0].tolist(), strict=True))
    pointed = arcs.per == "arc"
    gap = 2.5 + 5.5 * scale
    for a in np.argsort(width, kind="stable"):
        if width[a] > 0:
            u, v = int(tail[a]), int(head[a])
            bend = 0.14 if pointed and (v, u) in shown else 0.0  # opposite arcs are drawn apart
            arrow(
                ax,
                at[u],
                at[v],
                colour=colours[a],
                width=float(width[a]) * (0.45 + 0.55 * scale),
                bend=bend,
                gap=gap,
                pointed=pointed,
            )
    vertices(ax, at, 20 + 90 * scale, root=arcs.root)
    names = [str(label) for label in arcs.labels]
    if scale >= 0.9 and max(map(len, names)) <= 3:
        vertex_names(ax, at, names, 6.5)
    ax.set(xlim=(-0.09, at[:, 0].max() + 0.09), ylim=(-0.09, at[:, 1].max() + 0.09))
    bare(ax)


def draw_structure(
    ax: Any,
    arcs: Arcs,
    at: np.ndarray,
    x: np.ndarray,
    scale: float,
    strength: np.ndarray | None = None,
) -> None:
    """Kept arcs blue, on top of pale lines for all arcs; `strength` (n_vars,) sets the widths."""
    for u, v in zip(arcs.tail.tolist(), arcs.head.tolist(), strict=True):
        ax.plot(*at[[u, v]].T, color=LIGHT, lw=0.8, zorder=0)
    width = np.full(len(x), 2.0) if strength is None else 0.9 + 3.0 * strength
    draw_graph(ax, arcs, at, np.where(x, width, 0.0), [BLUE] * len(x), scale)


def draw_one(
    arcs: Arcs, x: np.ndarray, strength: np.ndarray | None, title: str, path: AnyPath
) -> Path:
    fig = figure(5.0, 5.0)
    ax = fig.subplots()
    draw_structure(ax, arcs, places(arcs), x, 1.0, strength)
    bare(ax, title)
    return save(fig, path)


def draw_overview(
    arcs: Arcs,
    data: np.ndarray,
    strength: np.ndarray,
    generated: np.ndarray,
    legend: str,
    path: AnyPath,
) -> Path:
    """Four examples, the learned strengths, four new structures."""
    fig = figure(13.0, 4.9)
    at = places(arcs)
    left, middle, right = fig.subfigures(1, 3, wspace=0.03)
    for panel, x, what in ((left, data, "examples"), (right, generated, "new structures")):
        panel.suptitle(f"{min(4, len(x))} of {len(x):,} {what}", fontsize=11)
        for ax, row in zip(panel.subplots(2, 2).flat, x[:4], strict=False):
            draw_structure(ax, arcs, at, row, 0.35)
    middle.suptitle(f"Learned: {legend}", fontsize=11)
    ax = middle.subplots()
    draw_graph(ax, arcs, at, 0.3 + 4.2 * strength, [_shade(s) for s in strength], 1.0)
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, 0.03), frameon=False, fontsize=9)
    return save(fig, path)


def _shade(strength: float) -> str:
    """From pale to blue."""
    pale, full = np.array([0xD9, 0xD9, 0xD9]), np.array([0x00, 0x72, 0xB2])
    mixed = pale + (full - pale) * min(1.0, 0.15 + 1.1 * float(strength))
    return "#" + "".join(f"{round(c):02x}" for c in np.clip(mixed, 0, 255))
