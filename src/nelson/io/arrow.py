"""pyarrow, loaded when a Parquet file is read or written; columns of packed samples."""

from __future__ import annotations

from typing import Any

import numpy as np

from nelson.errors import NelsonError


def load_pyarrow() -> tuple[Any, Any]:
    """The modules (pyarrow, pyarrow.parquet)."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise NelsonError(
            'Parquet needs pyarrow, which is not installed: pip install "nelson-mrf[parquet]"'
        ) from error
    return pyarrow, pyarrow.parquet


def octets(column: Any, n: int) -> np.ndarray:
    """Packed samples of n variables: a column of fixed-size binary as (rows, bytes) uint8.

    Raises ValueError if the column has another type or size: a kernel would read behind it.
    """
    width = max(1, -(-n // 8))
    if str(column.type) != f"fixed_size_binary[{width}]" or column.null_count:
        what = f"{column.type} with {column.null_count} missing values"
        raise ValueError(f"column x is {what}, not {width} bytes for {n} variables")
    if not len(column):
        return np.zeros((0, width), np.uint8)
    start = column.offset * width
    raw = np.frombuffer(column.buffers()[1], np.uint8)[start : start + len(column) * width]
    return raw.reshape(len(column), width)
