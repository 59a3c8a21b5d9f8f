"""How many sweeps chains need, and whether they may be called asymptotic: measured, not guessed.

With counter-based random numbers, the chain after k and after 2k sweeps is one run, observed twice.

1  k doubles until chains that began by resampling have forgotten, after 2k sweeps, where they were
   after k sweeps, and their means no longer drift (`compare.memory`). A draw makes 3k sweeps.
2  Other chains begin elsewhere (`elsewhere.py`). After 2k sweeps all of them must have come to the
   same law (`compare.agreement`). If not, k doubles again.
3  States of all these chains are the starts of coupled chains. After 3k and 6k sweeps any two of
   them must have met equally often (`meeting.py`). If not, k doubles again.

Chains that pass are called asymptotic, all others heuristic. The check is necessary, not
sufficient: it does not see a region that no start enters. A question to the solver that stays open
counts against the chains.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec

import numpy as np

from nelson.formula.memo import Recent, Slot
from nelson.io.progress import phase
from nelson.kernels.core.bits import compact, unpack
from nelson.kernels.core.reference import threshold
from nelson.sampling.chain import Chains, share
from nelson.sampling.diagnosis.compare import Answer, Group, agreement, memory
from nelson.sampling.diagnosis.elsewhere import Elsewhere, Probe, Walkers
from nelson.sampling.diagnosis.features import Features
from nelson.sampling.diagnosis.meeting import LIMIT, Coupled, meetings
from nelson.sampling.diagnosis.verdict import Verdict
from nelson.sampling.guarantee import weakest
from nelson.sampling.problem import Problem
from nelson.sampling.sampler import Moves, Request

SEED = 0x6E656C736F6E
#: A draw makes this many times the lag at which the correlation is gone.
SWEEPS_PER_LAG = 3
#: The lags that are tried on any formula, and on one of few variables.
_LAGS = (1, 2, 4, 8, 16, 32, 64)
_MORE_LAGS = (128, 256)
#: Variables times lanes times sweeps of a pilot run that may try more lags.
_WORK = 1 << 33
#: The same of joint moves, in entries of tables (`Joint.work`) times lanes times moves; a second of
#: one core is about 2^32. The largest lag is the largest within this. Moves that hold few variables
#: are the likelier ones to mix, and get more.
_JOINT_WORK, _JOINT_WORK_IF_FEW, _FEW_HELD = 1 << 34, 1 << 36, 0.1
_JOINT_LAGS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
#: The same of sweeps of fields. They could be tried for longer, but chains that forget that slowly
#: may also leave rare starts that slowly: on a configuration of 250 symbols correlations fell below
#: 0.1 within 512 sweeps, but 3 of 20,000 chains still had values of probability 1e-8 after 1,536.
_FIELD_LAGS = (*_LAGS, 128)
#: Longer lags are tried, up to _MORE_WORK times that work or as long as the caller's time lasts, if
#: twice as many moves leave at most the share _FALLING of the features slow.
_FALLING, _MORE_WORK = 0.8, 8
#: (most variables, lanes of the pilot run)
_PILOT_LANES = ((20_000, 4096), (200_000, 2048), (np.inf, 1024))
#: Samples whose meetings are counted: of the chains themselves, and of all other kinds together.
_MEET, _MEET_OTHERS = 24, 12
#: Most words of chains from each of these samples.
_MEET_WORDS = 4
#: If twice as many sweeps leave more than this share of a difference, more sweeps are not tried.
_FROZEN = 0.9
#: Contexts that are diagnosed: this many variables in all, but at least 8 and at most 64 contexts.
_CONTEXT_VARIABLES = 8192
#: Nats by which rounding of probabilities to 2^-32 may change the weight of a structure.
_MAX_ROUNDING = 0.05

VERDICTS: Slot[Recent[tuple[tuple[int, ...], bytes], Verdict]] = Slot("verdicts on chains")


def pilot_request(
    theta: np.ndarray, lanes: int, threads: int, deadline: float | None, seed: int = SEED
) -> Request:
    return Request(
        theta=theta,
        contexts=np.arange(len(theta)),
        count=lanes,
        block=lanes,
        seed=seed,
        columns=np.zeros(0, np.int64),
        sweeps=0,
        max_rounds=1000,
        threads=threads,
        deadline=deadline,
    )


def pilots(theta: np.ndarray) -> np.ndarray:
    """The contexts that are diagnosed: the ones of largest and of smallest |theta|, then the ones
    farthest from those already taken. All contexts, if they are few or small.
    """
    if len(theta) == 1:
        return np.zeros(1, np.int64)
    rows, first = np.unique(theta, axis=0, return_index=True)
    most = int(np.clip(_CONTEXT_VARIABLES // max(1, theta.shape[1]), 8, 64))
    if len(rows) <= most:
        return np.sort(first)
    size = (rows**2).sum(1)
    taken = [int(np.argmax(size)), int(np.argmin(size))]
    far = np.minimum(*(((rows - rows[k]) ** 2).sum(1) for k in taken))
    while len(taken) < most:
        taken.append(int(np.argmax(far)))
        far = np.minimum(far, ((rows - rows[taken[-1]]) ** 2).sum(1))
    return np.sort(first[taken])


def rounding(theta: np.ndarray) -> np.ndarray:
    """(contexts, n) -> (contexts,): change of theta, summed over variables, by rounding p to
    multiples of 2^-32.
    """
    p = threshold(theta).astype(np.float64) / 2.0**32
    return np.abs(np.log(p) - np.log1p(-p) - theta).sum(-1)


def beyond_resolution(theta: np.ndarray) -> str:
    """Why the kernels cannot draw from such weights, "" if they can."""
    if (rounding(theta) <= _MAX_ROUNDING).all():
        return ""
    far = float(np.abs(theta).max())
    return f"|theta| = {far:.3g} is beyond the resolution of the random numbers, 2^-32"


def diagnose(problem: Problem, theta: np.ndarray, threads: int, deadline: float | None) -> Verdict:
    """Chains from resampling under theta (contexts, n). Kept with the formula."""
    return for_rows(theta, lambda row: _kept(problem, row, threads, deadline))


def _kept(problem: Problem, row: np.ndarray, threads: int, deadline: float | None) -> Verdict:
    known = problem.formula.memo.once(VERDICTS, lambda: Recent(64))
    key = (problem.evidence, row.tobytes())
    if (kept := known.get(key)) is not None:
        return kept
    n = problem.formula.n_total
    lanes = next(lanes for most, lanes in _PILOT_LANES if n <= most)
    request = pilot_request(row[None], lanes, threads, share(deadline, 0.3))
    chains = Chains.resampled(problem, request, row[None])
    verdict = diagnose_chains(chains)
    return known.put(key, verdict) if verdict.complete else verdict


def for_rows(theta: np.ndarray, one: Callable[[np.ndarray], Verdict]) -> Verdict:
    """The verdicts on some of the contexts as one. A context without a verdict of its own gets the
    weakest guarantee.
    """
    chosen = pilots(theta)
    verdicts = [one(theta[k]) for k in chosen]
    worst = weakest(verdict.guarantee for verdict in verdicts)
    of_row = {theta[k].tobytes(): v.guarantee for k, v in zip(chosen, verdicts, strict=True)}
    rows = tuple(of_row.get(row.tobytes(), worst) for row in theta)
    shown = next(verdict for verdict in verdicts if verdict.guarantee == worst)
    return replace(
        shown,
        sweeps=max(verdict.sweeps for verdict in verdicts),
        rows=rows,
        complete=all(verdict.complete for verdict in verdicts),
        converged=all(verdict.converged for verdict in verdicts),
    )


def diagnose_chains(chains: Chains) -> Verdict:
    """Chains of one context, at their starts."""
    problem, theta = chains.problem, chains.request.theta[0]
    wanted = chains.request.count or 0
    words, count = compact(chains.words[0], chains.valid[0])
    if 2 * count < wanted or count < 64:
        why = "resampling did not converge in a pilot run"
        if not chains.complete:
            why = "the time was up in a pilot run"
        return Verdict(3, "heuristic", why, complete=chains.complete, converged=False)
    words = words[: count // 64]
    lanes = 64 * len(words)
    request = replace(chains.request, count=lanes, block=lanes)
    base = Chains(problem, request, words[None], np.full((1, len(words)), ~np.uint64(0)))
    features = Features.of(problem, theta)
    began = time.monotonic()
    if find_spec("pysat") is None:
        return Verdict(3, "heuristic", "no SAT solver is installed to begin chains elsewhere")
    elsewhere = Elsewhere(problem, features, request)
    lags, longer = lags_for(request, max(1, problem.formula.n_total) * lanes)
    with phase("diagnosing chains"):
        run = watch(features, base, elsewhere, lags, longer)
    verdict = run.verdict(beyond_resolution(theta[None]))
    verdict.more["diagnosis"] = time.monotonic() - began
    return verdict


def lags_for(request: Request, cells: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The lags to try, and longer ones for chains that forget; cells: variables times lanes."""
    if request.moves is None:
        return _LAGS + tuple(lag for lag in _MORE_LAGS if 4 * lag * cells <= _WORK), ()
    afford = _joint_work(request.moves) // max(1, 4 * request.moves.work * (request.count or 0))
    every = _FIELD_LAGS if request.moves.held == 1 else _JOINT_LAGS
    lags = tuple(lag for lag in every if lag == 1 or lag <= afford)
    longer = every[len(lags) :]
    if request.deadline is None:
        longer = tuple(lag for lag in longer if lag <= _MORE_WORK * afford)
    return lags, longer


