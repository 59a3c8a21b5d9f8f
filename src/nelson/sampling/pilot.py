"""How many constraints `lovasz` resamples for one sample: by Theorem 2, or by a pilot run."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nelson.errors import Unsatisfiable
from nelson.theory import local_lemma

if TYPE_CHECKING:
    from nelson.formula import Formula

BATCHES = 8  # their spread gives the standard error
SECONDS = 5.0  # after which no new batch is begun, once there are two
LIMIT = 20.0  # for one batch; the first one may have to compile


@dataclass(frozen=True)
class Work:
    """E[resampled constraints] of `lovasz` for one sample (constraints, not rounds).

    how is "enumerated" (Theorem 2), "pilot run of ... samples", or why there is no value.
    equality: Theorem 2 applies, so the value is, or estimates, sum_j q_j / q_empty.
    """

    value: float | None
    standard_error: float | None
    how: str
    equality: bool = False


Found = tuple[Work, bool | None, str]


def expected_work(
    f: Formula, rest: Formula, theta: np.ndarray | None, extremal: bool, pilot: bool, seed: int
) -> Found:
    """(work, satisfiable, why): finding the work may decide satisfiability on the way.

    rest is what unit propagation leaves of f, less unit clauses; extremal says whether that is.
    """
    if rest.n_clauses == 0:
        return Work(0.0, 0.0, "enumerated", True), True, "unit propagation leaves no clause"
    value = local_lemma.expected_resamplings(rest, theta)
    if value == math.inf:
        return Work(math.inf, None, "enumerated", extremal), False, "enumerated"
    if extremal and value is not None:
        return Work(value, 0.0, "enumerated", True), True, "enumerated"
    found = (None, "not decided here") if value is None else (True, "enumerated")
    if not pilot:
        return Work(None, None, "no pilot run asked for"), *found
    try:
        work, drawn = pilot_run(f, theta, seed)
    except Unsatisfiable as error:
        return Work(math.inf, None, str(error), extremal), False, str(error)
    if drawn and value is None:
        found = True, drawn
    return Work(work.value, work.standard_error, work.how, extremal), *found


def pilot_run(f: Formula, theta: np.ndarray | None, seed: int) -> tuple[Work, str]:
    """Mean resampled constraints a sample over independent batches, with its standard error.

    Also what it proves on satisfiability: a sample was drawn, a solver found one, or "".
    """
    from nelson import sample

    size = int(np.clip(20_000_000 // max(f.literals.size, 1) // 64 * 64, 64, 2048))
    # Rounds enough that time, not rounds, ends a pilot: leaving out slow samples would bias it.
    how: dict[str, Any] = {"method": "lovasz", "sweeps": 0, "max_rounds": 1_000_000}
    means: list[float] = []
    proof = ""
    began = time.monotonic()
    while len(means) < BATCHES:
        if len(means) > 1 and time.monotonic() - began > SECONDS:
            break
        s = sample(f, theta, size, seed=seed + len(means), seconds=LIMIT, **how)
        if len(s):
            proof = "a sample was drawn"
        elif s.info.get("solver") == "satisfiable":
            proof = "a solver found one"
        if s.status != "ok":
            return Work(None, None, f"pilot run: {s.info.get('reason', 'budget')}"), proof
        means.append(s.info["resampled"] / size)
    error = float(np.std(means, ddof=1) / math.sqrt(len(means)))
    return Work(float(np.mean(means)), error, f"pilot run of {len(means) * size} samples"), proof
