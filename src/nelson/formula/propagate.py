"""Unit propagation to its fixpoint, in time linear in the total number of literals."""

from __future__ import annotations

import numpy as np

from nelson.errors import Unsatisfiable
from nelson.formula.canonical import lengths_to_offsets


def propagate(
    literals: np.ndarray, offsets: np.ndarray, n: int, fixed: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Flat clauses and given literals -> equivalent flat clauses: units first, then the rest.

    Units come in the order of their variables. The rest are the clauses that the units do not
    satisfy, without the literals that are false; each still has two literals or more.
    """
    from nelson.kernels.reduce.propagate import CONTRADICTION, FIXPOINT, fixpoint

    values = np.zeros(n + 1, dtype=np.int8)  # +1 true, -1 false, 0 open; entry 0 unused
    start = _occurrence_starts(literals, n)
    outcome = fixpoint(
        literals,
        offsets,
        fixed,
        values,
        start,
        start[:-1].copy(),
        np.empty(len(literals), dtype=np.int32),
        np.empty(len(offsets) - 1, dtype=np.int32),
        np.empty(n + 1, dtype=np.int32),
    )
    if outcome == CONTRADICTION:
        raise Unsatisfiable("the evidence contradicts itself")
    if outcome != FIXPOINT:
        raise Unsatisfiable(f"unit propagation falsifies clause {outcome + 1}")

    variables = np.flatnonzero(values)
    units = np.where(values[variables] > 0, variables, -variables).astype(np.int32)
    state = values[np.abs(literals)] * np.sign(literals).astype(np.int8)  # of each literal
    true_before = lengths_to_offsets(state > 0)
    open_before = lengths_to_offsets(state == 0)
    alive = true_before[offsets[1:]] == true_before[offsets[:-1]]
    lengths = (open_before[offsets[1:]] - open_before[offsets[:-1]])[alive]
    rest = literals[(state == 0) & np.repeat(alive, np.diff(offsets))]
    lengths = np.concatenate([np.ones(len(units), dtype=np.int64), lengths])
    return np.concatenate([units, rest]), lengths_to_offsets(lengths)


def _occurrence_starts(literals: np.ndarray, n: int) -> np.ndarray:
    """Where the occurrences of each literal code 2 v + (literal < 0) start, if sorted by code."""
    codes = 2 * np.abs(literals) + (literals < 0)
    return lengths_to_offsets(np.bincount(codes, minlength=2 * n + 2))
