"""Exact moments of P_theta(x | C): from the exact law, or some of them from an external counter.

    law       means, joint probabilities P(x_i = x_j = 1) (a mean given x_i = 1), the variance of a
              linear score
    counter   P(x_i = 1) = Z(C and x_i) / Z(C), two weighted counts by ganak; for some variables

None of them draws samples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nelson.budget import Budget
from nelson.errors import NelsonError, Unsatisfiable
from nelson.exact.counter import GanakCounter, missing
from nelson.exact.law import Law
from nelson.exact.reason import Reason
from nelson.formula import Formula


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


def exact_moments(law: Law, theta: np.ndarray) -> ExactMoments:
    """theta (n,) finite."""
    mean = np.clip(law.mean(theta[None])[0], 0.0, 1.0)

    def joint(chosen: np.ndarray) -> np.ndarray:
        """P(x_i = x_j = 1) = P(x_i = 1) E[x_j | x_i = 1]."""
        out = np.zeros((len(chosen), len(chosen)))
        for k, i in enumerate(chosen):
            if mean[i] > 1e-12:  # a smaller mean is 0 up to rounding
                given = theta.copy()
                given[i] = np.inf
                out[k] = mean[i] * law.mean(given[None])[0][chosen]
        return (out + out.T) / 2

    def variance(direction: np.ndarray) -> float:
        return float(direction @ law.pull(theta[None], direction[None])[0])

    how, variables = law.why.removeprefix("exact: "), np.arange(len(theta))
    most_pairs = 400_000_000 // max(1, law.cost)  # operations of all means
    return ExactMoments(how, variables, mean, joint, variance, most_pairs)


def counted_means(
    formula: Formula, theta: np.ndarray, seed: int, budget: Budget, most: int = 64
) -> ExactMoments | Reason:
    """Means of `most` variables, chosen at random, by ganak. theta (n,) finite."""
    if lacking := missing():
        return Reason(lacking)
    counter = GanakCounter(formula, budget)

    def log_z(given: dict[int, float]) -> float:
        row = theta.copy()
        row[list(given)] = list(given.values())
        try:
            # A variable with evidence weighs 1 in this sum.
            return float(counter.log_z(row[None])[0]) + sum(theta[i] for i in given)
        except Unsatisfiable:
            return -np.inf

    try:
        total = log_z({})
    except NelsonError as error:
        return Reason(f"not counted in time: {error}")
    order = np.random.default_rng([seed, 7]).permutation(formula.n_vars)[:most]
    variables, mean = [], []
    for i in order.tolist():
        if budget.spent:
            break
        try:
            mean.append(float(np.exp(log_z({i: np.inf}) - total)))
        except NelsonError:
            break
        variables.append(i)
    if not variables:
        return Reason("a single weighted count takes too long")
    how = f"weighted counts (ganak), {len(variables)} of {formula.n_vars} variables"
    return ExactMoments(how, np.array(variables), np.clip(np.array(mean), 0.0, 1.0))
