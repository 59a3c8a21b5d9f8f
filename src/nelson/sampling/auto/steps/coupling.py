"""The step before chains: do coupled chains of all starts meet? Then `cftp` is exact.

A trial runs the chains of 256 samples until they meet. After 16, 32, .. sweeps it counts the
variables that may have both values. Where chains never meet (random 5-SAT with L = 1.3 n), that
share soon stays where it is, and the trial ends after 32 sweeps. Trials of a large formula look
after 4 and 8 sweeps, and often end there (random 4-SAT, a million clauses, L = 2 n: 98% after 4, 8
and 32 sweeps).

A draw must not fail. Let u be the probability that a lane does not meet within T sweeps; then it is
at most u^j within j T sweeps. It is enough if 256 lanes met within an eighth of the sweeps that a
draw may make: even with u = 1/40, which a trial passes once in 650 times, one of 10^12 samples
would not meet. Else a tile of 1,024 lanes must meet within a quarter of these sweeps: with
u = 1/1,000, one of 10^12 samples would not.

A trial of a large formula runs 64 lanes after the other, whose bounds fit the cache (16 MB for a
million variables), and ends when as many lanes have met as the bound on the total variation asks
for (`total_variation.of_coupling`). 64 lanes are enough if they met within a fifteenth of the
sweeps that a draw may make.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nelson.budget import Budget
from nelson.chains import engine
from nelson.chains.diagnosis.diagnose import pilot_request, pilots
from nelson.chains.diagnosis.verdict import StepVerdict
from nelson.chains.problem import Problem
from nelson.exact.routes import Reason
from nelson.formula.memo import Recent, Slot
from nelson.io.progress import phase
from nelson.kernels.core.bits import tail_mask
from nelson.kernels.cpu import cftp as coupled
from nelson.policy import CouplingPolicy, Policy
from nelson.sampling.auto.decision import FormulaPart
from nelson.sampling.auto.steps.step import Step
from nelson.sampling.methods import cftp
from nelson.sampling.total_variation import of_coupling

if TYPE_CHECKING:
    from nelson.sampling.auto.search import StepSearch

#: (sweeps that a trial took, or 0; why chains did not meet), by evidence, theta and sweeps allowed.
_TRIALS: Slot[Recent[tuple[Any, ...], tuple[int, str]]] = Slot("trials of coupled chains")
#: The last trial, by evidence.
_LATEST: Slot[Recent[tuple[int, ...], tuple[int, str]]] = Slot("latest trial of coupled chains")
#: In `StepVerdict.more`: the sweeps of the trial.
_SWEEPS = "coupled"
_LATE = "no time was left for a trial of coupled chains"


class Coupling(Step):
    name = cftp.SAMPLER.name
    sampler = cftp.SAMPLER
    turn = 2

    def applies(self, part: FormulaPart, budget: Budget, policy: Policy) -> StepVerdict | Reason:
        latest = part.formula.memo.recent(_LATEST, 4)
        known = part.formula.memo.recent(_TRIALS, 64)
        longest = max(1, coupled.longest(policy.auto.max_rounds) // 4)
        rows = part.theta[pilots(part.theta)]
        known_rows = len(part.theta) <= len(rows) or len(np.unique(part.theta, axis=0)) <= len(rows)
        proved = known_rows and not policy.auto.reuse
        key = part.evidence, rows.tobytes(), longest, policy.coupling
        trial = latest.get(part.evidence) if policy.auto.reuse else None
        if (trial := trial or known.get(key)) is None:
            with phase("coupling chains"):
                trial = _trials(part.problem.sweeping_all(), rows, longest, budget, policy.coupling)
            if trial[1] != _LATE:
                known.put(key, trial)
        sweeps, why = latest.put(part.evidence, trial)
        if why:
            return Reason(why)
        lanes = _lanes(part.problem, len(rows), sweeps, longest, policy.coupling) if proved else 0
        why = f"coupled chains of all starts met within {sweeps} sweeps in a trial"
        return StepVerdict(0, "exact", why, {_SWEEPS: sweeps, "trial": (lanes, sweeps)})

    def take(self, search: StepSearch) -> None:
        form = search.form
        # With one component and no change, the formula as given has the same clauses, and is
        # prepared already.
        alone = len(form.left) == 1 and not form.reduced.changed and not form.taken
        if form.beyond:
            form.pass_by(self.name, form.beyond)
            return
        for part in list(form.left):
            answer = self.applies(form.whole if alone else part, form.budget, form.policy)
            if isinstance(answer, StepVerdict):
                form.take(self, part, answer)
            else:
                part.pass_by(self.name, answer)

    def expect(self, part: FormulaPart, verdicts: Sequence[StepVerdict]) -> None:
        # A tile has more lanes than a trial, and its first sweeps are less exact.
        sweeps = max(verdict.more[_SWEEPS] for verdict in verdicts)
        cftp.expect(part.problem, sweeps * 5 // 4)


def _lanes(problem: Problem, rows: int, sweeps: int, longest: int, rules: CouplingPolicy) -> int:
    """How many lanes of each row met within `sweeps`, at least."""
    if len(problem.formula.literals) > rules.large:
        return _enough(sweeps, longest, rules)
    tile = _tile(rows, rules)
    twice = sweeps > longest // 2
    return (tile if rows == 1 else min(tile, rules.lanes)) if twice else rules.lanes


def _enough(sweeps: int, longest: int, rules: CouplingPolicy) -> int:
    """Lanes of each context that have to meet within `sweeps`, if the formula is large."""
    sizes = range(rules.lanes_if_large, rules.tile, rules.lanes_if_large)
    far = rules.far_if_large
    return next((m for m in sizes if of_coupling([(m, sweeps)], 4 * longest) <= far), rules.tile)


def _tile(rows: int, rules: CouplingPolicy) -> int:
    """Lanes of the second trial, of each row."""
    return max(64, rules.tile // rows // 64 * 64)


def _trials(
    problem: Problem, theta: np.ndarray, longest: int, budget: Budget, rules: CouplingPolicy
) -> tuple[int, str]:
    """(sweeps until the last chains met, "") if those of all contexts met, else (0, why not)."""
    budget = budget.share(rules.share)
    if len(problem.formula.literals) > rules.large:
        return _trials_in_turns(problem, theta, longest, budget, rules)
    most, tile = 0, _tile(len(theta), rules)
    for row in theta:
        sweeps, why = _meet(problem, row, rules.lanes, longest, budget, rules)
        if not why and sweeps > longest // 2:
            sweeps, why = _meet(problem, row, tile, longest, budget, rules)
        if why:
            return 0, why
        most = max(most, sweeps)
    return most, ""


def _trials_in_turns(
    problem: Problem, theta: np.ndarray, longest: int, budget: Budget, rules: CouplingPolicy
) -> tuple[int, str]:
    """As `_trials`, of a large formula: few lanes after the other, until they are enough."""
    most, met, piece = 0, 0, rules.lanes_if_large
    while not met or met < _enough(most, longest, rules):
        for row in theta:
            sweeps, why = _meet(problem, row, piece, longest, budget, rules, met // 64)
            if why:
                return 0, why
            most = max(most, sweeps)
        met += piece
    return most, ""


def _meet(
    problem: Problem,
    theta: np.ndarray,
    lanes: int,
    longest: int,
    budget: Budget,
    rules: CouplingPolicy,
    word: int = 0,
) -> tuple[int, str]:
    """(sweeps until all of these lanes met, ""), or (0, why they did not). word: of the first."""
    trial, before = _Trial(problem, theta, lanes, word), np.inf
    large = len(problem.formula.literals) > rules.large
    length = min(rules.first_if_large if large else rules.first, longest)
    while True:
        if budget.spent:
            return 0, _LATE
        apart = trial.apart_after(length)
        if not apart:
            return trial.made, ""
        if apart > before * (rules.stuck if length > rules.first else rules.stuck_at_once):
            why = f"{apart:.0%} of the variables may have both values"
            return 0, f"coupled chains do not meet: after {length} sweeps {why}"
        if length == longest:
            return 0, f"coupled chains did not meet within {longest} sweeps"
        length, before = min(2 * length, longest), apart


class _Trial:
    """Coupled chains of all starts, forwards in time, in a run that can be continued."""

    def __init__(self, problem: Problem, theta: np.ndarray, lanes: int, word: int = 0) -> None:
        self.problem, self.lanes, self.word = problem, lanes, word
        self.made = 0  # sweeps so far
        self.request = pilot_request(theta[None], lanes, Budget(threads=1))
        self.space = coupled.scratch(problem.program, engine.width_for(lanes))
        self.kernel = replace(cftp.kernel(problem), scratch=lambda program, width: self.space)
        self.table = self.kernel.laws(problem, self.request.theta)

    def apart_after(self, length: int) -> float:
        """Go on until `length` sweeps were made, or all lanes have met.
        -> the share of variables and lanes that may still have both values

        1 if chains met in a state that is not valid: the formula then has no solution, which a
        later step proves.
        """
        self.space.first[0], self.space.trial[0] = length, self.made
        request, lanes = replace(self.request, max_rounds=length), self.lanes
        task = self.problem, request, self.table, request.contexts
        block = engine.draw(self.kernel, 0, *task, self.word, lanes)
        if block.interrupted:
            raise KeyboardInterrupt
        self.made = block.rounds
        if not block.resampled:
            return float(not np.array_equal(block.filled[0], tail_mask(lanes)))
        may = self.space.bounds.reshape(self.problem.formula.n_total, 2, -1)
        both = may[:, 0, : lanes // 64] & may[:, 1, : lanes // 64] & tail_mask(lanes)
        return float(np.bitwise_count(both).sum()) / (lanes * len(both))
