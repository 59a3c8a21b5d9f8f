"""The theta of greatest likelihood for given values and pairs.

The log-likelihood of n rows, n (theta . mu - log Z(theta)), is concave. Its gradient is n (mu - E),
where mu are the shares of the features in the data and E those under the model.

Where exact moments are known (all legal rows are enumerated, or a circuit is compiled), L-BFGS
climbs it in coordinates in which the covariance of the data is the identity. Near the maximum the
covariance of the model is close to that of the data, so that about 20 steps are enough. Elsewhere
the loop of `nelson.learn` does the same with samples.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from nelson.budget import Budget
from nelson.chains.guarantee import weakest
from nelson.exact.compiled import why_not
from nelson.exact.law import Law
from nelson.formula import Formula
from nelson.io.progress import phase
from nelson.learning.data import Targets
from nelson.learning.loop import run
from nelson.learning.newton import NewtonSteps
from nelson.learning.optimizers import Newton
from nelson.learning.optimum import minimise
from nelson.log_z.moments import moments_of
from nelson.policy import DEFAULT, Policy
from nelson.sampling.options import Options
from nelson.sampling.plan import Plan
from nelson.space.clauses.gates import TRUE
from nelson.space.language.expressions import Rule
from nelson.space.law import circuit_of
from nelson.space.rows import Rows
from nelson.space.tables.potential import Potential

if TYPE_CHECKING:
    from nelson.space.space import Space

#: Rows from which the covariance of the data is estimated. It only scales the steps.
COVARIANCE_ROWS = 20_000
#: Added to the variance of each feature: pairs that no legal row has never vary.
_RIDGE = 1e-9


@dataclass(frozen=True, eq=False)
class TableProblem:
    """A potential over the legal rows of a space, as theta on literals of a formula."""

    potential: Potential
    formula: Formula
    literals: np.ndarray  # (k,): the literal of each feature
    source: Law | None  # of exact moments
    seed: int
    policy: Policy = DEFAULT

    @classmethod
    def of(
        cls,
        space: Space,
        potential: Potential,
        seed: int,
        budget: Budget | None = None,
        policy: Policy = DEFAULT,
    ) -> TableProblem:
        budget = budget or Budget()
        with budget.enforced():
            formula, literals = space.encoding.extended(potential.rules)
        with phase("compiling a circuit"):
            # `moments_of` alone spends less on a circuit.
            circuit_of(formula, budget)
            source = moments_of(formula, budget=budget.share(policy.fit.exact_share))
        return cls(potential, formula, np.array(literals, np.int64), source, seed, policy)

    @property
    def why_not(self) -> str:
        """Why there are no exact moments."""
        return why_not(self.formula) or "the space looks too entangled for a circuit"

    @cached_property
    def variables(self) -> np.ndarray:
        """Features whose literal is not constant: (k,) bool."""
        return np.abs(self.literals) != TRUE

    def log_odds(self, theta: np.ndarray) -> np.ndarray:
        """theta of the features (k,) -> theta of the variables (n_vars,)."""
        out = np.zeros(self.formula.n_vars)
        used = self.variables
        np.add.at(out, np.abs(self.literals[used]) - 1, np.sign(self.literals[used]) * theta[used])
        return out

    def offset(self, theta: np.ndarray) -> float:
        """log sum exp(theta . features) minus log Z of the formula: [not x] is 1 - x."""
        return float(theta[(self.literals < 0) & self.variables | (self.literals == TRUE)].sum())

    def log_z(self, theta: np.ndarray) -> float:
        assert self.source is not None
        return float(self.source.log_z(self.log_odds(theta)[None])[0]) + self.offset(theta)

    def mean(self, theta: np.ndarray) -> tuple[np.ndarray, str]:
        """(the share of each feature (k,), guarantee)."""
        if self.source is None:
            return self._sampled_mean(theta)
        mean = self.source.mean(self.log_odds(theta)[None])[0]
        at = mean[np.where(self.variables, np.abs(self.literals) - 1, 0)] if len(mean) else 0.0
        share = np.where(self.literals > 0, at, 1 - at)
        return np.where(self.variables, share, self.literals == TRUE), "exact"

    def _sampled_mean(self, theta: np.ndarray, m: int = 1 << 16) -> tuple[np.ndarray, str]:
        """`mean` from m samples."""
        if not self.variables.any():
            return (self.literals == TRUE).astype(float), "exact"
        used = np.unique(np.abs(self.literals[self.variables]))
        seed = int(np.random.SeedSequence([self.seed, 100]).generate_state(1)[0])
        options = Options(project=used, seed=seed)
        samples = Plan(self.formula, self.log_odds(theta), options).sample(m)
        place = np.searchsorted(used, np.abs(self.literals)).clip(0, len(used) - 1)
        x = samples.to_numpy()[:, place] ^ (self.literals < 0)
        return np.where(self.variables, x.mean(axis=0), self.literals == TRUE), samples.guarantee


@dataclass(frozen=True, eq=False)
class Fitted:
    """theta (k,), the shares that it gives to the features, and how good it is."""

    problem: TableProblem
    theta: np.ndarray
    shares: np.ndarray
    guarantee: str
    converged: bool
    why: str

    @property
    def potential(self) -> Potential:
        return self.problem.potential

    @cached_property
    def log_z(self) -> float:
        return self.problem.log_z(self.theta)

    @cached_property
    def weights(self) -> dict[Rule, float]:
        """What `Space.sample` takes: the law as factors on rules."""
        return dict(zip(self.potential.rules, np.exp(self.theta).tolist(), strict=True))

    def draw(self, space: Space, n: int, **options: Any) -> Rows:
        """n rows of the model."""
        return space.sample(n, weights=self.weights, **options)

    def log_prob(self, rows: Mapping[str, np.ndarray], n: int) -> np.ndarray:
        """log P of legal rows of levels, (n,)."""
        return self.potential.score(self.theta, rows, n) - self.log_z


@dataclass(frozen=True)
class Prior:
    """Pseudo-examples that are mixed into the data. They keep theta finite.

    uniform      from the uniform law over legal rows: a value that does not occur stays possible
    independent  from the law without pairs: a pair of values that does not occur stays possible
    """

    uniform: float
    independent: float


def fit(
    problem: TableProblem,
    rows: Mapping[str, np.ndarray],
    n: int,
    prior: Prior,
    singles: Fitted | None = None,
    known: Fitted | None = None,
    budget: Budget | None = None,
) -> Fitted:
    """Fit n rows of levels. singles: the law without pairs, if there are pairs. known: a model with
    some of the pairs to start from; None: singles.
    """
    potential, budget = problem.potential, budget or Budget()
    data = potential.vector(potential.counts(rows, potential.blocks)) / max(1, n)
    size = len(data)
    uniform, guarantee = problem.mean(np.zeros(size))
    base, alone, weight = np.zeros(size), uniform, 0.0
    if singles is not None:
        base, weight = _carried(potential, singles), prior.independent
        alone, other = problem.mean(base)
        guarantee = weakest([guarantee, other])
    total = n + prior.uniform + weight
    mu = (n * data + prior.uniform * uniform + weight * alone) / total
    first, has = base, alone
    if known is not None:
        first = _carried(potential, known)
        has = problem.mean(first)[0]
    spread = (prior.uniform * uniform * (1 - uniform) + weight * alone * (1 - alone)) / total
    if not size:
        return Fitted(problem, mu, mu, guarantee, True, "exact: there is no theta to learn")
    start = _start(potential, first, has, mu)
    if problem.source is not None:
        return _climb(problem, mu, n, start, _scales(potential, rows, n, spread), budget)
    found = _sampled(problem, mu, n, start, budget)
    return replace(found, guarantee=weakest([found.guarantee, guarantee]))


def _carried(potential: Potential, known: Fitted) -> np.ndarray:
    """The theta of another model, for the blocks that both have; 0 for others."""
    out = np.zeros(len(potential.features))
    for names, place in known.potential.places.items():
        if names in potential.places:
            out[potential.places[names]] = known.theta[place]
    return out


def _start(
    potential: Potential, base: np.ndarray, alone: np.ndarray, mu: np.ndarray, most: float = 8.0
) -> np.ndarray:
    """log(wanted share / share under `base`) for each block that `base` leaves out, +-most."""
    wanted, has = potential.completed(mu), potential.completed(alone)
    tables = {}
    for names, table in wanted.items():
        known = bool(base[potential.places[names]].any())
        ratio = np.log(table.clip(1e-12) / has[names].clip(1e-12)).clip(-most, most)
        tables[names] = np.zeros_like(ratio) if known else np.where(has[names] < 1e-12, 0.0, ratio)
    return base + potential.relative(tables)


def _scales(
    potential: Potential,
    rows: Mapping[str, np.ndarray],
    n: int,
    spread: np.ndarray,
    most: int = 3000,
) -> np.ndarray:
    """A with A A^T near the inverse covariance of the features: (k, k), or (k,) of the variances
    alone if there are more than `most` features."""
    step = max(1, n // COVARIANCE_ROWS)
    if len(spread) > most:
        share = potential.vector(potential.counts(rows, potential.blocks)) / max(1, n)
        return 1 / np.sqrt(share * (1 - share) + spread + _RIDGE)
    return _inverse_root(covariance(potential, rows, step) + np.diag(spread))


def covariance(potential: Potential, rows: Mapping[str, np.ndarray], step: int = 1) -> np.ndarray:
    """Cov of the features over every step-th row, (k, k)."""
    x = potential.design({name: column[::step] for name, column in rows.items()})
    x -= x.mean(axis=0)
    return x.T @ x / max(1, len(x))


def _inverse_root(matrix: np.ndarray) -> np.ndarray:
    from scipy.linalg import cholesky, solve_triangular

    size = len(matrix)
    lower = cholesky(matrix + _RIDGE * np.eye(size), lower=True)
    return solve_triangular(lower, np.eye(size), lower=True).T


def _climb(
    problem: TableProblem,
    mu: np.ndarray,
    n: int,
    start: np.ndarray,
    scale: np.ndarray,
    budget: Budget,
) -> Fitted:
    assert problem.source is not None

    def moved(y: np.ndarray) -> np.ndarray:
        return start + (scale * y if scale.ndim == 1 else scale @ y)

    def gradient(y: np.ndarray) -> np.ndarray:
        gap = problem.mean(moved(y))[0] - mu
        return scale * gap if scale.ndim == 1 else scale.T @ gap

    size, policy = len(mu), problem.policy.fit
    tolerance = math.sqrt(2 * policy.close / max(1, n) / size)
    with phase(f"fitting {size} numbers"):
        end = minimise(gradient, np.zeros(size), tolerance=tolerance, budget=budget)
    theta = moved(end.at)
    missing = 0.5 * max(1, n) * float(end.gradient @ end.gradient)
    converged = missing <= policy.converged
    why = f"{problem.source.why}; "
    why += (
        f"the log-likelihood of the {n:,} rows is at its maximum, within {missing:.1g} nats"
        if converged
        else f"stopped about {missing:.2g} nats below the maximum of the log-likelihood"
        + (": the time was up" if budget.spent else "")
    )
    return Fitted(problem, theta, problem.mean(theta)[0], "exact", converged, why)


def _sampled(
    problem: TableProblem, mu: np.ndarray, n: int, start: np.ndarray, budget: Budget
) -> Fitted:
    """The loop of `nelson.learn` on the variables of the features, where there is no circuit."""
    used, first = np.unique(np.abs(problem.literals) * problem.variables, return_index=True)
    first, at = first[used > 0], used[used > 0] - 1  # features may share a variable
    sign = np.sign(problem.literals[first])
    moments = np.full(problem.formula.n_vars, np.nan)
    moments[at] = np.where(sign > 0, mu[first], 1 - mu[first])
    learner = NewtonSteps(
        problem.formula,
        Targets.of(moments, max(1, n)),
        Newton(prior=0.0, bound=30.0, iterations=100),
        problem.log_odds(start),
    )
    with phase("fitting with samples"):
        outcome = run(learner, seed=problem.seed, budget=budget)
    theta = np.zeros(len(mu))
    theta[first] = sign * learner.result()[at]
    shares, kind = problem.mean(theta)
    why = f"moments from samples, since {problem.why_not}; {outcome.why}"
    kinds = ["diagnosed", outcome.guarantee, kind]
    return Fitted(problem, theta, shares, weakest(kinds), outcome.converged, why)
