"""The finished cells of a run, in one file that survives a kill at any moment: cells.jsonl.

    {"format": 1, "settings": {...}}                        first: settings that all cells share
    {"run": {...}}                                          one line each time the run was started
    {"cell": {...}, "experiment": ..., "rows": [...]}       one line for each finished cell
    {"end": {...}}                                          one line each time it ended normally

Lines are only appended. Each line is on the disk before the next cell begins, and an incomplete
last line is dropped, so that a killed run continues after its last finished cell. If a cell occurs
twice, the later line counts. The file is locked during a run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nelson.errors import NelsonError
from nelson.io import atomic
from nelson_paper.experiments.base import OK, Cell, Row

NAME = "cells.jsonl"
FORMAT = 1


class CellStore:
    """The file of finished cells. Use it in a `with` block, which holds the lock."""

    def __init__(
        self, folder: Path, settings: Mapping[str, Any], *, keep: bool = False, anew: bool = True
    ) -> None:
        """settings: must be equal when a run continues. keep: let all settings but "size" differ.
        anew: create the folder if it does not exist.
        """
        self.path = folder / NAME
        self.runs: list[dict[str, Any]] = []
        self._rows: dict[str, list[Row]] = {}
        self._keys: dict[str, tuple[str, dict[str, Any]]] = {}
        if not anew and not self.path.exists():
            raise NelsonError(f"{folder}: holds no run, because {NAME} is missing")
        folder.mkdir(parents=True, exist_ok=True)
        self._file = open(self.path, "a+b")  # noqa: SIM115  (closed in __exit__)
        try:
            if atomic.lock(self._file.fileno(), wait=False) is False:
                raise NelsonError(f"{folder}: another run is writing here; wait until it has ended")
            self._settings = self._read()
            if self._settings:
                self._compare(folder, settings, keep)
            if self._settings != settings:
                self._append({"format": FORMAT, "settings": dict(settings)})
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> CellStore:
        return self

    def __exit__(self, *exc: object) -> None:
        self._file.close()

    def has(self, cell: Cell, *, ok: bool = False) -> bool:
        """Is the cell finished? ok=True: and did all of its rows succeed?"""
        rows = self._rows.get(cell.id)
        return rows is not None and not (ok and any(row["status"] != OK for row in rows))

    def seconds(self, cell: Cell) -> float:
        """Seconds that the cell took; 0 if it is not finished."""
        return max((row["cell_seconds"] for row in self._rows.get(cell.id, ())), default=0.0)

    def add(self, cell: Cell, rows: Sequence[Row]) -> None:
        """Record a finished cell; it is on the disk when this returns."""
        self._append({"cell": dict(cell.key), "experiment": cell.experiment, "rows": list(rows)})
        self._keep(cell, list(rows))

    def begin(self, run: Mapping[str, Any]) -> None:
        self._append({"run": dict(run)})
        self.runs.append(dict(run))

    def end(self, told: Mapping[str, Any]) -> None:
        self._append({"end": dict(told)})
        self.runs[-1].update(told)

    def experiments(self) -> list[str]:
        """Experiments with a finished cell, in the order of their first one."""
        return list(dict.fromkeys(name for name, _ in self._keys.values()))

    def cells(self, experiment: str) -> list[Cell]:
        """The finished cells of an experiment. Their limits are not known."""
        return [
            Cell(key, 0.0, experiment=name)
            for name, key in self._keys.values()
            if name == experiment
        ]

    def rows(self, experiment: str, cells: Sequence[Cell] = ()) -> list[Row]:
        """Rows of the finished cells of an experiment: first those of `cells`, then all others."""
        ids = [cell.id for cell in cells if cell.id in self._rows]
        ids += [id for id, (name, _) in self._keys.items() if name == experiment]
        return [row for id in dict.fromkeys(ids) for row in self._rows[id]]

    def _keep(self, cell: Cell, rows: list[Row]) -> None:
        self._rows[cell.id] = rows
        self._keys[cell.id] = (cell.experiment, dict(cell.key))

    def _append(self, line: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(line).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def _read(self) -> dict[str, Any]:
        """Read all complete lines and cut off an incomplete last one. Returns the last settings."""
        self._file.seek(0)
        settings: dict[str, Any] = {}
        lines = self._file.read().split(b"\n")
        whole = sum(len(line) + 1 for line in lines[:-1])
        for number, text in enumerate(lines[:-1], 1):
            try:
                line = json.loads(text)
                settings = self._take(line) or settings
            except (ValueError, KeyError, TypeError, AttributeError):
                if number == len(lines) - 1:  # incomplete, although it ends in a newline
                    whole -= len(text) + 1
                    break
                raise NelsonError(f"{self.path}:{number}: not a line of a run") from None
        self._file.truncate(whole)
        return settings

    def _take(self, line: dict[str, Any]) -> dict[str, Any] | None:
        if "settings" in line:
            if line["format"] != FORMAT:
                raise NelsonError(f"{self.path}: format {line['format']}, expected {FORMAT}")
            return line["settings"]
        if "run" in line:
            self.runs.append(line["run"])
        elif "end" in line:
            self.runs[-1].update(line["end"])
        else:
            self._keep(Cell(line["cell"], 0.0, experiment=line["experiment"]), line["rows"])
        return None

    def _compare(self, folder: Path, settings: Mapping[str, Any], keep: bool) -> None:
        before = self._settings
        names = [name for name in before | dict(settings) if before.get(name) != settings.get(name)]
        if keep:
            names = [name for name in names if name == "size"]
        if names:
            told = "; ".join(
                f"{name}: {before.get(name)} there, {settings.get(name)} now" for name in names
            )
            way = "" if "size" in names else ", or --keep to continue it anyway"
            raise NelsonError(
                f"{folder} holds a run with other settings ({told}); use another folder (-o){way}"
            )


def write_parquet(path: Path, rows: Sequence[Row]) -> None:
    """Write all rows as one Parquet file. A column of mixed types becomes text."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {name: None for row in rows for name in row}
    arrays = {name: _column(pa, [row.get(name) for row in rows]) for name in columns}
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(arrays), sink)
    atomic.write(path, sink.getvalue().to_pybytes())


def _column(pa: Any, values: list[Any]) -> Any:
    kinds = {type(value) for value in values if value is not None}
    if any(type(value) is int and not -(2**63) <= value < 2**63 for value in values):
        kinds = {int, str}  # too large for int64: write text
    if kinds <= {int, float} and len(kinds) == 2:
        return pa.array([None if v is None else float(v) for v in values], pa.float64())
    if len(kinds) > 1:
        return pa.array([None if v is None else str(v) for v in values], pa.string())
    kind = next(iter(kinds), str)
    types = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    return pa.array(values, types[kind])
