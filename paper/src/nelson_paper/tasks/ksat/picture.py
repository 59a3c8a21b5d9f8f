"""Pictures of K-SAT: an assignment with its clauses; examples, weights and new assignments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from nelson.formula import Formula
from nelson_paper.tasks import drawing

#: Assignments in a raster: more rows would be too thin to see.
_MAX_ROWS = 150
#: Up to this number of variables the columns carry names.
_MAX_NAMED = 40


def draw_assignment(
    formula: Formula,
    names: list[str],
    row: np.ndarray,
    theta: np.ndarray | None,
    path: drawing.AnyPath,
    title: str | None,
) -> Path:
    """Columns are variables (largest theta first), rows are clauses, dots are literals.

    A dot is filled if its literal holds: a valid assignment has a filled dot in every row. Clauses
    that fail are shaded.
    """
    n, m = formula.n_vars, formula.n_clauses
    order = np.arange(n) if theta is None else np.argsort(-theta, kind="stable")
    place = np.empty(n, int)
    place[order] = np.arange(1, n + 1)
    column = place[np.abs(formula.literals) - 1]
    clause = np.repeat(np.arange(1, m + 1), np.diff(formula.offsets))
    holds = row[np.abs(formula.literals) - 1] == (formula.literals > 0)
    broken = np.setdiff1d(np.arange(1, m + 1), clause[holds])

    fig = drawing.figure(min(3.5 + 0.2 * n, 14.0), min(3.0 + 0.17 * m, 12.0))
    top, table = fig.subplots(
        2, 1, sharex=True, height_ratios=(1, 7) if theta is not None else (1, 16)
    )
    tint = np.where(row[order], drawing.BLUE, drawing.LIGHT)
    top.bar(np.arange(1, n + 1), 1.0 if theta is None else theta[order], color=tint, width=0.8)
    drawing.framed(top, y="" if theta is None else "θ")
    top.tick_params(bottom=False, labelbottom=False)
    if theta is None:
        top.set_yticks([])
        top.spines["left"].set_visible(False)
    else:
        top.axhline(0, color=drawing.INK, lw=0.6)

    for j in range(1, m + 1):  # a thin line joins the literals of a clause
        if (mine := column[clause == j]).size:
            table.plot([mine.min(), mine.max()], [j, j], color=drawing.LIGHT, lw=0.7, zorder=0)
    for j in broken:
        table.axhspan(j - 0.5, j + 0.5, color=drawing.ORANGE, alpha=0.5, lw=0, zorder=-1)
    size = float(np.clip(3000 / max(n, m, 1), 2, 36))
    for shown, fill in ((~holds, "white"), (holds, drawing.BLUE)):
        edge = drawing.GREY if fill == "white" else fill
        table.scatter(column[shown], clause[shown], s=size, c=fill, edgecolors=edge, lw=0.8)
    table.set(xlim=(0, n + 1), ylim=(m + 0.7, 0.3))
    _columns(table, names, order)
    drawing.framed(table, "", _axis(theta is not None), "clause (filled: the literal holds)")
    _whole_numbers(table.yaxis)
    told = "all clauses hold" if not len(broken) else f"{len(broken)} of {m} clauses fail (shaded)"
    fig.suptitle(title or f"An assignment (blue: true); {told}", fontsize=11)
    return drawing.save(fig, path)


def draw_overview(
    what: str,
    names: list[str],
    data: np.ndarray,
    theta: np.ndarray,
    generated: np.ndarray,
    planted: np.ndarray | None,
    path: drawing.AnyPath,
) -> Path:
    """Two rasters with the same columns; weights; frequencies."""
    order = np.argsort(-theta, kind="stable")
    fig = drawing.figure(10.5, 8.2)
    (left, right), (below, corner) = fig.subplots(2, 2)
    _raster(left, data, order, names, "Examples")
    _raster(right, generated, order, names, "New, from what was learned")
    if planted is not None:
        drawing.recovered(below, planted, theta)
    else:
        below.bar(np.arange(1, len(theta) + 1), theta[order], color=drawing.RED, width=0.8)
        below.axhline(0, color=drawing.INK, lw=0.6)
        _columns(below, names, order)
        drawing.framed(below, "Learned weights", _axis(True), "θ")
    drawing.means(corner, data, generated)
    fig.suptitle(f"K-SAT with preferences: {what}", fontsize=12)
    return drawing.save(fig, path)


def _raster(ax: Any, rows: np.ndarray, order: np.ndarray, names: list[str], title: str) -> None:
    from matplotlib.colors import ListedColormap

    shown = rows[:_MAX_ROWS][:, order]
    ax.imshow(
        shown,
        cmap=ListedColormap(["#eeeeee", drawing.BLUE]),
        vmin=0,
        vmax=1,
        aspect="auto",
        interpolation="nearest",
        extent=(0.5, len(order) + 0.5, len(shown) + 0.5, 0.5),
    )
    _columns(ax, names, order)
    drawing.framed(
        ax, f"{title}: {len(shown)} of {len(rows):,} (blue: true)", _axis(True), "assignment"
    )


def _axis(sorted_by_theta: bool) -> str:
    return "variable" + (", largest θ first" if sorted_by_theta else "")


def _columns(ax: Any, names: list[str], order: np.ndarray) -> None:
    """Names below the columns if there is room for them, else numbers."""
    if len(names) <= _MAX_NAMED:
        ax.set_xticks(np.arange(1, len(names) + 1), [names[i] for i in order], rotation=90)
    else:
        _whole_numbers(ax.xaxis)


def _whole_numbers(axis: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True))
