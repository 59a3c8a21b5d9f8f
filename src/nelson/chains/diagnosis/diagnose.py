"""How many sweeps chains need, and whether their samples are diagnosed: measured, not guessed.

With counter-based random numbers, the chain after k and after 2k sweeps is one run, observed twice.

1  k doubles until chains that began by resampling have forgotten, after 2k sweeps, where they were
   after k sweeps, and their means no longer drift (`compare.memory`). A draw makes 3k sweeps.
2  Other chains begin elsewhere (`alternative_starts.py`). After 2k sweeps all of them must have
   come to the same law (`compare.agreement`). If not, k doubles again.
3  Chains go on from states of all kinds. The slowest functions of their states must be forgotten,
   too (`slowest.py`). If not, k doubles again.
4  States of all these chains are the starts of coupled chains. After 3k and 6k sweeps any two of
   them must have come together equally (`meeting.py`). If not, k doubles again.

Chains that pass are called diagnosed, all others heuristic. A test that could say nothing has not
passed. The check is necessary, not sufficient: it does not see a region that no start enters. A
question to the solver that stays open counts against the chains.
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
from nelson.chains.diagnosis.alternative_starts import AlternativeStarts, Probe
from nelson.chains.diagnosis.compare import ChainGroup, Comparison, agreement, memory
from nelson.chains.diagnosis.features import Features
from nelson.chains.diagnosis.meeting import LIMIT, meetings
from nelson.chains.diagnosis.slowest import Slowest, slowest
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
    known = problem.formula.memo.recent(VERDICTS, 64)
    key = (problem.evidence, row.tobytes(), limits)
    if (verdict_before := known.get(key)) is not None:
        return verdict_before
    n = problem.formula.n_total
    lanes = next(lanes for most, lanes in _PILOT_LANES if n <= most)
    request = pilot_request(row[None], lanes, budget.share(0.3))
    chains = Chains.resampled(problem, request, row[None])
    verdict = diagnose_chains(chains, limits=limits)
    return known.put(key, verdict) if verdict.complete else verdict


def for_rows(theta: np.ndarray, diagnose_row: Callable[[np.ndarray], StepVerdict]) -> StepVerdict:
    """The verdicts on some of the contexts as one. A context is heuristic unless a context of the
    same theta was diagnosed: a verdict on one theta says nothing about another.
    """
    theta = theta + 0.0  # -0.0 and 0.0 are the same theta
    chosen = pilots(theta)
    verdicts = [diagnose_row(theta[k]) for k in chosen]
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
    if request.budget.deadline is None:
        longer = tuple(lag for lag in longer if lag <= limits.more_work * afford)
    return lags, longer


@dataclass(frozen=True)
class PilotRun:
    """What a pilot run measured. A test that was not made has not passed."""

    lag: int
    memory: Comparison
    agreement: Comparison | None = None  # None: not compared, since the chains had not forgotten
    slowest: Slowest | None = None  # None: not looked for, since the chains did not agree
    meetings: Comparison | None = None  # None: not counted, since some functions are slow
    met: float = 0.0  # the share of pairs of samples that met
    kinds: tuple[str, ...] = ()  # of the other starts
    undecided: int = 0  # questions that the solver could not decide
    complete: bool = True

    def verdict(self, beyond: str = "") -> StepVerdict:
        """beyond: why the kernels cannot draw from these weights, or ""."""
        against = self._against(beyond)
        sweeps = SWEEPS_PER_LAG * self.lag
        texts = [against, self._measured()]
        if against:
            sweeps = min(sweeps, _SWEEPS_IF_FAILED)
        else:
            texts.append("the tests cannot see regions that none of these starts enters")
        why = "; ".join(text for text in texts if text)
        guarantee = "heuristic" if against else "diagnosed"
        return StepVerdict(sweeps, guarantee, why, self._numbers(), complete=self.complete)

    def _against(self, beyond: str) -> str:
        """The first test that did not pass, or ""."""
        if not self.complete:
            return "the time was up in a pilot run"
        if self.agreement is None:
            return (
                f"chains still remember, after {2 * self.lag} sweeps, where they were after "
                f"{self.lag} ({self.memory.what}: correlation {self.memory.rho:.2f}, drift "
                f"{self.memory.drift:.2g} standard deviations)"
            )
        if not self.kinds:
            return "no other start was found to compare the chains with"
        if not self.agreement.yes:
            return (
                f"chains with other starts do not agree after {2 * self.lag} sweeps: "
                f"{self.agreement.what} differs by {self.agreement.worst:.2g} times what noise "
                "allows"
            )
        if self.slowest is not None and self.slowest.silent and not self.slowest.yes:
            return "no function of the state varies, and no other start was asked for"
        if self.slowest is None or not self.slowest.yes:
            return "some function of the state changes slowly: it hardly varies within a chain"
        if self.meetings is None or not self.meetings.yes:
            worst = np.inf if self.meetings is None else self.meetings.worst
            return (
                f"after {3 * self.lag} sweeps some pairs of chains meet far more often than others "
                f"({worst * LIMIT:.2g} times the variation by chance): there are regions that "
                "chains seldom leave"
            )
        if self.undecided:
            return f"a solver could not decide {self.undecided} questions for other starts"
        return beyond

    def _measured(self) -> str:
        """What the tests measured that were made."""
        if not self.complete or self.agreement is None or not self.agreement.yes:
            return ""
        texts = [
            f"correlations fall to {self.memory.rho:.2f} within {self.lag} sweeps",
            f"chains from {len(self.kinds)} other kinds of starts ({', '.join(self.kinds)}) differ "
            f"by at most {self.agreement.worst:.2g} of what noise allows",
        ]
        if (slow := self.slowest) is not None and slow.silent:
            texts.append("no function of the state varies; chains from all others came to the same")
        elif slow is not None:
            texts.append(
                f"the slowest functions of the state correlate by {slow.rho:.2f} within a chain "
                f"(split R-hat {slow.rhat:.2f}, effective sample size {slow.ess:,.0f} of "
                f"{slow.states:,} states)"
            )
        if self.meetings is not None and self.meetings.yes:
            texts.append(
                f"all pairs of chains meet about equally often ({self.met:.0%} meet, "
                f"{self.meetings.worst * LIMIT:.2g} times the variation by chance)"
            )
        return "; ".join(texts)

    def _numbers(self) -> dict[str, Any]:
        more: dict[str, Any] = {
            "rho": self.memory.rho, "lag": self.lag, "drift": self.memory.drift
        }  # fmt: skip
        if self.complete and self.agreement is not None:
            more |= {"agreement": self.agreement.worst, "kinds": len(self.kinds), "met": self.met}
        if self.slowest is not None:
            more |= {"slowest": self.slowest.rho, "split R-hat": self.slowest.rhat}
            more |= {"effective sample size": self.slowest.ess}
        return more


def watch(
    features: Features,
    base: Chains,
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
    stuck: Slowest | None = None  # slow functions at the lag before
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
        kinds = tuple(dict.fromkeys(group.name for group in groups))
        if not groups:  # nothing was compared
            differs = Comparison(np.inf, "")
        else:
            differs = agreement(features, late, groups)
        run = replace(run, agreement=differs, kinds=kinds, undecided=alternatives.open)
        if not differs.yes:
            if before is not None and differs.worst > limits.frozen * before.worst:
                break
            before = differs
            continue
        slow_run = _slowest(features, alternatives, late, groups, lag)
        if slow_run is not None and slow_run.silent and not alternatives.flipped:
            slow_run = slow_run._replace(rho=np.inf)
        run = replace(run, slowest=slow_run, complete=slow_run is not None)
        if slow_run is None:
            break
        if not slow_run.yes:
            if stuck is not None and slow_run.rho > limits.frozen * stuck.rho:
                break
            before, stuck = None, slow_run
            continue
        coupled = _coupled(alternatives, late, groups, lag, limits)
        sweeps = SWEEPS_PER_LAG * lag
        meeting, met = meetings(coupled, features.variables, sweeps)
        run = replace(run, meetings=meeting, met=met, complete=coupled.complete)
        frozen = apart is not None and meeting.worst > limits.frozen * apart.worst
        if meeting.yes or frozen or not coupled.complete:
            break
        before, stuck, apart = None, None, meeting
    return run


def _slowest(
    features: Features,
    alternatives: AlternativeStarts,
    base: np.ndarray,
    groups: Sequence[ChainGroup],
    lag: int,
    most_words: int = 16,
) -> Slowest | None:
    """The slowest functions of chains that go on from states of the chains, and from as many of all
    other kinds; None if the time was up. most_words: of either.
    """
    each = -(-most_words // len(groups))
    others = np.concatenate([group.words[:each] for group in groups])[:most_words]
    starts = np.concatenate([base[:most_words], others])
    walkers = alternatives.walkers(starts, alternatives.request.theta)

    def look(k: int) -> np.ndarray:
        walkers.sweep_to((k + 1) * max(1, lag // 2))
        return walkers.words[0]

    answer = slowest(look, features)
    return answer if walkers.complete else None


def _coupled(
    alternatives: AlternativeStarts,
    base: np.ndarray,
    groups: Sequence[ChainGroup],
    lag: int,
    limits: DiagnosisPolicy,
    most_own: int = 24,
    most_others: int = 12,
    most_words: int = 4,
) -> Chains:
    """Chains from some states of the chains and of all other kinds, within the work of a pilot.

    most_own, most_others: states of the chains, and of all other kinds together; a third of them at
    least. Each starts at most `most_words` words of chains.
    """
    each = 64 * 2 * SWEEPS_PER_LAG * lag  # lanes of a word times their sweeps
    afford = alternatives.request.moves.affords(base.shape[1], limits) // 4 // max(1, each)
    n_own = int(np.clip(2 * afford // 3, most_own // 3, most_own))
    n_others = int(np.clip(afford // 3, most_others // 3, most_others))
    words = int(np.clip(afford // (n_own + n_others), 1, most_words))
    rows = [_spread(base, n_own)]
    rows += [_spread(group.words, -(-n_others // len(groups))) for group in groups]
    return alternatives.coupled(np.concatenate(rows)[: n_own + n_others], words)


def _spread(words: np.ndarray, count: int) -> np.ndarray:
    """`count` of the lanes of states (words, n), evenly spread: (count, n) bool."""
    lanes = np.arange(count) * (64 * len(words)) // count
    return unpack(words, 64 * len(words))[lanes]
