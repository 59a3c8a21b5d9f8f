"""Two small tasks of the literature: shortest paths on a 4 x 4 grid, and preferences for sushi.

`grid-paths.data.xz` has lines `removed edges,two nodes,paths...`: the first path is the target. The
inputs are 24 edges (1: still there) and 16 nodes (1: an end), the outputs the edges of the path.
Valid is every simple path between any two nodes. In the formula each node has at most two edges,
exactly two nodes have one, and no cycle is complete: what is left is a path.

`sushi.soc.xz` has rankings of ten items. The input is the order of items 1, 2, 3, 5, 7, 8, the
output that of items 4, 6, 9, 10, both as permutation matrices.
"""

from __future__ import annotations

import itertools
import lzma
from functools import partial
from pathlib import Path

import numpy as np

from lab.prediction.tasks import Task, split
from nelson.formula import Formula

PATHS, PATHS_GIVEN, SUSHI = "paths", "paths, ends given", "sushi"
#: Tasks whose test rows are chosen by seed.
TEST_BY_SEED = (PATHS, PATHS_GIVEN, SUSHI)
#: Log-odds of what is given.
SURE = 20.0
SIDE = 4
#: Nodes of each edge, in the numbering of the data: rows first, then columns.
EDGES = [(SIDE * r + c, SIDE * r + c + 1) for r in range(SIDE) for c in range(SIDE - 1)] + [
    (SIDE * r + c, SIDE * (r + 1) + c) for c in range(SIDE) for r in range(SIDE - 1)
]
ITEMS_IN, ITEMS_OUT = (1, 2, 3, 5, 7, 8), (4, 6, 9, 10)


def paths(folder: str, given: bool = False) -> Task:
    """given: removed edges and ends are known, so that a law is over the paths that remain."""
    lines = _lines(Path(folder) / "grid-paths.data.xz")
    x, y = np.ones((len(lines), 40), np.float32), np.zeros((len(lines), 24), bool)
    x[:, 24:] = 0
    for row, (line, target) in enumerate(zip(lines, y, strict=True)):
        removed, ends, path = line.split(",")[:3]
        x[row, [int(e) for e in removed.split("-") if e]] = 0
        x[row, [24 + int(v) for v in ends.split("-")]] = 1
        target[[int(e) for e in path.split("-")]] = True
    whole = np.concatenate([y, degree_one(y)], 1)
    if not given:
        return _task(PATHS, 24, simple_paths(), x, whole)
    sure = np.concatenate([SURE * (x[:, :24] - 1), SURE * (2 * x[:, 24:] - 1)], 1)
    return _task(PATHS_GIVEN, 24, simple_paths(), x, whole, sure)


def simple_paths() -> Formula:
    """Variables 1..24 are edges; 25..40 say that a node has exactly one edge."""
    at: list[list[int]] = [[] for _ in range(SIDE * SIDE)]
    for e, nodes in enumerate(EDGES, 1):
        for v in nodes:
            at[v].append(e)
    clauses = [[-a for a in three] for edges in at for three in itertools.combinations(edges, 3)]
    clauses += [[-(e + 1) for e in cycle] for cycle in cycles()]
    formula = Formula(clauses, n_vars=40)
    for v, edges in enumerate(at):
        formula = formula.xor([*edges, 25 + v], False)
    return formula.exactly(range(25, 41), 2)


def degree_one(y: np.ndarray) -> np.ndarray:
    """(rows, 24) -> (rows, 16): the nodes with one edge."""
    incident = np.zeros((24, SIDE * SIDE), np.int64)
    for e, (a, b) in enumerate(EDGES):
        incident[e, [a, b]] = 1
    return y.astype(np.int64) @ incident == 1


def cycles() -> list[list[int]]:
    """The simple cycles of the grid, as edges from 0."""
    number = {frozenset(nodes): e for e, nodes in enumerate(EDGES)}
    beside: dict[int, list[int]] = {v: [] for v in range(SIDE * SIDE)}
    for a, b in EDGES:
        beside[a].append(b)
        beside[b].append(a)
    found: set[frozenset[int]] = set()

    def walk(first: int, path: list[int]) -> None:
        for after in beside[path[-1]]:
            if after == first and len(path) > 3:
                ends = zip(path, [*path[1:], first], strict=True)
                found.add(frozenset(number[frozenset(pair)] for pair in ends))
            elif after > first and after not in path:
                walk(first, [*path, after])

    for first in beside:
        walk(first, [first])
    return [sorted(cycle) for cycle in sorted(found, key=sorted)]


def sushi(folder: str) -> Task:
    rankings = []
    for line in _lines(Path(folder) / "sushi.soc.xz")[12:]:
        times, *order = (int(v) for v in line.split(","))
        rankings += [order] * times
    x = np.array([_matrix(order, ITEMS_IN) for order in rankings], np.float32)
    y = np.array([_matrix(order, ITEMS_OUT) for order in rankings], bool)
    formula, size = Formula([], n_vars=16), len(ITEMS_OUT)
    for k in range(size):
        formula = formula.exactly([size * k + j + 1 for j in range(size)], 1)
        formula = formula.exactly([size * j + k + 1 for j in range(size)], 1)
    return _task(SUSHI, 16, formula, x, y)


def _matrix(order: list[int], items: tuple[int, ...]) -> np.ndarray:
    """[item, place among these items], flat."""
    among = [item for item in order if item in items]
    return np.array([[item == other for other in among] for item in items]).ravel()


def _task(
    name: str,
    outputs: int,
    formula: Formula,
    x: np.ndarray,
    y: np.ndarray,
    given: np.ndarray | None = None,
) -> Task:
    return Task(name, formula, outputs, x, y, partial(split, len(x)), 128, 0.0, given)


def _lines(path: Path) -> list[str]:
    with lzma.open(path, "rt") as stream:
        return stream.read().split("\n")[:-1]
