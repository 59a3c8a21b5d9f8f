"""The step before chains: do coupled chains of all starts meet? Then `cftp` is exact.

A trial of one word of samples makes runs of 16, 32, .. sweeps. Where chains never meet (random
5-SAT with L = 1.3 n), the share of variables that may have both values soon stays where it is, and
the trial ends after 48 sweeps of 64 samples. Runs of a large formula begin with 4 sweeps, and often
end after 12 in all (random 4-SAT, a million clauses, L = 2 n: 98% after 4, 8 and 32 sweeps).

Else a trial of one tile must meet within a quarter of the sweeps that a draw may make. A lane that
fails to meet within T sweeps with probability u does so within 4 T sweeps with probability u^4 at
most: with u = 1/1,000, one of 10^12 samples.
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
#: Sweeps of the first run of a trial; and if the formula has more than _LARGE literals.
_FIRST, _FIRST_IF_LARGE, _LARGE = 16, 4, 1_000_000
#: Samples of the second trial, of all contexts together; a context has at least 64.
_LANES = 1024
#: A run twice as long must leave at most this share of the variables that may have both values.
#: Random 5-SAT of 1,000 variables: below 0.7 where chains meet (L <= n), 0.95 where L = 1.3 n.
_STUCK = 0.85
#: The same of runs shorter than _FIRST. Random 5-SAT of 20,000 variables, 8 sweeps after 4: 0.91
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
    """(sweeps of the longest run, "") if all contexts met, else (0, why not)."""
    until = share(limits.deadline, _SHARE)
    most, lanes = 0, max(64, _LANES // len(theta) // 64 * 64)
    first = _FIRST if len(problem.formula.literals) <= _LARGE else _FIRST_IF_LARGE
    for row in theta:
        length, before, size = min(first, longest), np.inf, 64
        while True:
            if length > longest:
                return 0, f"coupled chains did not meet within {longest} sweeps"
            if until is not None and time.monotonic() > until:
                return 0, _LATE
            apart = _apart(problem, row, size, length)
            if apart > before * (_STUCK if length > _FIRST else _STUCK_AT_ONCE):
                told = f"{apart:.0%} of the variables may have both values"
                return 0, f"coupled chains do not meet: after {length} sweeps {told}"
            most = max(most, length)
            if apart:
                length, before = 2 * length, apart
            elif size == lanes:
                break
            else:  # the word has met; now the tile
                size, before = lanes, np.inf
    return most, ""


def _apart(problem: Problem, theta: np.ndarray, lanes: int, length: int) -> float:
    """The share of variables and lanes that may have both values after a run of that length.

    1 if chains met in a state that is not valid: the formula then has no solution, which a later
    step proves.
    """
    spaces: list[coupled.Space] = []

    def scratch(program: Any, width: int) -> coupled.Space:
        spaces.append(coupled.scratch(program, width, length))
        return spaces[-1]

    kernel = replace(cftp.kernel(problem), scratch=scratch)
    request = replace(pilot_request(theta[None], lanes, 1, None), max_rounds=length)
    table = kernel.laws(problem, request.theta)
    block = engine.draw(kernel, 0, problem, request, table, request.contexts, 0, lanes)
    if block.interrupted:
        raise KeyboardInterrupt
    if not block.resampled:
        return float(not np.array_equal(block.valid[0], tail_mask(lanes)))
    may = spaces[0].bounds.reshape(problem.formula.n_total, 2, -1)
    both = may[:, 0, : lanes // 64] & may[:, 1, : lanes // 64] & tail_mask(lanes)
    return float(np.bitwise_count(both).sum()) / (lanes * len(both))
