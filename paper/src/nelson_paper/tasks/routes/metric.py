"""Distances as TSPLIB 95 defines them: (n, d) coordinates -> (n, n), rounded to whole numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nelson_paper.tasks.routes.data import euclidean

_RADIUS = 6378.388  # kilometres, TSPLIB's earth
_PI = 3.141592  # TSPLIB's pi


def _nint(d: np.ndarray) -> np.ndarray:
    return np.floor(d + 0.5)


def _gaps(points: np.ndarray) -> np.ndarray:
    return np.abs(points[:, None] - points[None])


def _geo(points: np.ndarray) -> np.ndarray:
    """Degrees and minutes (12.34 is 12 degrees 34 minutes), on TSPLIB's sphere."""
    degrees = np.trunc(points)
    latitude, longitude = (_PI * (degrees + 5.0 * (points - degrees) / 3.0) / 180.0).T
    q1 = np.cos(longitude[:, None] - longitude)
    q2 = np.cos(latitude[:, None] - latitude)
    q3 = np.cos(latitude[:, None] + latitude)
    angle = np.arccos(np.clip(0.5 * ((1.0 + q1) * q2 - (1.0 - q1) * q3), -1.0, 1.0))
    distances = np.trunc(_RADIUS * angle + 1.0)
    np.fill_diagonal(distances, 0.0)
    return distances


def _att(points: np.ndarray) -> np.ndarray:
    exact = np.sqrt((_gaps(points) ** 2).sum(axis=-1) / 10.0)
    rounded = _nint(exact)
    return rounded + (rounded < exact)


def _euclidean(points: np.ndarray) -> np.ndarray:
    return _nint(euclidean(points))


def _manhattan(points: np.ndarray) -> np.ndarray:
    return _nint(_gaps(points).sum(axis=-1))


def _maximum(points: np.ndarray) -> np.ndarray:
    return _nint(_gaps(points)).max(axis=-1)


DISTANCE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "EUC_2D": _euclidean,
    "EUC_3D": _euclidean,
    "MAX_2D": _maximum,
    "MAX_3D": _maximum,
    "MAN_2D": _manhattan,
    "MAN_3D": _manhattan,
    "CEIL_2D": lambda points: np.ceil(euclidean(points)),
    "GEO": _geo,
    "ATT": _att,
}
