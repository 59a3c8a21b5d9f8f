"""The theta of greatest likelihood for given values and pairs.

The log-likelihood of n rows, n (theta . mu - log Z(theta)), is concave. Its gradient is n (mu - E),
where mu are the shares of the features in the data and E those under the model.

Where exact moments are known (fields are eliminated one by one, all legal rows are enumerated, or
a circuit is compiled), L-BFGS climbs it in coordinates in which the covariance of the data is the
identity. Near the maximum the covariance of the model is close to that of the data, so that about
20 steps are enough. Elsewhere the loop of `nelson.learn` does the same with samples.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from nelson.budget import Budget
from nelson.chains.guarantee import weakest
from nelson.exact.compiled import why_not
from nelson.exact.law import Law
from nelson.formula import Formula
from nelson.io.progress import phase
from nelson.learning.data import Targets
from nelson.learning.loop import Loop
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
from nelson.space.tables.elimination import LevelLaw
from nelson.space.tables.potential import Potential

if TYPE_CHECKING:
    from nelson.space.space import Space

#: Rows from which the covariance of the data is estimated. It only scales the steps.
COVARIANCE_ROWS = 20_000
#: A law whose moments cost little is climbed without the covariance of more features than this.
MOST_SCALED = 150
#: The features of a pair whose covariance is inverted as a whole, at most.
MOST_IN_BLOCK = 1000
#: Added to the variance of each feature: pairs that no legal row has never vary.
_RIDGE = 1e-9


@dataclass(frozen=True, eq=False)
class TableProblem:
    """A potential over the legal rows of a space, as theta on literals of a formula; if its fields
    can be eliminated one by one (`levels`), without the formula.
    """

    space: Space
    potential: Potential
    levels: LevelLaw | None
    seed: int
    budget: Budget
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
        levels = LevelLaw.of(space, potential, policy.pairs.cost)
        problem = cls(space, potential, levels, seed, budget, policy)
        if levels is None:
            _ = problem.source  # compiled now, within the budget
        return problem

    @cached_property
    def _extended(self) -> tuple[Formula, np.ndarray]:
        with self.budget.enforced():
            formula, literals = self.space.encoding.extended(self.potential.rules)
        return formula, np.array(literals, np.int64)

    formula = property(lambda self: self._extended[0])
    #: (k,): the literal of each feature
    literals = property(lambda self: self._extended[1])

    @cached_property
    def source(self) -> LevelLaw | Law | None:
        """What gives exact moments; None: nothing does."""
        if self.levels is not None:
            return self.levels
        with phase("compiling a circuit"):
            # `moments_of` alone spends less on a circuit.
            circuit_of(self.formula, self.budget)
            share = self.policy.fit.exact_share
            return moments_of(self.formula, budget=self.budget.share(share))

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
        if self.levels is not None:
            return self.levels.log_z(theta)
        assert isinstance(self.source, Law)
        return float(self.source.log_z(self.log_odds(theta)[None])[0]) + self.offset(theta)

    def mean(self, theta: np.ndarray) -> tuple[np.ndarray, str]:
        """(the share of each feature (k,), guarantee)."""
        if self.levels is not None:
            return self.levels.mean(theta), "exact"
        if not isinstance(self.source, Law):
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
        if self.problem.levels is not None and options.keys() <= {"seed"}:
            codes = self.problem.levels.draw(self.theta, n, options.get("seed"))
            return Rows(space.fields, codes, n)
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
        scales = _scales(potential, rows, n, spread, mu, problem.levels, budget)
        return _climb(problem, mu, n, start, scales, budget)
    found = _sampled(problem, mu, n, start, budget)
    return replace(found, guarantee=weakest([found.guarantee, guarantee]))


def _carried(potential: Potential, known: Fitted) -> np.ndarray:
    """The theta of another model, for the blocks that both have; 0 for others."""
    out = np.zeros(potential.size)
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
        known = bool(base[potential.places[names]].any()) or names in potential.forms
        ratio = np.log(table.clip(1e-12) / has[names].clip(1e-12)).clip(-most, most)
        tables[names] = np.zeros_like(ratio) if known else np.where(has[names] < 1e-12, 0.0, ratio)
    return base + potential.relative(tables)


class Scales(Protocol):
    """A linear map A with A A^T near the inverse covariance of the features."""

    def moved(self, y: np.ndarray) -> np.ndarray:
        """A y."""

    def pulled(self, g: np.ndarray) -> np.ndarray:
        """A^T g."""


@dataclass(frozen=True)
class WholeScales:
    """A: (k, k), or (k,) of the variances alone."""

    matrix: np.ndarray

    def moved(self, y: np.ndarray) -> np.ndarray:
        return self.matrix * y if self.matrix.ndim == 1 else self.matrix @ y

    def pulled(self, g: np.ndarray) -> np.ndarray:
        return self.matrix * g if self.matrix.ndim == 1 else self.matrix.T @ g


@dataclass(frozen=True)
class PairScale:
    """One pair of fields: root of its inverse covariance given the values of both fields, and the
    regression of its features on those of the fields.
    """

    place: slice
    singles: np.ndarray  # places of the features of both fields
    root: np.ndarray
    regression: np.ndarray  # (features of both fields, features of the pair)


@dataclass(frozen=True)
class BlockScales:
    """A for many features: exact for each pair and its two fields, as if pairs were independent."""

    singles: list[tuple[slice, np.ndarray]]
    pairs: list[PairScale]

    @classmethod
    def of(cls, potential: Potential, mu: np.ndarray) -> BlockScales:
        tables = potential.completed(mu)
        singles, pairs = [], []
        for names, part in potential.parts.items():
            if len(names) == 1:
                p = mu[potential.places[names]]
                singles.append((part, _inverse_root(np.diag(p) - np.outer(p, p))))
            else:
                a, b = (potential.parts[(name,)] for name in names)
                at = np.concatenate([np.arange(a.start, a.stop), np.arange(b.start, b.stop)])
                pairs.append(_pair_scale(potential, names, tables[names], part, at))
        return cls(singles, pairs)

    def moved(self, y: np.ndarray) -> np.ndarray:
        out = np.empty_like(y)
        for place, root in self.singles:
            out[place] = root @ y[place]
        for pair in self.pairs:
            own = pair.root * y[pair.place] if pair.root.ndim == 1 else pair.root @ y[pair.place]
            out[pair.place] = own
            out[pair.singles] -= pair.regression @ own
        return out

    def pulled(self, g: np.ndarray) -> np.ndarray:
        out = np.empty_like(g)
        for place, root in self.singles:
            out[place] = root.T @ g[place]
        for pair in self.pairs:
            own = g[pair.place] - pair.regression.T @ g[pair.singles]
            out[pair.place] = pair.root * own if pair.root.ndim == 1 else pair.root.T @ own
        return out


def _pair_scale(
    potential: Potential, names: tuple[str, ...], table: np.ndarray, place: slice, at: np.ndarray
) -> PairScale:
    """From the shares of all combinations of two fields."""
    rows, columns = (
        np.delete(np.arange(k), potential.reference[n])
        for n, k in zip(names, table.shape, strict=True)
    )
    inner = table[np.ix_(rows, columns)]
    t, p, q = inner.ravel(), table.sum(1)[rows], table.sum(0)[columns]
    both = np.block([[np.diag(p), inner], [inner.T, np.diag(q)]])
    single = np.concatenate([p, q])
    both -= np.outer(single, single)
    k, m = inner.shape
    cross = np.zeros((k + m, k * m))  # covariance with the features of the pair
    cross[np.repeat(np.arange(k), m), np.arange(k * m)] = t
    cross[k + np.tile(np.arange(m), k), np.arange(k * m)] = t
    cross -= np.outer(single, t)
    basis = potential.basis(names)
    if basis is not None:
        cross = cross @ basis
    regression = np.linalg.solve(both + 1e-7 * np.eye(k + m), cross)
    if basis is not None:
        mean = t @ basis
        left = basis.T @ (t[:, None] * basis) - np.outer(mean, mean) - cross.T @ regression
        return PairScale(place, at, _inverse_root(left + 1e-8 * np.eye(len(left))), regression)
    if k * m > MOST_IN_BLOCK:
        left = t * (1 - t) - np.einsum("ij,ij->j", regression, cross)
        return PairScale(place, at, 1 / np.sqrt(left.clip(0) + _RIDGE), regression)
    left = np.diag(t) - np.outer(t, t) - cross.T @ regression
    return PairScale(place, at, _inverse_root(left + 1e-8 * np.eye(k * m)), regression)


def _scales(
    potential: Potential,
    rows: Mapping[str, np.ndarray],
    n: int,
    spread: np.ndarray,
    mu: np.ndarray,
    levels: LevelLaw | None,
    budget: Budget,
    most: int = 3000,
) -> Scales:
    """From the covariance of the data; one by one if there are more than `most` features, or if
    there is no time for the root of a matrix.
    """
    seconds = 2e-10 * potential.freedom**3
    step = max(1, n // COVARIANCE_ROWS)
    if levels is not None and potential.freedom > MOST_SCALED:
        return BlockScales.of(potential, mu)
    if potential.freedom > most or seconds > budget.left / 4:
        share = potential.vector(potential.counts(rows, potential.blocks)) / max(1, n)
        varies = potential.reduced(share * (1 - share) + spread, power=2)
        return WholeScales(1 / np.sqrt(varies + _RIDGE))
    added = np.diag(potential.reduced(spread, power=2))
    return WholeScales(_inverse_root(covariance(potential, rows, step) + added))


def covariance(potential: Potential, rows: Mapping[str, np.ndarray], step: int = 1) -> np.ndarray:
    """Cov of the features over every step-th row, (k, k)."""
    x = potential.design({name: column[::step] for name, column in rows.items()})
    x -= x.mean(axis=0)
    return x.T @ x / max(1, len(x))


def _inverse_root(matrix: np.ndarray) -> np.ndarray:
    from scipy.linalg import cholesky, solve_triangular

    size = len(matrix)
    if size <= 64:  # SciPy would start threads
        return np.linalg.inv(np.linalg.cholesky(matrix + _RIDGE * np.eye(size))).T
    lower = cholesky(matrix + _RIDGE * np.eye(size), lower=True)
    return solve_triangular(lower, np.eye(size), lower=True).T


def _climb(
    problem: TableProblem,
    mu: np.ndarray,
    n: int,
    start: np.ndarray,
    scales: Scales,
    budget: Budget,
) -> Fitted:
    assert problem.source is not None
    potential = problem.potential

    def moved(y: np.ndarray) -> np.ndarray:
        return start + potential.expanded(scales.moved(y))

    def gradient(y: np.ndarray) -> np.ndarray:
        return scales.pulled(potential.reduced(problem.mean(moved(y))[0] - mu))

    size, policy = potential.freedom, problem.policy.fit
    nats = max(1.0, size / 20)  # the noise of k numbers is k / 2 nats
    tolerance = math.sqrt(2 * policy.close * nats / max(1, n) / size)
    with phase(f"fitting {size} numbers"):
        end = minimise(gradient, np.zeros(size), tolerance=tolerance, budget=budget)
    theta = moved(end.at)
    missing = 0.5 * max(1, n) * float(end.gradient @ end.gradient)
    converged = missing <= policy.converged * nats
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
        outcome = Loop(learner, seed=problem.seed, budget=budget).outcome()
    theta = np.zeros(len(mu))
    theta[first] = sign * learner.result()[at]
    shares, kind = problem.mean(theta)
    why = f"moments from samples, since {problem.why_not}; {outcome.why}"
    kinds = ["diagnosed", outcome.guarantee, kind]
    return Fitted(problem, theta, shares, weakest(kinds), outcome.converged, why)
