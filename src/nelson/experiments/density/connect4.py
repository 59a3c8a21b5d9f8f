"""The positions of the connect-4 data as a space: the rules of the game, and nothing learned.

The data hold positions after eight moves, with the note "neither player has won yet, and the next
move is not forced" (J. Tromp, UCI). In rules:

- gravity: no stone lies above an empty cell;
- four stones of each player;
- nobody has four in a line;
- no player could complete four in a line with the next stone.

    space = board()
    space.count()                        # 134,814 positions: log P = -11.81 for each one

Columns are called a to g and rows 1 to 6, from the bottom. The 126 columns of the data are 42
cells, a1 to a6, b1 and so on, with three bits each: one player, empty, the other player.
"""

from __future__ import annotations

import itertools

import numpy as np

from nelson.errors import FormulaError
from nelson.space import Space, exactly
from nelson.space.language.functions import all_of

EMPTY, PLAYERS = "-", ("x", "o")
#: The value of each of the three bits of a cell.
BITS = ("x", EMPTY, "o")
Cell = tuple[int, int]  # column, row


def cells(columns: int = 7, rows: int = 6) -> list[Cell]:
    """All cells, column by column, from the bottom: the order of the data."""
    return list(itertools.product(range(columns), range(rows)))


def name(cell: Cell) -> str:
    """(0, 2) is a3."""
    return f"{chr(ord('a') + cell[0])}{cell[1] + 1}"


def lines(columns: int = 7, rows: int = 6, length: int = 4) -> list[list[Cell]]:
    """All lines of `length` cells: across, up, and both diagonals."""
    inside = set(cells(columns, rows))
    found = []
    for (column, row), (right, up) in itertools.product(
        sorted(inside), ((1, 0), (0, 1), (1, 1), (1, -1))
    ):
        line = [(column + k * right, row + k * up) for k in range(length)]
        if inside.issuperset(line):
            found.append(line)
    return found


def board(columns: int = 7, rows: int = 6, stones: int = 4, length: int = 4) -> Space:
    """The space of all positions with `stones` stones of each player that obey the rules."""
    space = Space(f"connect-{length} on {columns} x {rows}, {stones} stones each")
    at = {cell: space.choice(name(cell), BITS) for cell in cells(columns, rows)}
    for (column, row), cell in at.items():
        if row:
            below = at[column, row - 1]
            space.require(
                (cell == EMPTY) | (below != EMPTY),
                name=f"gravity: {below.name} under {cell.name}",
            )
    for player in PLAYERS:
        mine = [cell == player for cell in at.values()]
        space.require(exactly(stones, mine), name=f"{stones} stones of {player}")
    for line, player in itertools.product(lines(columns, rows, length), PLAYERS):
        shown = f"{player} on {name(line[0])} to {name(line[-1])}"
        full = all_of([at[cell] == player for cell in line])
        space.require(~full, name=f"not won: {shown}")
        for last in line:
            column, row = last
            others = [at[cell] == player for cell in line if cell != last]
            free = [at[last] == EMPTY]
            rests = [at[column, row - 1] != EMPTY] if row else []
            space.require(
                ~all_of([*others, *free, *rests]), name=f"no win next: {shown} with {name(last)}"
            )
    return space


def columns_of(bits: np.ndarray) -> dict[str, np.ndarray]:
    """Rows of 126 bits as a table of 42 cells. Raises FormulaError if they have another shape."""
    cells_ = cells()
    if bits.ndim != 2 or bits.shape[1] != 3 * len(cells_):
        raise FormulaError(f"bits of shape {bits.shape}", expected=f"(rows, {3 * len(cells_)})")
    states = bits.reshape(len(bits), len(cells_), 3)
    if not (states.sum(axis=2) == 1).all():
        raise FormulaError("a cell with several states, or none", expected="one of three bits set")
    values = np.array(BITS)[states.argmax(axis=2)]
    return {name(cell): values[:, k] for k, cell in enumerate(cells_)}
