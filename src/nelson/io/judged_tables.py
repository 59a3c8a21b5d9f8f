"""A file of samples, in any form that samplers write.

| form                                   | written by                                              |
|----------------------------------------|---------------------------------------------------------|
| `.npz`, `.parquet`, `.npy`, `.csv`     | nelson, tables: as `nelson.io.tables` takes them |
| `1 -2 3 0`, one sample a line          | nelson, SAT samplers; `v` in front is skipped           |
| `v 1 -2` / `v 3 0`: over several lines | SAT solvers                                             |
| `7: 1 -2 3 0`, `v 1 -2 3 0: 7`         | ApproxMC, UniGen: the sample was drawn 7 times          |
| `011`, `0 1 1`, `3: 011`               | one digit a variable (STS, QuickSampler)                |

Text may be compressed (gzip, xz). Lines that start with `c`, `s` or `#` are skipped.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np

from nelson.errors import FormulaError
from nelson.io.streams import decompressed, load
from nelson.io.tables import Table
from nelson.io.tables import read as read_table

_TABLES = {".npy", ".npz", ".parquet", ".csv", ".tsv"}
_TIMES = re.compile(r"^(?:v\s+)?(?:(\d+)\s*:)?\s*(.*?)\s*(?::\s*(\d+))?$")


def read(source: Any, n_vars: int) -> Table:
    """Samples and what their columns are; a path, "-" (text on stdin), an array, `Samples`, ..."""
    if not isinstance(source, (str, os.PathLike)):
        return read_table(source)
    path = os.fspath(source)
    suffix = Path(path.removesuffix(".gz").removesuffix(".xz")).suffix.lower()
    if suffix in _TABLES:
        return read_table(path)
    name, raw = load(path)
    return _text(decompressed(raw, name).decode("utf-8", "replace"), name, n_vars)


def _text(text: str, path: str, n_vars: int) -> Table:
    rows: list[np.ndarray] = []
    times: list[int] = []
    variables: np.ndarray | None = None
    first = number = 0
    pending: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip()[0] in "cs#":
            continue
        before, body, after = _TIMES.match(line.strip()).groups()  # type: ignore[union-attr]
        words = body.split()
        if not pending and (digits := _digits(words, n_vars)) is not None:
            found, mine, drawn = np.arange(1, n_vars + 1), digits, 1
        else:
            pending += words
            if not pending or pending[-1] != "0":
                _integers(words, path, number)
                continue
            found, mine = _literals(pending, path, number)
            pending, drawn = [], int(before or after or 1)
        if variables is None:
            variables, first = found, number
        elif not np.array_equal(found, variables):
            raise FormulaError(
                f"{len(found)} literals of other variables than line {first}",
                expected="the same variables in every sample",
                source=path,
                line=number,
            )
        rows.append(mine)
        times.append(drawn)
    if pending:
        raise FormulaError(
            "a last sample without its 0", expected="literals ending in 0", source=path, line=number
        )
    if variables is None:
        raise FormulaError("no samples", expected="one sample a line", source=path)
    x = np.repeat(np.array(rows, bool), times, axis=0)
    return Table(x, tuple(variables.tolist()), source=path, first_line=first)


def _digits(words: list[str], n_vars: int) -> np.ndarray | None:
    """`011` or `0 1 1`: exactly one digit a variable. `1 0` is a literal and its end."""
    joined = "".join(words)
    whole = len(words) == 1 or (len(words) == n_vars > 1 and all(len(word) == 1 for word in words))
    if not whole or len(joined) != n_vars or set(joined) - {"0", "1"}:
        return None
    return np.array(list(joined)) == "1"


def _literals(words: list[str], path: str, line: int) -> tuple[np.ndarray, np.ndarray]:
    """(variables in order, their values)."""
    literals = _integers(words, path, line)
    if not literals[:-1].all():
        raise FormulaError(
            "a 0 inside a line", expected="one sample a line, ending in 0", source=path, line=line
        )
    literals = literals[np.argsort(np.abs(literals[:-1]), kind="stable")]
    variables = np.abs(literals)
    if (np.diff(variables) == 0).any():
        raise FormulaError("a variable twice", expected="once", source=path, line=line)
    return variables, literals > 0


def _integers(words: list[str], path: str, line: int) -> np.ndarray:
    try:
        return np.array(words, np.int64)
    except (ValueError, OverflowError):
        shown = " ".join(words)[:40]
        raise FormulaError(
            f"{shown!r}", expected="literals ending in 0, or 0s and 1s", source=path, line=line
        ) from None
