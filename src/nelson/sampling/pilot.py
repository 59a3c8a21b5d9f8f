"""How many constraints `lovasz` resamples for one sample: by Theorem 2, or by a pilot run."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from nelson.budget import Budget
from nelson.errors import Unsatisfiable
from nelson.formula import Formula
from nelson.sampling.methods import lovasz
from nelson.sampling.options import Options
from nelson.sampling.plan import Plan
from nelson.theory import local_lemma


@dataclass(frozen=True)
class ExpectedWork:
    """E[resampled constraints] of `lovasz` for one sample (constraints, not rounds).

    how: "enumerated" (Theorem 2), "pilot run of ... samples", or why there is no value.
    equality: Theorem 2 applies, so the value is, or estimates, sum_j q_j / q_empty.
    """

    value: float | None
    standard_error: float | None
    how: str
    equality: bool = False


def expected_work(
    f: Formula,
    rest: Formula,
    theta: np.ndarray | None,
    extremal: bool,
    pilot: bool,
    seed: int,
    budget: Budget,
) -> tuple[ExpectedWork, bool | None, str]:
    """(work, satisfiable, why): finding the work may decide satisfiability on the way.

    rest: f after unit propagation, without unit clauses; extremal: is `rest` extremal.
    """
    if rest.n_clauses == 0:
        return ExpectedWork(0.0, 0.0, "enumerated", True), True, "unit propagation leaves no clause"
    value = local_lemma.expected_resamplings(rest, theta)
    if value == math.inf:
        return ExpectedWork(math.inf, None, "enumerated", extremal), False, "enumerated"
    if extremal and value is not None:
        return ExpectedWork(value, 0.0, "enumerated", True), True, "enumerated"
    satisfiable = (None, "not decided here") if value is None else (True, "enumerated")
    if not pilot:
        return ExpectedWork(None, None, "no pilot run asked for"), *satisfiable
    try:
        work, drawn = pilot_run(f, theta, seed, budget.share(0.5))
    except Unsatisfiable as error:
        return ExpectedWork(math.inf, None, str(error), extremal), False, str(error)
    if drawn and value is None:
        satisfiable = True, drawn
    return ExpectedWork(work.value, work.standard_error, work.how, extremal), *satisfiable


def pilot_run(
    f: Formula, theta: np.ndarray | None, seed: int, budget: Budget, batches: int = 8
) -> tuple[ExpectedWork, str]:
    """Mean resampled constraints per sample over independent batches, with its standard error.

    Also a proof of satisfiability in words, if there is one: a sample was drawn, or a solver found
    one.
    """
    size = int(np.clip(20_000_000 // max(f.literals.size, 1) // 64 * 64, 64, 2048))
    # No limit on rounds, only on time: dropping slow samples would bias the mean.
    options = Options(method=lovasz.SAMPLER.name, sweeps=0, max_rounds=1_000_000)
    means: list[float] = []
    proof = ""
    quick = budget.within(5.0)
    while len(means) < batches:
        if len(means) > 1 and quick.spent:
            break
        seconds = budget.within(20.0).left
        s = Plan(f, theta, replace(options, seed=seed + len(means), seconds=seconds)).sample(size)
        if len(s):
            proof = "a sample was drawn"
        elif s.info.get("solver") == "satisfiable":
            proof = "a solver found one"
        if s.status != "ok":
            return ExpectedWork(None, None, f"pilot run: {s.info.get('reason', 'budget')}"), proof
        means.append(s.info["resampled"] / size)
    error = float(np.std(means, ddof=1) / math.sqrt(len(means)))
    return ExpectedWork(
        float(np.mean(means)), error, f"pilot run of {len(means) * size} samples"
    ), proof
