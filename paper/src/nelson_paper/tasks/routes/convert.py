"""Conversions: routes as rows of locations or as edges x_ij; theta as a matrix or as a vector.

    x_ij = 1 if the route drives i -> j,    i != j:  n (n - 1) columns, row by row: 0->1, 0->2, ...

The row of a route lists its n locations and starts at location 0 (the depot). Each round trip has
exactly one such row, and one x.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nelson.errors import FormulaError


def pairs(n: int) -> tuple[np.ndarray, np.ndarray]:
    """(from, to) of every column of x."""
    i, j = np.divmod(np.arange(n * n), n)
    return i[i != j], j[i != j]


def column(n: int, i: Any, j: Any) -> np.ndarray:
    """The column of i -> j, elementwise, i != j."""
    i, j = np.asarray(i, np.int64), np.asarray(j, np.int64)
    return i * (n - 1) + j - (j > i)


def rotated(routes: np.ndarray) -> np.ndarray:
    """The same round trips, each row starting at location 0. (m, n) -> (m, n)."""
    n = routes.shape[1]
    start = (routes == 0).argmax(axis=1)
    at = (start[:, None] + np.arange(n)) % n
    return np.take_along_axis(routes, at, axis=1)


def edge_columns(routes: np.ndarray) -> np.ndarray:
    """Columns of x that are 1, (..., n): edge k of a route leaves its k-th location."""
    return column(routes.shape[-1], routes, np.roll(routes, -1, axis=-1))


def frequencies(routes: np.ndarray) -> np.ndarray:
    """E[x] of routes (m, n), as a vector (n (n - 1),)."""
    m, n = routes.shape
    return np.bincount(edge_columns(routes).reshape(-1), minlength=n * (n - 1)) / m


def summed(matrix: np.ndarray, routes: np.ndarray) -> np.ndarray:
    """Sum of matrix_ij (n, n) over the edges i -> j of each route: (..., n) -> (...)."""
    return matrix[routes, np.roll(routes, -1, axis=-1)].sum(axis=-1)


def to_x(routes: Any) -> np.ndarray:
    """(m, n) locations -> (m, n (n - 1)) bool."""
    routes = checked_routes(routes)
    m, n = routes.shape
    x = np.zeros((m, n * (n - 1)), bool)
    np.put_along_axis(x, edge_columns(routes), True, axis=1)
    return x


def follow(x: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """(m, n (n - 1)) bool -> the locations met from location 0 on, (m, n); whether it is a route.

    It is a route if every location is left once and entered once, and n steps from 0 meet all.
    """
    m = len(x)
    square = np.zeros((m, n, n), bool)
    square[:, *pairs(n)] = x
    ok = (square.sum(axis=1) == 1).all(axis=1) & (square.sum(axis=2) == 1).all(axis=1)
    after = square.argmax(axis=2)
    routes = np.zeros((m, n), np.int64)
    for k in range(1, n):
        routes[:, k] = np.take_along_axis(after, routes[:, k - 1 : k], axis=1)[:, 0]
    ok &= (np.sort(routes, axis=1) == np.arange(n)).all(axis=1)
    return routes, ok


def to_routes(x: np.ndarray, n: int) -> np.ndarray:
    """(m, n (n - 1)) bool -> (m, n) locations; FormulaError if a row is no route."""
    routes, ok = follow(x, n)
    if not ok.all():
        raise FormulaError(
            f"row {int(np.argmin(ok))} is no round trip",
            expected=f"{n} edges that visit each location once and return",
        )
    return routes


def checked_routes(routes: Any, n: int | None = None) -> np.ndarray:
    """(m, n) int64, every row a permutation of 0..n-1 that starts at location 0."""
    rows = np.asarray(routes)
    if rows.ndim == 1:
        rows = rows[None]
    if rows.ndim != 2 or (n is not None and rows.shape[1] != n):
        shape = "(m, n)" if n is None else f"(m, {n})"
        raise FormulaError(f"routes of shape {rows.shape}", expected=shape)
    if not np.issubdtype(rows.dtype, np.integer):
        raise FormulaError(f"routes of type {rows.dtype}", expected="integers")
    bad = (np.sort(rows, axis=1) != np.arange(rows.shape[1])).any(axis=1)
    if bad.any():
        raise FormulaError(
            f"route {int(np.argmax(bad))}, {rows[np.argmax(bad)].tolist()}",
            expected=f"each of 0..{rows.shape[1] - 1} once",
        )
    return rotated(rows.astype(np.int64))


def to_matrix(theta: np.ndarray, n: int) -> np.ndarray:
    """(..., n (n - 1)) -> (..., n, n), the diagonal 0."""
    theta = np.asarray(theta, np.float64)
    matrix = np.zeros((*theta.shape[:-1], n, n))
    matrix[..., *pairs(n)] = theta
    return matrix


def to_vector(matrix: Any) -> np.ndarray:
    """(..., n, n) -> (..., n (n - 1)); the diagonal is left out."""
    matrix = np.asarray(matrix, np.float64)
    return matrix[..., *pairs(matrix.shape[-1])]
