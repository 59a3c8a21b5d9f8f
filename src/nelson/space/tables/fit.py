"""The theta of greatest likelihood for given values and pairs.

The log-likelihood of n rows, n (theta . mu - log Z(theta)), is concave. Its gradient is n (mu - E),
where mu are the shares of the features in the data and E those under the model.

Where exact moments are known (all legal rows are enumerated, or a circuit is compiled), L-BFGS
climbs it in coordinates in which the covariance of the data is the identity. Near the maximum the
covariance of the model is close to that of the data, so that about 20 steps are enough. Elsewhere
Newton steps with samples do the same.
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
from nelson.learning.convex import minimise
from nelson.log_z.moments import moments_of
from nelson.sampling.guarantee import weakest
from nelson.sampling.options import Options
from nelson.sampling.sample_stream import draw
from nelson.space.clauses.gates import TRUE
from nelson.space.language.expressions import Rule
from nelson.space.law import circuit_of
from nelson.space.rows import Rows
from nelson.space.tables.potential import Potential

if TYPE_CHECKING:
    from nelson.space.space import Space

#: The climb ends when the log-likelihood of all rows is this close to its maximum, in nats.
_CLOSE = 1e-4
#: A fit counts as converged if it is this close. The noise of k numbers is k / 2 nats.
_CONVERGED = 1e-2
_MAX_STEPS = 500
#: Rows from which the covariance of the data is estimated. It only scales the steps.
COVARIANCE_ROWS = 20_000
#: With more features the variances alone scale the steps.
_MAX_COVARIANCE = 3000
#: Added to the variance of each feature: pairs that no legal row has never vary.
_RIDGE = 1e-9
#: First theta of a pair, at most.
_MAX_START = 8.0
# Where there is no circuit, samples give the moments.
_SAMPLES = 1 << 16  # for the moments of a given theta
_FIRST_SAMPLES = 1 << 12  # of the first Newton steps
_MOST_SAMPLES = 1 << 18
_AVERAGED = 8  # steps whose mean is the result
_MAX_ITERATIONS = 100
_MAX_MOVE = 4.0  # of a theta in one step
_SMALL_STEP = 1e-3  # a shorter step is not cut any further
_BOUND = 30.0  # of |theta|


@dataclass(frozen=True, eq=False)
class Problem:
    """A potential over the legal rows of a space, as theta on literals of a formula."""

    potential: Potential
    formula: Formula
    literals: np.ndarray  # (k,): the literal of each feature
    source: Enumerated | Compiled | None  # of exact moments
    seed: int

    @classmethod
    def of(cls, space: Space, potential: Potential, seed: int, until: float = math.inf) -> Problem:
        formula, literals = space.extended(potential.rules)
        with phase("compiling a circuit"):
            left = None if math.isinf(until) else max(1.0, until - time.monotonic())
            circuit_of(formula, left)  # `moments_of` alone has less patience
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
        if self.source is None:
            x, guarantee = self.drawn(theta, _SAMPLES, _MAX_ITERATIONS)
            return x.mean(axis=0), guarantee
        mean = self.source.mean(self.log_odds(theta)[None])[0]
        at = mean[np.where(self.variables, np.abs(self.literals) - 1, 0)] if len(mean) else 0.0
        share = np.where(self.literals > 0, at, 1 - at)
        return np.where(self.variables, share, self.literals == TRUE), "exact"

    def drawn(self, theta: np.ndarray, m: int, k: int) -> tuple[np.ndarray, str]:
        """(the features of about m samples (m, k) bool, guarantee); k: number of the draw."""
        if not self.variables.any():
            return np.tile(self.literals == TRUE, (m, 1)), "exact"
        used = np.unique(np.abs(self.literals[self.variables]))
        seed = int(np.random.SeedSequence([self.seed, k]).generate_state(1)[0])
        samples = draw(self.formula, self.log_odds(theta), m, Options(project=used, seed=seed))
        x = samples.to_numpy()[
            :, np.searchsorted(used, np.abs(self.literals)).clip(0, len(used) - 1)
        ]
        x = np.where(self.variables, x ^ (self.literals < 0), self.literals == TRUE)
        return x, samples.guarantee


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
    first, has = base, alone
    if known is not None:
        first = _carried(potential, known)
        has = problem.mean(first)[0]
    spread = (prior.uniform * uniform * (1 - uniform) + weight * alone * (1 - alone)) / total
    if not size:
        return Fitted(problem, mu, mu, guarantee, True, "exact: there is no theta to learn")
    start = _start(potential, first, has, mu)
    if problem.source is not None:
        return _climb(problem, mu, n, start, _scales(potential, rows, n, spread), until)
    curve = covariance(potential, rows, max(1, n // COVARIANCE_ROWS)) + np.diag(spread)
    found = _sampled(problem, mu, n, start, curve, until)
    return replace(found, guarantee=weakest([found.guarantee, guarantee]))


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
    assert problem.source is not None

    def moved(y: np.ndarray) -> np.ndarray:
        return start + (scale * y if scale.ndim == 1 else scale @ y)

    def back(g: np.ndarray) -> np.ndarray:
        return scale * g if scale.ndim == 1 else scale.T @ g

    def loss(y: np.ndarray) -> tuple[float, np.ndarray]:
        theta = moved(y)
        return problem.log_z(theta) - float(theta @ mu), back(problem.mean(theta)[0] - mu)

    size = len(mu)
    close = math.sqrt(2 * _CLOSE / max(1, n) / size)
    with phase(f"fitting {size} numbers"):
        found = minimise(loss, np.zeros(size), tolerance=close, iterations=_MAX_STEPS, until=until)
    theta = moved(found.at)
    shares = problem.mean(theta)[0]
    gap = back(shares - mu)
    missing = 0.5 * max(1, n) * float(gap @ gap)
    converged = missing <= _CONVERGED
    why = f"{problem.source.why}; "
    why += (
        f"the log-likelihood of the {n:,} rows is at its maximum, within {missing:.1g} nats"
        if converged
        else f"stopped about {missing:.2g} nats below the maximum of the log-likelihood"
        + (": the time was up" if time.monotonic() > until else "")
    )
    return Fitted(problem, theta, shares, "exact", converged, why)


def _sampled(
    problem: Problem,
    mu: np.ndarray,
    n: int,
    start: np.ndarray,
    data: np.ndarray,
    until: float,
) -> Fitted:
    """Newton steps with samples, where there is no circuit.

    The curvature is the mean of two covariances, that of the data and that of the samples. At the
    maximum both are the same. Far from it the mean is cautious on both sides: a step never divides
    by the variance of a feature that only the samples, or only the data, do not show. data: the
    covariance of the data, (k, k).

    m samples grow fourfold whenever the gap is noise. The mean of some steps at the last m is the
    result, and a fresh draw judges it.
    """
    size, kinds = len(mu), ["asymptotic"]
    theta, step, last, behind = start, np.zeros(size), math.inf, 0.0
    m, most = _FIRST_SAMPLES, min(max(4 * n, 4 * _FIRST_SAMPLES), _MOST_SAMPLES)
    ends: list[np.ndarray] = []
    converged, said = False, "the iterations were used up"
    with phase("fitting with samples"):
        for iteration in range(_MAX_ITERATIONS):
            if time.monotonic() > until:
                said = "the time was up"
                break
            x, kind = problem.drawn(theta, m, iteration)
            kinds.append(kind)
            mean = x.mean(axis=0)
            gap = mu - mean
            centred = x[:COVARIANCE_ROWS] - mean
            curve = (data + centred.T @ centred / len(centred)) / 2
            # m samples do not resolve shares below 1 / m.
            move = np.linalg.solve(curve + 2 / m * np.eye(size), gap)
            noise = 1 / len(x) + behind  # of this draw, and of the step that led here
            excess = float(gap @ move)  # `noise` times a chi-square of `size` degrees, or less
            within = excess <= noise * (size + 4 * math.sqrt(2 * size))
            if len(ends) == _AVERAGED:
                converged = within
                said = f"chi-square of a fresh draw {excess / noise:.0f}, where {size} is noise"
                if within:
                    break
                ends = []
            if excess > 2 * last + 2 * noise * size and np.abs(step).max() > _SMALL_STEP:
                step /= 2  # too far
                theta = theta - step
                continue
            last, behind = excess, 1 / len(x)
            step = move * min(1.0, _MAX_MOVE / max(float(np.abs(move).max()), 1e-300))
            if within and m < most:
                m, last = min(4 * m, most), math.inf
            elif within:
                ends.append(theta + step)
                if len(ends) == _AVERAGED:
                    theta, step = np.mean(ends, axis=0), np.zeros(size)
                    behind /= _AVERAGED
                    continue
            theta = (theta + step).clip(-_BOUND, _BOUND)
    shares, kind = problem.mean(theta)
    why = f"moments from samples, since {problem.why_not}; {said}"
    return Fitted(problem, theta, shares, weakest([*kinds, kind]), converged, why)
