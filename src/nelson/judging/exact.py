"""Exact marginals of P_theta(x | C), by the first of these methods that works in time.

    listed    sums over all structures
    circuit   a d-DNNF compiled by D4: one pass up and one pass down for all marginals
    count     P(x_i = 1) = Z(C and x_i) / Z(C), two weighted counts by ganak; for some variables

The first two also give joint probabilities P(x_i = x_j = 1) (a mean given x_i = 1) and the variance
of a linear score. None of them draws samples.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nelson.errors import BudgetExceeded, NelsonError, Unsatisfiable
from nelson.exact.compiled import compiled
from nelson.exact.enumerated import enumerated
from nelson.formula import Formula
from nelson.log_z import log_partition
from nelson.log_z.exact import missing
from nelson.log_z.moments import Moments

#: If there are more variables, ganak counts a random choice of them.
_MAX_COUNTED = 64
#: Budget for joint probabilities: edges of the circuit times passes over it.
_MAX_EDGES_PASSED = 400_000_000


@dataclass(frozen=True)
class ExactMoments:
    how: str
    variables: np.ndarray  # from 0: the variables whose mean is known
    mean: np.ndarray  # P(x_i = 1) of these variables
    #: (k,) variables -> (k, k): P(x_i = x_j = 1). None: unknown
    joint: Callable[[np.ndarray], np.ndarray] | None = None
    #: direction (n,) -> Var(direction . x). None: unknown
    variance: Callable[[np.ndarray], float] | None = None
    most_pairs: int = 0  # `joint` is affordable for at most this many variables


def exact_moments(
    formula: Formula, theta: np.ndarray, seed: int, deadline: float
) -> tuple[ExactMoments | None, str]:
    """(moments, ""), or (None, why not). theta (n,) finite."""
    if (listed := enumerated(formula)) is not None:
        return _all_moments(listed, theta, formula.n_vars), ""
    if (seconds := 0.4 * (deadline - time.monotonic())) <= 0:
        return None, "the time was up"
    if (circuit := compiled(formula, seconds=seconds)) is not None:
        most_pairs = _MAX_EDGES_PASSED // max(1, circuit.edges)
        return _all_moments(circuit, theta, most_pairs), ""
    return counted(formula, theta, seed, deadline)


def _all_moments(source: Moments, theta: np.ndarray, most_pairs: int) -> ExactMoments:
    mean = np.clip(source.mean(theta[None])[0], 0.0, 1.0)

    def joint(chosen: np.ndarray) -> np.ndarray:
        """P(x_i = x_j = 1) = P(x_i = 1) E[x_j | x_i = 1]."""
        out = np.zeros((len(chosen), len(chosen)))
        for k, i in enumerate(chosen):
            if mean[i] > 1e-12:  # a smaller mean is 0 up to rounding
                given = theta.copy()
                given[i] = np.inf
                out[k] = mean[i] * source.mean(given[None])[0][chosen]
        return (out + out.T) / 2

    def variance(direction: np.ndarray) -> float:
        return float(direction @ source.pull(theta[None], direction[None])[0])

    how, variables = source.why.removeprefix("exact: "), np.arange(len(theta))
    return ExactMoments(how, variables, mean, joint, variance, most_pairs)


def counted(
    formula: Formula, theta: np.ndarray, seed: int, deadline: float
) -> tuple[ExactMoments | None, str]:
    if lacking := missing("count"):
        return None, f"the formula does not compile in time, and {lacking}"

    def log_z(given: list[int]) -> float:
        left = deadline - time.monotonic()
        if left <= 0:
            raise BudgetExceeded("the time was up")
        try:
            conditioned = formula.given(given) if given else formula
            return log_partition(conditioned, theta, method="count", seconds=left).value
        except Unsatisfiable:
            return -np.inf

    try:
        total = log_z([])
    except NelsonError as error:
        return None, f"neither compiled nor counted in time: {error}"
    order = np.random.default_rng([seed, 7]).permutation(formula.n_vars)[:_MAX_COUNTED]
    variables, mean = [], []
    for i in order:
        try:
            mean.append(float(np.exp(log_z([int(i) + 1]) - total)))
        except NelsonError:
            break
        variables.append(int(i))
    if not variables:
        return None, "a single weighted count takes too long"
    how = f"weighted counts (ganak), {len(variables)} of {formula.n_vars} variables"
    return ExactMoments(how, np.array(variables), np.clip(np.array(mean), 0.0, 1.0)), ""
