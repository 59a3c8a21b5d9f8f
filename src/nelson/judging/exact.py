"""Exact marginals of P_theta(x | C), from whichever counts first.

    listed    sums over all structures
    circuit   a d-DNNF compiled by D4: one pass up, one down for all of them
    count     P(x_i = 1) = Z(C and x_i) / Z(C), two weighted counts by ganak; for some variables

The first two give joint probabilities P(x_i = x_j = 1) too (a mean given x_i = 1) and the variance
of a linear score; all of them draw nothing from the sampler under test.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nelson.errors import BudgetExceeded, NelsonError, Unsatisfiable
from nelson.exact.enumerated import Enumerated, enumerated
from nelson.formula import Formula

#: Variables that are counted one by one, at most; chosen at random where there are more.
_COUNTED = 64
#: Edges passed for joint probabilities, at most.
_PASSES = 400_000_000


@dataclass(frozen=True)
class Exact:
    """Of the law of `formula`, theta (n,) finite."""

    how: str
    variables: np.ndarray  # from 0; those whose mean is known
    mean: np.ndarray  # P(x_i = 1) of those
    #: (k,) variables -> (k, k): P(x_i = x_j = 1). None: not to be had
    joint: Callable[[np.ndarray], np.ndarray] | None = None
    #: direction (n,) -> Var(direction . x)
    variance: Callable[[np.ndarray], float] | None = None
    most_pairs: int = 0  # variables among which joints are affordable


def exact_moments(
    formula: Formula, theta: np.ndarray, seed: int, deadline: float
) -> tuple[Exact | None, str]:
    """The first that works before the deadline, and why the others did not."""
    from nelson.exact.compiled import compiled

    n = formula.n_vars
    listed = enumerated(formula)
    if listed is not None:
        return _listed(listed, theta), ""
    if (seconds := 0.4 * (deadline - time.monotonic())) <= 0:
        return None, "the time was up"
    circuit = compiled(formula, seconds=seconds)
    if circuit is not None:
        mean = circuit.mean(theta[None])[0]

        def joint(chosen: np.ndarray) -> np.ndarray:
            out = np.zeros((len(chosen), len(chosen)))
            for k, i in enumerate(chosen):
                if mean[i] > 1e-12:  # below, it is 0 but for rounding
                    given = theta.copy()
                    given[i] = np.inf
                    out[k] = mean[i] * circuit.mean(given[None])[0][chosen]
            return (out + out.T) / 2

        def variance(direction: np.ndarray) -> float:
            return float(direction @ circuit.pull(theta[None], direction[None])[0])

        most = _PASSES // max(1, circuit.edges)
        every = np.arange(n)
        return Exact(circuit.why.removeprefix("exact: "), every, mean, joint, variance, most), ""
    return _counted(formula, theta, seed, deadline)


def _listed(listed: Enumerated, theta: np.ndarray) -> Exact:
    (_, p), *_ = listed.probabilities(theta[None])
    x = listed.states.astype(np.float64)

    def joint(chosen: np.ndarray) -> np.ndarray:
        return (x[:, chosen] * p[0][:, None]).T @ x[:, chosen]

    def variance(direction: np.ndarray) -> float:
        score = x @ direction
        return float(p[0] @ (score - p[0] @ score) ** 2)

    n = x.shape[1]
    mean = np.clip(p[0] @ x, 0.0, 1.0)
    return Exact(listed.why.removeprefix("exact: "), np.arange(n), mean, joint, variance, n)


def _counted(
    formula: Formula, theta: np.ndarray, seed: int, deadline: float
) -> tuple[Exact | None, str]:
    from nelson.log_z import log_partition
    from nelson.log_z.exact import missing

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
    order = np.random.default_rng([seed, 7]).permutation(formula.n_vars)[:_COUNTED]
    variables, mean = [], []
    for i in order:
        try:
            mean.append(float(np.exp(log_z([int(i) + 1]) - total)))
        except NelsonError:
            break
        variables.append(int(i))
    if not variables:
        return None, "one count takes too long to count for every variable"
    how = f"weighted counts (ganak), {len(variables)} of {formula.n_vars} variables"
    return Exact(how, np.array(variables), np.clip(np.array(mean), 0.0, 1.0)), ""
