"""`nelson.judge`: which test, with how many samples, and the verdict."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from nelson.errors import FormulaError
from nelson.exact.enumerated import enumerated
from nelson.formula import Formula
from nelson.judging.barbarik import Design, barbarik
from nelson.judging.case import DELTA, EPSILON, ETA, FEWEST, Case, make_case
from nelson.judging.chi_square import chi_square, listed, resolved
from nelson.judging.conditionals import conditionals
from nelson.judging.exact import exact_moments
from nelson.judging.marginals import marginals
from nelson.judging.validity import first_invalid
from nelson.judging.verdict import Verdict

SHOWS = {
    "validity": "every sample is valid; nothing about how often each comes",
    "chi-square": "the whole law, up to what so many samples can resolve",
    "marginals": "single variables, pairs and the score only: necessary, not sufficient",
    "conditionals": "can only reject: necessary, not sufficient",
    "barbarik": "closeness to the law, if the sampler treats conditioned formulas alike",
}
#: Structures up to which every one of them is a cell, samples for each, and most samples.
STRUCTURES, A_STRUCTURE, MOST = 50_000, 20, 1_000_000
#: Samples without which nothing but validity is tested; samples checked before "barbarik".
_SMALLEST, _SOME = 50, 1000

Answer = tuple[bool | None, str, dict[str, Any]]


def judge(
    formula: Formula,
    sampler: Any,
    theta: Any = None,
    *,
    test: str = "auto",
    epsilon: float | None = None,
    eta: float = ETA,
    delta: float = DELTA,
    n: int | None = None,
    seed: int = 0,
    seconds: float | None = None,
    sweeps: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> Verdict:
    """Test a sampler, or samples, against P_theta(x | C) = exp(sum_i theta_i x_i) C(x) / Z.

    sampler   a name of `nelson.samplers()` or "auto"; a callable (formula, theta, n, seed) ->
              (m, n) bool; or samples: `Samples`, an array, a file (`nelson.io.judged_tables`). Samples
              of some of the variables are tested against the law of those.
    theta     None (uniform), or n_vars log-odds; +-inf is hard evidence.
    test      "auto": every sample must be valid; then the first of these that applies
              "chi-square"    against all structures, where they can be listed: the whole law
              "marginals"     against exact ones, where they can be counted: necessary only
              "conditionals"  each variable given the others: can only reject; then, for a sampler,
              "barbarik"      pairs of structures, by sampling from conditioned formulas
              or "validity", or one of them.
    epsilon   relative error that each probability may have. None: what the sampler claims (UniGen
              a factor, exact ones nothing), and 0.1 for "barbarik".
    eta       L1 distance (at most 2) from which on "barbarik" rejects.
    delta     probability of rejecting a sampler whose samples are independent and of the law.
    n         samples to draw. None: 20 for each structure, from 20,000 to 1,000,000. "barbarik"
              draws what it needs.
    seed      same seed, same samples, same verdict (unless time runs out).
    seconds   for all of it; 60.
    sweeps    as in `nelson.sample`, for a registered sampler.
    progress  called with a line of text now and then.

    Samples are taken as independent: a file of distinct samples, or of a slow Markov chain, is not
    what these tests are for. Raises Unsatisfiable if the formula was proved to have no solution.
    """
    case = make_case(
        formula,
        sampler,
        theta,
        test=test,
        epsilon=epsilon,
        eta=eta,
        delta=delta,
        n=n,
        seed=seed,
        seconds=seconds,
        sweeps=sweeps,
        progress=progress,
    )
    skipped: dict[str, str] = {}
    answer = _validity(case, test)
    if answer is not None:
        return _verdict(case, "validity", answer, skipped)
    if test != "auto":
        return _verdict(case, test, _RUN[test](case, False), skipped)
    for name in ("chi-square", "marginals"):
        answer = _RUN[name](case, True)
        if answer[0] is not None or "p_value" in answer[2]:
            return _verdict(case, name, answer, skipped)
        skipped[name] = answer[1]
    if case.source.draw is not None:
        case.delta = delta / 2  # two tests follow
    answer = _conditionals(case, True)
    if answer[0] is False or case.source.draw is None:
        return _verdict(case, "conditionals", answer, skipped)
    skipped["conditionals"] = answer[1]
    return _verdict(case, "barbarik", _barbarik(case, True), skipped)


def _verdict(case: Case, test: str, answer: Answer, skipped: dict[str, str]) -> Verdict:
    accept, reason, evidence = answer
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
    return Verdict(accept, test, case.law, reason, evidence, SHOWS[test])


def _support(case: Case) -> np.ndarray | None:
    """All structures, where chi-square is within reach."""
    found = enumerated(case.given)
    return None if found is None or len(found.states) > STRUCTURES else found.states


def _validity(case: Case, test: str) -> Answer | None:
    """A rejection, or None where the samples are valid and there are some to test further."""
    wanted = FEWEST
    if test == "barbarik":
        case.n = case.n or _SOME
    elif case.source.draw is not None and test != "validity":
        states = _support(case)
        if states is not None:
            wanted = min(MOST, max(FEWEST, A_STRUCTURE * len(states)))
    drawn = case.samples(wanted)
    case.say(f"checking {len(drawn):,} samples")
    bad = first_invalid(case.formula, case.evidence, drawn, case.deadline)
    if bad is not None:
        row, many, what = bad
        told = f"sample {row + 1} breaks {what}; {many:,} of {len(drawn):,} are invalid"
        return False, told, {"samples": len(drawn), "invalid_samples": many}
    if test == "validity" and len(drawn):
        return True, f"all of {len(drawn):,} samples are valid", {"samples": len(drawn)}
    if len(drawn) < _SMALLEST:
        more = f": {drawn.info['reason']}" if drawn.info.get("reason") else ""
        few = f"{len(drawn)} sample{'s are' if len(drawn) != 1 else ' is'} too few"
        return None, f"{few} to say anything about the law{more}", {}
    return None


def _chi_square(case: Case, auto: bool) -> Answer:
    states = _support(case)
    if states is None:
        return None, f"more than {STRUCTURES:,} structures to list", {}
    drawn = case.samples()
    law = listed(states, case.weights, drawn.columns)
    if auto and len(law.states) > 1 and not resolved(law, len(drawn)):
        return None, f"{len(drawn):,} samples are too few for {len(law.states):,} structures", {}
    return chi_square(drawn.x, law, case.band, case.delta)


def _marginals(case: Case, auto: bool) -> Answer:
    case.say("counting")
    until = time.monotonic() + case.left(0.6)
    exact, why = exact_moments(case.given, case.weights, case.seed, until)
    if exact is None:
        return None, why, {}
    case.say("comparing marginals")
    return marginals(case.samples(), case.weights, exact, case.band, case.delta, case.seed)


def _conditionals(case: Case, auto: bool) -> Answer:
    drawn = case.samples()
    if len(drawn.columns) < case.formula.n_vars:
        return None, "samples of some of the variables only", {}
    case.say("testing each variable given the others")
    until = time.monotonic() + case.left(0.3 if auto else 1.0)
    return conditionals(drawn.x, case.given, case.weights, case.band, case.delta, case.seed, until)


def _barbarik(case: Case, auto: bool) -> Answer:
    if case.source.draw is None:
        return None, "samples alone cannot be conditioned: give the sampler", {}
    try:
        design = Design(EPSILON if case.epsilon is None else case.epsilon, case.eta, case.delta)
    except FormulaError as error:  # an epsilon for the other tests, in "auto"
        return None, str(error), {}
    case.untimed(lambda: _ready(case, design.pairs))
    return barbarik(
        case.formula,
        case.theta,
        (case.given, case.weights),
        case.source,
        design,
        case.seed + 1,
        case.deadline,
        case.say,
    )


def _ready(case: Case, n: int) -> None:
    """The kernels for n samples, of the sampler and of the reference."""
    from nelson.sampling.engine import ready

    if case.source.ready:
        case.source.ready(n)
    if enumerated(case.given) is None:  # else the reference is a list
        ready(n)


_RUN: dict[str, Callable[[Case, bool], Answer]] = {
    "chi-square": _chi_square,
    "marginals": _marginals,
    "conditionals": _conditionals,
    "barbarik": _barbarik,
}
