"""Pictures of rooted graphs: the root a square, what a structure keeps heavy, the rest pale."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from nelson.tasks.arcs.arcs import Arcs
from nelson.tasks.drawing import BLUE, INK, LIGHT, ORANGE, arrow, bare, figure, save


def places(arcs: Arcs) -> np.ndarray:
    """(vertices, 2) in the unit square: as the graph has them, else a layout of networkx."""
    at = arcs.place
    if not np.isfinite(at).all():
        import networkx as nx

        graph = nx.Graph(zip(arcs.tail.tolist(), arcs.head.tolist(), strict=True))
        try:
            found = nx.kamada_kawai_layout(graph)
        except ImportError:  # that one needs SciPy
            found = nx.spring_layout(graph, seed=0)
        at = np.array([found[v] for v in range(arcs.n)])
    size = np.ptp(at, axis=0).max()
    return (at - at.min(axis=0)) / (size if size > 0 else 1.0)


def draw_graph(
    ax: Any, arcs: Arcs, width: np.ndarray, colours: list[str], scale: float, title: str = ""
) -> None:
    """Each variable with its width (0: not at all) and colour; scale 1 is a large panel."""
    at = places(arcs)
    tail, head = arcs.tail[arcs.first], arcs.head[arcs.first]
    shown = set(zip(tail[width > 0].tolist(), head[width > 0].tolist(), strict=True))
    pointed = arcs.per == "arc"
    gap = 2.5 + 5.5 * scale
    for a in np.argsort(width, kind="stable"):
        if width[a] > 0:
            u, v = int(tail[a]), int(head[a])
            bend = 0.14 if pointed and (v, u) in shown else 0.0  # two ways part
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
    others = np.arange(arcs.n) != arcs.root
    dot = 20 + 90 * scale
    ax.scatter(*at[others].T, s=dot, color="white", edgecolors=INK, linewidths=0.9, zorder=3)
    mark = {"marker": "s", "color": ORANGE, "edgecolors": INK, "label": "root"}
    ax.scatter(*at[arcs.root], s=1.6 * dot, zorder=3, **mark)
    if scale >= 0.9 and max(len(str(label)) for label in arcs.labels) <= 3:
        for v, label in enumerate(arcs.labels):
            ax.text(*at[v], str(label), ha="center", va="center", fontsize=6.5, zorder=4)
    ax.set(xlim=(-0.09, at[:, 0].max() + 0.09), ylim=(-0.09, at[:, 1].max() + 0.09))
    bare(ax, title)


def draw_structure(
    ax: Any,
    arcs: Arcs,
    x: np.ndarray,
    scale: float,
    title: str = "",
    strength: np.ndarray | None = None,
) -> None:
    """Kept arcs blue; edges of which nothing is kept as pale lines."""
    at = places(arcs)
    for u, v in zip(arcs.tail.tolist(), arcs.head.tolist(), strict=True):
        ax.plot(*at[[u, v]].T, color=LIGHT, lw=0.8, zorder=0)
    width = np.full(len(x), 2.0) if strength is None else 0.9 + 3.0 * strength
    draw_graph(ax, arcs, np.where(x, width, 0.0), [BLUE] * len(x), scale, title)


def draw_one(
    arcs: Arcs,
    x: np.ndarray,
    strength: np.ndarray | None,
    title: str,
    path: str | os.PathLike[str],
) -> Path:
    fig = figure(5.0, 5.0)
    draw_structure(fig.subplots(), arcs, x, 1.0, title, strength)
    return save(fig, path)


def overview(
    arcs: Arcs,
    data: np.ndarray,
    strength: np.ndarray,
    generated: np.ndarray,
    legend: str,
    path: str | os.PathLike[str],
) -> Path:
    """Four examples, what was learned from all of them, four new structures."""
    fig = figure(13.0, 4.9)
    left, middle, right = fig.subfigures(1, 3, wspace=0.03)
    for part, x, what in ((left, data, "examples"), (right, generated, "new structures")):
        part.suptitle(f"{min(4, len(x))} of {len(x):,} {what}", fontsize=11)
        for ax, row in zip(part.subplots(2, 2).flat, x[:4], strict=False):
            draw_structure(ax, arcs, row, 0.35)
    middle.suptitle(f"Learned: {legend}", fontsize=11)
    ax = middle.subplots()
    shades = [_shade(s) for s in strength]
    draw_graph(ax, arcs, 0.3 + 4.2 * strength, shades, 1.0)
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, 0.03), frameon=False, fontsize=9)
    return save(fig, path)


def _shade(strength: float) -> str:
    """From pale to blue."""
    pale, full = np.array([0xD9, 0xD9, 0xD9]), np.array([0x00, 0x72, 0xB2])
    mixed = pale + (full - pale) * min(1.0, 0.15 + 1.1 * float(strength))
    return "#" + "".join(f"{round(c):02x}" for c in np.clip(mixed, 0, 255))
