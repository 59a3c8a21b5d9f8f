"""The data of the density-estimation papers: rows of 0/1, in files NAME.train.data and so on.

    nltcs.train.data.xz  nltcs.valid.data.xz  nltcs.test.data.xz

Each line is one example, its bits separated by commas; .xz and .gz are decompressed. A set without
a test part is scored on its validation part: such a figure is not comparable with published ones in
full, and the tables say so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nelson.errors import FormulaError
from nelson.io.streams import text_lines

PARTS = ("train", "valid", "test")
_NAME = re.compile(r"(?P<set>[\w-]+)\.(?P<part>train|valid|test)\.data(\.xz|\.gz)?")


@dataclass(frozen=True)
class DataSet:
    """Rows of bits (n, columns) uint8. test: None if the folder has no such part."""

    name: str
    train: np.ndarray
    valid: np.ndarray
    test: np.ndarray | None

    @property
    def scored(self) -> tuple[str, np.ndarray]:
        """(name, rows) of the part on which models are compared."""
        return ("valid", self.valid) if self.test is None else ("test", self.test)


def sets_in(folder: str | Path, parts: Sequence[str] = ("train", "valid")) -> list[str]:
    """The names of the data sets in a folder that have these parts."""
    found: dict[str, set[str]] = {}
    try:
        names = sorted(path.name for path in Path(folder).iterdir())
    except OSError as error:
        raise FormulaError(f"the folder {folder}: {error.strerror}", expected="a folder") from None
    for name in names:
        if match := _NAME.fullmatch(name):
            found.setdefault(match["set"], set()).add(match["part"])
    return [name for name, has in found.items() if set(parts) <= has]


def load(folder: str | Path, name: str) -> DataSet:
    """Read all parts of a set. Raises FormulaError if a line is not what it should be."""
    parts: dict[str, np.ndarray] = {}
    for part in PARTS:
        for ending in ("", ".xz", ".gz"):
            path = Path(folder) / f"{name}.{part}.data{ending}"
            if path.exists():
                parts[part] = _rows(path)
                break
    if not {"train", "valid"} <= parts.keys():
        raise FormulaError(
            f"the data set {name!r} in {folder}", expected=f"{name}.train.data and .valid.data"
        )
    widths = {rows.shape[1] for rows in parts.values()}
    if len(widths) > 1:
        raise FormulaError(
            f"parts of {name} with {sorted(widths)} columns", expected="the same columns in all"
        )
    return DataSet(name, parts["train"], parts["valid"], parts.get("test"))


def _rows(path: Path) -> np.ndarray:
    with text_lines(str(path)) as file:
        lines = [line.strip() for line in file]
    lines = [line for line in lines if line]
    width = len(lines[0].split(",")) if lines else 0
    if not lines:
        raise FormulaError("a file without rows", expected="rows of 0 and 1", source=str(path))
    for number, line in enumerate(lines, 1):
        if len(line) != 2 * width - 1 or set(line) - set("01,") or set(line[1::2]) - {","}:
            raise FormulaError(
                f"the line {line[:40]!r}",
                expected=f"{width} times 0 or 1, with commas",
                source=str(path),
                line=number,
            )
    flat = np.frombuffer("".join(lines).replace(",", "").encode(), np.uint8) - ord("0")
    return flat.reshape(len(lines), width)
