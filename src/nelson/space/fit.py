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
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from nelson.exact.compiled import Compiled, why_not
from nelson.exact.enumerated import Enumerated
from nelson.formula import Formula
from nelson.io.progress import phase
from nelson.learning.data import Targets
from nelson.learning.loop import Options as LoopOptions
from nelson.learning.loop import run
from nelson.learning.newton import Newton
from nelson.learning.settings import settings_for
from nelson.log_z.moments import moments_of
from nelson.sampling.guarantee import weakest
from nelson.sampling.options import Options
from nelson.sampling.sample_stream import draw
from nelson.space.expressions import Rule
from nelson.space.gates import TRUE
from nelson.space.laws import circuit_of
from nelson.space.potential import Potential
from nelson.space.rows import Rows

if TYPE_CHECKING:
    from nelson.space.space import Space

#: The climb ends when the log-likelihood of all rows is this close to its maximum, in nats.
_CLOSE = 1e-4
_MAX_STEPS = 500
#: Steps that L-BFGS remembers.
_MEMORY = 20
#: Rows from which the covariance of the data is estimated. It only scales the steps.
COVARIANCE_ROWS = 20_000
#: With more features the variances alone scale the steps.
_MAX_COVARIANCE = 3000
#: Added to the variance of each feature: pairs that no legal row has never vary.
_RIDGE = 1e-9
#: First theta of a pair, at most.
_MAX_START = 8.0
#: Samples that estimate moments, and the bound of |theta_i|, where there is no circuit.
_SAMPLES = 1 << 16
_BOUND = 30.0


@dataclass(frozen=True, eq=False)
class Problem:
    """A potential over the legal rows of a space, as theta on literals of a formula."""

    potential: Potential
    formula: Formula
    literals: np.ndarray  # (k,): the literal of each feature
    source: Enumerated | Compiled | None  # of exact moments
    seed: int

    @classmethod
    def of(cls, space: Space, potential: Potential, seed: int) -> Problem:
        formula, literals = space.extended(potential.rules)
        with phase("compiling a circuit"):
            circuit_of(formula)  # `moments_of` has less patience
        found = np.array(literals, np.int64)
        return cls(potential, formula, found, moments_of(formula), seed)

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
        log_odds, guarantee = self.log_odds(theta), "exact"
        if self.source is not None:
            mean = self.source.mean(log_odds[None])[0]
        else:
            options = Options(project="all", seed=self.seed)
            samples = draw(self.formula, log_odds, _SAMPLES, options)
            mean, guarantee = samples.mean(), samples.guarantee
        return self.shares(mean), guarantee

    def shares(self, mean: np.ndarray) -> np.ndarray:
        """E[x] (n_vars,) -> the share of each feature (k,)."""
        at = mean[np.where(self.variables, np.abs(self.literals) - 1, 0)] if len(mean) else 0.0
        share = np.where(self.literals > 0, at, 1 - at)
        return np.where(self.variables, share, self.literals == TRUE)


@dataclass(frozen=True, eq=False)
class Fitted:
    """theta (k,), the shares that it gives to the features, and how good it is."""

    problem: Problem
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
    problem: Problem,
    rows: Mapping[str, np.ndarray],
    n: int,
    prior: Prior,
    singles: Fitted | None = None,
    known: Fitted | None = None,
    until: float = math.inf,
) -> Fitted:
    """Fit n rows of levels. singles: the law without pairs, if there are pairs. known: a model with
    some of the pairs to start from; None: singles. until: `time.monotonic()`.
    """
    potential = problem.potential
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
    if problem.source is None:
        found = _sampled(problem, mu, n, until)
        return replace(found, guarantee=weakest([found.guarantee, guarantee]))
    first, has = base, alone
    if known is not None:
        first = _carried(potential, known)
        has = problem.mean(first)[0]
    spread = (prior.uniform * uniform * (1 - uniform) + weight * alone * (1 - alone)) / total
    inverse = _scales(potential, rows, n, spread)
    return _climb(problem, mu, n, _start(potential, first, has, mu), inverse, until)


def _carried(potential: Potential, known: Fitted) -> np.ndarray:
    """The theta of another model, for the blocks that both have; 0 for others."""
    out = np.zeros(len(potential.features))
    for names, place in known.potential.places.items():
        if names in potential.places:
            out[potential.places[names]] = known.theta[place]
    return out


