"""Exact samples from circuits of 20 to 500,000 nodes, timed against a plain descent.

The peer is the simplest program for this task, compiled by Numba. For each sample it walks down
from the root over D4's nodes, with a stack and one random number for each or-node, and writes one
byte for each variable. The probabilities of the branches are computed beforehand.

The time of the peer excludes the pass over the circuit that computes these probabilities, and it
checks no sample. Our time is that of a call of `nelson.sample`, which includes both. Each uses one
core.
"""

from __future__ import annotations

from collections.abc import Iterator

import numba
import numpy as np

from lab.common import Row, ksat, ratio, seconds
from nelson import Formula, sample
from nelson.budget import Budget
from nelson.exact.circuit import compile_child
from nelson.exact.circuit.decisions import NnfCircuit
from nelson.exact.compiled import compiled
from nelson.kernels.circuit.nnf import AND, OR, TRUE, evaluate
from nelson.process.child import run_child
from tests.structured import grid

#: Samples of one timed call of ours, and of the slower peer.
SAMPLES = 200_000
PEER_SAMPLES = 10_000
#: Seconds that compiling a circuit may take.
COMPILE_SECONDS = 300.0
#: Bytes of memory that the compiler may use.
COMPILE_MEMORY = 8 << 30


def independent_sets(side: int) -> Formula:
    """Independent sets of a square grid: no two neighbours are both true."""
    return Formula([[-u - 1, -v - 1] for u, v in grid(side, side)], n_vars=side * side)


def formulas() -> dict[str, Formula]:
    grids = {f"independent sets, {k} x {k}": independent_sets(k) for k in (3, 6, 9, 12)}
    return grids | {f"5-SAT, n=L={n}": ksat(n, seed=3)[0] for n in (30, 40, 50)}


@numba.njit(cache=False)
def _descend(random, kind, first, at, child, start, literals, shares, p, x, stack):
    for s in range(x.shape[0]):
        x[s] = 2  # 2: the descent has not set this variable
        stack[0], height = 1, 1
        while height:
            height -= 1
            i = stack[height]
            begin, end = first[i], first[i + 1]
            if kind[i] == OR:  # choose one branch
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


class PlainDescent:
    """The peer: one circuit under one theta."""

    def __init__(self, formula: Formula, theta: np.ndarray) -> None:
        task = {"n": formula.n_total, "literals": formula.literals}
        answers, _ = run_child(
            compile_child.__file__,
            [task | {"offsets": formula.offsets}],
            COMPILE_SECONDS,
            COMPILE_MEMORY,
        )
        c = self.circuit = NnfCircuit.parse(answers[0]["nnf"])
        log_p = np.stack([-np.logaddexp(0, theta), -np.logaddexp(0, -theta)], axis=1)
        value = np.where(np.isin(c.kind, (AND, TRUE)), 0.0, -np.inf)
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
        _descend(
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
        circuit = compiled(formula, Budget.of(COMPILE_SECONDS))
        if circuit is None:
            continue
        plain = PlainDescent(formula, theta)
        exact = circuit.mean(theta[None])[0]
        off = np.abs(plain.draw(PEER_SAMPLES).mean(0) - exact).max()
        if off > 6 * np.sqrt(0.25 / PEER_SAMPLES):  # six standard deviations at most
            raise AssertionError(f"the peer draws from another law: a mean is off by {off:.3f}")

        def ours(formula: Formula = formula, theta: np.ndarray = theta) -> float:
            options = {"method": "circuit", "seed": 1, "threads": 1}
            return seconds(lambda: sample(formula, theta, SAMPLES, **options)) / SAMPLES

        def peer(plain: PlainDescent = plain) -> float:
            return seconds(lambda: plain.draw(PEER_SAMPLES)) / PEER_SAMPLES

        factor, by_peer, by_us = ratio(peer, ours)
        note = f"{by_us * 1e6:.3g} us per sample, the plain descent {by_peer * 1e6:.3g} us"
        title = f"circuit of {len(plain.circuit.kind) - 1:,} nodes ({name})"
        yield Row(title, factor, 1, 5, note=note)


def new_theta() -> Iterator[Row]:
    """The pass over a circuit that a new theta needs: log Z and the means of all variables."""
    formula, theta = ksat(40, seed=3)
    circuit = compiled(formula, Budget.of(COMPILE_SECONDS))
    if circuit is None:
        return
    circuit.mean(theta[None])
    spent = min(seconds(lambda: circuit.mean(theta[None])) for _ in range(5))
    decisions = circuit.circuit.decisions
    note = f"{decisions:,} decisions, {circuit.edges:,} edges; log Z and all means"
    name = "circuit: a new theta, time per decision"
    yield Row(name, spent / decisions * 1e9, 500, 150, "ns", at_most=True, note=note)


def few_samples() -> Iterator[Row]:
    """A step of training: 200 samples under a theta that was never seen, against 100 sweeps of
    `gibbs`.

    For 213,000 decisions with 1.16 million edges, on one core, 20 ms became 1.4 ms. Laying out no
    records saved about 9 ms, plain numbers instead of logarithms 8 ms, levels (SIMD) 2 ms, no
    thread 0.3 ms. Of the rest, 0.9 ms are the upward pass, which a new theta needs: 0.8 ns an edge.
    """
    formula, theta = ksat(50, seed=3)
    circuit = compiled(formula, Budget.of(COMPILE_SECONDS))
    if circuit is None:
        return
    moves = iter(range(10**9))

    def draw(method: str) -> float:
        def steps() -> None:
            for _ in range(20):
                new = theta + 1e-3 * next(moves)
                sample(formula, new, 200, method=method, seed=1, threads=1)

        return seconds(steps) / 20

    factor, ours, peer = ratio(lambda: draw("circuit"), lambda: draw("gibbs"))
    note = f"{circuit.edges:,} edges: {ours * 1e3:.2f} ms, gibbs {peer * 1e3:.2f} ms"
    name = "circuit: 200 samples of a new theta, n=L=50, against gibbs"
    yield Row(name, factor, 2, 1, at_most=True, note=note)


def rows() -> Iterator[Row]:
    yield from speed()
    yield from new_theta()
    yield from few_samples()
