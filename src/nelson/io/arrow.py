"""pyarrow, loaded when a Parquet file is read or written; columns of packed samples."""

from __future__ import annotations

from typing import Any

import numpy as np

from nelson.errors import installed


def load_pyarrow() -> tuple[Any, Any]:
    """The modules (pyarrow, pyarrow.parquet)."""
    with installed(
        'Parquet needs pyarrow, which is not installed: pip install "nelson-mrf[parquet]"'
    ):
        import pyarrow
        import pyarrow.parquet
    return pyarrow, pyarrow.parquet


def packed_table(packed: np.ndarray, count: int, schema: Any) -> Any:
    """Samples as an Arrow table: of Boolean columns, or of one column of packed bits."""
    from nelson.kernels.cpu.rows import to_rows

    pa, _ = load_pyarrow()
    if all(kind == pa.bool_() for kind in schema.types):  # the bits of a column side by side,
        columns = np.ascontiguousarray(packed.T)  # the lowest first: as we have them
    else:
        columns = to_rows(packed, count)[None]
    arrays = [
        pa.Array.from_buffers(kind, count, [None, pa.py_buffer(column)])
        for kind, column in zip(schema.types, columns, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def octets(table: Any, n: int) -> np.ndarray:
    """Packed samples of n variables, (rows, bytes) uint8, of a table as `packed_table` makes them.

    Raises ValueError or KeyError if the table is another: a kernel would read behind its bytes.
    """
    width, columns = max(1, -(-n // 8)), table.combine_chunks().columns
    if sum(column.null_count for column in columns):
        raise ValueError("values are missing")
    if columns and all(str(column.type) == "bool" for column in columns):
        if len(columns) != n:
            raise ValueError(f"{len(columns)} columns, not {n}")
        x = np.stack([column.to_numpy() for column in columns], axis=1)
        return np.packbits(x, axis=1, bitorder="little")
    if not n and not columns:
        return np.zeros((len(table), width), np.uint8)
    column = table.column("x").combine_chunks()
    if str(column.type) != f"fixed_size_binary[{width}]":
        raise ValueError(f"column x is {column.type}, not {width} bytes for {n} variables")
    if not len(column):
        return np.zeros((0, width), np.uint8)
    start = column.offset * width
    raw = np.frombuffer(column.buffers()[1], np.uint8)[start : start + len(column) * width]
    return raw.reshape(len(column), width)
