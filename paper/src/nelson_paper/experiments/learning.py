"""One learning run of Algorithm 2 with any sampler inside, timed iteration by iteration.

    theta <- theta + eta (E_data[x] - mean of m samples),       m = 200, eta = 0.1, 200 examples

The loop is `nelson.learning.loop` with the settings of the preset "paper"; two runs differ only in
the sampler. The time includes reading the examples, the set-up of the sampler (a circuit, a count,
a pilot run, a child process), drawing and the update. It excludes generating the formula and the
data, and compiling our kernels, which a small run does beforehand.

    first    seconds until the first iteration is done, set-up included
    each     mean seconds of an iteration after that
    seconds  (first + (T - 1) each) / T with T = 1000: the mean time of an iteration of the paper's
             run, extrapolated if fewer than T iterations were made
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nelson.budget import Budget
from nelson.errors import BudgetExceeded
from nelson.formula import Formula
from nelson.formula.random_ksat import random_ksat
from nelson.learning.data import load_examples
from nelson.learning.loop import Loop
from nelson.learning.optimizers import PAPER
from nelson.learning.run_options import Run
from nelson.learning.steps import FirstOrder
from nelson.sampling.samples import Samples
from nelson_paper.experiments import published
from nelson_paper.experiments.base import NOT_INSTALLED, OK, Key, Row
from nelson_paper.experiments.samplers import (
    LOVASZ,
    Entry,
    draw,
    gave_up,
    get,
    lacking,
    misnumbered,
    nothing_kept,
    overhead,
)

#: Samples from which the share of valid ones is measured.
CHECKED = 1000
#: (n, L, k) of formulas on which `auto` uses all of its methods: it enumerates the first, draws
#: assignments of the second, compiles the third, sweeps the fourth and couples chains of the last.
_TWINS = ((10, 10, 5), (18, 18, 5), (60, 60, 3), (150, 225, 5), (1000, 1000, 5))
#: A run is cut into this many parts: their times say how far a time may be trusted.
_PARTS = 5
#: Samplers for which `warm` has compiled the kernels in this process.
_WARMED: set[str] = set()


class TooFewSamples(Exception):
    """A draw returned fewer samples than requested."""


@dataclass
class Fitted:
    """The result of a learning run. `theta` is None if no iteration was completed."""

    theta: np.ndarray | None  # (n,)
    iterations: int
    first: float  # seconds of the first iteration, set-up included
    each: float  # mean seconds of a later iteration
    status: str = OK
    guarantee: str = ""
    reason: str = ""  # if the status is not OK
    #: Mean seconds of a later iteration, in the fastest and the slowest fifth of the run.
    fastest: float = math.nan
    slowest: float = math.nan

    @property
    def seconds(self) -> float:
        """Mean seconds of an iteration in a run as long as the paper's."""
        return self.extrapolated(self.each)

    def extrapolated(self, each: float) -> float:
        """The same if a later iteration takes `each` seconds."""
        total = published.ITERATIONS
        return (self.first + (total - 1) * each) / total


def fit(
    entry: Entry,
    formula: Formula,
    data: np.ndarray,
    *,
    limit: float,
    loop: float | None = None,
    iterations: int = published.ITERATIONS,
    m: int = published.SAMPLES,
    eta: float = published.RATE,
    seed: int = 0,
) -> Fitted:
    """Learn for up to `iterations` or `limit` seconds, on one thread.

    loop: if given, `limit` applies to the first iteration with its set-up, and no iteration begins
    later than `loop` seconds after it. None: `limit` applies to the whole run.
    """
    ends: list[float] = []
    latest: list[np.ndarray] = []
    until = [time.monotonic() + limit]

    def drawn(formula: Formula, theta: np.ndarray, m: int, seed: int) -> Any:
        latest[:] = [theta.copy()]
        samples = draw(entry, formula, theta, m, seed, until[0] - time.monotonic())
        if len(samples) < m:
            raise TooFewSamples(samples.info.get("reason", "too few samples"))
        return samples

    # The loop draws with these and keeps their set-up. A pilot run sets the sweeps of the third.
    own = entry.name in ("auto", "lovasz", "lovasz + sweeps")
    settings = replace(PAPER, m=m, rate=eta, iterations=iterations, batch=m, sweeps=entry.sweeps)
    started = time.perf_counter()

    def done(row: dict[str, Any]) -> bool:
        ends.append(time.perf_counter() - started)
        if loop is None:
            return True
        if len(ends) == 1:
            until[0] = time.monotonic() + loop + limit  # lets the last iteration end
        return ends[-1] <= ends[0] + loop

    budget = Budget.of(limit if loop is None else limit + loop, threads=1)
    theta, guarantee, reason = None, "", ""
    try:
        learner = FirstOrder(formula, load_examples(formula, data, False), settings)
        method = entry.method if own else drawn
        outcome = Loop(
            learner, method, seed=seed, budget=budget, options=Run(callback=done)
        ).outcome()
        theta, guarantee = learner.result(), outcome.guarantee
    except (TooFewSamples, BudgetExceeded) as error:
        reason = str(error)
        theta = latest[0] if latest and ends else None
    spent = time.perf_counter() - started
    if not ends or ends[0] > limit:
        end = gave_up(entry, spent, limit, reason or "no iteration was done")
        return Fitted(None, 0, math.nan, math.nan, end["status"], reason=end["reason"])
    each = (ends[-1] - ends[0]) / (len(ends) - 1) if len(ends) > 1 else ends[0]
    parts = [float(part.mean()) for part in np.array_split(np.diff(ends), _PARTS) if len(part)]
    low, high = (min(parts), max(parts)) if len(parts) > 1 else (math.nan, math.nan)
    return Fitted(theta, len(ends), ends[0], each, OK, guarantee, "", low, high)


