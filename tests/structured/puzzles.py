"""Planning, Latin squares, pigeons: at most one, at least one, over many frames."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from nelson.formula import Formula


def one_of(literals: list[int]) -> list[list[int]]:
    """Exactly one of the literals."""
    return [literals, *([-a, -b] for a, b in combinations(literals, 2))]


def grid_obstacles(width: int, height: int, obstacles: int, seed: int = 0) -> np.ndarray:
    """(height, width) bool: random blocked cells, with a way from corner to corner left open along
    the upper and right border.
    """
    blocked = np.zeros((height, width), bool)
    inner = np.ones((height, width), bool)
    inner[0, :] = inner[:, -1] = False
    places = np.flatnonzero(inner)
    random = np.random.default_rng([seed, 12])
    blocked.flat[random.choice(places, min(obstacles, len(places)), replace=False)] = True
    return blocked


def grid_path(width: int, height: int, frames: int, obstacles: int = 0, seed: int = 0) -> Formula:
    """A robot from the upper left to the lower right corner: `frames` moves by one cell, or none.

    Variable t * width * height + y * width + x + 1 says where it is at time t = 0..frames. As many
    solutions as there are walks of that length (a power of the adjacency matrix).
    """
    blocked, cells = grid_obstacles(width, height, obstacles, seed), width * height

    def at(t: int, cell: int) -> int:
        return t * cells + cell + 1

    clauses = [[at(0, 0)], [at(frames, cells - 1)]]
    for t in range(frames + 1):
        clauses += one_of([at(t, cell) for cell in range(cells)])
        clauses += [[-at(t, int(cell))] for cell in np.flatnonzero(blocked)]
    for t in range(frames):
        for y in range(height):
            for x in range(width):
                steps = ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1))
                around = [(x + dx, y + dy) for dx, dy in steps]
                reach = [b * width + a for a, b in around if 0 <= a < width and 0 <= b < height]
                clauses.append([-at(t, y * width + x), *(at(t + 1, cell) for cell in reach)])
    return Formula(clauses, n_vars=(frames + 1) * cells)


def latin_square(n: int, given: int = 0, seed: int = 0) -> Formula:
    """n x n squares, each symbol once in each row and column; `given` cells of a hidden one are
    filled in. Variable (row * n + column) * n + symbol + 1, all from 0.

    12 squares of order 3, 576 of order 4, 161280 of order 5.
    """
    random = np.random.default_rng([seed, 13])
    rows, columns, symbols = (random.permutation(n) for _ in range(3))
    hidden = symbols[(rows[:, None] + columns[None, :]) % n]

    def has(row: int, column: int, symbol: int) -> int:
        return (row * n + column) * n + symbol + 1

    clauses = []
    for a in range(n):
        for b in range(n):
            clauses += one_of([has(a, b, k) for k in range(n)])
            clauses += one_of([has(a, k, b) for k in range(n)])
            clauses += one_of([has(k, a, b) for k in range(n)])
    for cell in random.choice(n * n, given, replace=False).tolist():
        row, column = divmod(cell, n)
        clauses.append([has(row, column, int(hidden[row, column]))])
    return Formula(clauses, n_vars=n**3)


def sudoku(box: int, given: int, seed: int = 0) -> Formula:
    """Squares of order n = box^2, each symbol once in each row, column and box of box x box cells;
    `given` cells of a hidden one are filled in. Variable (row * n + column) * n + symbol + 1.

    288 squares with box = 2.
    """
    n = box * box
    random = np.random.default_rng([seed, 14])

    def shuffled() -> np.ndarray:
        """A permutation of the lines that keeps the bands together."""
        bands = random.permutation(box)
        return np.concatenate([band * box + random.permutation(box) for band in bands])

    rows, columns, symbols = shuffled(), shuffled(), random.permutation(n)
    hidden = symbols[(rows[:, None] % box * box + rows[:, None] // box + columns[None, :]) % n]

    def has(row: int, column: int, symbol: int) -> int:
        return (row * n + column) * n + symbol + 1

    clauses = []
    for a in range(n):
        for b in range(n):
            clauses += one_of([has(a, b, k) for k in range(n)])
            clauses += one_of([has(a, k, b) for k in range(n)])
            clauses += one_of([has(k, a, b) for k in range(n)])
            corner, inside = divmod(a, box), range(n)
            cells = [(corner[0] * box + k // box, corner[1] * box + k % box) for k in inside]
            clauses += one_of([has(row, column, b) for row, column in cells])
    for cell in random.choice(n * n, given, replace=False).tolist():
        row, column = divmod(cell, n)
        clauses.append([has(row, column, int(hidden[row, column]))])
    return Formula(clauses, n_vars=n**3)


def pigeonhole(pigeons: int, holes: int, seed: int = 0) -> Formula:
    """Each pigeon in a hole, no two in one: without a solution if there are more pigeons than
    holes, and exponentially long to prove by resolution (Haken 1985). Variable p * holes + h + 1.
    """
    clauses = [[p * holes + h + 1 for h in range(holes)] for p in range(pigeons)]
    for h in range(holes):
        for p, q in combinations(range(pigeons), 2):
            clauses.append([-(p * holes + h + 1), -(q * holes + h + 1)])
    return Formula(clauses, n_vars=pigeons * holes)
