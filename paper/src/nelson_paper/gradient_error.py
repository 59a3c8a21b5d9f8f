"""The error of an estimate of grad log Z = E_theta[x], and the error that exact draws leave."""

from __future__ import annotations

from typing import Any

import numpy as np


def gradient_error(estimate: Any, exact: Any) -> float:
    """sum_i |estimate_i - exact_i|, both (n,): the L1 error of grad log Z (errata 13)."""
    return float(np.abs(np.asarray(estimate, float) - np.asarray(exact, float)).sum())


def gradient_floor(exact: Any, m: int) -> float:
    """The mean of `gradient_error` for m exact, independent draws: sum_i sqrt(2 v_i / (pi m)).

    v_i = mu_i (1 - mu_i). By the normal approximation, which is good if m v_i > 10 or so.
    """
    mu = np.asarray(exact, float)
    return float(np.sqrt(2 * mu * (1 - mu) / (np.pi * m)).sum())
