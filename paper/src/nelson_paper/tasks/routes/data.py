"""Locations: the 29 of TSPLIB's bayg29, or any table of coordinates.

bayg29 and bays29 (Groetschel, Juenger, Reinelt) are 29 places in Bavaria with the coordinates below
(TSPLIB's display data). Distances here are Euclidean in these map units. The two TSPLIB files hold
matrices of geographical and of street distances instead; `tsplib.read` reads them.
"""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from nelson.errors import FormulaError
from nelson.io.streams import text_lines

#: (x, y) of locations 1..29.
BAYG29 = (
    (1150, 1760), (630, 1660), (40, 2090), (750, 1100), (750, 2030), (1030, 2070), (1650, 650),
    (1490, 1630), (790, 2260), (710, 1310), (840, 550), (1170, 2300), (970, 1340), (510, 700),
    (750, 900), (1280, 1200), (230, 590), (460, 860), (1040, 950), (590, 1390), (830, 1770),
    (490, 500), (1840, 1240), (1260, 1500), (1280, 790), (490, 2130), (1460, 1420), (1260, 1910),
    (360, 1980),
)  # fmt: skip
#: Fewer locations have no round trip.
MIN_LOCATIONS = 3


def checked_names(names: Sequence[Any] | None, n: int) -> list[str]:
    """One name per location, "1", "2", ... by default; no two the same."""
    checked = [str(k + 1) for k in range(n)] if names is None else [str(name) for name in names]
    if len(checked) != n:
        raise FormulaError(f"{len(checked)} names for {n} locations", expected=f"{n} names")
    seen: dict[str, int] = {}
    for k, name in enumerate(checked):
        if name in seen:
            raise FormulaError(
                f"locations {seen[name] + 1} and {k + 1} are both called {name!r}",
                expected="a different name for each",
            )
        seen[name] = k
    return checked


def checked_coordinates(coordinates: Any) -> np.ndarray:
    """(n, 2) float64, finite, n >= 3."""
    try:
        places = np.array(coordinates, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise FormulaError(f"coordinates: {error}", expected="(n, 2) numbers") from None
    if places.ndim != 2 or places.shape[1] != 2:
        raise FormulaError(f"coordinates of shape {places.shape}", expected="(n, 2)")
    _check_enough(len(places))
    bad = ~np.isfinite(places).all(axis=1)
    if bad.any():
        k = int(np.argmax(bad))
        raise FormulaError(
            f"location {k + 1} is at ({places[k, 0]}, {places[k, 1]})",
            expected="finite coordinates",
        )
    return places


def checked_distances(distances: Any) -> np.ndarray:
    """(n, n) float64, finite, not negative; the diagonal is set to 0."""
    checked = np.array(distances, dtype=np.float64)
    if checked.ndim != 2 or checked.shape[0] != checked.shape[1]:
        raise FormulaError(f"distances of shape {checked.shape}", expected="(n, n)")
    _check_enough(len(checked))
    np.fill_diagonal(checked, 0.0)
    bad = ~np.isfinite(checked) | (checked < 0)
    if bad.any():
        i, j = np.argwhere(bad)[0]
        raise FormulaError(
            f"the distance from location {i + 1} to {j + 1} is {checked[i, j]}",
            expected="a finite number, not negative",
        )
    return checked


def _check_enough(n: int) -> None:
    if n < MIN_LOCATIONS:
        expected = f"at least {MIN_LOCATIONS} to make a round trip"
        raise FormulaError(f"{n} locations", expected=expected)


def euclidean(xy: np.ndarray) -> np.ndarray:
    """(n, d) -> (n, n)."""
    return np.sqrt(((xy[:, None] - xy[None]) ** 2).sum(axis=-1))


def laid_out(distances: np.ndarray) -> np.ndarray:
    """Places in the plane with about the given distances: classical scaling (Torgerson 1952).

    For pictures of instances that are given by a matrix alone.
    """
    squared = ((distances + distances.T) / 2) ** 2
    centred = squared - squared.mean(axis=0) - squared.mean(axis=1)[:, None] + squared.mean()
    values, vectors = np.linalg.eigh(-centred / 2)
    return vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 0.0))