def _start(potential: Potential, base: np.ndarray, alone: np.ndarray, mu: np.ndarray) -> np.ndarray:
    """log(wanted share / share under `base`) for each block that `base` leaves out."""
    wanted, has = potential.completed(mu), potential.completed(alone)
    tables = {}
    for names, table in wanted.items():
        known = bool(base[potential.places[names]].any())
        ratio = np.log(table.clip(1e-12) / has[names].clip(1e-12)).clip(-_MAX_START, _MAX_START)
        tables[names] = np.zeros_like(ratio) if known else np.where(has[names] < 1e-12, 0.0, ratio)
    return base + potential.relative(tables)


def _scales(
    potential: Potential, rows: Mapping[str, np.ndarray], n: int, spread: np.ndarray
) -> np.ndarray:
    """A with A A^T near the inverse covariance of the features: (k, k), or (k,) if diagonal."""
    step = max(1, n // COVARIANCE_ROWS)
    if len(spread) > _MAX_COVARIANCE:
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
    problem: Problem,
    mu: np.ndarray,
    n: int,
    start: np.ndarray,
    scale: np.ndarray,
    until: float,
) -> Fitted:
    from scipy.optimize import minimize

    assert problem.source is not None

    def moved(y: np.ndarray) -> np.ndarray:
        return start + (scale * y if scale.ndim == 1 else scale @ y)

    def back(g: np.ndarray) -> np.ndarray:
        return scale * g if scale.ndim == 1 else scale.T @ g

    def loss(y: np.ndarray) -> tuple[float, np.ndarray]:
        theta = moved(y)
        return problem.log_z(theta) - float(theta @ mu), back(problem.mean(theta)[0] - mu)

    def in_time(intermediate_result: object) -> None:
        if time.monotonic() > until:
            raise StopIteration

    size = len(mu)
    y = np.zeros(size)
    if size:
        close = math.sqrt(2 * _CLOSE / max(1, n) / size)
        options = {"maxiter": _MAX_STEPS, "maxcor": _MEMORY, "gtol": close, "ftol": 0.0}
        with phase(f"fitting {size} numbers"):
            y = minimize(loss, y, jac=True, method="L-BFGS-B", callback=in_time, options=options).x
    theta = moved(y)
    shares = problem.mean(theta)[0]
    gap = back(shares - mu)
    missing = 0.5 * max(1, n) * float(gap @ gap)
    converged = missing <= 10 * _CLOSE
    why = f"{problem.source.why}; "
    why += (
        f"the log-likelihood of the {n:,} rows is at its maximum, within {missing:.1g} nats"
        if converged
        else f"stopped about {missing:.2g} nats below the maximum of the log-likelihood"
        + (": the time was up" if time.monotonic() > until else "")
    )
    return Fitted(problem, theta, shares, "exact", converged, why)


def _sampled(problem: Problem, mu: np.ndarray, n: int, until: float) -> Fitted:
    """The loop of `nelson.learn`, where there is no circuit."""
    moments = np.full(problem.formula.n_vars, np.nan)
    used = problem.variables & (mu > 0) & (mu < 1)  # others are not possible: theta stays 0
    literals = problem.literals[used]
    moments[np.abs(literals) - 1] = np.where(literals > 0, mu[used], 1 - mu[used])
    settings = settings_for("default", prior=0.0, bound=_BOUND)
    # Newton starts near theta = 0, where samples show every feature. Started at a law under which
    # some feature never occurs in a sample, it does not find back.
    learner = Newton(problem.formula, Targets.of(moments, n), settings, None)
    left = None if math.isinf(until) else max(1.0, until - time.monotonic())
    with phase("fitting with samples"):
        outcome = run(
            learner, LoopOptions(sampler="auto", seed=problem.seed, seconds=left, progress=False)
        )
    found = learner.result()
    assert found is not None
    theta = np.zeros(len(mu))
    # A variable that stands for several features gives its theta to the first one.
    _, first = np.unique(np.abs(literals), return_index=True)
    places = np.flatnonzero(used)[first]
    chosen = problem.literals[places]
    theta[places] = np.sign(chosen) * found[np.abs(chosen) - 1]
    shares, guarantee = problem.mean(theta)
    why = f"moments from samples, since {problem.why_not}; {outcome.why}"
    kind = weakest(["asymptotic", outcome.guarantee, guarantee])
    return Fitted(problem, theta, shares, kind, outcome.converged, why)
