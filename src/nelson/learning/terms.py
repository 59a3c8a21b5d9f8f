"""Learning potentials over several variables.

    P(x) ~ exp(theta . x + sum_S c_S prod_{i in S} x_i) C(x)

Variables and products are the sufficient statistics, so the loop runs on the lifted formula
(`nelson.formula.polynomial`): one moment for each variable and each product. Where the lifted
formula can be enumerated or compiled, samples are exact. Elsewhere they come from chains on the
formula itself, whose moves know the terms (`persistent.py`); the products are then computed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from nelson.distribution.heat_bath import heat_bath
from nelson.errors import FormulaError
from nelson.exact.compiled import Compiled, compiled, not_worth_a_try
from nelson.exact.enumerated import Enumerated, enumerated
from nelson.formula import Formula
from nelson.formula.polynomial import Lifted, Polynomial, lift
from nelson.io.progress import phase
from nelson.kernels.core.bits import pack
from nelson.learning.data import Examples
from nelson.learning.draw import Kept
from nelson.learning.penalised import LogZ
from nelson.learning.pseudo import first_point
from nelson.log_z import log_partition
from nelson.log_z.annealed import Quick, quick
from nelson.log_z.moments import FEW
from nelson.log_z.result import LogPartition
from nelson.log_z.walk import Fields
from nelson.sampling.problem import prepare
from nelson.sampling.samples import Samples

#: The word for all pairs of variables in different fields.
PAIRS = "pairs"
#: Most pairs that `PAIRS` may stand for.
_MAX_PAIRS = 500_000
#: Learning begins with a penalty this many times as strong as that of the pseudo-likelihood.
_STRONGER = 40.0
#: Effort to compile a lifted formula, in units of `nelson.exact.circuit.build`: about 10 s.
_EFFORT = 54.0

Source = Enumerated | Compiled


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


def all_pairs(formula: Formula) -> list[tuple[int, ...]]:
    """Pairs of variables that no rule fixes and that are not in one field."""
    n = formula.n_vars
    free = np.ones(formula.n_total, bool)
    free[np.abs(prepare(formula).fixed) - 1] = False
    apart = np.triu(Fields(formula).apart(), 1) & free[:n, None] & free[None, :n]
    count = int(apart.sum())
    if count > _MAX_PAIRS:
        raise FormulaError(
            f'terms = "pairs" of {n:,} variables: {count:,} pairs',
            expected=f"at most {_MAX_PAIRS:,}; list the pairs that matter",
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


def exact_source(lifted_formula: Formula) -> Source | None:
    """Exact moments, log Z and draws of a lifted formula; None if it neither compiles nor has few
    solutions."""
    few = enumerated(lifted_formula, FEW // max(1, lifted_formula.n_total))
    if few is not None:
        return few
    if not_worth_a_try(lifted_formula):
        return None
    with phase("compiling a circuit"):
        return compiled(lifted_formula, effort=_EFFORT)


class Exact(Kept):
    """The sampler of the loop: (lifted formula, theta, m, seed) -> exact samples."""

    unjudged = "exact"

    def __init__(self, shape: Lifted, source: Source) -> None:
        self.source = source
        self.variables = tuple(range(1, shape.formula.n_vars + 1))
        self.name = "circuit" if isinstance(source, Compiled) else "enumerate"

    def __call__(self, formula: Formula, theta: np.ndarray, m: int, seed: int) -> Samples:
        x = self.source.draw(theta[None], m, seed)[0]
        return Samples(pack(x), m, self.variables, "exact", "ok", {"method": self.name})

    def judge(self, theta: np.ndarray) -> tuple[str, str]:
        return "exact", self.source.why


def draw_with_terms(
    formula: Formula, terms: Any, theta: np.ndarray, n: int, **options: Any
) -> Samples:
    """n samples: exact where the lifted formula can be enumerated or compiled, else chains.

    Options of chains (`sweeps`, `method`) ask for chains.
    """
    if not set(options) <= {"seed", "threads"}:
        return heat_bath(formula, terms, theta, n, **options)
    shape = lift(formula, terms, theta)
    source = exact_source(shape.formula)
    if source is None:
        return heat_bath(formula, terms, theta, n, **options)
    seed = options.get("seed")
    seed = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else int(seed)
    drawn = Exact(shape, source)(shape.formula, shape.theta, n, seed)
    visible = tuple(range(1, formula.n_vars + 1))
    packed = np.ascontiguousarray(drawn.packed[:, : formula.n_vars])
    info = drawn.info | {"seed": seed, "why": source.why}
    return replace(drawn, packed=packed, variables=visible, info=info)


def log_z_of(formula: Formula, shape: Lifted, source: Source | None, starts: np.ndarray) -> LogZ:
    """log Z of the law at a theta of the lifted formula, for validation. starts: likely rows."""

    def exact(theta: np.ndarray, seed: int) -> Quick:
        assert source is not None
        return Quick(float(source.log_z(theta[None])[0]), 0.0, True)

    def base(at: np.ndarray) -> LogPartition:
        return log_partition(formula, at, seed=0)

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
    found = first_point(formula, x, valid, wanted, None if l1 is None else 2 * l1, _STRONGER)
    theta = np.zeros(shape.formula.n_vars)
    theta[:n] = found.theta
    at = n + np.array([k for k, m in enumerate(shape.monomials) if len(m) == 2], np.int64)
    theta[at] = found.table[pairs[:, 0], pairs[:, 1]]
    return theta, found.l1 / 2 if l1 is None else l1
