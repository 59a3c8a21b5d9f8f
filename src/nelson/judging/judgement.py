"""`nelson.judge`: choose a test and a number of samples, run the test, return the verdict."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from nelson.errors import FormulaError
from nelson.exact.count import all_solutions
from nelson.exact.enumerated import enumerated
from nelson.formula import Formula
from nelson.formula.checks import theta_rows
from nelson.judging.barbarik import barbarik
from nelson.judging.case import DELTA, ETA, FEWEST, Case, Options
from nelson.judging.chi_square import chi_square, listed, resolved
from nelson.judging.conditionals import conditionals
from nelson.judging.exact import exact_moments
from nelson.judging.marginals import marginals
from nelson.judging.source import source_of
from nelson.judging.validity import first_invalid
from nelson.judging.verdict import Answer, Verdict
from nelson.log_z.moments import condition
from nelson.sampling.engine import ready
from nelson.sampling.options import checked_law
from nelson.sampling.projection import refuse_hidden_weights

SHOWS = {
    "validity": "every sample is valid; nothing about how often each structure comes",
    "chi-square": "the whole law, up to the resolution of this number of samples",
    "marginals": "single variables, pairs and the score only: necessary, not sufficient",
    "conditionals": "can only reject: necessary, not sufficient",
    "barbarik": "closeness to the law, if the sampler treats conditioned formulas alike",
}
#: chi-square needs a cell and about 20 samples for each structure.
MAX_STRUCTURES = 50_000
SAMPLES_PER_STRUCTURE = 20
MAX_SAMPLES = 1_000_000
#: With fewer samples only validity is tested.
_MIN_SAMPLES = 50
#: Samples whose validity is checked before "barbarik", which draws its own.
_CHECKED_BEFORE_PAIRS = 1000


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
    project_law: str = "marginal",
    progress: Callable[[str], None] | None = None,
) -> Verdict:
    """Test a sampler, or samples, against P_theta(x | C) = exp(sum_i theta_i x_i) C(x) / Z.

    sampler   a name of `nelson.samplers()` or "auto"; a callable (formula, theta, n, seed) ->
              (m, n) bool; or samples: `Samples`, an array, a file (`nelson.io.tables`).
              Samples of some of the variables are tested against the law of these variables.
    theta     None (uniform), or n_vars log-odds; +-inf is hard evidence.
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
    options = Options(test, epsilon, eta, delta, n, seed, seconds)
    rows, single = theta_rows(formula, theta)
    if not single:
        raise FormulaError(f"theta of shape {rows.shape}", expected=f"({formula.n_vars},)")
    shown = None
    if checked_law(project_law) == "solutions":
        shown = formula.projection or tuple(range(1, formula.n_vars + 1))
        refuse_hidden_weights(rows, shown)
    source = source_of(formula, sampler, sweeps, shown)
    return _decide(Case(formula, rows[0], source, options, progress or (lambda _: None), shown))


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
    case: Case, test: str, answer: Answer, skipped: dict[str, str] | None = None
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


def _support(case: Case) -> np.ndarray | None:
    """All structures, if they are few enough for chi-square. For a claim about projected solutions:
    all of these, with 0 for the other variables.
    """
    if case.projection is None:
        found = enumerated(case.given) if case.given is not None else None
        states = None if found is None else found.states
    else:
        columns, evidence = np.array(case.projection) - 1, case.evidence.tolist()
        found, rows = enumerated(condition(case.formula, case.theta)), None
        if found is not None:  # does not depend on the search that the sampler made
            rows = np.unique(found.states[:, columns], axis=0)
        elif case.projected is not None and case.projected.formula is not None:
            every = all_solutions(case.projected.formula, evidence, case.left(0.3))
            rows = every.rows(columns) if every and every.count <= MAX_STRUCTURES else None
        states = None
        if rows is not None:
            states = np.zeros((len(rows), len(case.weights)), bool)
            states[:, columns] = rows
    return None if states is None or len(states) > MAX_STRUCTURES else states


