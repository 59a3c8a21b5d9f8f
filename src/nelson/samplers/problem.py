"""One sampling problem, prepared: what is fixed, what is left, and what theory says of the rest.

Preparation keeps the distribution. Unit propagation fixes what evidence and unit clauses imply;
what is left falls into independent components, and those that are extremal are drawn exactly by
resampling alone, so only the variables of the others need sweeps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nelson.checks import evidence_literals
from nelson.errors import FormulaError, Unsatisfiable
from nelson.formula import Formula
from nelson.kernels.program import Program, build

#: Non-extremal components that are looked for one by one; beyond, every variable is swept.
_MAX_WITNESSES = 32
#: Conditioned programs kept with a formula.
_CACHE_SIZE = 16


@dataclass(frozen=True)
class Problem:
    formula: Formula  # as given
    evidence: tuple[int, ...]  # literals given with the call
    rest: Formula  # clauses that are left, over the same variables
    fixed: np.ndarray  # literals that propagation found
    extremal: bool  # is what is left extremal
    program: Program

    @property
    def n(self) -> int:
        return self.formula.n_vars


def evidence_of(
    formula: Formula,
    given: Mapping[int, bool] | Iterable[int] | None,
    theta: np.ndarray | None = None,
) -> tuple[int, ...]:
    """The literals that `given` and the infinities of a theta vector fix, sorted by variable."""
    literals = set(evidence_literals(given if given is not None else (), formula.n_vars).tolist())
    if theta is not None:
        infinite = np.flatnonzero(np.isinf(theta))
        literals |= {int(i + 1) if theta[i] > 0 else -int(i + 1) for i in infinite}
    return tuple(sorted(literals, key=lambda literal: (abs(literal), literal)))


def prepare(formula: Formula, evidence: tuple[int, ...] = ()) -> Problem:
    """Condition, simplify, compile. Raises Unsatisfiable if propagation proves it."""
    cache: dict[Any, Problem] = formula._cache.setdefault("problems", {})
    if evidence not in cache:
        if len(cache) >= _CACHE_SIZE:
            cache.pop(next(iter(cache)))
        cache[evidence] = _prepare(formula, evidence)
    return cache[evidence]


def _prepare(formula: Formula, evidence: tuple[int, ...]) -> Problem:
    if formula.has_empty_clause:
        raise Unsatisfiable("the formula has an empty clause")
    simplified = formula.given(evidence)
    lengths = np.diff(simplified.offsets)
    unit = lengths == 1
    fixed = simplified.literals[simplified.offsets[:-1][unit]]
    rest = Formula.from_arrays(
        simplified.literals[np.repeat(~unit, lengths)],
        np.concatenate([[0], np.cumsum(lengths[~unit])]),
        n_vars=formula.n_vars,
        n_aux=formula.n_aux,
    )
    swept, extremal = _swept(rest)
    given = np.array(evidence, np.int32)
    ends = formula.offsets[-1] + np.arange(1, len(given) + 1)
    program = build(
        formula.n_total,
        rest.literals,
        rest.offsets,
        swept,
        fixed,
        check=(np.concatenate([formula.literals, given]), np.concatenate([formula.offsets, ends])),
    )
    return Problem(formula, evidence, rest, fixed, extremal, program)


def _swept(rest: Formula) -> tuple[np.ndarray, bool]:
    """(variables of components that are not extremal, whether there is none)."""
    from nelson.lemma import components, condition1

    swept = np.zeros(rest.n_total, bool)
    if (witness := condition1(rest)) is None:
        return swept, True
    label = components(rest)
    clause_label = label[np.abs(rest.literals[rest.offsets[:-1]]) - 1]
    left = np.arange(rest.n_clauses)  # clauses of components not looked at yet
    part = rest
    for _ in range(_MAX_WITNESSES):
        if witness is None:
            return swept, False
        bad = clause_label[left[witness[0]]]
        swept |= label == bad
        left = left[clause_label[left] != bad]
        lengths = np.diff(rest.offsets)
        keep = np.isin(np.arange(rest.n_clauses), left)
        part = Formula.from_arrays(
            rest.literals[np.repeat(keep, lengths)],
            np.concatenate([[0], np.cumsum(lengths[keep])]),
            n_vars=rest.n_total,
        )
        witness = condition1(part)
    swept[np.abs(rest.literals) - 1] = True
    return swept, False


def theta_rows(formula: Formula, theta: Any) -> tuple[np.ndarray, bool]:
    """theta as (contexts, n) float64, and whether it was one vector. None is uniform."""
    if theta is None:
        return np.zeros((1, formula.n_vars)), True
    if hasattr(theta, "detach"):  # a torch tensor, without importing torch
        theta = theta.detach().cpu().numpy()
    try:
        rows = np.asarray(theta, np.float64)
    except (TypeError, ValueError):
        raise FormulaError("theta is not numeric", expected=f"{formula.n_vars} numbers") from None
    if rows.ndim not in (1, 2) or rows.shape[-1] != formula.n_vars:
        raise FormulaError(
            f"theta of shape {rows.shape}",
            expected=f"({formula.n_vars},), or (contexts, {formula.n_vars})",
        )
    if rows.ndim == 2 and len(rows) == 0:
        raise FormulaError("theta has no rows", expected="one row per context")
    if np.isnan(rows).any():
        i = int(np.argwhere(np.isnan(rows))[0][-1]) + 1
        raise FormulaError(f"theta of variable {i} is NaN", expected="a number or +-inf")
    return np.atleast_2d(rows), rows.ndim == 1
