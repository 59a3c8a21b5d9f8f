"""All legal rows of a small space, by a solver that enumerates the solutions of its clauses."""

from __future__ import annotations

from typing import Any

import numpy as np
from pysat.solvers import Solver

from nelson.space import Space
from nelson.space.clauses.decode import rows_of_states


def every_row(space: Space, most: int = 20_000) -> list[dict[str, Any]]:
    """One row for each solution. Two solutions with the same row would be an undetermined auxiliary
    variable; `distinct_rows` finds it."""
    formula = space.formula
    rows = []
    with Solver(
        "glucose4", bootstrap_with=[list(map(int, clause)) for clause in formula]
    ) as solver:
        for variable in range(1, formula.n_vars + 1):  # also those that no clause mentions
            solver.add_clause([variable, -variable])
        if formula.has_empty_clause:
            return []
        for found in solver.enum_models():
            x = np.zeros(formula.n_vars, bool)
            x[[v - 1 for v in found if v > 0]] = True
            rows.append(rows_of_states(space, x[None])[0])
            assert len(rows) <= most
    return rows


def distinct_rows(space: Space) -> set[tuple[Any, ...]]:
    """The legal rows as tuples; fails if a row has several completions."""
    rows = [tuple(row.values()) for row in every_row(space)]
    assert len(set(rows)) == len(rows), "an auxiliary variable is not determined by the fields"
    return set(rows)