def _validity(case: Case, test: str) -> Answer | None:
    """The answer if this test decides; None if the samples are valid and another test follows."""
    drawn = case.samples(_wanted(case, test))
    case.say(f"checking {len(drawn):,} samples")
    bad = first_invalid(case.formula, case.evidence, drawn, case.deadline)
    if bad is not None:
        row, many, what = bad
        reason = f"sample {row + 1} breaks {what}; {many:,} of {len(drawn):,} are invalid"
        return Answer(False, reason, {"samples": len(drawn), "invalid_samples": many})
    if test == "validity" and len(drawn):
        return Answer(True, f"all of {len(drawn):,} samples are valid", {"samples": len(drawn)})
    if len(drawn) < _MIN_SAMPLES:
        more = f": {drawn.info['reason']}" if drawn.info.get("reason") else ""
        few = f"{len(drawn)} sample{'s are' if len(drawn) != 1 else ' is'} too few"
        return Answer(None, f"{few} to say anything about the law{more}", {})
    return None


def _wanted(case: Case, test: str) -> int:
    """Samples to draw if the caller does not say."""
    if test == "barbarik":
        return _CHECKED_BEFORE_PAIRS
    if test != "validity" and case.source.draw is not None:
        states = _support(case)
        if states is not None:
            return min(MAX_SAMPLES, max(FEWEST, SAMPLES_PER_STRUCTURE * len(states)))
    return FEWEST


def _chi_square(case: Case) -> Answer:
    states = _support(case)
    if states is None:
        return Answer(None, f"more than {MAX_STRUCTURES:,} structures to enumerate", {})
    drawn = case.samples()
    law = listed(states, case.weights, drawn.columns)
    if case.auto and len(law.states) > 1 and not resolved(law, len(drawn)):
        few = f"{len(drawn):,} samples are too few for {len(law.states):,} structures"
        return Answer(None, few, {})
    return chi_square(drawn.x, law, case.band, case.delta)


def _marginals(case: Case) -> Answer:
    if case.given is None:
        return Answer(None, "marginals of these projected solutions are not known", {})
    case.say("counting")
    until = time.monotonic() + case.left(0.6)
    exact, why = exact_moments(case.given, case.weights, case.seed, until)
    if exact is None:
        return Answer(None, why, {})
    case.say("comparing marginals")
    return marginals(case.samples(), case.weights, exact, case.band, case.delta, case.seed)


def _conditionals(case: Case) -> Answer:
    drawn = case.samples()
    if len(drawn.columns) < case.formula.n_vars:
        return Answer(None, "samples of some of the variables only", {})
    if case.given is None or case.projection is not None:
        return Answer(None, "a test of solutions, not of projected solutions", {})
    case.say("testing each variable given the others")
    until = time.monotonic() + case.left(0.3 if case.auto else 1.0)
    return conditionals(drawn.x, case.given, case.weights, case.band, case.delta, case.seed, until)


def _barbarik(case: Case) -> Answer:
    if case.source.draw is None:
        return Answer(None, "samples alone cannot be conditioned: give the sampler", {})
    if case.given is None or case.projection is not None:
        return Answer(None, "a test of solutions, not of projected solutions", {})
    try:
        design = case.options.design(case.delta)
    except FormulaError as error:  # in "auto", epsilon may suit the other tests only
        return Answer(None, str(error), {})
    _compile_kernels(case, design.pairs)
    return barbarik(case, design)


def _compile_kernels(case: Case, n: int) -> None:
    """For n samples of the sampler and of the reference. This time is not counted."""
    before = time.monotonic()
    if case.source.ready:
        case.source.ready(n)
    if case.given is None or enumerated(case.given) is None:  # else the reference needs no kernel
        ready(n)
    case.deadline += time.monotonic() - before


_RUN: dict[str, Callable[[Case], Answer]] = {
    "chi-square": _chi_square,
    "marginals": _marginals,
    "conditionals": _conditionals,
    "barbarik": _barbarik,
}
