"""Heat-bath sweeps with the full conditional of a potential over several variables.

    P(x) ~ exp(theta . x + phi(x)) C(x),      phi(x) = sum_S c_S prod_{i in S} x_i

From a valid x, a variable is redrawn given all others, and a group of which at most one is true is
redrawn at once, among the values that keep every clause satisfied (`nelson.sampling.units`). So P
is stationary and valid samples stay valid. Unlike `nelson.formula.polynomial.lift` this adds
no variables, so variables that share a term can still move one at a time.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from nelson.errors import FormulaError
from nelson.formula import Formula
from nelson.formula.checks import evidence_of
from nelson.formula.polynomial import Polynomial
from nelson.kernels.core.bits import tail_mask
from nelson.kernels.core.threads import usable_cores
from nelson.sampling.chain import Chains
from nelson.sampling.diagnosis.diagnose import beyond_resolution, lags_for, pilot_request, watch
from nelson.sampling.diagnosis.elsewhere import RARE_SHARE, Elsewhere
from nelson.sampling.diagnosis.features import Features
from nelson.sampling.diagnosis.verdict import Verdict
from nelson.sampling.problem import Problem, prepare
from nelson.sampling.sample_stream import sample
from nelson.sampling.sampler import Request
from nelson.sampling.samples import Samples
from nelson.sampling.terms import Terms
from nelson.sampling.units import Units, unit_moves

#: Samples in the pilot run.
_PILOT_SAMPLES = 2048
#: Nats by which rounding may change the weight of a state.
_MAX_ROUNDING = 0.05


def heat_bath(
    formula: Formula,
    terms: Any,
    theta: Any = None,
    n: int = 1,
    *,
    sweeps: int | None = None,
    seed: int | None = None,
    **options: Any,
) -> Samples:
    """n samples of P(x) ~ exp(theta . x + phi(x)) C(x), asymptotically.

    terms    phi: a `Polynomial`, or what `Polynomial.of` takes
    sweeps   None: a pilot run of 2048 samples measures how many are needed, and compares chains
             from other starts (`nelson.sampling.diagnosis`)
    seed     same seed, same samples, for any n
    options  of `nelson.sample`, which draws the valid starts from the single-variable part

    Returns `Samples`: "asymptotic" if the pilot run says so; "heuristic" if it does not, or if
    `sweeps` was given, so that there was none. Fewer than n samples if the budget for the starts
    ran out.

    >>> formula = nelson.Formula([[1, 2], [-1, 3]])
    >>> together = {(2, 3): 2.0}  # x2 and x3 like to be true together
    >>> s = nelson.heat_bath(formula, together, n=1000, seed=0)
    >>> s.guarantee, bool(formula.satisfied(s.to_numpy()).all())
    ('asymptotic', True)
    """
    started = time.monotonic()
    seed = secrets.randbits(63) if seed is None else int(seed)
    phi = Polynomial.of(terms)
    # A start must be a full assignment, so auxiliary variables become visible.
    whole = Formula.from_arrays(formula.literals, formula.offsets, n_vars=formula.n_total)
    weights = np.concatenate([phi.linear(formula.n_vars, theta), np.zeros(formula.n_aux)])
    problem = prepare(whole, evidence_of(whole, options.get("given"), weights))
    moves = moves_of(problem, phi)
    finite = np.where(np.isinf(weights), 0.0, weights)
    request = pilot_request(finite[None], 0, options.get("threads") or usable_cores(), None, seed)
    request = replace(request, moves=moves)
    starts = partial(sample, whole, weights, method="lovasz", sweeps=0, seed=seed, **options)
    if sweeps is None:
        verdict = _diagnose(problem, phi, replace(request, seed=~seed), starts(n=_PILOT_SAMPLES))
    else:
        verdict = Verdict(sweeps, "heuristic", "nobody has diagnosed these sweeps")
    first = starts(n=n)
    chains = chains_at(problem, request, first)
    chains.sweep_to(verdict.sweeps)
    why = f"{verdict.sweeps} sweeps of the valid space with the full conditional of the terms"
    info = first.info | verdict.more | {"method": "heat-bath", "why": f"{why} ({verdict.why})"}
    info |= {"sweeps": verdict.sweeps, "seed": seed, "seconds": time.monotonic() - started}
    variables = tuple(range(1, formula.n_vars + 1))
    packed = chains.words[0][:, : formula.n_vars] & tail_mask(first.count)[:, None]
    return Samples(packed, first.count, variables, verdict.guarantee, first.status, info)


def moves_of(problem: Problem, phi: Polynomial) -> Units:
    """Unit sweeps that know the terms of a potential."""
    moves = unit_moves(problem, Terms.of(phi.products))
    if moves is None:
        raise FormulaError(
            "a formula that is too large for sweeps with terms",
            expected="a smaller one, or fewer variables in groups of which at most one is true",
        )
    return moves.weighted(np.array(list(phi.products.values())))


def chains_at(problem: Problem, request: Request, starts: Samples) -> Chains:
    """Chains at these samples."""
    count = starts.count
    valid = np.full((1, len(starts.packed)), ~np.uint64(0))
    asked = replace(request, count=count, block=max(1, count))
    return Chains(problem, asked, starts.packed[None], valid)


def _diagnose(problem: Problem, phi: Polynomial, request: Request, starts: Samples) -> Verdict:
    """Chains from `starts`, compared with chains that begin elsewhere."""
    count = starts.count // 64 * 64
    if not count:
        return Verdict(0, "heuristic", "no valid start was found for a pilot run")
    sets = [*problem.rest, *(list(monomial) for monomial in phi.products)]
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in sets])])
    literals = np.array([literal for one in sets for literal in one], np.int64)
    moves = np.ones(problem.formula.n_total, bool)
    moves[np.abs(problem.fixed) - 1] = False
    theta = request.theta[0]
    features = Features.among(np.flatnonzero(moves), literals, offsets.astype(np.int64), theta)
    starts = replace(starts, packed=starts.packed[: count // 64], count=count)
    base = chains_at(problem, request, starts)
    elsewhere = _Elsewhere(problem, features, base.request)
    elsewhere.phi = phi
    lags, longer = lags_for(base.request, len(theta) * count)
    return watch(features, base, elsewhere, lags, longer).verdict(_beyond(request))


def _beyond(request: Request) -> str:
    """Why the kernels cannot draw from such weights, "" if they can."""
    assert isinstance(request.moves, Units)
    if float(request.moves.rounding(request.theta).max()) > _MAX_ROUNDING:
        return "weights are so large that rounding to 32 bits changes the law"
    return beyond_resolution(request.theta[:, ~request.moves.local])


class _Elsewhere(Elsewhere):
    """Also starts in which a rare product has its other value."""

    phi: Polynomial

    def rare_values(self, base: np.ndarray) -> Iterator[tuple[int, ...]]:
        yield from super().rare_values(base)
        for monomial in self.phi.products:
            on = np.bitwise_and.reduce(base[:, np.array(monomial) - 1], axis=1)
            share = np.bitwise_count(on).sum() / (64 * len(base))
            if share < RARE_SHARE:
                yield monomial
            elif share > 1 - RARE_SHARE:
                yield from ((-v,) for v in monomial)
