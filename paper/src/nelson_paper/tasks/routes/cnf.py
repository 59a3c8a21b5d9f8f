"""Routes as clauses: which location stands at which position.

    y_(p,l) = 1 if position p holds location l,      p, l = 2..n (n - 1)^2 variables

Location 1 stands at position 1, so each of the (n - 1)! round trips is one model. Every position
holds exactly one location, and every location stands at exactly one position: 2 (n - 1) clauses of
n - 1 literals and (n - 1)^2 (n - 2) clauses of two. Clauses that share a variable can fail
together: the formula is not extremal, and resampling its clauses is not exact.

`edges=True` adds n (n - 1) variables x_ij ("i -> j is driven") in the order of `convert.pairs`:

    y_(p,i) and y_(p+1,j) -> x_ij,      at most one x_ij for each i

so x is a function of y. The log-odds of x_ij are theta_ij, so weighted samplers draw from P_theta.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from nelson.errors import FormulaError
from nelson.formula import Formula
from nelson.formula.names import Names
from nelson_paper.tasks.routes.convert import checked_routes, column, to_x


@dataclass(frozen=True, eq=False)
class RouteFormula:
    """A formula, names of its variables, and conversions between its models and routes."""

    formula: Formula
    names: Names
    n: int
    edges: bool

    def to_routes(self, y: Any) -> np.ndarray:
        """Models (m, n_vars) -> (m, n) locations, location 0 first; else FormulaError."""
        y = np.atleast_2d(np.asarray(y, bool))
        if y.shape[1] != self.formula.n_vars:
            raise FormulaError(f"models of shape {y.shape}", expected=f"(m, {self.formula.n_vars})")
        ok = self.formula.satisfied(y)
        if not ok.all():
            raise FormulaError(
                f"row {int(np.argmin(ok))} violates the formula", expected="models of it"
            )
        k = self.n - 1
        held = y[:, : k * k].reshape(-1, k, k).argmax(axis=2) + 1
        return np.concatenate([np.zeros((len(y), 1), np.int64), held], axis=1)

    def from_routes(self, routes: Any) -> np.ndarray:
        """(m, n) locations -> models (m, n_vars)."""
        routes = checked_routes(routes, self.n)
        k = self.n - 1
        y = np.zeros((len(routes), k, k), bool)
        np.put_along_axis(y, routes[:, 1:, None] - 1, True, axis=2)
        flat = y.reshape(len(routes), -1)
        return np.concatenate([flat, to_x(routes)], axis=1) if self.edges else flat

    def weights(self, theta: Any) -> np.ndarray:
        """theta of the edges (n (n - 1),) as log-odds of all variables; needs edges=True."""
        if not self.edges:
            raise FormulaError("no variable stands for an edge", expected="cnf(edges=True)")
        theta = np.asarray(theta, np.float64)
        if theta.shape != (self.n * (self.n - 1),):
            raise FormulaError(
                f"theta of shape {theta.shape}", expected=f"({self.n * (self.n - 1)},)"
            )
        return np.concatenate([np.zeros((self.n - 1) ** 2), theta])


def route_formula(locations: list[str], edges: bool = False) -> RouteFormula:
    """The formula of n named locations."""
    n = len(locations)
    k = n - 1

    def at(position: int, location: int) -> int:  # both 1..n-1: position 0 holds location 0
        return (position - 1) * k + location

    clauses: list[list[int]] = []
    for a in range(1, n):
        for group in ([at(a, b) for b in range(1, n)], [at(b, a) for b in range(1, n)]):
            clauses.append(group)
            clauses += [[-u, -v] for u, v in combinations(group, 2)]
    names = [f"{p + 1}:{locations[v]}" for p in range(1, n) for v in range(1, n)]
    if edges:
        clauses += _edge_clauses(n, at)
        names += [f"{a}->{b}" for a in locations for b in locations if a != b]
    formula = Formula(clauses, n_vars=len(names))
    return RouteFormula(formula, Names(len(names), names), n, edges)


def _edge_clauses(n: int, at: Any) -> list[list[int]]:
    def driven(i: int, j: int) -> int:
        return (n - 1) ** 2 + int(column(n, i, j)) + 1

    clauses = []
    for j in range(1, n):
        clauses.append([-at(1, j), driven(0, j)])
        clauses.append([-at(n - 1, j), driven(j, 0)])
        for i in range(1, n):
            if i != j:
                clauses += [[-at(p, i), -at(p + 1, j), driven(i, j)] for p in range(1, n - 1)]
    for i in range(n):
        out = [driven(i, j) for j in range(n) if j != i]
        clauses += [[-u, -v] for u, v in combinations(out, 2)]
    return clauses
