"""Any table that people have as a pandas DataFrame, and back: Arrow, Polars, files, records."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from nelson.errors import FormulaError
from nelson.space.tables.columns import load_pandas, not_a_frame

#: What pandas reads, by the end of the name of a file.
READERS = {
    ".csv": "read_csv",
    ".tsv": "read_table",
    ".parquet": "read_parquet",
    ".arrow": "read_feather",
    ".feather": "read_feather",
}


def is_frame(table: Any) -> bool:
    """Is it a pandas DataFrame?"""
    return all(hasattr(table, name) for name in ("iloc", "dtypes", "columns"))


def is_file(table: Any) -> bool:
    return isinstance(table, (str, os.PathLike))


def as_frame(table: Any) -> tuple[Any, str]:
    """(a DataFrame whose columns have texts as names, what came in). `attrs["labels"]` has the
    original names.
    """
    frame, kind = _opened(table)
    if getattr(frame.columns, "nlevels", 1) > 1:
        raise not_a_frame("columns with names of several levels")
    names = [str(label) for label in frame.columns]
    twice = (
        sorted({name for name in names if names.count(name) > 1})
        if len(set(names)) < len(names)
        else []
    )
    if twice:
        raise FormulaError(
            f"two columns with the name {twice[0]!r}",
            expected="names that differ: frame.columns = [...]",
        )
    if not names:
        raise FormulaError("a table without columns", expected="one column or more")
    if not len(frame):
        raise FormulaError("a table without rows", expected="one row or more")
    if names != list(frame.columns):
        labels = dict(zip(names, frame.columns, strict=True))
        frame = frame.set_axis(names, axis=1)
        frame.attrs["labels"] = labels
    return frame, kind


def _opened(table: Any) -> tuple[Any, str]:
    if is_frame(table):
        return table, "pandas"
    pandas = load_pandas()
    if is_file(table):
        return read_table(table), "pandas"
    if hasattr(table, "to_pandas"):
        module = type(table).__module__.split(".")[0]
        return table.to_pandas(), {"pyarrow": "arrow", "polars": "polars"}.get(module, "pandas")
    try:
        return pandas.DataFrame(table), "pandas"
    except (ValueError, TypeError) as error:
        raise not_a_frame(f"a table of type {type(table).__name__} ({error})") from None


def read_table(path: str | os.PathLike[str]) -> Any:
    """The DataFrame in a file of rows; texts of CSV are as `pandas.read_csv` reads them."""
    pandas = load_pandas()
    name = os.fspath(path)
    suffix = Path(name.lower().removesuffix(".gz").removesuffix(".xz")).suffix
    if suffix not in READERS:
        raise FormulaError(f"a table in {name}", expected=f"a file {', '.join(READERS)}")
    try:
        return getattr(pandas, READERS[suffix])(path)
    except pandas.errors.EmptyDataError:
        raise FormulaError(
            "an empty file", expected="a line of names, and rows", source=name
        ) from None
    except (pandas.errors.ParserError, UnicodeDecodeError, ValueError) as error:
        raise FormulaError(f"no table can be read: {error}", source=name) from None


def like(frame: Any, kind: str) -> Any:
    """A DataFrame as what came in."""
    if kind == "arrow":
        import pyarrow

        return pyarrow.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
    if kind == "polars":
        import polars

        return polars.from_pandas(frame)
    return frame


class FrameRows:
    """A block of new rows as the writers of files take it (`nelson.io.row_files`)."""

    def __init__(self, frame: Any) -> None:
        self.frame = frame.copy(deep=False)
        self.frame.attrs = {}  # pyarrow would keep them in the schema
        self.guarantee, self.status = frame.attrs["guarantee"], frame.attrs["status"]
        self.info = frame.attrs["info"]

    @property
    def columns(self) -> list[str]:
        return [str(name) for name in self.frame.columns]

    def __len__(self) -> int:
        return len(self.frame)

    def __getitem__(self, name: str) -> np.ndarray:
        """Values as CSV has them: dates as `DataFrame.to_csv` writes them, None for a gap."""
        column = self.frame.iloc[:, self.columns.index(name)]
        missing = column.isna().to_numpy()
        if column.dtype.kind in "mM" or getattr(column.dtype, "tz", None) is not None:
            column = column.astype(str)
        values = column.to_numpy()
        if not missing.any():
            return values
        values = values.astype(object)
        values[missing] = None
        return values

    def to_arrow(self) -> Any:
        """Its schema says which types the columns have in pandas."""
        import pyarrow

        return pyarrow.Table.from_pandas(self.frame, preserve_index=False)

    def to_numpy(self) -> np.ndarray:
        return self.frame.to_records(index=False)
