"""How many sweeps chains need, and whether their samples are diagnosed: measured, not guessed.

With counter-based random numbers, the chain after k and after 2k sweeps is one run, observed twice.

1  k doubles until chains that began by resampling have forgotten, after 2k sweeps, where they were
   after k sweeps, and their means no longer drift (`compare.memory`). A draw makes 3k sweeps.
2  Other chains begin elsewhere (`alternative_starts.py`). After 2k sweeps all of them must have
   come to the same law (`compare.agreement`). If not, k doubles again.
3  States of all these chains are the starts of coupled chains. After 3k and 6k sweeps any two of
   them must have met equally often (`meeting.py`). If not, k doubles again.

Chains that pass are called diagnosed, all others heuristic. The check is necessary, not
sufficient: it does not see a region that no start enters. A question to the solver that stays open
counts against the chains.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import numpy as np

from nelson.budget import Budget
from nelson.chains.chain import Chains
from nelson.chains.diagnosis.alternative_starts import AlternativeStarts, Probe, Walkers
from nelson.chains.diagnosis.compare import ChainGroup, Comparison, agreement, memory
from nelson.chains.diagnosis.features import Features
from nelson.chains.diagnosis.meeting import LIMIT, Coupled, meetings
from nelson.chains.diagnosis.verdict import StepVerdict
from nelson.chains.guarantee import weakest
from nelson.chains.problem import Problem
from nelson.chains.request import Request
from nelson.formula.memo import Recent, Slot
from nelson.io.progress import phase
from nelson.kernels.core.bits import compact, unpack
from nelson.policy import DEFAULT, DiagnosisPolicy

SEED = 0x6E656C736F6E
#: A draw makes this many times the lag at which the correlation is gone.
SWEEPS_PER_LAG = 3
#: (most variables, lanes of the pilot run)
_PILOT_LANES = ((20_000, 4096), (200_000, 2048), (np.inf, 1024))
#: Sweeps of chains that failed, at most: more do not help.
_SWEEPS_IF_FAILED = 64

#: (evidence, theta, policy) -> a verdict.
VERDICTS: Slot[Recent[Any, StepVerdict]] = Slot("verdicts on chains")


def pilot_request(theta: np.ndarray, lanes: int, budget: Budget, seed: int = SEED) -> Request:
    return Request(
        theta=theta,
        contexts=np.arange(len(theta)),
        count=lanes,
        block=lanes,
        seed=seed,
        columns=np.zeros(0, np.int64),
        sweeps=0,
        max_rounds=1000,
        budget=budget,
    )


def pilots(theta: np.ndarray, variables: int = 8192) -> np.ndarray:
    """The contexts that are diagnosed: the ones of largest and of smallest |theta|, then the ones
    farthest from those already taken. All contexts, if they are few or small. 8 to 64 contexts are
    taken, which have that many variables in all.
    """
    if len(theta) == 1:
        return np.zeros(1, np.int64)
    rows, first = np.unique(theta, axis=0, return_index=True)
    most = int(np.clip(variables // max(1, theta.shape[1]), 8, 64))
    if len(rows) <= most:
        return np.sort(first)
    size = (rows**2).sum(1)
    taken = [int(np.argmax(size)), int(np.argmin(size))]
    far = np.minimum(*(((rows - rows[k]) ** 2).sum(1) for k in taken))
    while len(taken) < most:
        taken.append(int(np.argmax(far)))
        far = np.minimum(far, ((rows - rows[taken[-1]]) ** 2).sum(1))
    return np.sort(first[taken])


def diagnose(
    problem: Problem,
    theta: np.ndarray,
    budget: Budget,
    limits: DiagnosisPolicy = DEFAULT.diagnosis,
) -> StepVerdict:
    """Chains from resampling under theta (contexts, n). Kept with the formula."""
    return for_rows(theta, lambda row: _kept(problem, row, budget, limits))


def _kept(
    problem: Problem,
    row: np.ndarray,
    budget: Budget,
    limits: DiagnosisPolicy,
) -> StepVerdict:
    known = problem.formula.memo.once(VERDICTS, lambda: Recent(64))
    key = (problem.evidence, row.tobytes(), limits)
    if (kept := known.get(key)) is not None:
        return kept
    n = problem.formula.n_total
    lanes = next(lanes for most, lanes in _PILOT_LANES if n <= most)
    request = pilot_request(row[None], lanes, budget.share(0.3))
    chains = Chains.resampled(problem, request, row[None])
    verdict = diagnose_chains(chains, limits=limits)
    return known.put(key, verdict) if verdict.complete else verdict


def for_rows(theta: np.ndarray, one: Callable[[np.ndarray], StepVerdict]) -> StepVerdict:
    """The verdicts on some of the contexts as one. A context is heuristic unless a context of the
    same theta was diagnosed: a verdict on one theta says nothing about another.
    """
    theta = theta + 0.0  # -0.0 and 0.0 are the same theta
    chosen = pilots(theta)
    verdicts = [one(theta[k]) for k in chosen]
    worst = weakest(verdict.guarantee for verdict in verdicts)
    shown = next(verdict for verdict in verdicts if verdict.guarantee == worst)
    of_row = {theta[k].tobytes(): v.guarantee for k, v in zip(chosen, verdicts, strict=True)}
    rows = tuple(of_row.get(row.tobytes(), "heuristic") for row in theta)
    why, unseen = shown.why, sum(row.tobytes() not in of_row for row in theta)
    if unseen:
        why += (
            f"; but {unseen} of {len(theta)} rows of theta were not diagnosed (at most "
            f"{len(chosen)} are), and those are heuristic"
        )
    return replace(
        shown,
        sweeps=max(verdict.sweeps for verdict in verdicts),
        guarantee=weakest(rows),
        why=why,
        rows=rows,
        complete=all(verdict.complete for verdict in verdicts),
        converged=all(verdict.converged for verdict in verdicts),
    )


def diagnose_chains(
    chains: Chains,
    monomials: Sequence[Sequence[int]] = (),
    limits: DiagnosisPolicy = DEFAULT.diagnosis,
) -> StepVerdict:
    """Chains of one context, at their starts. monomials: the terms that their moves know."""
    problem, theta = chains.problem, chains.request.theta[0]
    wanted = chains.request.count or 0
    words, count = compact(chains.words[0], chains.valid[0])
    if 2 * count < wanted or count < 64:
        why = "resampling did not converge in a pilot run"
        if not chains.complete:
            why = "the time was up in a pilot run"
        return StepVerdict(3, "heuristic", why, complete=chains.complete, converged=False)
    words = words[: count // 64]
    lanes = 64 * len(words)
    request = replace(chains.request, count=lanes, block=lanes)
    base = Chains(problem, request, words[None], np.full((1, len(words)), ~np.uint64(0)))
    features = Features.of(problem.sweeping_all() if monomials else problem, theta, monomials)
    began = time.monotonic()
    if find_spec("pysat") is None:
        return StepVerdict(3, "heuristic", "no SAT solver is installed to begin chains elsewhere")
    alternatives = AlternativeStarts(problem, features, request, monomials, limits)
    lags, longer = lags_for(request, problem.formula.n_total, limits)
    with phase("diagnosing chains"):
        run = watch(features, base, alternatives, limits, lags, longer)
    verdict = run.verdict(request.moves.beyond_resolution(theta[None]))
    verdict.more["diagnosis"] = time.monotonic() - began
    return verdict


def lags_for(
    request: Request, n: int, limits: DiagnosisPolicy
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The lags to try, and longer ones for chains that forget; n: variables."""
    moves = request.moves
    afford = moves.affords(n, limits) // max(1, 4 * (request.count or 0))
    lags = tuple(lag for lag in moves.lags if lag <= max(moves.cheap_lag, afford))
    longer = moves.lags[len(lags) :] if moves.goes_on else ()
    if request.deadline is None:
        longer = tuple(lag for lag in longer if lag <= limits.more_work * afford)
    return lags, longer


