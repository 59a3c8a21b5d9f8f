"""The learning loop of the authors' code (jiangnanhugo/nelson-cd): ten steps downhill.

    phi(x) = sum_i t_i x_i + (1 - t_i) (1 - x_i),     t ~ N(0, 1) at the start
    t <- t - 0.5 (mean of 2 x - 1 over 100 examples - mean of 2 x - 1 over 200 samples)
    t <- t / max |t|     if max |t| > 1

The examples are the first half of a list of 200 solutions. Samples have log-odds 2 t - 1, the law
of phi. The step lowers the potential of the examples (errata 1). After ten steps the script prints
its two numbers and calls exit(), so that its next rate, 0.5 x 0.95, is never used.
"""

from __future__ import annotations

import time

import numpy as np

from nelson.formula import Formula
from nelson_paper.experiments import published
from nelson_paper.experiments.base import NOT_INSTALLED, Row
from nelson_paper.experiments.learning import warm
from nelson_paper.experiments.published_scores import published_likelihood, published_map
from nelson_paper.experiments.samplers import Entry, draw, gave_up, lacking, nothing_kept

#: Steps until the script calls exit(), and their size.
STEPS, RATE = 10, 0.5


def published_learning(
    entry: Entry, formula: Formula, examples: np.ndarray, limit: float, seed: int
) -> tuple[np.ndarray | None, str]:
    """(t, (n,), "") after all steps, or (None, why not)."""
    t = np.random.default_rng([seed, 70]).standard_normal(formula.n_vars)
    data, until = 2.0 * examples.mean(axis=0) - 1, time.monotonic() + limit
    for step in range(STEPS):
        if (left := until - time.monotonic()) <= 0:
            return None, f"the time was up after {step} steps"
        samples = draw(entry, formula, 2 * t - 1, published.SAMPLES, seed + step, left)
        if len(samples) < published.SAMPLES:
            why = samples.info.get("reason", "the time was up")
            return None, f"{why} (step {step + 1} of {STEPS})"
        t -= RATE * (data - (2.0 * samples.to_numpy().mean(axis=0) - 1))
        t /= max(1.0, np.abs(t).max())
    return t, ""


def published_row(
    entry: Entry,
    formula: Formula,
    examples: np.ndarray,
    others: np.ndarray,
    limit: float,
    seed: int,
) -> Row:
    """The two numbers that the authors' script prints for one sampler."""
    if missing := lacking(entry):
        return {"status": NOT_INSTALLED, "reason": ", ".join(missing)}
    with nothing_kept():
        warm(entry)
        started = time.monotonic()
        t, reason = published_learning(entry, formula, examples, limit, seed)
        if t is None:
            return gave_up(entry, time.monotonic() - started, limit, reason)
        theta = 2 * t - 1
        return {
            "iterations": STEPS,
            "published_likelihood": published_likelihood(theta, examples),
            # The loop lowers the potential of the examples, and the script ranks the lowest first.
            "published_map": published_map(-theta, examples, others),
        }
