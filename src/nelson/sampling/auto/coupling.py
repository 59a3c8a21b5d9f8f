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
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from nelson.formula.memo import Recent, Slot
from nelson.io.progress import phase
from nelson.kernels.core.bits import tail_mask
from nelson.kernels.cpu import cftp as coupled
from nelson.sampling import engine
from nelson.sampling.auto.decision import Limits, Part
from nelson.sampling.chain import share
from nelson.sampling.diagnosis.diagnose import pilot_request, pilots
from nelson.sampling.diagnosis.verdict import Verdict
from nelson.sampling.methods import cftp
from nelson.sampling.problem import Problem

#: (sweeps that a trial took, or 0; why chains did not meet), by evidence, theta and sweeps allowed.
_TRIALS: Slot[Recent[tuple[Any, ...], tuple[int, str]]] = Slot("trials of coupled chains")
#: The last trial, by evidence.
_LATEST: Slot[Recent[tuple[int, ...], tuple[int, str]]] = Slot("latest trial of coupled chains")
#: Sweeps before a trial is first looked at; and if the formula has more than _LARGE literals.
_FIRST, _FIRST_IF_LARGE, _LARGE = 16, 4, 1_000_000
#: Samples of a trial, which takes as long as one of 64; but not if the formula is large.
LANES, _LANES_IF_LARGE = 256, 64
#: Samples of the second trial, of all contexts together; a context has at least 64.
_TILE = 1024
#: Twice as many sweeps must leave at most this share of the variables that may have both values.
#: Random 5-SAT of 1,000 variables: below 0.7 where chains meet (L <= n), 0.95 where L = 1.3 n.
_STUCK = 0.85
#: The same of fewer sweeps than _FIRST. Random 5-SAT of 20,000 variables, 8 sweeps after 4: 0.91
#: where chains meet late (L = 1.05 n), 0.99 or more where they do not (L = 1.3 n, and 4-SAT).
_STUCK_AT_ONCE = 0.98
#: The trials' share of a time limit.
_SHARE = 0.1
_LATE = "no time was left for a trial of coupled chains"


def by_coupling(part: Part, limits: Limits) -> Verdict | None:
    """A verdict for `cftp`; None if chains did not meet: the reason is in `part.passed`."""
    latest = part.formula.memo.once(_LATEST, lambda: Recent(4))
    known = part.formula.memo.once(_TRIALS, lambda: Recent(64))
    longest = max(1, coupled.longest(limits.max_rounds) // 4)
    chosen = part.theta[pilots(part.theta)]
    key = part.evidence, chosen.tobytes(), longest
    tried = latest.get(part.evidence) if limits.reuse else None
    if (tried := tried or known.get(key)) is None:
        with phase("coupling chains"):
            tried = _trials(part.problem.sweeping_all(), chosen, longest, limits)
        if tried[1] != _LATE:
            known.put(key, tried)
    sweeps, why = latest.put(part.evidence, tried)
    if why:
        part.passed["cftp"] = why
        return None
    told = f"coupled chains of all starts met within {sweeps} sweeps in a trial"
    return Verdict(0, "exact", told, {"coupled": sweeps})


def _trials(problem: Problem, theta: np.ndarray, longest: int, limits: Limits) -> tuple[int, str]:
    """(sweeps until the last chains met, "") if those of all contexts met, else (0, why not)."""
    until = share(limits.deadline, _SHARE)
    large = len(problem.formula.literals) > _LARGE
    most, tile = 0, max(64, _TILE // len(theta) // 64 * 64)
    for row in theta:
        lanes = _LANES_IF_LARGE if large else LANES
        sweeps, why = _meet(problem, row, lanes, longest, until)
        if not why and (large or sweeps > longest // 2):
            sweeps, why = _meet(problem, row, tile, longest, until)
        if why:
            return 0, why
        most = max(most, sweeps)
    return most, ""


def _meet(
    problem: Problem, theta: np.ndarray, lanes: int, longest: int, until: float | None
) -> tuple[int, str]:
    """(sweeps until all of these lanes met, ""), or (0, why they did not)."""
    trial, before = _Trial(problem, theta, lanes), np.inf
    large = len(problem.formula.literals) > _LARGE
    length = min(_FIRST_IF_LARGE if large else _FIRST, longest)
    while True:
        if until is not None and time.monotonic() > until:
            return 0, _LATE
        apart = trial.apart_after(length)
        if not apart:
            return trial.made, ""
        if apart > before * (_STUCK if length > _FIRST else _STUCK_AT_ONCE):
            told = f"{apart:.0%} of the variables may have both values"
            return 0, f"coupled chains do not meet: after {length} sweeps {told}"
        if length == longest:
            return 0, f"coupled chains did not meet within {longest} sweeps"
        length, before = min(2 * length, longest), apart


class _Trial:
    """Coupled chains of all starts, forwards in time, in a run that can be continued."""

    def __init__(self, problem: Problem, theta: np.ndarray, lanes: int) -> None:
        self.problem, self.lanes = problem, lanes
        self.made = 0  # sweeps so far
        self.request = pilot_request(theta[None], lanes, 1, None)
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
        block = engine.draw(self.kernel, 0, *task, 0, lanes)
        if block.interrupted:
            raise KeyboardInterrupt
        self.made = block.rounds
        if not block.resampled:
            return float(not np.array_equal(block.valid[0], tail_mask(lanes)))
        may = self.space.bounds.reshape(self.problem.formula.n_total, 2, -1)
        both = may[:, 0, : lanes // 64] & may[:, 1, : lanes // 64] & tail_mask(lanes)
        return float(np.bitwise_count(both).sum()) / (lanes * len(both))
