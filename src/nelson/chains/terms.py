"""Products of variables with coefficients: phi(x) = sum_S c_S prod_{i in S} x_i, as flat arrays.

    P(x) ~ exp(theta . x + phi(x)) C(x)

`Terms` holds the sets S, of two variables or more; coefficients are plain arrays beside it, since
learning and annealing change them all the time. How to draw from P with chains:

    problem = prepare(formula, evidence)
    moves = unit_moves(problem, Terms.of([(1, 2), (2, 3, 5)]))      # compiled once, kept
    request = replace(request, moves=moves.weighted(coefficients))  # O(terms), when they change
    chains = Chains(problem, request, words, valid)                 # theta is request.theta
    chains.sweep_to(k)                                              # chains.words: the states

Coefficients have the shape (terms,), or (contexts, terms) to give each context its own: one factor
for each stage of an annealing path, for example. A chain continues with other weights if a new
`Chains` is made of its words and `swept`. `term_chains.py` puts this together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nelson.errors import FormulaError
from nelson.formula.flat import lengths_to_offsets


@dataclass(frozen=True, eq=False)
class Terms:
    """Products of two variables or more; term t is variables[offsets[t]:offsets[t + 1]]."""

    variables: np.ndarray  # int32, counted from 0, distinct within a term
    offsets: np.ndarray  # int64

    @classmethod
    def of(cls, monomials: Iterable[Sequence[int]]) -> Terms:
        """monomials: distinct variables counted from 1, two or more each."""
        rows = [tuple(int(v) for v in row) for row in monomials]
        for row in rows:
            if len(row) < 2 or min(row) < 1 or len(set(row)) < len(row):
                raise FormulaError(
                    f"term {row}",
                    expected="two or more different variables, counted from 1; a weight of a "
                    "single variable belongs to theta",
                )
        flat = np.array([v - 1 for row in rows for v in row], np.int32)
        return cls(flat, lengths_to_offsets(np.array([len(row) for row in rows], np.int64)))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def key(self) -> bytes:
        """Equal for equal terms."""
        return self.variables.tobytes() + self.offsets.tobytes()


def checked_coefficients(values: Any, n_terms: int) -> np.ndarray:
    """Coefficients of that many terms, (terms,) or (contexts, terms)."""
    coefficients = np.asarray(values, np.float64)
    good = coefficients.shape[-1:] == (n_terms,) and coefficients.ndim <= 2
    if not good or not np.isfinite(coefficients).all():
        raise FormulaError(
            f"coefficients of shape {coefficients.shape}",
            expected=f"({n_terms},) or (contexts, {n_terms}), finite",
        )
    return coefficients
