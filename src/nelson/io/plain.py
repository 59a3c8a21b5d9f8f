"""Values as JSON has them."""

from __future__ import annotations

import math
from typing import Any


def plain(value: Any) -> Any:
    """NumPy values and tuples as lists and numbers; infinities and NaN as strings."""
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):  # a NumPy scalar or array
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
