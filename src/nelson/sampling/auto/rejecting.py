"""Two steps that end in `rejection`, which is exact: how often are random values valid?

A formula with few or long clauses is often satisfied by chance (random 5-SAT, n = L = 50: one
assignment in five). Then no other method is faster, for any number of samples, and none needs less
time before the first sample. `by_proposals` tries that before all other steps.

A formula of gates has few inputs, and all else is a function of them (`nelson.exact.inputs`).
`rejection` draws the inputs and keeps what satisfies all clauses. `by_rejection` tries that before
chains; a trial tells what a sample costs. It ends by counted work: the number of proposals times
the literals of the gates.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from nelson.formula.memo import Recent, Slot
from nelson.io.progress import phase
from nelson.sampling.auto.decision import Limits, Part
from nelson.sampling.chain import share
from nelson.sampling.diagnosis.diagnose import beyond_resolution, pilots
from nelson.sampling.diagnosis.verdict import Verdict
from nelson.sampling.methods import rejection
from nelson.sampling.problem import Problem

#: (share of proposals that are valid, why that is too few), by evidence and theta.
_TRIALS: Slot[Recent[tuple[Any, ...], tuple[float, str]]] = Slot("trials of rejection")
#: The last trial, by evidence.
_LATEST: Slot[Recent[tuple[int, ...], tuple[float, str]]] = Slot("latest trial of rejection")
#: Most work of a sample: words of 64 proposals times literals, 0.3 ns each or less, since tiles end
#: early. This is at most 0.08 s of one core, as for joint moves.
_MOST_WORK = 1 << 28
#: A trial ends after _ENOUGH valid proposals, or after the work of _FEW samples that cost the most.
#: If fewer than _FEW are valid, a sample costs too much.
_ENOUGH, _FEW = 16, 4
#: Formulas with more literals are not tried.
_LARGE = 1_000_000
#: Before all else: one of _MOST_PROPOSALS must be valid, in a trial of _PROPOSALS. At one in 30
#: (random 5-SAT, n = L = 100) 100,000 samples take 18 to 21 ms, and with `cftp` 22 to 125 ms.
_MOST_PROPOSALS, _PROPOSALS = 64, 1024
#: No such trial if the sum of the clauses' probabilities to be violated is larger: of independent
#: clauses, one proposal in e^5 = 148 would be valid.
_MOST_VIOLATED = 5.0
#: Nor for formulas with at most _SMALL variables, which are enumerated, or with fewer literals than
#: variables or more than _SHORT: a draw includes a search for gates.
_SMALL, _SHORT = 16, 20_000
#: Rejection is not tried for more contexts than this: each has its own trial.
_CONTEXTS = 8
#: The trials' share of a time limit.
_SHARE = 0.1
_LATE = "no time was left for a trial"


def by_proposals(part: Part, limits: Limits) -> Verdict | None:
    """A verdict for `rejection` if random assignments are often valid, else None."""
    formula, n = part.formula, part.formula.n_total
    if not _SMALL < n <= len(formula.literals) <= _SHORT or "rejection" in limits.skip:
        return None
    if len(part.theta) > _CONTEXTS or beyond_resolution(part.theta):
        return None
    if max(_violated(part.problem, row) for row in part.theta) > _MOST_VIOLATED:
        return None
    kernel, accepted = rejection.PLAIN, 1.0
    for row in part.theta:
        table = kernel.laws(part.problem, row[None])
        hits = rejection.hits(part.problem, kernel, table, 0, _PROPOSALS)
        accepted = min(accepted, hits / _PROPOSALS)
    if accepted * _MOST_PROPOSALS < 1:
        return None
    told = f"of random assignments one in {1 / accepted:,.1f} is valid"
    return Verdict(0, "exact", told, {"accepted": accepted})


def _violated(problem: Problem, theta: np.ndarray) -> float:
    """The sum over clauses of the probability that a proposal violates them. O(literals)."""
    clauses = problem.rest
    every = np.zeros(clauses.n_total)
    every[: len(theta)] = theta
    log_odds = np.sign(clauses.literals) * every[np.abs(clauses.literals) - 1]
    wrong = np.exp(-np.logaddexp(0.0, log_odds))  # P(the literal is false)
    return float(np.multiply.reduceat(wrong, clauses.offsets[:-1]).sum()) if len(wrong) else 0.0


def by_rejection(part: Part, limits: Limits) -> Verdict | None:
    """A verdict for `rejection`; None if a sample costs too much: the reason is in `part.passed`.
    Nothing is tried, and no reason given, if the formula has no gates or is large.
    """
    if len(part.formula.literals) > _LARGE:
        return None
    gates = rejection.gates_of(part.problem)
    if not len(gates.targets):
        return None
    chosen = part.theta[pilots(part.theta)]
    if len(chosen) > _CONTEXTS:
        part.passed["rejection"] = f"more than {_CONTEXTS} different contexts"
        return None
    latest = part.formula.memo.once(_LATEST, lambda: Recent(4))
    known = part.formula.memo.once(_TRIALS, lambda: Recent(64))
    key = part.evidence, chosen.tobytes()
    tried = latest.get(part.evidence) if limits.reuse else None
    if (tried := tried or known.get(key)) is None:
        with phase("drawing inputs"):
            tried = _trial(part.problem, chosen, len(gates.literals), limits)
        if tried[1] != _LATE:
            known.put(key, tried)
    accepted, why = latest.put(part.evidence, tried)
    if why:
        part.passed["rejection"] = why
        return None
    told = (
        f"{len(gates.targets)} of the variables are functions of the other {len(gates.inputs)}; of "
        f"random values of these one in {1 / accepted:,.0f} is valid"
    )
    return Verdict(0, "exact", told, {"accepted": accepted})


def _trial(problem: Problem, theta: np.ndarray, literals: int, limits: Limits) -> tuple[float, str]:
    """(the smallest share of valid proposals of all contexts, "") or (0, why not)."""
    until = share(limits.deadline, _SHARE)
    kernel, least = rejection.kernel_for(problem), 1.0
    most = max(1, _MOST_WORK // max(1, literals))  # words of 64 proposals for each sample
    for row in theta:
        tried = hits = 0
        table = kernel.laws(problem, row[None])
        while hits < _ENOUGH and tried < _FEW * most:
            if until is not None and time.monotonic() > until:
                return 0.0, _LATE
            words = min(max(16, 7 * tried), _FEW * most - tried)
            hits += rejection.hits(problem, kernel, table, tried, 64 * words, limits.threads)
            tried += words
        if hits < _FEW:
            return 0.0, f"{hits} of {64 * tried:,} random values of the inputs are valid"
        least = min(least, hits / (64 * tried))
    return least, ""
