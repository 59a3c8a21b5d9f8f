"""Values as JSON has them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np


def scalar(value: Any) -> Any:
    """A NumPy number, Boolean or string as Python has it; other values as they are."""
    return value.item() if isinstance(value, np.generic) else value


def plain(value: Any, infinite: Callable[[float], Any] = str) -> Any:
    """NumPy values and tuples as lists and numbers; `infinite` writes infinities and NaN."""
    if isinstance(value, dict):
        return {str(name): plain(item, infinite) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, infinite) for item in value]
    if hasattr(value, "tolist"):  # a NumPy scalar or array
        return plain(value.tolist(), infinite)
    if isinstance(value, float) and not math.isfinite(value):
        return infinite(value)
    return value
