"""The positions of the connect-4 data as a space: the rules of the game, and nothing learned.

The data hold positions after eight moves, "in which neither player has won yet, and in which the
next move is not forced" (J. Tromp, UCI). In rules:

1. gravity: no stone lies above an empty cell;
2. four stones of each player;
3. nobody has four in a line;
4. no player could complete four in a line with the next stone;
5. the stones can have been played in turns, x first.

    board().count()                      # rules 1 to 4: 149,148 positions, log P = -11.91 for each
    positions(in_turns(board()))         # rules 1 to 5: 134,934 positions, log P = -11.81

Rule 5 says that some order of moves exists, but not which: it needs variables that the position
does not determine. So it is no rule of a space but part of a formula, whose *projected* solutions
are counted: each position once, however many orders lead to it.

Columns are called a to g and rows 1 to 6, from the bottom. The 126 columns of the data are 42
cells, a1 to a6, b1 and so on, with three bits each: x (who moves first), empty, o.
"""

from __future__ import annotations

import itertools

import numpy as np

from nelson.budget import Budget
from nelson.errors import BudgetExceeded, FormulaError
from nelson.exact.law import Law, law
from nelson.exact.projection import projected
from nelson.formula import Formula
from nelson.space import Space, exactly
from nelson.space.language.functions import all_of

EMPTY, PLAYERS = "-", ("x", "o")
#: The value of each of the three bits of a cell.
BITS = ("x", EMPTY, "o")
Cell = tuple[int, int]  # column, row
#: More positions do not fit in memory as one table.
_MOST_POSITIONS = 10_000_000


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


def in_turns(space: Space, columns: int = 7, rows: int = 6, stones: int = 4) -> Formula:
    """The positions of `board` whose stones can have been played in turns, x first.

    x[s] and o[s] are the first s stones of each player. Each is part of the next one, and after
    each move no stone hangs in the air: stones of x[s] lie on x[s] and o[s - 1], stones of o[s] on
    x[s] and o[s]. The projection is the variables of the cells.
    """
    base = space.formula
    shown = base.projection or ()
    every = cells(columns, rows)
    final = {
        (player, cell): shown[3 * k + BITS.index(player)]
        for k, cell in enumerate(every)
        for player in PLAYERS
    }
    number = itertools.count(base.n_vars + 1)
    after: list[dict[tuple[str, Cell], int]] = [{}]
    after += [{key: next(number) for key in final} for _ in range(1, stones)]
    after += [final]
    clauses = base.clauses()
    for s in range(1, stones + 1):
        now, before = after[s], after[s - 1]
        clauses += [[-before[key], now[key]] for key in before]
        for column, row in every:
            if row:
                below = (column, row - 1)
                x, o = now["x", (column, row)], now["o", (column, row)]
                earlier = [before["o", below]] if before else []
                clauses.append([-x, now["x", below], *earlier])
                clauses.append([-o, now["x", below], now["o", below]])
    formula = Formula(clauses, next(number) - 1, projection=shown)
    for s, player in itertools.product(range(1, stones), PLAYERS):
        formula = formula.exactly([after[s][player, cell] for cell in every], s)
    return formula


def positions(formula: Formula, seconds: float = 300.0) -> np.ndarray:
    """All projected solutions, (positions, bits) bool, in the order of the data's columns.

    Raises BudgetExceeded if the time was not enough.
    """
    shown = np.array(formula.projection, int)
    found = projected(formula, shown.tolist(), (), Budget.of(seconds))
    every = None if found.formula is None else law(found.formula, (), Budget.of(seconds))
    rows = every.rows(_MOST_POSITIONS, shown - 1) if isinstance(every, Law) else None
    if rows is None:
        raise BudgetExceeded(f"the positions were not enumerated in {seconds:g} s: {found.why}")
    return rows


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
