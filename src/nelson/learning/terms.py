"""Learning potentials over several variables.

    P(x) ~ exp(theta . x + sum_S c_S prod_{i in S} x_i) C(x)

Variables and products are the sufficient statistics, so the loop runs on the lifted formula
(`nelson.formula.polynomial`): one moment for each variable and each product. Samples are not
drawn from the lifted formula, since its gate variables cannot move alone. `nelson.heat_bath`, whose
moves know the terms, draws from the formula itself; the products are then computed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from nelson.distribution.heat_bath import heat_bath
from nelson.errors import FormulaError
from nelson.formula import Formula
from nelson.formula.polynomial import Lifted, Polynomial, lift
from nelson.learning.data import Examples
from nelson.learning.draw import Custom
from nelson.sampling.samples import Samples


def lifted(formula: Formula, terms: Iterable[Iterable[int]]) -> Lifted:
    """The lifted formula of the products to learn: [(1, 2), (2, 3, 5)], variables from 1."""
    monomials = [tuple(sorted({int(v) for v in term})) for term in terms]
    for monomial in monomials:
        if len(monomial) < 2 or monomial[0] < 1 or monomial[-1] > formula.n_vars:
            raise FormulaError(
                f"term {monomial}", expected=f"two or more variables in 1..{formula.n_vars}"
            )
    if not monomials:
        raise FormulaError("no terms", expected="products such as (1, 2)")
    return lift(formula, dict.fromkeys(monomials, 1.0))


def coefficients(shape: Lifted, theta: np.ndarray) -> dict[tuple[int, ...], float]:
    """The coefficient of each product: the entries of theta after the first n."""
    return dict(zip(shape.monomials, theta[shape.n :].tolist(), strict=True))


def completed(shape: Lifted, x: Samples) -> Samples:
    """Samples over the variables -> samples over variables and products."""
    whole = shape.completed(x.packed)
    return replace(x, packed=whole, variables=tuple(range(1, shape.formula.n_vars + 1)))


def completed_examples(shape: Lifted, examples: Examples) -> Examples:
    return replace(examples, packed=shape.completed(examples.packed), names=None)


def sampler_of(formula: Formula, shape: Lifted, sweeps: int | None, threads: int | None) -> Custom:
    """The sampler of the loop: (lifted formula, theta, m, seed) -> completed samples."""

    def draw(_: Formula, theta: np.ndarray, m: int, seed: int) -> Any:
        phi = Polynomial(coefficients(shape, theta))
        n = shape.n
        drawn = heat_bath(formula, phi, theta[:n], m, sweeps=sweeps, seed=seed, threads=threads)
        return completed(shape, drawn)

    return draw