@dataclass(frozen=True)
class PilotRun:
    """What a pilot run measured."""

    lag: int
    memory: Comparison
    agreement: Comparison | None = None  # None: not compared, since the chains had not forgotten
    meetings: Comparison | None = None  # None: not counted, since the chains did not agree
    met: float = 0.0  # the share of pairs of samples that met
    kinds: int = 0
    undecided: int = 0  # questions that the solver could not decide
    complete: bool = True

    def verdict(self, beyond: str = "") -> StepVerdict:
        more = {"rho": self.memory.rho, "lag": self.lag, "drift": self.memory.drift}
        passed = False
        if not self.complete:
            why = "the time was up in a pilot run"
        elif self.agreement is None:
            why = (
                f"chains still remember, after {2 * self.lag} sweeps, where they were after "
                f"{self.lag} ({self.memory.what}: correlation {self.memory.rho:.2f}, drift "
                f"{self.memory.drift:.2g} standard deviations)"
            )
        else:
            more |= {"agreement": self.agreement.worst, "kinds": self.kinds, "met": self.met}
            told = f"{self.agreement.worst:.2g} of what noise allows"
            why = (
                f"correlations fall to {self.memory.rho:.2f} within {self.lag} sweeps; chains from "
                f"{self.kinds} other kinds of starts differ by at most {told}"
            )
            if not self.agreement.yes:
                why = (
                    f"chains with other starts do not agree after {2 * self.lag} sweeps: "
                    f"{self.agreement.what} differs by {self.agreement.worst:.2g} times what noise "
                    "allows"
                )
            elif self.meetings is not None and not self.meetings.yes:
                why += (
                    f"; but pairs of samples do not meet equally often after {3 * self.lag} sweeps "
                    f"(their shares vary {self.meetings.worst * LIMIT:.2g} times as much as by "
                    "chance): there are regions that chains seldom leave"
                )
            elif self.undecided:
                why += (
                    f"; but a solver could not decide {self.undecided} questions for other starts"
                )
            elif beyond:
                why += f"; but {beyond}"
            else:
                passed = True
        sweeps = SWEEPS_PER_LAG * self.lag if passed else min(3 * self.lag, _SWEEPS_IF_FAILED)
        guarantee = "diagnosed" if passed else "heuristic"
        return StepVerdict(sweeps, guarantee, why, more, complete=self.complete)


