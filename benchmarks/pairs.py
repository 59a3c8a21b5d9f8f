"""Sweeps with pair terms: 10,048 samples, n = 100, 100 clauses of three literals, 300 random pairs.

The peer is the sweep in NumPy that `nelson.heat_bath` had before, with its random numbers (kept
here; one row of booleans for each variable). Both run on one core, and CPU time is counted. The
floor counts what a sweep cannot avoid: for each variable and 16 lanes about 45 vector instructions
of the draw (10 of them random bits), and for each change that reaches a neighbour four (load, two
additions, store); at two vector instructions a cycle.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from benchmarks.common import REPETITIONS, Row
from nelson import Formula, sample
from nelson.formula.random_ksat import random_ksat
from nelson.kernels.core import rng
from nelson.kernels.core.bits import pack
from nelson.sampling.chain import Chains
from nelson.sampling.diagnosis.diagnose import pilot_request
from nelson.sampling.problem import prepare
from nelson.sampling.terms import Terms
from nelson.sampling.units import unit_moves

SAMPLES, N, PAIRS, SWEEPS = 10_048, 100, 300, 10
#: Vector instructions of a draw of 16 lanes, and of an update of a neighbour; instructions a cycle;
#: cycles a nanosecond of a slow core.
_DRAW, _UPDATE, _PER_CYCLE, _CLOCK = 45, 4, 2, 2.6


class NumpyChain:
    """Formula and pairs, arranged by variable."""

    def __init__(
        self, formula: Formula, pairs: np.ndarray, c: np.ndarray, theta: np.ndarray
    ) -> None:
        n = formula.n_total
        self.theta = theta
        self.clauses: list[list[tuple[np.ndarray, np.ndarray]]] = [[] for _ in range(n)]
        self.terms: list[list[tuple[float, int]]] = [[] for _ in range(n)]
        for clause in formula:
            for literal in clause:
                others = np.array([other for other in clause if other != literal])
                self.clauses[abs(literal) - 1].append((np.abs(others) - 1, others > 0))
        for (a, b), coefficient in zip(pairs.tolist(), c.tolist(), strict=True):
            self.terms[a].append((coefficient, b))
            self.terms[b].append((coefficient, a))

    def sweep(self, x: np.ndarray, k: int) -> None:
        """Sweep number k of x (n, samples) bool, in place."""
        with np.errstate(over="ignore"):
            key0, key1 = rng.keys(
                rng.spread_seed(1), np.uint64(0), np.arange(x.shape[1], dtype="u8")
            )
        for v in range(len(x)):
            free = np.ones(x.shape[1], bool)
            for others, signs in self.clauses[v]:
                free &= (x[others] == signs[:, None]).any(0)
            log_odds = np.full(x.shape[1], self.theta[v])
            for coefficient, other in self.terms[v]:
                log_odds += coefficient * x[other]
            with np.errstate(over="ignore"):
                bits = rng.scramble(key0 + rng.counter(rng.SWEEP_ROUND + k, v, 0), key1)
            u = ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
            x[v] = np.where(free, np.log(u) - np.log1p(-u) < log_odds, x[v])


def rows() -> Iterator[Row]:
    random = np.random.default_rng(0)
    formula = random_ksat(N, N, 3, seed=1)
    every = np.stack(np.triu_indices(N, 1), axis=1)
    pairs = every[random.choice(len(every), PAIRS, replace=False)]
    c, theta = random.normal(size=PAIRS) / 2, random.normal(size=N) / 2
    x = sample(formula, theta, SAMPLES, method="lovasz", sweeps=0, seed=1).to_numpy()
    problem = prepare(formula)
    moves = unit_moves(problem, Terms.of(pairs + 1))
    assert moves is not None
    request = replace(pilot_request(theta[None], SAMPLES, 1, None), moves=moves.weighted(c))
    words = pack(x)[None]
    chains = Chains(problem, request, words, np.full(words.shape[:2], ~np.uint64(0)))
    chains.sweep_to(1)  # compiles the kernel
    y, ours, theirs = np.ascontiguousarray(x.T), [], []
    peer = NumpyChain(formula, pairs, c, theta)
    for k in range(REPETITIONS):
        began = time.process_time()
        chains.sweep_to(chains.swept + SWEEPS)
        ours.append((time.process_time() - began) / SWEEPS)
        began = time.process_time()
        peer.sweep(y, k)
        theirs.append(time.process_time() - began)
    before = chains.words[0].copy()
    chains.sweep_to(chains.swept + 1)
    changed = before != chains.words[0]  # words in which a variable changed
    reached = float((changed.sum(0) * np.bincount(pairs.reshape(-1), minlength=N)).sum())
    steps = 4 * (_DRAW * N * SAMPLES / 64 + _UPDATE * reached)
    floor = steps / _PER_CYCLE / _CLOCK * 1e-9
    ratio = float(np.median(np.array(theirs) / ours))
    mine = float(np.median(ours))
    note = (
        f"{1e3 * mine:.2f} ms a sweep against {1e3 * float(np.median(theirs)):.1f} ms in NumPy; "
        f"floor {1e3 * floor:.2f} ms; {1e9 * mine / N / SAMPLES:.2f} ns a variable and sample"
    )
    yield Row("sweep with pairs, one core", ratio, 20, 40, note=note)
    yield Row("the same, time over its floor", mine / floor, 5, 3, at_most=True, note=note)
