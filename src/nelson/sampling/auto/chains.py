"""Steps 4 and 5 of the ladder: chains in the valid space, and what their diagnostics allow to say.

A chain is called asymptotic if single variables forget their values (`mixing.py`) and if chains
that begin elsewhere come to the same marginals (`agree.py`). Else it is heuristic, and the reason
says which of the two failed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from nelson.formula.memo import Recent, Slot
from nelson.sampling.auto import starts
from nelson.sampling.auto.agree import SHIFTS, Agreement, compare, looks, shifted, signs
from nelson.sampling.auto.groups import Part, Terms
from nelson.sampling.chain import Chains, share
from nelson.sampling.mixing import SEED, Mixing, measure, mixing, pilot_request, rows_for

_AGREEMENTS: Slot[Recent[tuple[tuple[int, ...], int, int], Agreement]] = Slot("agreement of chains")
#: Starts of each kind that a solver is asked for, and chains that are run from them.
_STARTS, _LANES = 256, 1024
#: Literals above which 64 samples are tried before the pilot run, and those above which a run that
#: has a deadline makes none.
_LARGE, _HUGE = 20_000, 2_000_000


@dataclass(frozen=True)
class Verdict:
    sweeps: int
    guarantee: str
    why: str
    more: dict[str, Any] = field(default_factory=dict)  # what was measured
    starts: list[np.ndarray] = field(default_factory=list)


def by_resampling(part: Part, terms: Terms) -> Verdict | None:
    """Step 4; None if resampling does not converge, which `part.passed` then says."""
    size = len(part.formula.literals)
    if size > _HUGE and terms.deadline is not None:
        told = f"{size:,} literals are too many for a pilot run within the budget"
        return Verdict(3, "heuristic", f"3 sweeps of the valid space follow ({told})")
    large = size > _LARGE
    if large and not _converges(part, terms):
        part.passed["resampling"] = "it did not converge in a trial of 64 samples"
        return None
    found = mixing(part.problem, part.theta, terms.threads, terms.deadline)
    if not found.converged and not (large and not found.complete):
        part.passed["resampling"] = str(found) if found.complete else "the time was up in its pilot"
        return None
    agreement = _agreement(part, found, terms) if found.mixed else Agreement(None)
    swept = len(part.problem.program.order)
    begin = f"not extremal: {found.sweeps} sweeps of the valid space over {swept} variables follow"
    return _verdict(found, agreement, begin, [])


def _converges(part: Part, terms: Terms) -> bool:
    """One word of samples, for formulas on which a whole tile takes its time."""
    rows = rows_for(part.theta)
    request = pilot_request(rows, 64, terms.threads, share(terms.deadline, 0.2, 10.0))
    return 2 * Chains.resampled(part.problem, request, rows).lanes() >= 64 * len(rows)


def _agreement(part: Part, found: Mixing, terms: Terms) -> Agreement:
    rows = rows_for(part.theta)
    known = part.formula.memo.once(_AGREEMENTS, lambda: Recent(64))
    key = (part.problem.evidence, hash(rows.tobytes()), found.lag)
    if (kept := known.get(key)) is not None:
        return kept
    request = pilot_request(rows, 64, terms.threads, share(terms.deadline, 0.3))
    kinds = shifted(part.problem, request) or _kinds(part, rows, terms)
    after = looks(kinds, 2 * found.lag)
    if after is not None and found.means is not None:
        after.append(found.means)
    result = compare(after)
    return result if result.agree is None else known.put(key, result)


def from_solver(part: Part, terms: Terms) -> Verdict:
    """Step 5. Raises Unsatisfiable if the solver proved that."""
    rows, began = rows_for(part.theta), time.monotonic()
    until = share(terms.deadline, 0.4, starts.SECONDS) or began
    found: list[np.ndarray] = []
    solver = ""
    for k, theta in enumerate(rows):
        now = time.monotonic()
        mine, solver = starts.find(
            part.problem, theta, _STARTS, SEED + k, now + (until - now) / (len(rows) - k)
        )
        if not len(mine):
            spent = time.monotonic() - began
            return Verdict(0, "heuristic", f"no solver found a solution within {spent:.1f} s")
        found.append(mine)
    request = pilot_request(rows, _LANES, terms.threads, share(terms.deadline, 0.3, 10.0))
    mixed = measure(Chains.given(part.problem, request, found))
    agreement = Agreement(None)
    if mixed.mixed and len(part.problem.program.order) < part.formula.n_total:
        # Sweeps leave extremal components alone: right after resampling, not after a solver.
        agreement = Agreement(None, 0.0, "some variables keep the value that the solver gave them")
    elif mixed.mixed:
        after = looks(_kinds(part, rows, terms), 2 * mixed.lag)
        if after is not None and mixed.means is not None:
            after.append(mixed.means)
        agreement = compare(after)
    else:  # more of what does not help
        mixed = replace(mixed, sweeps=mixed.lag)
    begin = f"{mixed.sweeps} sweeps from solutions of {solver}"
    verdict = _verdict(mixed, agreement, begin, found)
    verdict.more["starts"] = min(len(mine) for mine in found)
    return verdict


def _kinds(part: Part, rows: np.ndarray, terms: Terms) -> list[Chains]:
    """Chains from solutions of a solver with other preferences, and with the opposite ones."""
    request = pilot_request(rows, _LANES, terms.threads, share(terms.deadline, 0.3, 10.0))
    kinds: list[Chains] = []
    for k, sign in enumerate((1.0, -1.0)):
        now = time.monotonic()
        until = share(terms.deadline, 0.2, 10.0) or now
        states = []
        for c, theta in enumerate(rows):
            end = now + (until - now) * (c + 1) / len(rows)
            liked = theta + sign * SHIFTS[0] * signs(part.problem.n)
            seed = SEED + 9 * (k + 1) + c
            states.append(starts.find(part.problem, liked, _STARTS, seed, end)[0])
        if any(not len(mine) for mine in states):
            break
        asked = replace(request, seed=request.seed + 1 + k)
        kinds.append(Chains.given(part.problem, asked, states))
    return kinds


def _verdict(found: Mixing, agreement: Agreement, begin: str, states: list[np.ndarray]) -> Verdict:
    """In words; `more` holds the numbers."""
    more: dict[str, Any] = {
        "rho": found.rho,
        "lag": found.lag,
        "moved": found.moved,
        "drift": found.drift,
        "noise": found.noise,
    }
    drift = (
        f"marginals moved by {found.moved:.2g} over the first {found.lag} sweeps, by "
        f"{found.drift:.2g} over the next (noise {found.noise:.2g})"
    )
    good = found.mixed and agreement.agree is True
    told = f"{found}; {drift}"
    if found.mixed:
        more["agreement"] = agreement.worst if agreement.agree is not None else None
        if agreement.agree is None:
            told += f"; where chains begin was not checked: {agreement.why}"
        else:
            told += f"; {agreement.why}"
            told += "" if agreement.agree else ": parts of the valid space are cut off"
    return Verdict(
        found.sweeps, "asymptotic" if good else "heuristic", f"{begin} ({told})", more, states
    )
