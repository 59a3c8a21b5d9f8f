"""pyarrow, loaded when a Parquet file is read or written."""

from __future__ import annotations

from typing import Any

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
