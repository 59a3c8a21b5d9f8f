"""Sweeps with pair terms: 10,048 samples, n = 100, 100 clauses of three literals, 300 random pairs.

The peer is the sweep in NumPy that `nelson.heat_bath` had before (kept here, one row of booleans for
each variable). Both run on one core. The floor counts what a sweep cannot avoid: for each variable
and 16 lanes about 45 vector instructions of the draw (10 of them random bits), and for each change
that reaches a neighbour four (load, two additions, store); at two vector instructions a cycle.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from benchmarks.common import REPETITIONS, Row
from nelson import Formula, sample
from nelson.formula.random_ksat import random_ksat
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


def numpy_sweep(
    formula: Formula,
    pairs: np.ndarray,
    c: np.ndarray,
    theta: np.ndarray,
    x: np.ndarray,
    u: np.ndarray,
) -> None:
    """One sweep of x (n, samples) bool, in place: u (n, samples) are uniform numbers."""
    clauses: list[list[tuple[bool, np.ndarray, np.ndarray]]] = [[] for _ in range(len(x))]
    for clause in formula:
        literals = np.array(clause)
        for k, literal in enumerate(clause):
            others = np.delete(literals, k)
            clauses[abs(literal) - 1].append((literal > 0, np.abs(others) - 1, others > 0))
    terms: list[list[tuple[float, int]]] = [[] for _ in range(len(x))]
    for (a, b), coefficient in zip(pairs.tolist(), c.tolist(), strict=True):
        terms[a].append((coefficient, b))
        terms[b].append((coefficient, a))
    for v in range(len(x)):
        free = np.ones(x.shape[1], bool)
        for _, others, signs in clauses[v]:
            free &= (x[others] == signs[:, None]).any(0)
        log_odds = np.full(x.shape[1], theta[v])
        for coefficient, other in terms[v]:
            log_odds += coefficient * x[other]
        value = np.log(u[v]) - np.log1p(-u[v]) < log_odds
        x[v] = np.where(free, value, x[v])


def rows() -> Iterator[Row]:
    rng = np.random.default_rng(0)
    formula = random_ksat(N, N, 3, seed=1)
    every = np.stack(np.triu_indices(N, 1), axis=1)
    pairs = every[rng.choice(len(every), PAIRS, replace=False)]
    c, theta = rng.normal(size=PAIRS) / 2, rng.normal(size=N) / 2
    x = sample(formula, theta, SAMPLES, method="lovasz", sweeps=0, seed=1).to_numpy()
    problem = prepare(formula)
    moves = unit_moves(problem, Terms.of(pairs + 1))
    assert moves is not None
    request = replace(pilot_request(theta[None], SAMPLES, 1, None), moves=moves.weighted(c))
    words = pack(x)[None]
    chains = Chains(problem, request, words, np.full(words.shape[:2], ~np.uint64(0)))
    chains.sweep_to(1)  # compiles the kernel
    y, ours, theirs = np.ascontiguousarray(x.T), [], []
    for _ in range(REPETITIONS):
        began = time.process_time()
        chains.sweep_to(chains.swept + SWEEPS)
        ours.append((time.process_time() - began) / SWEEPS)
        u = rng.random((N, SAMPLES))
        began = time.process_time()
        numpy_sweep(formula, pairs, c, theta, y, u)
        theirs.append(time.process_time() - began)
    before = chains.words[0].copy()
    chains.sweep_to(chains.swept + 1)
    changed = np.bitwise_or.reduce([before ^ chains.words[0]]) != 0  # words in which it changed
    reached = float((changed.sum(0) * np.bincount(pairs.reshape(-1), minlength=N)).sum())
    steps = 4 * (_DRAW * N * SAMPLES / 64 + _UPDATE * reached)
    floor = steps / _PER_CYCLE / _CLOCK * 1e-9
    ratio = float(np.median(np.array(theirs) / ours))
    mine = float(np.median(ours))
    note = (
        f"{1e3 * mine:.2f} ms a sweep against {1e3 * float(np.median(theirs)):.1f} ms in NumPy; floor "
        f"{1e3 * floor:.2f} ms; {1e9 * mine / N / SAMPLES:.2f} ns a variable and sample"
    )
    yield Row("sweep with pairs, one core", ratio, 10, 20, note=note)
    yield Row("the same, time over its floor", mine / floor, 5, 3, at_most=True, note=note)
