"""Examples and samples in any of the usual forms, as one Boolean `Table`.

| source                                         | columns are                                     |
|------------------------------------------------|-------------------------------------------------|
| array, `.npy`                                  | variables 1..n in order                         |
| `.npz`                                         | the same, of its only 2-D array, or of the one  |
|                                                | called `x` or `data`                            |
| DataFrame (with `.columns` and `.to_numpy()`), | `3`, `x3` or `v3`: variable 3; other names are  |
| pyarrow.Table, `.csv`, `.tsv`, `.parquet`      | kept, and the columns are variables in order    |
| `Samples`; `.npz`, `.parquet` of `nelson sample` | the variables written with them               |
| any other file                                 | the variables of its literals: see              |
|                                                | `nelson.io.sampler_text`                        |

Text and CSV may be compressed (gzip, xz). Nothing is unpickled.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from nelson.errors import FormulaError
from nelson.io import table_formats
from nelson.io.boolean_table import Table, arrow_table, boolean, named
from nelson.io.table_formats import TableSlice, Window

_READERS = {
    ".npy": table_formats.npy,
    ".npz": table_formats.npz,
    ".parquet": table_formats.parquet,
    ".csv": table_formats.delimited,
    ".tsv": table_formats.delimited,
}


def read(data: Any, n_vars: int | None = None) -> Table:
    """Any of the forms above, all rows. Raises FormulaError if it is none of them.

    n_vars: the number of variables, without which text of one digit per variable is not recognised.
    """
    if isinstance(data, (str, os.PathLike)):
        return read_rows(data, n_vars=n_vars).table
    if hasattr(data, "packed") and hasattr(data, "variables"):
        if data.packed.ndim != 2:
            raise FormulaError("samples of several contexts", expected="(N, n) examples")
        return Table(data.to_numpy(), tuple(data.variables))
    if hasattr(data, "to_pandas") and hasattr(data, "column_names"):  # a pyarrow.Table
        return arrow_table(data, None)
    if hasattr(data, "columns") and hasattr(data, "to_numpy"):  # pandas, polars
        return named([str(c) for c in data.columns], boolean(data.to_numpy()), None)
    if hasattr(data, "detach"):  # torch, without importing it
        data = data.detach().cpu().numpy()
    return Table(boolean(data))


def read_rows(
    path: str | os.PathLike[str], window: Window = None, n_vars: int | None = None
) -> TableSlice:
    """The rows of a file that `window(total rows) -> (first, last)` selects; None: all rows.

    Only these rows are held in memory; `nelson.io.table_formats` says what each format needs.
    """
    path = os.fspath(path)
    suffix = Path(path.removesuffix(".gz").removesuffix(".xz")).suffix.lower()
    if suffix in _READERS:
        return _READERS[suffix](path, window)
    rows = table_formats.text(path, window, n_vars)
    if rows.table.variables == () and not len(rows.table.x):
        raise FormulaError("no samples", expected="one sample per line", source=path)
    return rows
