"""`nelson.judge`: choose a test and a number of samples, run the test, return the verdict."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from nelson.budget import TimeUp
from nelson.chains.compiling import ready
from nelson.errors import FormulaError
from nelson.exact.law import Law, law
from nelson.exact.routes import CIRCUIT, Reason
from nelson.formula import Formula
from nelson.formula.checks import evidence_literals, theta_rows, with_evidence
from nelson.judging.barbarik import barbarik
from nelson.judging.case import Case, JudgeSettings
from nelson.judging.chi_square import chi_square, listed, resolved
from nelson.judging.conditionals import conditionals
from nelson.judging.marginals import ExactMoments, counted_means, exact_moments, marginals
from nelson.judging.source import source_of
from nelson.judging.validity import first_invalid
from nelson.judging.verdict import Finding, Verdict
from nelson.log_z.moments import condition
from nelson.policy import DEFAULT, Policy
from nelson.sampling.options import checked_law
from nelson.sampling.projection import refuse_hidden_weights

SHOWS = {
    "validity": "every sample is valid; nothing about how often each structure comes",
    "chi-square": "the whole distribution, up to the resolution of this number of samples",
    "marginals": "single variables, pairs and the score only: necessary, not sufficient",
    "conditionals": "can only reject: necessary, not sufficient",
    "barbarik": "closeness to P, if the sampler treats conditioned formulas alike",
}


def judge(
    formula: Formula,
    method: Any,
    theta: Any = None,
    *,
    given: Mapping[int, bool] | Iterable[int] | None = None,
    test: str = "auto",
    epsilon: float | None = None,
    eta: float = 1.6,
    delta: float = 0.01,
    n: int | None = None,
    seed: int = 0,
    seconds: float | None = None,
    sweeps: int | None = None,
    project_law: str = "marginal",
    progress: Callable[[str], None] | None = None,
    policy: Policy = DEFAULT,
) -> Verdict:
    """Test a sampler, or samples, against P_theta(x | C) = exp(sum_i theta_i x_i) C(x) / Z.

    method    a name of `nelson.samplers()` or "auto"; a callable (formula, theta, n, seed) ->
              (m, n) bool; or samples: `Samples`, an array, a file (`nelson.io.tables`).
              Samples of some of the variables are tested against the law of these variables.
    theta     None (uniform), or n_vars log-odds; +-inf is hard evidence.
    given     evidence, {3: True} or literals: the claim is the law given these literals.
    test      "auto": every sample must be valid; then the first of these that applies
              "chi-square"    all structures, if they can be enumerated: shows the whole law
              "marginals"     exact marginals, if they can be computed: necessary only
              "conditionals"  each variable given the others: can only reject; then, for a sampler,
              "barbarik"      pairs of structures, by sampling from conditioned formulas
              Or the name of one of these tests, or "validity".
    epsilon   relative error that each probability may have. None: the error that the sampler claims
              (a factor for UniGen, none for exact samplers), and 0.1 for "barbarik".
    eta       "barbarik" rejects laws at this L1 distance (at most 2) or more.
    delta     probability of rejecting a sampler whose samples are independent and of the law.
    n         samples to draw. None: 20 for each structure, from 20,000 to 1,000,000. "barbarik"
              chooses its own number.
    seed      same seed, same samples, same verdict (unless time runs out).
    seconds   for everything together; 60 if None.
    sweeps    as in `nelson.sample`, for a registered sampler.
    project_law  "solutions": the claim is P(y) ~ exp(theta . y) over the projected solutions y on
              the variables of `formula.projection`, each counted once. A registered sampler is
              asked for that law. Only "validity", "chi-square" and "marginals" can decide on it.
    progress  called with one line of text from time to time.
    policy    the numbers that choose test and number of samples: `policy.judging`.

    The tests assume independent samples. They do not suit a file of distinct samples, or of a slow
    Markov chain. Raises Unsatisfiable if the formula was proved to have no solution.

    >>> formula = nelson.Formula([[1, 2], [-1, 3]])
    >>> nelson.judge(formula, "prs", seed=0).accept
    True
    >>> def biased(formula, theta, n, seed):
    ...     return nelson.sample(formula, [0.2, 0.0, 0.0], n, seed=seed).to_numpy()
    >>> nelson.judge(formula, biased, seed=0).accept
    False
    """
    options = JudgeSettings(test, epsilon, eta, delta, n, seed, seconds, policy)
    rows, single = theta_rows(formula, theta)
    if not single:
        raise FormulaError(f"theta of shape {rows.shape}", expected=f"({formula.n_vars},)")
    shown = None
    if checked_law(project_law) == "solutions":
        shown = formula.projection or tuple(range(1, formula.n_vars + 1))
        refuse_hidden_weights(rows, shown)
    row = with_evidence(rows[0], evidence_literals(given or (), formula.n_vars).tolist())
    source = source_of(formula, method, sweeps, shown)
    case = Case(formula, row, source, options, progress or (lambda _: None), shown)
    try:
        with case.budget.enforced():
            return _decide(case)
    except TimeUp as error:
        return _verdict(case, "validity" if case.auto else test, Finding(None, str(error), {}))


def _decide(case: Case) -> Verdict:
    test = case.options.test
    answer = _validity(case, test)
    if answer is not None:
        return _verdict(case, "validity", answer)
    if not case.auto:
        return _verdict(case, test, _RUN[test](case))
    skipped: dict[str, str] = {}
    for name in ("chi-square", "marginals"):
        answer = _RUN[name](case)
        if answer.accept is not None or "p_value" in answer.evidence:
            return _verdict(case, name, answer, skipped)
        skipped[name] = answer.reason
    if case.source.draw is None:
        return _verdict(case, "conditionals", _conditionals(case), skipped)
    case.delta /= 2  # two more tests may reject
    answer = _conditionals(case)
    if answer.accept is False:
        return _verdict(case, "conditionals", answer, skipped)
    skipped["conditionals"] = answer.reason
    return _verdict(case, "barbarik", _barbarik(case), skipped)


def _verdict(
    case: Case, test: str, answer: Finding, skipped: dict[str, str] | None = None
) -> Verdict:
    accept, reason, evidence, counts = answer
    evidence = {"sampler" if case.source.draw else "samples_from": case.source.name, **evidence}
    if case.drawn is not None:
        seen, n = len(case.drawn.columns), case.formula.n_vars
        if seen < n:
            evidence["variables"] = f"{seen:,} of {n:,}"
        for key, name in (("method",) * 2, ("guarantee",) * 2, ("invalid", "invalid_dropped")):
            if case.drawn.info.get(key) not in (None, 0, case.source.name):
                evidence[name] = case.drawn.info[key]
    evidence["seconds"] = time.monotonic() - case.started
    if skipped:
        evidence["skipped"] = skipped
    return Verdict(accept, test, case.law, reason, evidence, SHOWS[test], counts)


def _support(case: Case) -> np.ndarray | Reason:
    """All structures, if they are few enough for chi-square. For a claim about projected solutions:
    all of these, with 0 for the other variables.
    """
    most = case.rules.structures
    if case.projection is None:
        rows = _rows(case.exact, most, np.arange(case.formula.n_vars))
    else:
        columns = np.array(case.projection) - 1
        # All solutions, to find their projections.
        plain = law(condition(case.formula, case.theta), (), case.share(0.1))
        rows = _rows(plain, case.options.policy.exact.structures, columns)
        if isinstance(rows, Reason):
            rows = _rows(case.exact, most, columns)
        else:  # does not depend on the search that the sampler made
            rows = np.unique(rows, axis=0)
    if isinstance(rows, Reason):
        return rows
    if len(rows) > most:
        return Reason(f"more than {most:,} structures to enumerate")
    if case.projection is None:
        return rows
    states = np.zeros((len(rows), len(case.weights)), bool)
    states[:, columns] = rows
    return states


def _rows(exact: Law | Reason, most: int, columns: np.ndarray) -> np.ndarray | Reason:
    """All solutions of a law on these columns."""
    if isinstance(exact, Reason):
        return Reason(f"the structures were not enumerated: {exact}")
    most = min(most, (1 << 28) // max(1, exact.formula.n_total))  # 256 MiB
    rows = exact.rows(most)
    if rows is None:
        return Reason(f"{exact.count():,} structures are more than {most:,}")
    return rows[:, columns]


def _validity(case: Case, test: str) -> Finding | None:
    """The answer if this test decides; None if the samples are valid and another test follows."""
    drawn = case.samples(_wanted(case, test))
    case.say(f"checking {len(drawn):,} samples")
    bad = first_invalid(case.formula, case.evidence, drawn, case.budget)
    if bad is not None:
        row, n_invalid, what = bad
        reason = f"sample {row + 1} breaks {what}; {n_invalid:,} of {len(drawn):,} are invalid"
        return Finding(False, reason, {"samples": len(drawn), "invalid_samples": n_invalid})
    if test == "validity" and len(drawn):
        return Finding(True, f"all of {len(drawn):,} samples are valid", {"samples": len(drawn)})
    if len(drawn) < case.rules.least_samples:
        more = f": {drawn.info['reason']}" if drawn.info.get("reason") else ""
        few = f"{len(drawn)} sample{'s are' if len(drawn) != 1 else ' is'} too few"
        return Finding(None, f"{few} to say anything about the distribution{more}", {})
    return None


def _wanted(case: Case, test: str) -> int:
    """Samples to draw if the caller does not say."""
    if test == "barbarik":
        return 1000  # for validity only: it draws its own
    if test != "validity" and case.source.draw is not None:
        states = _support(case)
        if not isinstance(states, Reason):
            enough = case.rules.samples_per_structure * len(states)
            return min(case.rules.most_samples, max(case.rules.fewest_samples, enough))
    return case.rules.fewest_samples


def _chi_square(case: Case) -> Finding:
    states = _support(case)
    if isinstance(states, Reason):
        return Finding(None, states, {})
    drawn = case.samples()
    law = listed(states, case.weights, drawn.columns)
    if case.auto and len(law.states) > 1 and not resolved(law, len(drawn)):
        few = f"{len(drawn):,} samples are too few for {len(law.states):,} structures"
        return Finding(None, few, {})
    return chi_square(drawn.x, law, case.band, case.delta)


def _marginals(case: Case) -> Finding:
    case.say("counting")
    moments = _moments(case)
    if isinstance(moments, Reason):
        return Finding(None, moments, {})
    case.say("comparing marginals")
    claim = case.weights, moments, case.band, case.delta, case.seed
    return marginals(case.samples(), *claim, case.rules.paired_variables)


def _moments(case: Case) -> ExactMoments | Reason:
    if isinstance(case.exact, Law):
        return exact_moments(case.exact, case.weights)
    if case.given is None:
        return Reason(f"marginals of these projected solutions are not known: {case.exact}")
    counted = counted_means(case.given, case.weights, case.seed, case.share(0.4))
    return Reason(f"{case.exact}; {counted}") if isinstance(counted, Reason) else counted


def _conditionals(case: Case) -> Finding:
    drawn = case.samples()
    if len(drawn.columns) < case.formula.n_vars:
        return Finding(None, "samples of some of the variables only", {})
    if case.given is None or case.projection is not None:
        return Finding(None, "a test of solutions, not of projected solutions", {})
    case.say("testing each variable given the others")
    budget = case.share(0.3 if case.auto else 1.0)
    claim = case.given, case.weights, case.band, case.delta, case.seed
    return conditionals(drawn.x, *claim, budget, case.rules.paired_variables)


def _barbarik(case: Case) -> Finding:
    if case.source.draw is None:
        return Finding(None, "samples alone cannot be conditioned: give the sampler", {})
    if case.given is None or case.projection is not None:
        return Finding(None, "a test of solutions, not of projected solutions", {})
    try:
        design = case.options.design(case.delta)
    except FormulaError as error:  # in "auto", epsilon may suit the other tests only
        return Finding(None, str(error), {})
    _compile_kernels(case, design.pairs)
    return barbarik(case, design)


def _compile_kernels(case: Case, n: int) -> None:
    """For n samples of the sampler and of the reference. This time is not counted."""
    before = time.monotonic()
    if case.source.ready:
        case.source.ready(n)
    exact = case.exact
    if isinstance(exact, Reason) or CIRCUIT in exact.routes:  # else the reference needs no kernel
        ready(n)
    if case.budget.deadline is not None:
        later = case.budget.deadline + time.monotonic() - before
        case.budget = replace(case.budget, deadline=later)


_RUN: dict[str, Callable[[Case], Finding]] = {
    "chi-square": _chi_square,
    "marginals": _marginals,
    "conditionals": _conditionals,
    "barbarik": _barbarik,
}