def learn_row(
    entry: Entry,
    formula: Formula,
    data: np.ndarray,
    *,
    limit: float,
    loop: float | None = None,
    seed: int = 0,
    iterations: int = published.ITERATIONS,
    eta: float = published.RATE,
    more: Callable[[Fitted], Row] | None = None,
) -> Row:
    """One learning run as a row: its times, and the validity of samples of the learned model.

    more: computes further fields, for runs with at least one iteration.
    """
    if missing := lacking(entry):
        return {"status": NOT_INSTALLED, "reason": ", ".join(missing)}
    with nothing_kept():
        warm(entry)
        process_start = overhead(entry)
        fitted = fit(
            entry,
            formula,
            data,
            limit=limit,
            loop=loop,
            iterations=iterations,
            eta=eta,
            seed=seed,
        )
        row: Row = {"status": fitted.status, "variables": formula.n_vars}
        if fitted.theta is None:
            return row | {"reason": fitted.reason}
        if not math.isnan(fitted.fastest):
            row |= {
                "fastest": fitted.extrapolated(fitted.fastest),
                "slowest": fitted.extrapolated(fitted.slowest),
            }
        row |= {
            "seconds": fitted.seconds,
            "first": fitted.first,
            "each": fitted.each,
            "iterations": fitted.iterations,
            "overhead": process_start,
            "guarantee": fitted.guarantee,
        }
        row |= validity(entry, formula, fitted.theta, limit, seed)
        if more is not None:
            row |= more(fitted)
    return row


def validity(
    entry: Entry, formula: Formula, theta: np.ndarray | None, limit: float, seed: int
) -> Row:
    """The share of valid samples, none dropped; None if no sample came in time."""
    samples = draw(entry, formula, theta, CHECKED, seed, limit)
    if not len(samples):
        return {"validity": None, "checked": 0}
    row = shares(entry, formula, samples)
    if entry.name == "gibbs-published":  # as the authors' script for uniform sampling has it
        uniform = draw(entry, formula, None, CHECKED, seed, limit)
        if len(uniform):
            row["uniform_validity"] = shares(entry, formula, uniform)["validity"]
    return row


def shares(entry: Entry, formula: Formula, samples: Samples) -> Row:
    """The share of valid samples; for QuickSampler also as the authors' script counts it."""
    x = samples.to_numpy()
    row: Row = {"validity": float(np.mean(formula.satisfied(x))), "checked": len(x)}
    if entry.name == "quicksampler":
        row["misnumbered"] = float(np.mean(misnumbered(formula, x)))
    return row


def prepare(key: Key) -> None:
    """Before the clock of a cell starts: compile the kernels that its sampler needs."""
    entry = get(str(key["sampler"]))
    if not lacking(entry):
        with nothing_kept():
            warm(entry)


def warm(entry: Entry) -> None:
    """Compile our kernels, or load them from disk, once per process, on other formulas."""
    if entry.name in _WARMED:
        return
    _WARMED.add(entry.name)
    for n, clauses, k in _TWINS if entry.method == "auto" else _TWINS[:1]:
        twin = random_ksat(n, clauses, k, seed=1_000_003)
        data = draw(LOVASZ, twin, None, published.EXAMPLES, 0, 60.0).to_numpy()
        fit(entry, twin, data, limit=60.0, iterations=2)
        draw(entry, twin, None, CHECKED, 0, 60.0)
