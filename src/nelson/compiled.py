"""log Z, means, covariances and samples of a formula that compiles to a d-DNNF: exact, for any
theta.

    log Z  = sum_i log(1 + e^theta_i) + log P(C)
    E[x_i] = F(i) + (1 - F(i) - F(-i)) p_i,      p_i = 1 / (1 + e^-theta_i)

P(C) is the probability that independent x_i of law p_i satisfy the formula, F(l) the probability
that a draw passes a branch of the circuit that carries literal l (`nelson.kernels.circuit`). A
variable that no branch on the way mentions keeps its own law p_i. The circuit depends on the
clauses alone: it is compiled once, kept with the formula and on disk (`nelson.circuits.store`);
each theta costs O(edges). Infinite theta, hard evidence, is p_i = 0 or 1: no new circuit.

Cov(x) v is the derivative of E[x] along v, taken as a central difference of exact means: about
nine digits.

The compiler is D4 (or PySDD), in a child process under limits (`nelson.circuits.build`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nelson.circuits import passes
from nelson.circuits.build import Built, build
from nelson.circuits.draw import Draws, clauses_of
from nelson.circuits.flat import Flat
from nelson.errors import Unsatisfiable
from nelson.formula import Formula
from nelson.kernels.bits import unpack
from nelson.samplers.child import MEMORY

#: Seconds the compiler has unless the caller says; then the formula counts as one that does not
#: compile.
SECONDS = 3.0
_STEP = 1e-5
_IMPOSSIBLE = "no valid structure agrees with the infinite log-odds"


def compiled(
    formula: Formula, seconds: float = SECONDS, memory: int = MEMORY, compiler: str = "d4"
) -> Compiled | None:
    """The circuit of a formula; None if the compiler is not there or did not end within its
    limits: `why_not` says which. A failure is remembered, and tried again only with more of them.
    Raises Unsatisfiable if that was proved.
    """
    if "refuted" in formula._cache:
        raise Unsatisfiable(formula._cache["refuted"])
    kept = formula._cache.setdefault("circuits", {})
    found, limits = kept.get(compiler, (None, (0.0, 0)))
    if found is None or (found.flat is None and (seconds > limits[0] or memory > limits[1])):
        try:
            found = build(formula, seconds, memory, compiler)
        except Unsatisfiable as error:
            formula._cache["refuted"] = str(error)
            raise
        kept[compiler] = found, (seconds, memory)
    return None if found.flat is None else Compiled(formula, found.flat, found)


def why_not(formula: Formula, compiler: str = "d4") -> str:
    """Why `compiled` gave None."""
    found, _ = formula._cache.get("circuits", {}).get(compiler, (None, None))
    return "" if found is None else found.why_not


@dataclass
class Compiled:
    formula: Formula
    circuit: Flat
    built: Built
    exact: bool = True

    @property
    def edges(self) -> int:
        return self.circuit.edges

    @property
    def why(self) -> str:
        return f"exact: a d-DNNF of {self.circuit.decisions:,} decisions, {self.edges:,} edges"

    def rows(self, theta: np.ndarray) -> np.ndarray:
        """theta (b, n) with a 0 for each auxiliary variable."""
        out = np.zeros((len(theta), self.formula.n_total))
        out[:, : theta.shape[1]] = theta
        return out

    def log_z(self, theta: np.ndarray) -> np.ndarray:
        """(b, n) -> (b,): over the finite theta_i, as everywhere."""
        rows = self.rows(theta)
        log_p, _ = passes.solve(self.circuit, rows, means=False)
        if np.isneginf(log_p).any():
            raise Unsatisfiable(_IMPOSSIBLE)
        soft = np.where(np.isinf(rows), -np.inf, rows)
        return log_p + np.logaddexp(0, soft).sum(axis=1)

    def mean(self, theta: np.ndarray) -> np.ndarray:
        """(b, n) -> (b, n)."""
        log_p, mean = passes.solve(self.circuit, self.rows(theta), means=True)
        if np.isneginf(log_p).any():
            raise Unsatisfiable(_IMPOSSIBLE)
        return mean[:, : theta.shape[1]]

    def pull(self, theta: np.ndarray, v: np.ndarray) -> np.ndarray:
        size = np.abs(v).max(axis=1, keepdims=True)
        step = _STEP * v / np.where(size == 0, 1.0, size)
        return (self.mean(theta + step) - self.mean(theta - step)) * size / (2 * _STEP)

    def covariance(self, theta: np.ndarray) -> np.ndarray:
        n = theta.shape[1]
        out = np.zeros((len(theta), n, n))
        for b, row in enumerate(theta):
            out[b] = self.pull(np.tile(row, (n, 1)), np.eye(n))
            out[b] = (out[b] + out[b].T) / 2
        return out

    def draw(self, theta: np.ndarray, count: int, seed: int) -> np.ndarray:
        """(b, count, n) bool, independent. Sample k of row b is a function of (seed, b, k)."""
        n = theta.shape[1]
        draws = Draws(
            self.circuit,
            self.rows(theta),
            np.arange(n),
            clauses_of(self.formula),
            seed,
            np.arange(len(theta)),
            expected=count,
        )
        drawn = draws.block(0, count)
        if drawn.interrupted:
            raise KeyboardInterrupt
        if np.isneginf(drawn.log_p).any():
            raise Unsatisfiable(_IMPOSSIBLE)
        out = np.empty((len(theta), count, n), bool)
        for b, words in enumerate(drawn.packed):
            out[b] = unpack(words, count)
        return out