def _joint_work(moves: Moves) -> int:
    return _JOINT_WORK_IF_FEW if moves.held <= _FEW_HELD else _JOINT_WORK


@dataclass(frozen=True)
class Run:
    """What a pilot run measured."""

    lag: int
    memory: Answer
    agreement: Answer | None = None  # None: not compared, since the chains had not forgotten
    meetings: Answer | None = None  # None: not counted, since the chains did not agree
    met: float = 0.0  # the share of pairs of samples that met
    kinds: int = 0
    undecided: int = 0  # questions that the solver could not decide
    complete: bool = True

    def verdict(self, beyond: str = "") -> Verdict:
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
        # More sweeps do not help chains that fail.
        sweeps = SWEEPS_PER_LAG * self.lag if passed else min(3 * self.lag, _LAGS[-1])
        guarantee = "asymptotic" if passed else "heuristic"
        return Verdict(sweeps, guarantee, why, more, complete=self.complete)


def watch(
    features: Features,
    base: Walkers,
    elsewhere: Elsewhere,
    lags: tuple[int, ...] = _LAGS,
    longer: tuple[int, ...] = (),
) -> Run:
    """Sweep chains until they have forgotten their start and agree with chains from elsewhere.

    longer: lags that are tried only as long as ever fewer features are slow.
    """
    others: list[Probe] = []
    base.sweep_to(lags[0])
    late = base.words[0].copy()
    before: Answer | None = None  # disagreement at the lag before
    apart: Answer | None = None  # uneven meetings at the lag before
    slow = np.inf  # features that were slow at the lag before
    run = Run(lags[0], Answer(np.inf, "nothing"))
    for lag in lags + longer:
        if lag in longer and run.memory.slow > _FALLING * slow:
            break
        slow = run.memory.slow if lag > lags[0] else np.inf
        base.sweep_to(2 * lag)
        if not base.complete:
            return replace(run, complete=False)
        early, late = late, base.words[0].copy()
        run = Run(lag, memory(features, early, late))
        if not run.memory.yes:
            before = None
            continue
        others += elsewhere.probes(late, not others)
        for probe in others:
            probe.walkers.sweep_to(2 * lag)
            if not probe.walkers.complete:
                return replace(run, complete=False)
        groups = [group for probe in others for group in probe.groups()]
        kinds = len({group.name for group in groups})
        differs = agreement(features, late, groups)
        run = replace(run, agreement=differs, kinds=kinds, undecided=elsewhere.open)
        if not differs.yes:
            if before is not None and differs.worst > _FROZEN * before.worst:
                break
            before = differs
            continue
        coupled = _coupled(elsewhere, late, groups, lag)
        meeting, met = meetings(coupled, features.variables, SWEEPS_PER_LAG * lag)
        run = replace(run, meetings=meeting, met=met, complete=coupled.complete)
        frozen = apart is not None and meeting.worst > _FROZEN * apart.worst
        if meeting.yes or frozen or not coupled.complete:
            break
        before, apart = None, meeting
    return run


def _coupled(elsewhere: Elsewhere, base: np.ndarray, groups: Sequence[Group], lag: int) -> Coupled:
    """Chains from some states of the chains and of all other kinds, within the work of a pilot."""
    moves = elsewhere.request.moves
    each = 64 * 2 * SWEEPS_PER_LAG * lag  # lanes of a word times their sweeps
    work = _WORK // base.shape[1] if moves is None else _joint_work(moves) // moves.work
    afford = work // 4 // max(1, each)
    own = int(np.clip(2 * afford // 3, _MEET // 3, _MEET))
    rest = int(np.clip(afford // 3, _MEET_OTHERS // 3, _MEET_OTHERS))
    words = int(np.clip(afford // (own + rest), 1, _MEET_WORDS))
    rows = [_spread(base, own)]
    rows += [_spread(group.words, -(-rest // len(groups))) for group in groups]
    return elsewhere.coupled(np.concatenate(rows)[: own + rest], words)


def _spread(words: np.ndarray, count: int) -> np.ndarray:
    """`count` of the lanes of states (words, n), evenly spread: (count, n) bool."""
    lanes = np.arange(count) * (64 * len(words)) // count
    return unpack(words, 64 * len(words))[lanes]
