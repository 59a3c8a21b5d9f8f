"""Learning potentials over several variables.

    P(x) ~ exp(theta . x + sum_S c_S prod_{i in S} x_i) C(x)

Variables and products are the sufficient statistics, so the loop runs on the lifted formula
(`nelson.formula.polynomial`): one moment for each variable and each product. Where the lifted
formula can be enumerated or compiled, samples are exact. Elsewhere they come from chains on the
formula itself, whose moves know the terms (`persistent.py`); the products are then computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cached_property

import numpy as np

from nelson.budget import Budget
from nelson.chains.problem import prepare
from nelson.chains.term_chains import Fields
from nelson.errors import FormulaError
from nelson.exact.law import Law, law
from nelson.formula import Formula
from nelson.formula.polynomial import Lifted, Polynomial, lift
from nelson.kernels.core.bits import pack
from nelson.learning.data import Examples
from nelson.learning.draw import Custom, NamedSampler
from nelson.learning.learner import Unary
from nelson.learning.newton import NewtonSteps
from nelson.learning.optimizers import SGD, Newton, Optimizer, Proximal
from nelson.learning.penalised import LogZ, Penalised
from nelson.learning.persistent import Persistent
from nelson.learning.pseudo import first_point
from nelson.learning.steps import FirstOrder
from nelson.log_z import log_z
from nelson.log_z.annealing import Quick, quick
from nelson.log_z.result import LogPartition
from nelson.policy import DEFAULT
from nelson.sampling.samples import Samples

#: The word for all pairs of variables in different fields.
PAIRS = "pairs"


def lifted(formula: Formula, terms: str | Iterable[Iterable[int]]) -> Lifted:
    """The lifted formula of the products to learn: [(1, 2), (2, 3, 5)], variables from 1; or
    "pairs"."""
    if isinstance(terms, str):
        if terms != PAIRS:
            raise FormulaError(f"terms = {terms!r}", expected='"pairs", or products such as (1, 2)')
        monomials = all_pairs(formula)
    else:
        monomials = [tuple(sorted({int(v) for v in term})) for term in terms]
    for monomial in monomials:
        if len(monomial) < 2 or monomial[0] < 1 or monomial[-1] > formula.n_vars:
            raise FormulaError(
                f"term {monomial}", expected=f"two or more variables in 1..{formula.n_vars}"
            )
    if not monomials:
        raise FormulaError("no terms", expected="products such as (1, 2)")
    return lift(formula, dict.fromkeys(monomials, 1.0))


def all_pairs(formula: Formula, most: int = 500_000) -> list[tuple[int, ...]]:
    """Pairs of variables that no rule fixes and that are not in one field."""
    n = formula.n_vars
    free = np.ones(formula.n_total, bool)
    free[np.abs(prepare(formula).fixed) - 1] = False
    apart = np.triu(Fields(formula).apart(), 1) & free[:n, None] & free[None, :n]
    count = int(apart.sum())
    if count > most:
        raise FormulaError(
            f'terms = "pairs" of {n:,} variables: {count:,} pairs',
            expected=f"at most {most:,}; list the pairs that matter",
        )
    return [(int(a) + 1, int(b) + 1) for a, b in np.argwhere(apart)]


def coefficients(shape: Lifted, theta: np.ndarray) -> dict[tuple[int, ...], float]:
    """The coefficient of each product: the entries of theta after the first n."""
    return dict(zip(shape.monomials, theta[shape.n :].tolist(), strict=True))


def completed(shape: Lifted, x: Samples) -> Samples:
    """Samples over the variables -> samples over variables and products."""
    whole = shape.completed(x.packed)
    return replace(x, packed=whole, variables=tuple(range(1, shape.formula.n_vars + 1)))


def completed_examples(shape: Lifted, examples: Examples) -> Examples:
    return replace(examples, packed=shape.completed(examples.packed), names=None)


def exact_source(lifted_formula: Formula, budget: Budget | None = None) -> Law | None:
    """Exact moments, log Z and draws of a lifted formula; None if it neither compiles nor has few
    solutions."""
    limits = DEFAULT.terms
    budget = replace(budget or Budget(), effort=limits.effort).share(limits.exact_share)
    exact = law(lifted_formula, (), budget)
    return exact if isinstance(exact, Law) else None


class Exact(NamedSampler):
    """The sampler of the loop: (lifted formula, theta, m, seed) -> exact samples."""

    unjudged = "exact"

    def __init__(self, shape: Lifted, source: Law) -> None:
        self.source = source
        self.variables = tuple(range(1, shape.formula.n_vars + 1))
        self.name = source.method

    def __call__(self, formula: Formula, theta: np.ndarray, m: int, seed: int) -> Samples:
        x = self.source.draw(theta[None], m, seed)[0]
        return Samples(pack(x), m, self.variables, "exact", "ok", {"method": self.name})

    def judge(self, theta: np.ndarray) -> tuple[str, str]:
        return "exact", self.source.why


def log_z_of(formula: Formula, shape: Lifted, source: Law | None, starts: np.ndarray) -> LogZ:
    """log Z of the law at a theta of the lifted formula, for validation. starts: likely rows."""

    def exact(theta: np.ndarray, seed: int) -> Quick:
        assert source is not None
        return Quick(float(source.log_z(theta[None])[0]), 0.0, True)

    def base(at: np.ndarray) -> LogPartition:
        return log_z(formula, at, seed=0)

    def estimated(theta: np.ndarray, seed: int) -> Quick:
        phi = Polynomial(coefficients(shape, theta))
        return quick(formula, theta[: shape.n], phi, seed, base, starts)

    return estimated if source is None else exact


def start_at(
    formula: Formula, shape: Lifted, x: np.ndarray, valid: np.ndarray | None, l1: float | None
) -> tuple[np.ndarray, float]:
    """(the first theta of the lifted formula, the penalty that fits it), from the conditional laws.

    x, valid: rows (N, n) bool. The gradient of the pseudo-likelihood has two terms for each pair,
    that of the likelihood has one: the penalty is half as large.
    """
    n = shape.n
    wanted = np.zeros((n, n), bool)
    pairs = np.array([m for m in shape.monomials if len(m) == 2], np.int64).reshape(-1, 2) - 1
    wanted[pairs[:, 0], pairs[:, 1]] = wanted[pairs[:, 1], pairs[:, 0]] = True
    first = first_point(formula, x, valid, wanted, None if l1 is None else 2 * l1)
    theta = np.zeros(shape.formula.n_vars)
    theta[:n] = first.theta
    at = n + np.array([k for k, m in enumerate(shape.monomials) if len(m) == 2], np.int64)
    theta[at] = first.table[pairs[:, 0], pairs[:, 1]]
    return theta, first.l1 / 2 if l1 is None else l1


def steps_of(
    formula: Formula,
    examples: Examples,
    settings: Optimizer,
    theta0: np.ndarray | Callable[[], np.ndarray] | None,
) -> Unary:
    """The learner of an optimizer that needs no validation examples."""
    if isinstance(settings, SGD):
        return FirstOrder(formula, examples, settings, theta0)
    if isinstance(settings, Newton):
        return NewtonSteps(formula, examples, settings, theta0)
    raise FormulaError(f"{type(settings).__name__} without terms", expected="Newton, Adam or SGD")


class Products:
    """One fit with products."""

    def __init__(
        self,
        formula: Formula,
        shape: Lifted,
        examples: Examples,
        valid: Examples | None,
        settings: Optimizer,
        budget: Budget,
    ) -> None:
        self.formula, self.shape, self.settings, self.budget = formula, shape, settings, budget
        self.examples, self.valid = examples, valid
        self.source: Law | None = exact_source(shape.formula, budget)

    @cached_property
    def rows(self) -> np.ndarray:
        return self.examples.to_numpy()

    @cached_property
    def sampler(self) -> Custom:
        if self.source is not None:
            return Exact(self.shape, self.source)
        sweeps = self.settings.sweeps
        return Persistent(self.formula, self.shape, self.rows, sweeps, self.budget.threads)

    def learner(self, theta0: np.ndarray | None) -> Unary:
        """theta0: where to start, over variables and products; None: chosen."""
        shape, settings = self.shape, self.settings
        seen = completed_examples(shape, self.examples)
        if not isinstance(settings, Proximal):
            computed = theta0 is None and self.source is None
            start = (lambda: self._start(0.0)[0]) if computed else theta0
            return steps_of(shape.formula, seen, settings, start)
        valid = None if self.valid is None else completed_examples(shape, self.valid)
        l1 = settings.l1
        if l1 is None and valid is None:
            l1 = 0.0  # nothing could choose it

        def first() -> tuple[np.ndarray, float]:
            theta, penalty = self._start(l1)
            return theta if theta0 is None else theta0, penalty if l1 is None else l1

        log_z = log_z_of(self.formula, shape, self.source, self.rows)
        return Penalised(shape.formula, seen, settings, first, shape.n, valid, log_z)

    def _start(self, l1: float | None) -> tuple[np.ndarray, float]:
        valid = None if self.valid is None else self.valid.to_numpy()
        least = None if l1 is None else max(l1, 0.5 / self.examples.count)
        return start_at(self.formula, self.shape, self.rows, valid, least)
