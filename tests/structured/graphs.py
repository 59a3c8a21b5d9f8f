"""Graphs: edge lists, and their colourings."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from nelson.errors import FormulaError
from nelson.formula import Formula

Edges = Sequence[tuple[int, int]]


def cycle(n: int) -> list[tuple[int, int]]:
    return [(i, (i + 1) % n) for i in range(n)]


def grid(width: int, height: int) -> list[tuple[int, int]]:
    """Vertex x + width y, joined to its right and lower neighbours."""
    right = [(x + width * y, x + 1 + width * y) for y in range(height) for x in range(width - 1)]
    down = [(x + width * y, x + width * (y + 1)) for y in range(height - 1) for x in range(width)]
    return right + down


def triangulated(width: int, height: int, seed: int = 0) -> list[tuple[int, int]]:
    """A grid with one diagonal in each square, up or down at random: a planar graph."""
    flips = np.random.default_rng([seed, 6]).integers(0, 2, (height, width))
    diagonals = []
    for y in range(height - 1):
        for x in range(width - 1):
            a, b = (0, 1) if flips[y, x] else (1, 0)
            diagonals.append((x + a + width * y, x + b + width * (y + 1)))
    return grid(width, height) + diagonals


def grid_colouring(width: int, height: int, colours: int, seed: int = 0) -> Formula:
    """Colourings of a grid; vertex x + width y."""
    return colouring(grid(width, height), width * height, colours)


def planar_colouring(width: int, height: int, colours: int, seed: int = 0) -> Formula:
    """Colourings of a triangulated grid; vertex x + width y."""
    return colouring(triangulated(width, height, seed), width * height, colours)


def random_graph(
    n: int, edges: int, seed: int = 0, classes: np.ndarray | None = None
) -> list[tuple[int, int]]:
    """`edges` distinct random pairs; with classes (n,), only pairs of different classes."""
    random = np.random.default_rng([seed, 4])
    found: set[tuple[int, int]] = set()
    most = n * (n - 1) // 2
    if classes is not None:
        sizes = np.unique(classes, return_counts=True)[1]
        most -= int((sizes * (sizes - 1) // 2).sum())
    if edges > most:
        raise FormulaError(f"{edges} edges", expected=f"at most {most}")
    while len(found) < edges:
        a, b = sorted(random.choice(n, 2, replace=False).tolist())
        if classes is None or classes[a] != classes[b]:
            found.add((a, b))
    return sorted(found)


def colouring(edges: Edges, vertices: int, colours: int, seed: int = 0) -> Formula:
    """Proper colourings: variable v * colours + c + 1 says that vertex v (from 0) has colour c.

    Each vertex has exactly one colour, the ends of an edge never the same: as many solutions as the
    chromatic polynomial says, (k - 1)^n + (-1)^n (k - 1) for k colours of the cycle C_n.
    """

    def has(v: int, c: int) -> int:
        return v * colours + c + 1

    clauses = []
    for v in range(vertices):
        clauses.append([has(v, c) for c in range(colours)])
        clauses += [[-has(v, c), -has(v, d)] for c, d in combinations(range(colours), 2)]
    for a, b in edges:
        clauses += [[-has(a, c), -has(b, c)] for c in range(colours)]
    return Formula(clauses, n_vars=vertices * colours)


def random_colouring(n: int, edges: int, colours: int, seed: int = 0) -> Formula:
    """Colourings of a random graph that has one: edges join hidden colour classes only."""
    hidden = np.random.default_rng([seed, 5]).integers(0, colours, n)
    return colouring(random_graph(n, edges, seed, hidden), n, colours)
