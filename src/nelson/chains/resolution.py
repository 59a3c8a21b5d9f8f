"""Can the kernels draw from such weights? They round probabilities to multiples of 2^-32."""

from __future__ import annotations

import numpy as np

from nelson.kernels.core.reference import threshold

#: Nats by which rounding may change the weight of a structure.
MAX_ROUNDING = 0.05


def change(theta: np.ndarray) -> np.ndarray:
    """delta: how log-odds change if probabilities are rounded to multiples of 2^-32."""
    p = threshold(theta).astype(np.float64) / 2.0**32
    return np.log(p) - np.log1p(-p) - theta


def rounding(theta: np.ndarray) -> np.ndarray:
    """(contexts, n) -> (contexts,): |change of theta|, summed over variables."""
    return np.abs(change(theta)).sum(-1)


def beyond_resolution(theta: np.ndarray) -> str:
    """Why the kernels cannot draw from such weights, "" if they can."""
    if (rounding(theta) <= MAX_ROUNDING).all():
        return ""
    far = float(np.abs(theta).max())
    return f"|theta| = {far:.3g} is beyond the resolution of the random numbers, 2^-32"
