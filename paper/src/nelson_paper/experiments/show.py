"""From rows to tables: a row per sampler, a column per size, the paper's figures below."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from nelson_paper.experiments.base import FAILED, OK, Rows, Table
from nelson_paper.experiments.published import SAMPLERS, Figure, Published
from nelson_paper.experiments.samplers import label, order

Picked = list[Mapping[str, Any]]
NOT_RUN = "not run"


def pick(rows: Rows, **wanted: Any) -> Picked:
    """Rows whose fields have these values."""
    return [row for row in rows if all(row.get(name) == value for name, value in wanted.items())]


def good(rows: Rows) -> Picked:
    return [row for row in rows if row["status"] == OK]


def sizes(rows: Rows, key: str = "n") -> list[Any]:
    return sorted({row[key] for row in rows if row.get(key) is not None})


def samplers(rows: Rows) -> list[str]:
    return order({row["sampler"] for row in rows if row.get("sampler")})


def mean(rows: Rows, field: str) -> float | None:
    """Mean of a field over the rows that have it; None if no row has it."""
    values = [row[field] for row in rows if row.get(field) is not None]
    return float(np.mean(values)) if values else None


def text(rows: Rows, show: Callable[[Picked], str]) -> str:
    """The text of one cell: `show` of the successful rows, then the statuses of the others."""
    if not rows:
        return NOT_RUN
    worked = good(rows)
    others = sorted({_short(row["status"]) for row in rows if row["status"] != OK})
    if not worked:
        return ", ".join(others)
    told = show(worked) or NOT_RUN
    if others:
        told += f" ({len(rows) - len(worked)} of {len(rows)}: {', '.join(others)})"
    return told


def _short(status: str) -> str:
    return "failed" if status.startswith(FAILED) else status


def grid(
    title: str,
    rows: Rows,
    show: Callable[[Picked], str],
    *,
    key: str = "n",
    columns: Sequence[Any] | None = None,
    head: Callable[[Any], str] = lambda size: f"n = {size}",
    paper: Published | None = None,
    scale: Callable[[float], str] = lambda figure: f"{figure:g}",
    extra: Iterable[tuple[str, Callable[[Any], str]]] = (),
    lead: str = "",
    notes: Iterable[str] = (),
    best: Callable[..., float] | None = None,
    value: Callable[[Picked], float | None] = lambda rows: None,
    within: Callable[[Picked], float | None] = lambda rows: 0.0,
) -> Table:
    """A table with a row per sampler and a column per value of `key`.

    show: from the successful rows of one cell to its text. head: from a value of `key` to the
    heading of its column. paper, scale: the paper's figures, shown below ours, and their text.
    lead: what the table shows, in a sentence. notes: what to know about the figures.
    extra: further rows, as (name, size -> text).
    best: min or max of `value` is printed bold, of cells in which nothing failed; so is every other
    cell with the same text, or with a value no further from the best than its error bar `within`.
    """
    columns = sizes(rows, key) if columns is None else list(columns)
    body = [
        [label(name), *(text(pick(rows, sampler=name, **{key: size}), show) for size in columns)]
        for name in samplers(rows)
    ]
    bold = set()
    for k, size in enumerate(columns if best else (), start=1):
        cells = [pick(rows, sampler=name, **{key: size}) for name in samplers(rows)]
        bold |= {(row, k) for row in _best(cells, [line[k] for line in body], best, value, within)}
    body += [[name, *(told(size) for size in columns)] for name, told in extra]
    theirs = published_rows(paper, columns, scale)
    said = [note for note in (*notes, failures(rows)) if note]
    return Table(
        title,
        ["sampler", *map(head, columns)],
        [*body, *theirs],
        " ".join(said),
        frozenset(bold),
        len(body) if theirs else None,
        lead,
    )


def _best(
    cells: Sequence[Picked],
    texts: Sequence[str],
    best: Callable[..., float] | None,
    value: Callable[[Picked], float | None],
    within: Callable[[Picked], float | None],
) -> list[int]:
    """The indices of the cells that are printed bold."""
    known = {
        k: v
        for k, rows in enumerate(cells)
        if rows and len(good(rows)) == len(rows) and (v := value(good(rows))) is not None
    }
    if best is None or not known:
        return []
    top = best(known.values())
    shown = {texts[k] for k, v in known.items() if v == top}
    return [
        k
        for k, v in known.items()
        if texts[k] in shown or abs(v - top) <= (within(good(cells[k])) or 0.0)
    ]


def published_rows(
    paper: Published | None, columns: Sequence[Any], scale: Callable[[float], str]
) -> list[list[str]]:
    """The paper's figures at these sizes, for those of its samplers that we have too."""
    if paper is None or not set(columns) & set(paper.sizes):
        return []
    return [
        [f"paper: {name}", *(_figure(figures.get(size), scale) for size in columns)]
        for name, figures in paper.figures.items()
        if name in SAMPLERS
    ]


def _figure(figure: Figure | None, scale: Callable[[float], str]) -> str:
    if figure is None:
        return ""
    return figure if isinstance(figure, str) else scale(figure)


def failures(rows: Rows) -> str:
    """A sentence on cells without a figure: the first reason of each sampler."""
    seen: dict[str, list[str]] = {}
    for row in rows:
        if row["status"].startswith(FAILED) or row.get("reason"):
            told = row["status"] + (f" ({row['reason']})" if row.get("reason") else "")
            seen.setdefault(str(row.get("sampler", "?")), []).append(told)
    parts = [
        f"`{name}`: {told[0]}" + (f" (the first of {len(told)} cells)" if len(told) > 1 else "")
        for name, told in seen.items()
    ]
    return f"Cells without a figure: {'; '.join(parts)}." if parts else ""


def measured_time(seconds: float) -> str:
    """A measured time for a table, with 3 significant digits: 0.52 ms, 7.8 s, 34 min."""
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3)):
        if seconds >= size * (2.0 if size >= 60 else 1.0):
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def percent(share: float) -> str:
    """A share as text; "100%" only for exactly 1."""
    told = f"{100 * share:.4g}%"
    return "99.999%" if told == "100%" and share < 1.0 else told


def series(rows: Rows, field: str, key: str = "n") -> dict[str, tuple[list[float], list[float]]]:
    """For `plots.curves`: sampler -> (sizes, mean values)."""
    curves: dict[str, tuple[list[float], list[float]]] = {}
    for name in samplers(rows):
        own = good(pick(rows, sampler=name))
        points = [(size, mean(pick(own, **{key: size}), field)) for size in sizes(own, key)]
        kept = [(size, value) for size, value in points if value is not None]
        if kept:
            curves[name] = ([size for size, _ in kept], [value for _, value in kept])
    return curves
