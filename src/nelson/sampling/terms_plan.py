"""Plans for laws with products of variables: `nelson.sample(formula, theta, n, terms=...)`.

    P(x) ~ exp(theta . x + phi(x)) C(x),      phi(x) = sum_S c_S prod_{i in S} x_i

*Exactly*, if the lifted formula (`nelson.formula.polynomial.lift`), in which each product is one
more variable, has few structures or compiles to a circuit.

*By chains* otherwise. From a valid x, a variable is redrawn given all others, and a group of which
at most one is true is redrawn at once, among the values that keep every clause satisfied
(`chains/moves/fields.py`). The moves know the terms, so P is stationary, valid samples stay valid,
and variables that share a term still move one at a time; in the lifted formula they could not. A
pilot run measures how many sweeps are needed and compares chains from other starts
(`nelson.chains.diagnosis`).
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from nelson.budget import Budget
from nelson.chains.chain import Chains
from nelson.chains.diagnosis.diagnose import SEED, diagnose_chains, pilot_request
from nelson.chains.diagnosis.verdict import StepVerdict
from nelson.chains.term_chains import TermChains
from nelson.errors import FormulaError
from nelson.exact.enumerated import finite
from nelson.exact.law import Law, law
from nelson.formula import Formula
from nelson.formula.checks import evidence_of
from nelson.formula.memo import Recent, Slot
from nelson.formula.polynomial import Lifted, Polynomial, lift
from nelson.kernels.core.bits import pack, tail_mask
from nelson.sampling import total_variation
from nelson.sampling.auto import MethodChoice
from nelson.sampling.methods import lovasz
from nelson.sampling.options import Options
from nelson.sampling.plan import Plan
from nelson.sampling.samples import Samples

#: The lifted formula of each set of products; it keeps its circuit.
_LIFTED: Slot[Recent[tuple[tuple[int, ...], ...], Formula]] = Slot("lifted formulas")
#: Samples in the pilot run.
_PILOT_SAMPLES = 2048


def plan_of(formula: Formula, theta: Any, options: Options) -> Plan:
    """The plan that these options ask for."""
    kind = Plan if options.terms is None else TermsPlan
    return kind(formula, theta, options)


@dataclass(frozen=True)
class _Route:
    """How samples are drawn: exactly from the law of the lifted formula, or by chains."""

    verdict: StepVerdict  # guarantee and reason; of chains, their sweeps too
    law: Law | None = None  # None: chains


class TermsPlan(Plan):
    """How to draw from P(x) ~ exp(theta . x + phi(x)) C(x)."""

    def __init__(self, formula: Formula, theta: Any, options: Options) -> None:
        super().__init__(formula, theta, options)
        if not self._single:
            raise FormulaError(
                f"terms with {len(self._rows)} rows of theta", expected="one vector theta"
            )
        self._phi = Polynomial.of(options.terms)
        #: (n_vars,): theta and the coefficients of single variables.
        self._weights = self._phi.linear(formula.n_vars, self._rows[0])
        self._route: _Route | None = None

    # --- what was decided ------------------------------------------------------------------------

    def decide(self, budget: Budget | None = None) -> TermsPlan:
        """As `Plan.decide`."""
        if self._route is None:
            self._route = self._chosen(budget or self._budget(None))
        return self

    @property
    def choice(self) -> MethodChoice:
        """The exact method of the lifted formula, else "heat-bath"."""
        self.decide()
        assert self._route is not None
        verdict = self._route.verdict
        method = "heat-bath" if self._route.law is None else self._route.law.method
        return MethodChoice(method, verdict.sweeps, verdict.guarantee, verdict.why)

    def at(self, theta: Any, *, keep: bool = False) -> TermsPlan:
        """As `Plan.at`. An exact law serves every theta; chains are diagnosed anew, or kept."""
        plan = TermsPlan(self.formula, theta, self.options)
        if self._route is not None and (keep or self._route.law is not None):
            plan._route = self._route
        return plan

    def _chosen(self, budget: Budget) -> _Route:
        options, policy = self.options, self.options.policy
        if options.sweeps is not None:
            why = "these sweeps were not diagnosed"
            return _Route(StepVerdict(options.sweeps, "heuristic", why))
        if options.method == "auto":
            evidence = evidence_of(self.formula, options.given)
            share = replace(budget, effort=policy.terms.effort).share(policy.terms.exact_share)
            exact = law(self._lifted.formula, evidence, share, policy)
            if isinstance(exact, Law):
                return _Route(StepVerdict(0, "exact", exact.why), exact)
        return _Route(self._chains.diagnosed(budget.share(policy.terms.pilot_share)))

    @cached_property
    def _lifted(self) -> Lifted:
        lifted = lift(self.formula, self._phi, self._rows[0])
        known = self.formula.memo.recent(_LIFTED, 4)
        return replace(lifted, formula=known.once(lifted.monomials, lambda: lifted.formula))

    @cached_property
    def _chains(self) -> _Chains:
        return _Chains(self.formula, self._weights, self._phi, self.options)

    # --- drawing ---------------------------------------------------------------------------------

    def _in_time(self, n: int, options: Options, budget: Budget, started: float) -> Samples:
        with budget.enforced():
            return self._exactly_or_by_chains(n, options, budget, started)

    def _exactly_or_by_chains(
        self, n: int, options: Options, budget: Budget, started: float
    ) -> Samples:
        self.decide(budget)
        assert self._route is not None
        seed = secrets.randbits(63) if options.seed is None else int(options.seed)
        columns = np.array(self._variables, int) - 1
        exact, verdict = self._route.law, self._route.verdict
        if exact is not None:
            x = exact.draw(self._lifted.theta[None], n, seed)[0]
            packed, drawn, status = pack(x[:, columns]), n, "ok"
            info: dict[str, Any] = {"method": exact.method, "why": exact.why, "sweeps": 0}
            info["tv_bound"] = total_variation.of_law(exact, self._lifted.theta[None])
        else:
            states, first = self._chains.draw(n, verdict.sweeps, seed, budget)
            packed, drawn, status = states[:, columns], first.count, first.status
            why = f"{verdict.sweeps} sweeps over valid structures, by conditionals with the terms"
            info = first.info | verdict.more
            info |= {"method": "heat-bath", "why": f"{why} ({verdict.why})"}
            info["sweeps"] = verdict.sweeps
        info |= {"requested": n, "seed": seed, "seconds": time.monotonic() - started}
        return Samples(packed, drawn, self._variables, verdict.guarantee, status, info)

    def stream(self, n: int | None = None, **options: Any) -> Iterator[Samples]:
        """There are no streams of laws with terms."""
        raise FormulaError("a stream with terms", expected="plan.sample(n), or no terms")


class _Chains:
    """Chains whose moves know the terms, and the draws of their valid starts."""

    def __init__(
        self, formula: Formula, weights: np.ndarray, phi: Polynomial, options: Options
    ) -> None:
        evidence = evidence_of(formula, options.given, weights)
        self.walk = TermChains(formula, list(phi.products), evidence)
        self.limits = options.policy.diagnosis
        weights = self.walk.padded(weights)
        request = pilot_request(finite(weights)[None], 0, Budget.of(threads=options.threads))
        coefficients = np.array(list(phi.products.values()))
        self.request = replace(request, moves=self.walk.moves.weighted(coefficients))
        starts = replace(
            options, method=lovasz.SAMPLER.name, sweeps=0, project=None, terms=None, strict=False
        )
        self.starts = Plan(self.walk.formula, weights, starts)

    def diagnosed(self, budget: Budget) -> StepVerdict:
        """The verdict of a pilot run."""
        starts = self.starts.sample(_PILOT_SAMPLES, seed=SEED, seconds=_seconds(budget))
        chains = self._at(starts, ~SEED, budget)
        return diagnose_chains(chains, self.walk.monomials, self.limits)

    def draw(self, n: int, sweeps: int, seed: int, budget: Budget) -> tuple[np.ndarray, Samples]:
        """(states after that many sweeps from valid starts, the starts)."""
        starts = self.starts.sample(n, seed=seed, seconds=_seconds(budget))
        chains = self._at(starts, seed, budget)
        chains.sweep_to(sweeps)
        if not chains.complete:
            info = starts.info | {"reason": "the time was up during the sweeps"}
            starts = replace(starts, packed=starts.packed[:0], count=0, status="budget", info=info)
        states = chains.words[0][: len(starts.packed)]
        return states & tail_mask(starts.count)[:, None], starts

    def _at(self, starts: Samples, seed: int, budget: Budget) -> Chains:
        count = starts.count
        request = replace(self.request, count=count, block=max(1, count), seed=seed, budget=budget)
        valid = tail_mask(count)[None]
        return Chains(self.walk.problem, request, starts.packed[None], valid)


def _seconds(budget: Budget) -> float | None:
    return None if budget.counted else budget.left
