"""`project_law="solutions"`: what to draw from, so that each projected solution counts once.

    marginal     P(y) = sum over solutions x that extend y of P_theta(x | C)
    solutions    P(y) ~ exp(theta . y)  over the assignments y that some solution x extends

`nelson.exact.projection` finds a formula whose marginal law is the law of projected solutions of
the formula as given, and any method may draw from it, with its own guarantee. If it finds none,
UniGen draws nearly uniform projected solutions: approximate, and without weights.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from nelson.budget import Budget
from nelson.errors import FormulaError, NelsonError
from nelson.exact.projection import projected
from nelson.formula import Formula
from nelson.sampling.methods import circuit, unigen
from nelson.sampling.options import Options
from nelson.sampling.registry import get, missing_modules
from nelson.sampling.sampler import Sampler

_ADVICE = 'project_law="marginal", the marginal distribution of all solutions'


@dataclass(frozen=True)
class DrawnFormulas:
    """What the samples of a call are drawn from."""

    formulas: dict[tuple[int, ...], Formula]  # by evidence
    options: Options
    why: str = ""  # why the method is what it is; "": not decided here
    sampler: Sampler | None = None  # draws instead of the method of the options
    info: dict[str, Any] = field(default_factory=dict)  # for `Samples.info`


def source_of(
    formula: Formula,
    theta: np.ndarray,
    evidence: Iterable[tuple[int, ...]],
    variables: tuple[int, ...],
    options: Options,
    budget: Budget,
) -> DrawnFormulas:
    """theta (contexts, n_vars); evidence: of each set of contexts; variables: of the projection.

    Raises NelsonError if the law that the options ask for is out of reach.
    """
    evidence = list(evidence)
    if options.project_law == "marginal":
        return DrawnFormulas(dict.fromkeys(evidence, formula), options)
    refuse_hidden_weights(theta, variables)
    if options.method == unigen.SAMPLER.name and len(variables) < formula.n_vars:
        return _hashed(formula, evidence, variables, options, "asked for")
    share = budget.share(0.5)  # the rest is for drawing
    projections = {given: projected(formula, variables, given, share) for given in evidence}
    formulas: dict[tuple[int, ...], Formula] = {}
    for given, projection in projections.items():
        if projection.formula is None:
            _require_hashing(theta, options, projection.why)
            return _hashed(formula, evidence, variables, options, projection.why)
        formulas[given] = projection.formula
    in_circuit = (projection for projection in projections.values() if projection.in_circuit)
    projection = next(in_circuit, projections[evidence[0]])
    info = {
        "project_law": "solutions",
        "projection": projection.route,
        "projection_why": projection.why,
    }
    options = replace(options, determined=True)
    if not projection.in_circuit:
        return DrawnFormulas(formulas, options, info=info)
    able = options.method == "auto" or get(options.method).from_circuit
    if not able or options.sweeps:
        raise FormulaError(
            f'method {options.method!r} with project_law="solutions": no formula has these '
            "projected solutions, only a circuit",
            expected=f'method "auto" or {circuit.SAMPLER.name!r}, or {_ADVICE}',
        )
    return DrawnFormulas(
        formulas, replace(options, method=circuit.SAMPLER.name), projection.why, info=info
    )


def padded(theta: np.ndarray, n: int) -> np.ndarray:
    """theta with a 0 for each variable that the formula to draw from has in addition."""
    more = n - theta.shape[1]
    return np.pad(theta, [(0, 0), (0, more)]) if more else theta


def refuse_hidden_weights(theta: np.ndarray, variables: tuple[int, ...]) -> None:
    """Raise if theta (contexts, n) has a finite weight outside of these variables."""
    hidden = np.ones(theta.shape[1], bool)
    hidden[np.array(variables, int) - 1] = False
    weighted = np.flatnonzero((np.isfinite(theta) & (theta != 0)).any(axis=0) & hidden)
    if len(weighted):
        raise FormulaError(
            f"theta of variable {weighted[0] + 1} is not 0, and the variable is outside of the "
            'projection: with project_law="solutions" only projected variables have weights',
            expected=f"theta = 0 there, or {_ADVICE}",
        )


def _require_hashing(theta: np.ndarray, options: Options, why: str) -> None:
    """Raise unless UniGen may stand in for the exact routes."""
    reason = ""
    if (np.isfinite(theta) & (theta != 0)).any():
        reason = "UniGen, which needs neither, draws without weights only"
    elif missing_modules(unigen.SAMPLER):
        reason = 'UniGen, which needs neither, is missing: pip install "nelson-mrf[samplers]"'
    elif options.method != "auto" or options.sweeps:
        reason = f"method {options.method!r} needs one"
    if reason:
        raise NelsonError(
            f"the projected solutions cannot be drawn: no formula or circuit that has each of them "
            f"once was found ({why}), and {reason}; ask for {_ADVICE}"
        )


def _hashed(
    formula: Formula,
    evidence: list[tuple[int, ...]],
    variables: tuple[int, ...],
    options: Options,
    why: str,
) -> DrawnFormulas:
    info = {"project_law": "solutions", "projection": "hashed", "projection_why": why}
    sampler = unigen.over(np.array(variables, int) - 1)
    formulas = dict.fromkeys(evidence, formula)
    return DrawnFormulas(formulas, replace(options, method=unigen.SAMPLER.name), why, sampler, info)
