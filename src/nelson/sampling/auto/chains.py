"""Steps 4 and 5 of the ladder: chains in the valid space, and the guarantee they get.

A chain is called asymptotic if single variables forget their values (`mixing.py`) and if chains
with other starts come to the same marginals (`agree.py`). Else it is heuristic, and the reason says
which of the two checks failed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from nelson.formula.memo import Recent, Slot
from nelson.sampling.auto import starts
from nelson.sampling.auto.agree import SHIFTS, Agreement, compare, looks, shifted, signs
from nelson.sampling.auto.decision import Limits, Part
from nelson.sampling.chain import Chains, share
from nelson.sampling.mixing import SEED, Mixing, measure, mixing, pilot_request, rows_for

_AGREEMENTS: Slot[Recent[tuple[tuple[int, ...], int, int], Agreement]] = Slot("agreement of chains")
#: Starts of each kind that a solver is asked for.
_STARTS = 256
#: Chains that run from the starts of a solver.
_LANES = 1024
#: Above this many literals 64 samples are tried before the pilot run, which takes its time.
_LARGE = 20_000
#: Above this many literals a call with a deadline makes no pilot run.
_HUGE = 2_000_000


@dataclass(frozen=True)
class Verdict:
    sweeps: int
    guarantee: str
    why: str
    more: dict[str, Any] = field(default_factory=dict)  # the measurements
    starts: list[np.ndarray] = field(default_factory=list)


def by_resampling(part: Part, limits: Limits) -> Verdict | None:
    """Step 4; None if resampling does not converge: the reason is in `part.passed`."""
    size = len(part.formula.literals)
    if size > _HUGE and limits.deadline is not None:
        told = f"{size:,} literals are too many for a pilot run within the budget"
        return Verdict(3, "heuristic", f"3 sweeps of the valid space follow ({told})")
    large = size > _LARGE
    if large and not _converges(part, limits):
        part.passed["resampling"] = "it did not converge in a trial of 64 samples"
        return None
    mixed = mixing(part.problem, part.theta, limits.threads, limits.deadline)
    if not mixed.converged and not (large and not mixed.complete):
        part.passed["resampling"] = str(mixed) if mixed.complete else "the time was up in its pilot"
        return None
    agreement = _agreement(part, mixed, limits) if mixed.mixed else Agreement(None)
    swept = len(part.problem.program.order)
    begin = f"not extremal: {mixed.sweeps} sweeps of the valid space over {swept} variables follow"
    return _verdict(mixed, agreement, begin, [])


def _converges(part: Part, limits: Limits) -> bool:
    """Does resampling converge in a trial of one word of samples?"""
    rows = rows_for(part.theta)
    request = pilot_request(rows, 64, limits.threads, share(limits.deadline, 0.2, 10.0))
    return 2 * Chains.resampled(part.problem, request, rows).lanes() >= 64 * len(rows)


def _agreement(part: Part, mixed: Mixing, limits: Limits) -> Agreement:
    rows = rows_for(part.theta)
    known = part.formula.memo.once(_AGREEMENTS, lambda: Recent(64))
    key = (part.problem.evidence, hash(rows.tobytes()), mixed.lag)
    if (kept := known.get(key)) is not None:
        return kept
    request = pilot_request(rows, 64, limits.threads, share(limits.deadline, 0.3))
    kinds = shifted(part.problem, request) or _kinds(part, rows, limits)
    result = _compared(kinds, mixed)
    return result if result.agree is None else known.put(key, result)


def _compared(kinds: list[Chains], mixed: Mixing) -> Agreement:
    """Chains of other kinds, swept as far as the measured ones, against the measured ones."""
    marginals = looks(kinds, 2 * mixed.lag)
    if marginals is not None and mixed.means is not None:
        marginals.append(mixed.means)
    return compare(marginals)


def from_solver(part: Part, limits: Limits) -> Verdict:
    """Step 5. Raises Unsatisfiable if the solver proved that."""
    rows, began = rows_for(part.theta), time.monotonic()
    until = share(limits.deadline, 0.4, starts.SECONDS) or began
    states: list[np.ndarray] = []
    solver = ""
    for k, theta in enumerate(rows):
        now = time.monotonic()
        mine, solver = starts.find(
            part.problem, theta, _STARTS, SEED + k, now + (until - now) / (len(rows) - k)
        )
        if not len(mine):
            spent = time.monotonic() - began
            return Verdict(0, "heuristic", f"no solver found a solution within {spent:.1f} s")
        states.append(mine)
    request = pilot_request(rows, _LANES, limits.threads, share(limits.deadline, 0.3, 10.0))
    mixed = measure(Chains.given(part.problem, request, states))
    agreement = Agreement(None)
    if mixed.mixed and len(part.problem.program.order) < part.formula.n_total:
        # Sweeps skip extremal components. That is right after resampling, but not after a solver.
        agreement = Agreement(None, 0.0, "some variables keep the value that the solver gave them")
    elif mixed.mixed:
        agreement = _compared(_kinds(part, rows, limits), mixed)
    else:  # more sweeps would not help
        mixed = replace(mixed, sweeps=mixed.lag)
    begin = f"{mixed.sweeps} sweeps from solutions of {solver}"
    verdict = _verdict(mixed, agreement, begin, states)
    verdict.more["starts"] = min(len(mine) for mine in states)
    return verdict


def _kinds(part: Part, rows: np.ndarray, limits: Limits) -> list[Chains]:
    """Chains from solutions of a solver with shifted preferences, and with the opposite shift."""
    request = pilot_request(rows, _LANES, limits.threads, share(limits.deadline, 0.3, 10.0))
    kinds: list[Chains] = []
    for k, sign in enumerate((1.0, -1.0)):
        now = time.monotonic()
        until = share(limits.deadline, 0.2, 10.0) or now
        states = []
        for c, theta in enumerate(rows):
            end = now + (until - now) * (c + 1) / len(rows)
            preferences = theta + sign * SHIFTS[0] * signs(part.problem.n)
            seed = SEED + 9 * (k + 1) + c
            states.append(starts.find(part.problem, preferences, _STARTS, seed, end)[0])
        if any(not len(mine) for mine in states):
            break
        asked = replace(request, seed=request.seed + 1 + k)
        kinds.append(Chains.given(part.problem, asked, states))
    return kinds


def _verdict(mixed: Mixing, agreement: Agreement, begin: str, states: list[np.ndarray]) -> Verdict:
    """The verdict in words; `more` holds the numbers."""
    more: dict[str, Any] = {
        "rho": mixed.rho,
        "lag": mixed.lag,
        "moved": mixed.moved,
        "drift": mixed.drift,
        "noise": mixed.noise,
    }
    drift = (
        f"marginals moved by {mixed.moved:.2g} over the first {mixed.lag} sweeps, by "
        f"{mixed.drift:.2g} over the next (noise {mixed.noise:.2g})"
    )
    agreed = mixed.mixed and agreement.agree is True
    told = f"{mixed}; {drift}"
    if mixed.mixed:
        more["agreement"] = agreement.worst if agreement.agree is not None else None
        if agreement.agree is None:
            told += f"; other starts were not checked: {agreement.why}"
        else:
            told += f"; {agreement.why}"
            told += "" if agreement.agree else ": parts of the valid space are cut off"
    return Verdict(
        mixed.sweeps, "asymptotic" if agreed else "heuristic", f"{begin} ({told})", more, states
    )