def from_table(
    table: Any, x: str | None = None, y: str | None = None, name: str | None = None
) -> tuple[np.ndarray, list[str] | None]:
    """(n, 2) coordinates and names from a CSV file, an array, a DataFrame or {name: (x, y)}.

    x, y, name: which columns. By default the columns with these names in upper or lower case (or
    `lon`, `lat`, `id`), else the first two columns of numbers and the first column of words.
    """
    if isinstance(table, (str, os.PathLike)):
        return _from_csv(os.fspath(table), x, y, name)
    if isinstance(table, Mapping):
        return checked_coordinates(list(table.values())), [str(key) for key in table]
    if hasattr(table, "columns") and hasattr(table, "to_numpy"):
        header = [str(c) for c in table.columns]
        rows = [[str(v) for v in row] for row in table.to_numpy(dtype=object).tolist()]
        return _from_rows(_Rows(header, list(enumerate(rows, 1)), None), x, y, name)
    return checked_coordinates(table), None


def _from_csv(
    path: str, x: str | None, y: str | None, name: str | None
) -> tuple[np.ndarray, list[str] | None]:
    with text_lines(path) as file:
        try:
            dialect = csv.Sniffer().sniff(file.read(8192), delimiters=",;\t ")
        except csv.Error:
            dialect = csv.excel
    with text_lines(path) as file:
        reader = csv.reader(file, dialect, skipinitialspace=True)
        try:
            lines = [(reader.line_num, [v.strip() for v in row]) for row in reader if any(row)]
        except csv.Error as error:
            raise FormulaError(f"not CSV ({error})", source=path, line=reader.line_num) from None
    if not lines:
        raise FormulaError("an empty table", expected="rows of coordinates", source=path)
    header = None if any(_is_number(v) for v in lines[0][1]) else lines.pop(0)[1]
    return _from_rows(_Rows(header, lines, path), x, y, name)


class _Rows(NamedTuple):
    """A table of text: its header, its rows with their line numbers, and the file."""

    header: list[str] | None
    lines: list[tuple[int, list[str]]]
    source: str | None


def _from_rows(
    table: _Rows, x: str | None, y: str | None, name: str | None
) -> tuple[np.ndarray, list[str] | None]:
    header, lines, source = table
    first = lines[0][1] if lines else []
    width = len(first if header is None else header)
    for line, row in lines:
        if len(row) != width:
            raise FormulaError(
                f"{len(row)} columns", expected=f"{width}, as above", source=source, line=line
            )
    columns = [c.lower() for c in header] if header is not None else [""] * width
    numbers = [c for c, value in enumerate(first) if _is_number(value)]

    def find(asked: str | None, usual: tuple[str, ...], default: int | None) -> int | None:
        if asked is not None:
            if asked.lower() not in columns:
                raise FormulaError(
                    f"no column {asked!r}", expected=", ".join(header or []), source=source
                )
            return columns.index(asked.lower())
        return next((columns.index(c) for c in usual if c in columns), default)

    named = find(name, ("name", "id", "location"), None)
    free = [c for c in numbers if c != named]
    at_x = find(x, ("x", "lon", "longitude"), free[0] if free else None)
    at_y = find(y, ("y", "lat", "latitude"), free[1] if len(free) > 1 else None)
    if at_x is None or at_y is None:
        raise FormulaError("no two columns of numbers", expected="x and y", source=source)
    if named is None:
        named = next((c for c in range(width) if c not in numbers and c not in (at_x, at_y)), None)
    places = []
    for line, row in lines:
        for c in (at_x, at_y):
            if not _is_number(row[c]) or not math.isfinite(float(row[c])):
                raise FormulaError(
                    f"coordinate {row[c]!r}", expected="a finite number", source=source, line=line
                )
        places.append((float(row[at_x]), float(row[at_y])))
    names = None if named is None else [row[named] for _, row in lines]
    return checked_coordinates(np.array(places).reshape(-1, 2)), names


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
