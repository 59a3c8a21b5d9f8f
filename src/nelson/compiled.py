"""log Z, means and covariances of a formula that compiles to a d-DNNF: exact, for any theta.

    log Z  = sum_i log(1 + e^theta_i) + sum over components of log P(component)
    E[x_i] = F(i) + (1 - F(i) - F(-i)) p_i,      p_i = 1 / (1 + e^-theta_i)

F(l) is the probability that a draw passes an edge of the circuit that carries literal l: one pass
up for the values of the nodes, one pass down for their derivatives (Darwiche 2003). A variable that
no edge on the way mentions keeps its own law p_i. The circuit depends on the clauses alone, so it
is compiled once and kept with the formula; each theta costs O(edges). Infinite theta, hard
evidence, is p_i = 0 or 1: no new circuit.

Cov(x) v is the derivative of E[x] along v, taken as a central difference of exact means: about
nine digits.

The compiler is D4, in a child process under limits (`nelson.partition`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from nelson.errors import NelsonError, Unsatisfiable
from nelson.formula import Formula
from nelson.kernels import rng
from nelson.kernels.compile import inline, kernel
from nelson.partition.circuit import Circuit, evaluate

#: Seconds the compiler has, once a formula; then it counts as one that does not compile.
SECONDS = 3.0
_STEP = 1e-5
_UNSET = np.uint8(2)


def compiled(formula: Formula, seconds: float = SECONDS) -> Compiled | None:
    """The circuit of a formula; None if D4 is not there or did not end within `seconds`."""
    if "compiled" not in formula._cache:
        formula._cache["compiled"] = _compile(formula, seconds)
    return formula._cache["compiled"]


def _compile(formula: Formula, seconds: float) -> Compiled | None:
    from nelson.partition import exact
    from nelson.partition.reduce import split

    if exact.missing("circuit") is not None:
        return None
    if formula.has_empty_clause:
        raise Unsatisfiable("the formula has an empty clause")
    given = formula.given(())
    lengths = np.diff(given.offsets)
    unit = lengths == 1
    rest = given.literals[np.repeat(~unit, lengths)]
    offsets = np.concatenate([[0], np.cumsum(lengths[~unit])])
    # `split` carries one number a variable along: here, which variable it is.
    parts = split(rest, offsets, np.arange(formula.n_total, dtype=np.float64))
    neutral = [replace(part, theta=np.zeros(part.n)) for part in parts]
    try:
        answers, _ = exact.ask_child("circuit", neutral, seconds, exact.MEMORY)
    except NelsonError:
        return None
    if len(answers) < len(parts) or any("nnf" not in answer for answer in answers):
        return None
    circuits = [Circuit.parse(answer["nnf"]) for answer in answers]
    variables = [part.theta.astype(np.int64) for part in parts]
    return Compiled(formula, given.literals[given.offsets[:-1][unit]], variables, circuits)


@dataclass
class Compiled:
    formula: Formula
    fixed: np.ndarray  # literals that propagation found
    variables: list[np.ndarray]  # of each component, from 0
    circuits: list[Circuit]
    exact: bool = True

    @property
    def edges(self) -> int:
        return sum(len(circuit.parent) for circuit in self.circuits)

    @property
    def why(self) -> str:
        return f"exact: a d-DNNF of {self.edges} edges"

    def _log_p(self, theta: np.ndarray) -> tuple[np.ndarray, float]:
        """(n_total, 2) log P(x_i = 0), log P(x_i = 1), and log Z without the circuits."""
        weight = np.zeros(self.formula.n_total)
        weight[: len(theta)] = theta
        soft = np.where(np.isinf(weight), 0.0, weight)
        free = np.isfinite(weight)
        free[np.abs(self.fixed) - 1] = False
        fixed = self.fixed[np.isfinite(weight[np.abs(self.fixed) - 1])]
        for literal in self.fixed.tolist():
            if weight[abs(literal) - 1] == (-np.inf if literal > 0 else np.inf):
                raise Unsatisfiable("no valid structure agrees with the infinite log-odds")
        constant = soft[fixed[fixed > 0] - 1].sum() + np.logaddexp(0, soft[free]).sum()
        log_p = np.stack([-np.logaddexp(0, weight), -np.logaddexp(0, -weight)], axis=1)
        return log_p, float(constant)

    def log_z(self, theta: np.ndarray) -> np.ndarray:
        """(b, n) -> (b,): over the finite theta_i, as everywhere."""
        out = np.zeros(len(theta))
        for b, row in enumerate(theta):
            log_p, out[b] = self._log_p(row)
            for own, circuit in zip(self.variables, self.circuits, strict=True):
                out[b] += circuit.log_value(np.ascontiguousarray(log_p[own]))
        if np.isneginf(out).any():
            raise Unsatisfiable("no valid structure agrees with the infinite log-odds")
        return out

    def mean(self, theta: np.ndarray) -> np.ndarray:
        out = np.zeros(theta.shape)
        for b, row in enumerate(theta):
            log_p, _ = self._log_p(row)
            mean = np.exp(log_p[:, 1])
            mean[np.abs(self.fixed) - 1] = self.fixed > 0
            for own, c in zip(self.variables, self.circuits, strict=True):
                p = np.ascontiguousarray(log_p[own])
                value = np.where(np.isin(c.kind, (1, 2)), 0.0, -np.inf)  # and, true: 1
                slope = np.full(len(value), -np.inf)
                flow = np.zeros((len(own), 2))
                _flows(c.kind, c.parent, c.child, c.start, c.literals, p, value, slope, flow)
                if value[1] == -np.inf:
                    raise Unsatisfiable("no valid structure agrees with the infinite log-odds")
                mean[own] = flow[:, 1] + (1 - flow.sum(1)) * np.exp(p[:, 1])
            out[b] = mean[: theta.shape[1]].clip(0.0, 1.0)
        return out

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
        """(b, count, n) bool, independent: from the root down, each or-node picks a child by its
        share. O(nodes passed) a sample. Sample k of a row is a function of (seed, row, k).
        """
        out = np.empty((len(theta), count, theta.shape[1]), bool)
        for b, row in enumerate(theta):
            log_p, _ = self._log_p(row)
            x = np.full((count, self.formula.n_total), _UNSET, np.uint8)
            x[:, np.abs(self.fixed) - 1] = self.fixed > 0
            for own, c in zip(self.variables, self.circuits, strict=True):
                p = np.ascontiguousarray(log_p[own])
                value = np.where(np.isin(c.kind, (1, 2)), 0.0, -np.inf)
                evaluate(c.kind, c.parent, c.child, c.start, c.literals, p, value)
                if value[1] == -np.inf:
                    raise Unsatisfiable("no valid structure agrees with the infinite log-odds")
                by_parent = np.argsort(c.parent, kind="stable")
                first = np.searchsorted(c.parent[by_parent], np.arange(len(c.kind) + 1))
                stack, key = np.zeros(len(c.kind), np.int64), rng.spread_seed(seed)
                _descend(
                    c.kind,
                    first,
                    by_parent,
                    c.child,
                    c.start,
                    c.literals,
                    p,
                    value,
                    (key, b),
                    own,
                    x,
                    stack,
                )
            _complete(np.exp(log_p[:, 1]), (rng.spread_seed(seed), b), x)
            out[b] = x[:, : theta.shape[1]]
        return out


@inline
def _weight(literals, first, last, log_p):
    total = 0.0
    for k in range(first, last):
        literal = literals[k]
        total += log_p[literal - 1, 1] if literal > 0 else log_p[-literal - 1, 0]
    return total


@inline
def _uniform(key0, key1, v, node):
    """In (0, 1); node 0 is the variable itself. The counter has 27 bits for a node, 32 for v."""
    bits = rng.scramble(key0 + rng.counter(node, v, 0), key1)
    return ((bits >> np.uint64(11)) + 0.5) * 2.0**-53


@inline
def _log_add(a, b):
    high, low = max(a, b), min(a, b)
    return high if low == -np.inf else high + np.log1p(np.exp(low - high))


@kernel
def _flows(kind, parent, child, start, literals, log_p, value, slope, flow):
    """Values up (as `partition.circuit.evaluate`), then log derivatives of the root down; flow[v]
    gathers the probabilities of edges that carry not v, v.

    Edges out of a node come before edges into it, so reading them backwards is top-down.
    """
    edges = parent.size
    for e in range(edges):
        term = value[child[e]] + _weight(literals, start[e], start[e + 1], log_p)
        i = parent[e]
        if kind[i] == 1:  # and
            value[i] += term
        elif term != -np.inf:
            value[i] = _log_add(value[i], term)
    if value[1] == -np.inf:
        return
    slope[1] = 0.0
    for back in range(edges):
        e = edges - 1 - back
        i, j = parent[e], child[e]
        weight = _weight(literals, start[e], start[e + 1], log_p)
        term = value[j] + weight
        # Nothing passes an edge of value 0, nor anything below it.
        if term == -np.inf or slope[i] == -np.inf or value[i] == -np.inf:
            continue
        if kind[i] == 1:
            passed = slope[i] + value[i]
            slope[j] = _log_add(slope[j], passed - term + weight)
        else:
            passed = slope[i] + term
            slope[j] = _log_add(slope[j], slope[i] + weight)
        share = np.exp(passed - value[1])
        for k in range(start[e], start[e + 1]):
            literal = literals[k]
            if literal > 0:
                flow[literal - 1, 1] += share
            else:
                flow[-literal - 1, 0] += share


@kernel
def _descend(kind, first, by_parent, child, start, literals, log_p, value, seed, own, x, stack):
    for s in range(x.shape[0]):
        key0, key1 = rng.keys(seed[0], seed[1], s)
        stack[0], height = 1, 1
        while height:
            height -= 1
            i = stack[height]
            begin, end = first[i], first[i + 1]
            if kind[i] != 1 and end > begin:  # or: one edge, by its share
                # A node is passed at most once by a sample, but its number is one of a component's
                # own: the component's first variable tells components apart.
                u = _uniform(key0, key1, own[0], i)
                reached, total = value[i] + np.log(u), -np.inf
                chosen = -1
                for q in range(begin, end):
                    e = by_parent[q]
                    term = value[child[e]] + _weight(literals, start[e], start[e + 1], log_p)
                    if term != -np.inf:
                        chosen, total = q, _log_add(total, term)
                        if total >= reached:
                            break
                begin, end = chosen, chosen + 1
            for q in range(begin, end):
                e = by_parent[q]
                for k in range(start[e], start[e + 1]):
                    x[s, own[abs(literals[k]) - 1]] = literals[k] > 0
                stack[height] = child[e]
                height += 1


@kernel
def _complete(p, seed, x):
    """Variables that no edge mentioned keep their own law."""
    for s in range(x.shape[0]):
        key0, key1 = rng.keys(seed[0], seed[1], s)
        for v in range(x.shape[1]):
            if x[s, v] == _UNSET:
                x[s, v] = _uniform(key0, key1, v, 0) < p[v]