def watch(
    features: Features,
    base: Walkers,
    alternatives: AlternativeStarts,
    limits: DiagnosisPolicy,
    lags: tuple[int, ...],
    longer: tuple[int, ...] = (),
) -> PilotRun:
    """Sweep chains until they have forgotten their start and agree with chains from elsewhere.

    longer: lags that are tried only as long as ever fewer features are slow.
    """
    others: list[Probe] = []
    base.sweep_to(lags[0])
    late = base.words[0].copy()
    before: Comparison | None = None  # disagreement at the lag before
    apart: Comparison | None = None  # uneven meetings at the lag before
    slow = np.inf  # features that were slow at the lag before
    run = PilotRun(lags[0], Comparison(np.inf, "nothing"))
    for lag in lags + longer:
        if lag in longer and run.memory.slow > limits.falling * slow:
            break
        slow = run.memory.slow if lag > lags[0] else np.inf
        base.sweep_to(2 * lag)
        if not base.complete:
            return replace(run, complete=False)
        early, late = late, base.words[0].copy()
        run = PilotRun(lag, memory(features, early, late))
        if not run.memory.yes:
            before = None
            continue
        others += alternatives.probes(late, not others)
        for probe in others:
            probe.walkers.sweep_to(2 * lag)
            if not probe.walkers.complete:
                return replace(run, complete=False)
        groups = [group for probe in others for group in probe.groups()]
        kinds = len({group.name for group in groups})
        differs = agreement(features, late, groups)
        run = replace(run, agreement=differs, kinds=kinds, undecided=alternatives.open)
        if not differs.yes:
            if before is not None and differs.worst > limits.frozen * before.worst:
                break
            before = differs
            continue
        coupled = _coupled(alternatives, late, groups, lag, limits)
        meeting, met = meetings(coupled, features.variables, SWEEPS_PER_LAG * lag)
        run = replace(run, meetings=meeting, met=met, complete=coupled.complete)
        frozen = apart is not None and meeting.worst > limits.frozen * apart.worst
        if meeting.yes or frozen or not coupled.complete:
            break
        before, apart = None, meeting
    return run


def _coupled(
    alternatives: AlternativeStarts,
    base: np.ndarray,
    groups: Sequence[ChainGroup],
    lag: int,
    limits: DiagnosisPolicy,
    most_own: int = 24,
    most_others: int = 12,
    most_words: int = 4,
) -> Coupled:
    """Chains from some states of the chains and of all other kinds, within the work of a pilot.

    most_own, most_others: states of the chains, and of all other kinds together; a third of them at
    least. Each starts at most `most_words` words of chains.
    """
    each = 64 * 2 * SWEEPS_PER_LAG * lag  # lanes of a word times their sweeps
    afford = alternatives.request.moves.affords(base.shape[1], limits) // 4 // max(1, each)
    own = int(np.clip(2 * afford // 3, most_own // 3, most_own))
    rest = int(np.clip(afford // 3, most_others // 3, most_others))
    words = int(np.clip(afford // (own + rest), 1, most_words))
    rows = [_spread(base, own)]
    rows += [_spread(group.words, -(-rest // len(groups))) for group in groups]
    return alternatives.coupled(np.concatenate(rows)[: own + rest], words)


def _spread(words: np.ndarray, count: int) -> np.ndarray:
    """`count` of the lanes of states (words, n), evenly spread: (count, n) bool."""
    lanes = np.arange(count) * (64 * len(words)) // count
    return unpack(words, 64 * len(words))[lanes]
