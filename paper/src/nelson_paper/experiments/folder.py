"""The files of a run's folder, written from its finished cells at any time.

    results.parquet        all rows: key fields, status, figures
    table.md, tables.tex   all tables, as Markdown and as LaTeX
    NAME-PLOT.png, .svg    all plots
    report.html            the same as one page, with machine, versions, seeds and command lines
    cells.jsonl            the finished cells (`records.py`)

The rows are written first. A table or plot that fails is reported in its place, so that an error in
a plot never loses hours of measurements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from nelson.errors import FormulaError
from nelson.io import atomic
from nelson_paper.experiments import claims, formulas, plots, samplers
from nelson_paper.experiments.base import (
    LIMITED,
    OK,
    TIMED_OUT,
    TOO_LARGE,
    Cell,
    Experiment,
    Row,
    Table,
)
from nelson_paper.experiments.records import CellStore, write_parquet
from nelson_paper.experiments.registry import get, names
from nelson_paper.experiments.report import DASH, Image, Section, latex, markdown, write_page

LEGEND = (
    f"`{TIMED_OUT}`: not finished within the time limit, which says nothing about validity. "
    f"`{TOO_LARGE}`, `{LIMITED}`: a limit of the sampler itself; the notes have the reason. "
    f"`{DASH}`: this figure does not exist, or its cell was not run."
)


class Written(NamedTuple):
    """The result of `write`."""

    tables: dict[str, list[Table]]  # by experiment, for printing
    problems: list[str]  # tables and plots that failed, each with its error


def write(
    folder: Path,
    store: CellStore,
    full: bool,
    *,
    seconds: float | None = None,
    files: str | None = None,
    data: str | None = None,
) -> Written:
    """Write all files from the finished cells. seconds: the limit that was set for all cells.

    files: the folder of formulas, if they were read; data: the folder of data.
    """
    order = names()
    begun = sorted(store.experiments(), key=lambda n: order.index(n) if n in order else len(order))
    experiments = {name: get(name) for name in begun}
    cells = {name: planned(name, full, seconds, files, data) or store.cells(name) for name in begun}
    rows = {name: store.rows(name, cells[name]) for name in begun}
    every_row = [row for name in begun for row in rows[name]]
    write_parquet(folder / "results.parquet", every_row)
    problems: list[str] = []
    tables, sections = {}, []
    for name, experiment in experiments.items():
        made = _attempt(f"{name}: tables", partial(experiment.tables, rows[name]), problems)
        tables[name] = list(made or [])
        images = _plots(folder, name, experiment, rows[name], problems)
        done = sum(store.has(cell) for cell in cells[name])
        told = f"{_purpose(experiment)}\n\n{_counts(done, cells[name], rows[name])}"
        sections.append(
            Section(experiment.title, told, tables[name], images, _not_ok(cells[name], rows[name]))
        )
    claimed = _attempt("claims", partial(claims.table, rows), problems)
    if claimed is not None:
        sections.insert(0, Section("What we claim", "", [claimed]))
    explained = _attempt("samplers", partial(samplers.about, every_row), problems)
    if explained is not None:
        sections.append(Section("The samplers", "", [explained]))
        tables["samplers"] = [explained]
    if problems:
        sections.append(Section("Tables and plots that failed", "\n\n".join(problems)))
    atomic.write(folder / "table.md", _markdown(sections, full).encode())
    every = [table for made in tables.values() for table in made]
    atomic.write(folder / "tables.tex", latex(every).encode())
    sections += [_made(store, rows, cells)]
    titles = ", ".join(experiment.name for experiment in experiments.values())
    title = f"nelson bench: {titles}" if len(begun) < 4 else "nelson bench: all results"
    write_page(folder / "report.html", title, sections, lead=_lead(store, full))
    return Written(tables, problems)


def planned(
    name: str,
    full: bool,
    seconds: float | None = None,
    files: str | None = None,
    data: str | None = None,
) -> list[Cell]:
    """The cells of an experiment, with its name in each. files: a folder of formulas; data: the
    folder of its data.
    """
    experiment = get(name)
    if experiment.from_data:
        wanted = [] if data is None else experiment.cells(full, data)
    elif files is None:
        wanted = experiment.cells(full)
    elif experiment.cells_on_files is None:
        able = ", ".join(other for other in names() if get(other).cells_on_files)
        raise FormulaError(f"{name} reads no formula files", expected=f"one of {able}")
    else:
        wanted = [
            replace(cell, key={**cell.key, "formulas": files})
            for cell in experiment.cells_on_files(full, formulas.sizes(files))
        ]
    cells = [Cell(cell.key, seconds or cell.seconds, cell.memory, name) for cell in wanted]
    if len({cell.id for cell in cells}) < len(cells):
        raise ValueError(f"experiment {name}: two cells have the same key")
    return cells


def _attempt(what: str, make: Callable[[], Any], problems: list[str]) -> Any:
    try:
        return make()
    except Exception as error:  # the rows are written already
        problems.append(f"{what}: {type(error).__name__}: {error}")
        return None


def _plots(
    folder: Path, name: str, experiment: Experiment, rows: list[Row], problems: list[str]
) -> list[Image]:
    images = []
    drawings = _attempt(f"{name}: plots", partial(experiment.plots, rows), problems) or {}
    for plot, draw in drawings.items():
        stem = folder / f"{_slug(name)}-{_slug(plot)}"
        made = _attempt(f"{name}: plot {plot}", partial(plots.save, draw, stem), problems)
        if made is not None:
            light, dark = made
            alt = f"{experiment.title}: {plot}"
            caption = f"{alt} (`{stem.name}.svg`)"
            images.append(Image(light, caption, alt, ".svg", dark))
    return images


def _slug(text: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in text)


def _purpose(experiment: Experiment) -> str:
    text = experiment.reproduces
    return f"{'O' + text[1:] if text.startswith('ours') else f'Reproduces {text}'}."


def _counts(done: int, cells: Sequence[Cell], rows: Sequence[Row]) -> str:
    """ "12 of 14 cells are finished; of 64 rows: 14 T.O., 3 failed." """
    count: dict[str, int] = {}
    for row in rows:
        kind = row["status"].split(":")[0]
        count[kind] = count.get(kind, 0) + 1
    others = ", ".join(f"{k} {kind}" for kind, k in count.items() if kind != OK)
    tail = f"; of {len(rows)} rows: {others}" if others else ""
    return f"{done} of {len(cells)} cells are finished{tail}".removesuffix(".") + "."


def _not_ok(cells: Sequence[Cell], rows: Sequence[Row]) -> list[Table]:
    """The rows without a result, each with its reason."""
    fields = list(dict.fromkeys(field for cell in cells for field in cell.key))
    told = [
        [*(_text(row.get(field)) for field in fields), row["status"], in_words(row["cell_seconds"])]
        for row in rows
        if row["status"] != OK
    ]
    return [Table("Rows without a figure", [*fields, "status", "after"], told)] if told else []


def _text(value: Any) -> str:
    if value is None:
        return DASH
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _lead(store: CellStore, full: bool) -> str:
    last = store.runs[-1] if store.runs else {}
    made = last.get("versions", {})
    size = (
        "Full sizes, as in the paper."
        if full
        else "Quick sizes: the experiments of the paper, scaled down."
    )
    return (
        f"{size} {LEGEND}\n\nnelson {made.get('nelson', '?')}, {_day(last.get('started'))}, "
        f"{last.get('machine', {}).get('processor', '?')}."
    )


def _day(moment: str | None) -> str:
    return datetime.fromisoformat(moment).strftime("%Y-%m-%d %H:%M %Z").strip() if moment else "?"


def _made(
    store: CellStore,
    rows: Mapping[str, Sequence[Row]],
    cells: Mapping[str, Sequence[Cell]],
) -> Section:
    """Machine, versions, seeds, command lines, durations, limits."""
    last = store.runs[-1] if store.runs else {}
    facts = [[name, value] for name, value in last.get("machine", {}).items()]
    versions = [[name, value] for name, value in last.get("versions", {}).items()]
    runs = [
        [
            _day(run.get("started")),
            run.get("command", ""),
            " ".join(run.get("versions", {}).get(name, "?") for name in ("nelson", "source")),
            _text(run.get("ran")),
            in_words(run["seconds"]) if "seconds" in run else "killed",
            run.get("end", DASH),
        ]
        for run in store.runs
    ]
    each = []
    for name in rows:
        seeds = sorted({str(row["seed"]) for row in rows[name] if row.get("seed") is not None})
        seeds.sort(key=lambda s: (len(s), s))
        shown = ", ".join(seeds[:12]) + (f", ... ({len(seeds)} seeds)" if len(seeds) > 12 else "")
        limits = sorted({cell.seconds for cell in cells[name]})
        taken = sum(store.seconds(cell) for cell in cells[name])
        span = " to ".join(
            in_words(s) if s else DASH for s in dict.fromkeys([limits[0], limits[-1]])
        )
        each.append([name, shown or "none in the keys", span, in_words(taken)])
    return Section(
        "How this was made",
        "Cells run one after another in a worker process, never two at once, unless the command "
        "line says otherwise.",
        [
            Table("Machine", ["what", "value"], facts),
            Table("Experiments", ["name", "seeds", "time limit per cell", "time taken"], each),
            Table(
                "Command lines",
                ["started", "command", "nelson", "cells run", "took", "ended"],
                runs,
            ),
        ],
        folded=[Table("Versions", ["package", "version"], versions)],
    )


def _markdown(sections: Sequence[Section], full: bool) -> str:
    parts = [f"# Results ({'full' if full else 'quick'} sizes)", LEGEND]
    for section in sections:
        parts += [f"## {section.heading}", *[section.prose] * bool(section.prose)]
        parts += map(markdown, section.tables)
    return "\n\n".join(parts) + "\n"


def in_words(seconds: float) -> str:
    """A duration for the reader of a log: 0.4 s, 12 s, 3 min 20 s, 2 h 5 min."""
    if seconds < 10:
        return f"{seconds:.2g} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    if whole < 100 * 3600:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole / 86400:,.0f} days"
