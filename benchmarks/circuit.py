"""Exact samples from circuits of 20 to 500,000 nodes: time a sample, against a plain descent.

The peer is what one writes first, compiled by Numba: for each sample from the root down with a
stack over D4's own nodes, one random number an or-node, shares worked out beforehand, one byte a
variable. It pays neither for the pass that weighs the circuit nor for a check of the result; ours
is a call of `nelson.sample` and pays for both. One core each.
"""

from __future__ import annotations

from collections.abc import Iterator

import numba
import numpy as np

from benchmarks.common import Row, ksat, ratio, seconds
from nelson import Formula, sample
from nelson.exact.circuit import compile_child
from nelson.exact.circuit.nnf import Circuit, evaluate
from nelson.exact.compiled import compiled
from nelson.process.child import run_child

OURS, PEER = 200_000, 10_000


def independent_sets(side: int) -> Formula:
    """Independent sets of a square grid."""
    name = np.arange(1, side * side + 1).reshape(side, side)
    down = np.stack([name[:-1].ravel(), name[1:].ravel()], axis=1)
    right = np.stack([name[:, :-1].ravel(), name[:, 1:].ravel()], axis=1)
    return Formula(-np.concatenate([down, right]).astype(np.int32), n_vars=side * side)


def formulas() -> dict[str, Formula]:
    grids = {f"independent sets, {k} x {k}": independent_sets(k) for k in (3, 6, 9, 12)}
    return grids | {f"5-SAT, n=L={n}": ksat(n, seed=3)[0] for n in (30, 40, 50)}


@numba.njit(cache=False)
def _plain(random, kind, first, at, child, start, literals, shares, p, x, stack):
    for s in range(x.shape[0]):
        x[s] = 2
        stack[0], height = 1, 1
        while height:
            height -= 1
            i = stack[height]
            begin, end = first[i], first[i + 1]
            if kind[i] == 0:
                u = random.random()
                while begin < end - 1 and u >= shares[begin]:
                    u -= shares[begin]
                    begin += 1
                end = min(begin + 1, end)
            for q in range(begin, end):
                for k in range(start[at[q]], start[at[q] + 1]):
                    x[s, abs(literals[k]) - 1] = literals[k] > 0
                stack[height] = child[at[q]]
                height += 1
        for v in range(x.shape[1]):
            if x[s, v] == 2:
                x[s, v] = random.random() < p[v]


class Plain:
    """The peer: one circuit under one theta."""

    def __init__(self, formula: Formula, theta: np.ndarray) -> None:
        task = {"compiler": "d4", "n": formula.n_total, "literals": formula.literals}
        answers, _ = run_child(
            compile_child.__file__, [task | {"offsets": formula.offsets}], 300.0, 8 << 30
        )
        c = self.circuit = Circuit.parse(answers[0]["nnf"])
        log_p = np.stack([-np.logaddexp(0, theta), -np.logaddexp(0, -theta)], axis=1)
        value = np.where(np.isin(c.kind, (1, 2)), 0.0, -np.inf)
        evaluate(c.kind, c.parent, c.child, c.start, c.literals, log_p, value)
        self.at = np.argsort(c.parent, kind="stable")
        self.first = np.searchsorted(c.parent[self.at], np.arange(len(c.kind) + 1))
        weight = log_p[np.abs(c.literals) - 1, (c.literals > 0).astype(int)]
        total = np.concatenate([[0.0], np.cumsum(weight)])
        term = value[c.child] + total[c.start[1:]] - total[c.start[:-1]]
        self.shares = np.exp(term - value[c.parent])[self.at]
        self.p, self.n = np.exp(log_p[:, 1]), formula.n_vars
        self.random = np.random.default_rng(0)
        self.stack = np.zeros(len(c.kind), np.int64)

    def draw(self, count: int) -> np.ndarray:
        x = np.empty((count, self.n), np.uint8)
        c = self.circuit
        _plain(
            self.random,
            c.kind,
            self.first,
            self.at,
            c.child,
            c.start,
            c.literals,
            self.shares,
            self.p,
            x,
            self.stack,
        )
        return x


def speed() -> Iterator[Row]:
    for name, formula in formulas().items():
        theta = np.random.default_rng(1).normal(size=formula.n_vars)
        found = compiled(formula, 300.0)
        if found is None:
            continue
        plain = Plain(formula, theta)
        exact = found.mean(theta[None])[0]
        off = np.abs(plain.draw(PEER).mean(0) - exact).max()
        if off > 6 * np.sqrt(0.25 / PEER):
            raise AssertionError(f"the peer draws from another law: a mean is off by {off:.3f}")

        def ours(formula: Formula = formula, theta: np.ndarray = theta) -> float:
            job = {"method": "circuit", "seed": 1, "threads": 1}
            return seconds(lambda: sample(formula, theta, OURS, **job)) / OURS

        def peer(plain: Plain = plain) -> float:
            return seconds(lambda: plain.draw(PEER)) / PEER

        factor, us, them = ratio(peer, ours)
        note = f"{them * 1e6:.3g} us a sample, the plain descent {us * 1e6:.3g}"
        title = f"circuit of {len(plain.circuit.kind) - 1:,} nodes ({name})"
        yield Row(title, factor, 1, 5, note=note)


def weighing() -> Iterator[Row]:
    """What a new theta costs, and many of them on all cores."""
    formula, theta = ksat(40, seed=3)
    found = compiled(formula, 300.0)
    if found is None:
        return
    found.mean(theta[None])
    spent = min(seconds(lambda: found.mean(theta[None])) for _ in range(5))
    note = f"{found.circuit.decisions:,} decisions, {found.edges:,} edges; log Z and all means"
    per = spent / found.circuit.decisions * 1e9
    yield Row(
        "a new theta, a decision of the circuit", per, 500, 150, "ns", at_most=True, note=note
    )


def rows() -> Iterator[Row]:
    yield from speed()
    yield from weighing()
