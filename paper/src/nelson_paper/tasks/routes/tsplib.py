"""TSPLIB files (Reinelt 1991; the format as of TSPLIB 95).

    NAME : toy                         keywords, then sections; a colon after a keyword is optional
    TYPE : TSP
    DIMENSION : 4
    EDGE_WEIGHT_TYPE : EUC_2D
    NODE_COORD_SECTION
    1 0 0
    ...
    EOF

EDGE_WEIGHT_TYPE  EUC_2D EUC_3D MAX_2D MAX_3D MAN_2D MAN_3D CEIL_2D GEO ATT, all rounded as TSPLIB
                  says, or EXPLICIT with EDGE_WEIGHT_FORMAT FULL_MATRIX, UPPER_ROW, LOWER_ROW,
                  UPPER_DIAG_ROW, LOWER_DIAG_ROW and the same by columns (_COL).
TYPE              TSP, ATSP, and the locations of CVRP. HCP (which edges exist), SOP (which node
                  must come before which) and TOUR hold no distances between all nodes: refused.

Places on the map are NODE_COORD or DISPLAY_DATA; a matrix without either is laid out by its
distances. A file that breaks the format raises FormulaError with file and line.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np

from nelson.errors import FormulaError
from nelson.io.streams import decompressed, load
from nelson_paper.tasks.routes.data import MIN_LOCATIONS, laid_out
from nelson_paper.tasks.routes.metric import DISTANCE

_TYPES = ("TSP", "ATSP", "CVRP")
#: Squares and sums of larger numbers are not exact, or overflow.
_MAX_NUMBER = 1e15
#: Sections that do not matter for routes.
_IGNORED = ("DEMAND_SECTION", "DEPOT_SECTION", "TOUR_SECTION")
_SECTIONS = ("NODE_COORD_SECTION", "DISPLAY_DATA_SECTION", "EDGE_WEIGHT_SECTION")
_REFUSED = ("FIXED_EDGES_SECTION", "EDGE_DATA_SECTION")


@dataclass(frozen=True, eq=False)
class Instance:
    """name; ids of the nodes as in the file; places (n, 2); distances (n, n)."""

    name: str
    ids: list[str]
    places: np.ndarray
    distances: np.ndarray


@dataclass
class _File:
    """Keywords with their line numbers, and the words of each section with theirs."""

    source: str
    keywords: dict[str, tuple[str, int]] = field(default_factory=dict)
    sections: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    opened: dict[str, int] = field(default_factory=dict)
    last: int = 0

    def fail(self, what: str, expected: str, line: int | None) -> NoReturn:
        raise FormulaError(what, expected=expected, source=self.source, line=line)

    def word(self, keyword: str, default: str | None = None) -> str:
        if keyword in self.keywords:
            return self.keywords[keyword][0].upper()
        if default is None:
            self.fail(f"no {keyword}", f"{keyword} : ...", self.last)
        return default

    def line(self, keyword: str) -> int | None:
        return self.keywords.get(keyword, ("", None))[1]

    def number(self, token: str, line: int) -> float:
        try:
            value = float(token)
        except ValueError:
            self.fail(f"{token!r}", "a number", line)
        if not abs(value) <= _MAX_NUMBER:
            self.fail(f"{token!r}", f"a finite number, at most {_MAX_NUMBER:.0e}", line)
        return value


def read(path: str | os.PathLike[str]) -> Instance:
    """A TSPLIB file, plain or compressed (.gz, .xz)."""
    path, data = load(path)
    raw = decompressed(data, path)
    return parse(raw.decode("utf-8", errors="replace"), path)


def parse(text: str, source: str = "<string>") -> Instance:
    """The text of a TSPLIB file."""
    file = _split(text, source)
    kind = (file.word("TYPE", "TSP").split() or [""])[0]
    if kind not in _TYPES:
        file.fail(f"TYPE {kind}", ", ".join(_TYPES), file.line("TYPE"))
    n = _dimension(file)
    weights = file.word("EDGE_WEIGHT_TYPE")
    points = None
    if "NODE_COORD_SECTION" in file.sections:
        width = 3 if weights.endswith("_3D") else 2
        points = _points(file, "NODE_COORD_SECTION", n, width)
    shown = None
    if "DISPLAY_DATA_SECTION" in file.sections:
        shown = _points(file, "DISPLAY_DATA_SECTION", n, 2)
    if weights == "EXPLICIT":
        distances = _matrix(file, n)
    elif weights not in DISTANCE:
        known = ", ".join([*DISTANCE, "EXPLICIT"])
        file.fail(f"EDGE_WEIGHT_TYPE {weights}", known, file.line("EDGE_WEIGHT_TYPE"))
    elif points is None:
        file.fail(f"{weights} without coordinates", "a NODE_COORD_SECTION", file.last)
    else:
        distances = DISTANCE[weights](points[1])
    ids = (points or shown or ([str(k + 1) for k in range(n)], None))[0]
    if shown is not None:
        places = shown[1]
    elif points is not None:
        # GEO gives the latitude first; on a map it is the vertical axis.
        places = points[1][:, 1::-1] if weights == "GEO" else points[1][:, :2]
    else:
        places = laid_out(distances)
    return Instance(file.keywords.get("NAME", ("", 0))[0], ids, places, distances)


def _split(text: str, source: str) -> _File:
    """Keywords and sections. Numbers are parsed later, when DIMENSION is known."""
    file = _File(source)
    section: str | None = None
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        file.last = number
        if not line:
            continue
        word = line.partition(":")[0].strip().upper()
        if word == "EOF":
            break
        if word in _REFUSED:
            file.fail(word, "a complete graph with distances", number)
        if word in (*_SECTIONS, *_IGNORED):
            if word in file.sections:
                file.fail(f"{word} twice", "each section once", number)
            section = word
            file.sections[word], file.opened[word] = [], number
        elif line[0].isalpha() and line[:3].lower() not in ("nan", "inf"):
            keyword, colon, value = line.partition(":")
            if not colon:
                keyword, _, value = line.partition(" ")
                if not value:
                    file.fail(f"{line!r}", "KEYWORD : value, or a section", number)
            keyword = keyword.strip().upper()
            if keyword not in file.keywords:
                file.keywords[keyword] = (value.strip(), number)
            elif keyword != "COMMENT":
                file.fail(f"{keyword} twice", "each keyword once", number)
            section = None
        elif section is None:
            file.fail(f"{line!r}", "KEYWORD : value, or a section", number)
        elif section not in _IGNORED:
            file.sections[section] += [(token, number) for token in line.split()]
    return file


def _dimension(file: _File) -> int:
    text, line = file.word("DIMENSION"), file.line("DIMENSION")
    if not text.isdecimal() or len(text) > 9:
        file.fail(f"DIMENSION {text}", "a whole number", line)
    if int(text) < MIN_LOCATIONS:
        file.fail(f"DIMENSION {text}", f"at least {MIN_LOCATIONS} locations", line)
    return int(text)


def _points(file: _File, section: str, n: int, width: int) -> tuple[list[str], np.ndarray]:
    """n lines with a node and its coordinates each."""
    tokens = file.sections[section]
    rows: dict[int, list[tuple[str, int]]] = {}
    for token, line in tokens:
        rows.setdefault(line, []).append((token, line))
    ids: list[str] = []
    where: dict[str, int] = {}
    places: list[list[float]] = []
    for line, row in rows.items():
        if len(row) != width + 1:
            file.fail(f"{len(row)} values", f"a node and {width} coordinates", line)
        if len(ids) == n:
            file.fail(f"more than {n} nodes", f"{n}, as DIMENSION says", line)
        node = row[0][0]
        if node in where:
            file.fail(f"node {node} again, first in line {where[node]}", "each node once", line)
        places.append([file.number(token, line) for token, _ in row[1:]])
        where[node] = line
        ids.append(node)
    if len(ids) < n:
        last = tokens[-1][1] if tokens else file.opened[section]
        file.fail(f"{len(ids)} nodes", f"{n}, as DIMENSION says", last)
    return ids, np.array(places)


def _matrix(file: _File, n: int) -> np.ndarray:
    shape = file.word("EDGE_WEIGHT_FORMAT")
    if shape not in _FORMATS:
        known = ", ".join(_FORMATS)
        file.fail(f"EDGE_WEIGHT_FORMAT {shape}", known, file.line("EDGE_WEIGHT_FORMAT"))
    if "EDGE_WEIGHT_SECTION" not in file.sections:
        file.fail("EXPLICIT without distances", "an EDGE_WEIGHT_SECTION", file.last)
    tokens = file.sections["EDGE_WEIGHT_SECTION"]
    full, diagonal = shape == "FULL_MATRIX", "DIAG" in shape
    size = n * n if full else n * (n + (1 if diagonal else -1)) // 2
    if len(tokens) != size:  # before arrays of this size are made
        k = min(len(tokens), size + 1)
        line = tokens[k - 1][1] if tokens else file.opened["EDGE_WEIGHT_SECTION"]
        file.fail(f"{len(tokens)} distances", f"{size} for {n} nodes, {shape}", line)
    i, j = _FORMATS[shape](n)
    values = np.array([file.number(token, line) for token, line in tokens])
    for value, (token, line), a, b in zip(values, tokens, i, j, strict=True):
        if value < 0 and a != b:
            file.fail(f"distance {token}", "no negative distances", line)
    distances = np.zeros((n, n))
    distances[i, j] = values
    if shape != "FULL_MATRIX":
        distances[j, i] = values
    np.fill_diagonal(distances, 0.0)  # ATSP files put a large number there
    return distances


#: Row and column of each number. A symmetric matrix read by columns is its transpose read by rows.
_FORMATS: dict[str, Callable[[int], tuple[np.ndarray, np.ndarray]]] = {
    "FULL_MATRIX": lambda n: np.triu_indices(n, -n),
    "UPPER_ROW": lambda n: np.triu_indices(n, 1),
    "LOWER_ROW": lambda n: np.tril_indices(n, -1),
    "UPPER_DIAG_ROW": np.triu_indices,
    "LOWER_DIAG_ROW": np.tril_indices,
    "UPPER_COL": lambda n: np.tril_indices(n, -1),
    "LOWER_COL": lambda n: np.triu_indices(n, 1),
    "UPPER_DIAG_COL": np.tril_indices,
    "LOWER_DIAG_COL": np.triu_indices,
}
