"""Potentials over several variables, and their single-variable form.

    phi(x) = sum_S c_S prod_{i in S} x_i          (multilinear: every function on {0,1}^n is one)
    c_S    = sum_{T subset of S} (-1)^(|S| - |T|) phi(1_T)                        (Moebius)

Each monomial of degree two or more gets a variable y_S and the clauses of y_S <-> AND_{i in S} x_i:

    (not y_S or x_i) for i in S,    (y_S or not x_i or not x_j ...)

so each x has exactly one completion, and phi(x) = constant + theta . (x, y) is a sum over single
variables. Appendix C.1 of Jiang, Gu, Xue (2023), after Sang, Beame, Kautz (2005), with three
corrections (docs/errata.md, 6-8): only the product itself carries the coefficient; this is the
multilinear and not the Fourier expansion; and the new clauses break Condition 1, since
(not y or x_1) and (not y or x_2) both fail at y = 1, x = 0: a lifted formula is not extremal.

y_S is tied to its x_i, so none of them can move alone, and heat-bath sweeps of a lifted formula are
stuck. `ConstrainedMRF` draws from it exactly if it compiles to a circuit. `method="prs"` is exact
but slow, since its resample sets spread along the new clauses. For large n do not lift: use
`nelson.sample(..., terms=...)`, whose chains take the terms into account.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nelson.errors import FormulaError
from nelson.formula import Formula
from nelson.formula.checks import checked_theta

Monomial = tuple[int, ...]  # sorted distinct variables, from 1


@dataclass(frozen=True)
class Polynomial:
    """phi(x) = sum over monomials of coefficient * product of its variables.

        Polynomial({(1,): 0.5, (1, 2): -1.0, (3, -4): 2.0})      # -4 stands for 1 - x_4
        Polynomial.table([1, 2], [[0, 0], [0, 3]])               # 3 where x_1 = x_2 = 1

    Stored in expanded form: `coefficients` has positive, sorted, distinct variables (x^2 = x), and
    () is the constant. Polynomials can be added, and multiplied by a number.

    >>> sum_ = nelson.Polynomial({(1, 2): 1.0}) + nelson.Polynomial({(1, 2): 0.5, (3,): 2.0})
    >>> sum_.coefficients
    {(3,): 2.0, (1, 2): 1.5}
    """

    coefficients: Mapping[Monomial, float]

    def __post_init__(self) -> None:
        total: dict[Monomial, float] = {}
        for literals, coefficient in self.coefficients.items():
            if not np.isfinite(coefficient):
                raise FormulaError(
                    f"coefficient {coefficient} of {literals}",
                    expected="a finite number; to forbid structures, add clauses",
                )
            for monomial, sign in _expanded(literals):
                total[monomial] = total.get(monomial, 0.0) + sign * float(coefficient)
        nonzero = {m: c for m, c in total.items() if c != 0.0}
        object.__setattr__(self, "coefficients", dict(sorted(nonzero.items(), key=_by_degree)))

    @classmethod
    def table(cls, scope: Iterable[int], values: Any) -> Polynomial:
        """phi(x) = values[x_a, x_b, ...] for scope (a, b, ...); values (2,) * k or flat, 2^k long.

        O(k 2^k). Coefficients below 2^k machine epsilons of the largest value are rounding noise,
        and dropped.
        """
        # A table over k variables has 2^k entries.
        max_scope = 20
        scope = [int(v) for v in scope]
        k = len(scope)
        if len(set(scope)) < k or min(scope, default=1) < 1 or k > max_scope:
            raise FormulaError(f"scope {scope}", expected=f"at most {max_scope} distinct variables")
        array = np.array(values, np.float64)
        if array.size != 2**k:
            raise FormulaError(f"table of {array.size} values", expected=f"2^{k}")
        if not np.isfinite(array).all():
            raise FormulaError("table", expected="finite values; to forbid structures, add clauses")
        array = array.reshape((2,) * k)
        noise = np.abs(array).max() * 2.0**k * np.finfo(np.float64).eps
        for axis in range(k):  # Moebius, one variable at a time
            low, high = (np.take(array, [value], axis) for value in (0, 1))
            array = np.concatenate([low, high - low], axis)
        return cls(
            {
                tuple(scope[i] for i in np.flatnonzero(index)): float(array[tuple(index)])
                for index in np.argwhere(np.abs(array) > noise)
            }
        )

    @classmethod
    def of(cls, terms: Any) -> Polynomial:
        """terms: a Polynomial, a mapping of monomials, a (scope, table) pair, or a list of them."""
        if isinstance(terms, Polynomial):
            return terms
        if isinstance(terms, Mapping):
            return cls(terms)
        if isinstance(terms, tuple) and len(terms) == 2 and not isinstance(terms[0], Polynomial):
            return cls.table(*terms)
        return sum((cls.of(term) for term in terms), start=cls({}))

    def __add__(self, other: Polynomial) -> Polynomial:
        total = dict(self.coefficients)
        for monomial, coefficient in other.coefficients.items():
            total[monomial] = total.get(monomial, 0.0) + coefficient
        return Polynomial(total)

    def __mul__(self, factor: float) -> Polynomial:
        return Polynomial({m: factor * c for m, c in self.coefficients.items()})

    __rmul__ = __mul__

    @property
    def constant(self) -> float:
        return self.coefficients.get((), 0.0)

    @property
    def products(self) -> dict[Monomial, float]:
        """The monomials of degree two or more."""
        return {m: c for m, c in self.coefficients.items() if len(m) > 1}

    def linear(self, n: int, theta: Any = None) -> np.ndarray:
        """(n,): theta plus the coefficients of single variables."""
        largest = max((m[-1] for m in self.coefficients if m), default=0)
        if largest > n:
            raise FormulaError(f"a term over variable {largest}", expected=f"1..{n}")
        weights = np.zeros(n) if theta is None else np.array(checked_theta(theta, n))
        for monomial, coefficient in self.coefficients.items():
            if len(monomial) == 1:
                weights[monomial[0] - 1] += coefficient
        return weights

    def __call__(self, x: Any) -> np.ndarray:
        """phi(x): (..., n) 0/1 -> (...)."""
        # More pairs than this are summed by a product of matrices.
        few_pairs = 16
        x = np.asarray(x) != 0
        total = np.zeros(x.shape[:-1])
        pairs = [m for m in self.coefficients if len(m) == 2]
        if len(pairs) > few_pairs:
            used, table = self._table(pairs)
            seen = x[..., used].astype(np.float64)
            total += ((seen @ table) * seen).sum(-1)
        for monomial, coefficient in self.coefficients.items():
            if len(monomial) != 2 or len(pairs) <= few_pairs:
                total += coefficient * x[..., np.array(monomial, int) - 1].all(-1)
        return total

    def _table(self, pairs: Sequence[Monomial]) -> tuple[np.ndarray, np.ndarray]:
        """The variables of the pairs, from 0, and the coefficients as a triangular matrix."""
        both = np.array(pairs)
        used, place = np.unique(both, return_inverse=True)
        first, second = place.reshape(both.shape).T
        table = np.zeros((len(used), len(used)))
        table[first, second] = [self.coefficients[pair] for pair in pairs]
        return used - 1, table


@dataclass(frozen=True)
class Lifted:
    """phi(x) + theta . x in single-variable form: constant + theta . (x, y).

    formula   over (x, y), n + len(monomials) visible variables; not extremal if there is any y
    theta     (n + len(monomials),), for `ConstrainedMRF(lifted.formula, lifted.theta)`, or for
              `nelson.sample(lifted.formula, lifted.theta, ..., method="prs")`
    monomials S of y_S, in the order of the new variables n + 1, n + 2, ...
    constant  of phi. It cancels in P(x); log Z of the original law is log Z of this one + constant
    """

    formula: Formula
    theta: np.ndarray
    n: int
    monomials: tuple[Monomial, ...]
    constant: float

    def project(self, x: Any) -> Any:
        """(..., n + monomials) -> (..., n): arrays and tensors alike."""
        return x[..., : self.n]

    def complete(self, x: Any) -> np.ndarray:
        """(..., n) -> (..., n + monomials) bool: each y_S is the product of its variables."""
        return self.completed(np.asarray(x) != 0)

    def completed(self, x: np.ndarray) -> np.ndarray:
        """The same for Booleans, or for packed words, (words, n) uint64: products by AND."""
        parts, k = [x], 0
        while k < len(self.monomials):  # sorted by degree: each run of one degree at once
            degree = len(self.monomials[k])
            same = [m for m in self.monomials[k:] if len(m) == degree]
            columns = np.array(same, int).T - 1
            y = x[..., columns[0]]
            for column in columns[1:]:
                y = y & x[..., column]
            parts.append(y)
            k += len(same)
        return np.concatenate(parts, axis=-1)


def lift(formula: Formula, terms: Any, theta: Any = None) -> Lifted:
    """P(x) ~ exp(theta . x + phi(x)) C(x) as a law over single variables.

    terms: a `Polynomial`, or what `Polynomial.of` takes. O(total size of the monomials).
    """
    phi = Polynomial.of(terms)
    n = formula.n_vars
    products = phi.products
    gates = len(products)
    # New variables carry weight, so they are visible: auxiliary variables get higher numbers.
    moved = np.abs(formula.literals) > n
    old = formula.literals + np.sign(formula.literals) * np.where(moved, gates, 0).astype(np.int32)
    literals, lengths = [old], [np.diff(formula.offsets)]
    for y, monomial in enumerate(products, start=n + 1):
        arms = [part for v in monomial for part in (-y, v)]
        literals.append(np.array([*arms, y, *(-v for v in monomial)], np.int32))
        lengths.append(np.array([2] * len(monomial) + [len(monomial) + 1]))
    lifted = Formula.from_arrays(
        np.concatenate(literals),
        np.concatenate([[0], np.cumsum(np.concatenate(lengths))]),
        n_vars=n + gates,
        n_aux=formula.n_aux,
        constraints=formula.constraints,
        projection=range(1, n + 1),
        notes=("lifted: each product of variables became a variable",),
    )
    weights = np.concatenate([phi.linear(n, theta), list(products.values())])
    return Lifted(lifted, weights, n, tuple(products), phi.constant)


def _expanded(literals: Iterable[int]) -> list[tuple[Monomial, int]]:
    """A product of literals as signed monomials; a negative literal is 1 - x."""
    chosen = {int(v) for v in literals}
    if 0 in chosen:
        raise FormulaError(f"monomial {tuple(literals)}", expected="non-zero integers")
    if any(-v in chosen for v in chosen):
        return []  # x (1 - x) = 0
    parts: list[tuple[Monomial, int]] = [(tuple(sorted(v for v in chosen if v > 0)), 1)]
    for v in sorted(-v for v in chosen if v < 0):
        parts += [(tuple(sorted((*monomial, v))), -sign) for monomial, sign in parts]
    return parts


def _by_degree(item: tuple[Monomial, float]) -> tuple[int, Monomial]:
    return len(item[0]), item[0]
