"""Sweeps with pair terms: 10,048 samples, n = 100; few pairs, all pairs, and one-hot fields.

The peer is the sweep in NumPy that sweeps with terms had before, with its random numbers (kept
here; one row of booleans for each variable), and a move of fields written in the same way. CPU time
of one thread is compared; the note also gives wall time with two threads.

The floor counts vector instructions that the kernel cannot avoid, at two a cycle of 3.6 GHz. For a
lone variable and a word of 64 samples: two for each input of the number of an entry, two for each
block of the table, and 20 to draw and compare a random byte, which one word in four does twice.
Without a table, for 16 samples: two for each input, and 40 for the threshold. A field takes 28
instead of 40 for each value, and 30 for its draw.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from lab.common import REPETITIONS, Row
from nelson import Formula, sample
from nelson.budget import Budget
from nelson.chains.chain import Chains
from nelson.chains.diagnosis.diagnose import pilot_request
from nelson.chains.moves.fields import Units, unit_moves
from nelson.chains.problem import prepare
from nelson.chains.terms import Terms
from nelson.formula.random_ksat import random_ksat
from nelson.kernels.core import rng
from nelson.kernels.core.bits import pack, unpack
from nelson.kernels.cpu.unit_program import INDEX

SAMPLES, N, SWEEPS, VALUES = 10_048, 100, 10, 5
#: Instructions a nanosecond, and most inputs of a variable with a table.
_RATE, _TABLE = 2 * 3.6, 10


@dataclass(frozen=True)
class Case:
    """Formula and pairs; fields are groups of VALUES variables, of which exactly one is true."""

    name: str
    formula: Formula
    pairs: np.ndarray  # (pairs, 2), from 0
    c: np.ndarray
    theta: np.ndarray
    x: np.ndarray  # (samples, n) bool: starts
    fields: bool = False


class NumpyChain:
    """Formula and pairs, arranged by variable."""

    def __init__(self, case: Case) -> None:
        self.theta, self.fields = case.theta, case.fields
        self.clauses: list[list[tuple[np.ndarray, np.ndarray]]] = [[] for _ in range(N)]
        self.terms: list[list[tuple[float, int]]] = [[] for _ in range(N)]
        for clause in case.formula:
            own = {(abs(literal) - 1) // VALUES for literal in clause}
            if case.fields and len(own) == 1:
                continue  # the rules of a field: moves keep them
            for literal in clause:
                others = np.array([other for other in clause if other != literal])
                self.clauses[abs(literal) - 1].append((np.abs(others) - 1, others > 0))
        for (a, b), coefficient in zip(case.pairs.tolist(), case.c.tolist(), strict=True):
            self.terms[a].append((coefficient, b))
            self.terms[b].append((coefficient, a))

    def sweep(self, x: np.ndarray, k: int) -> None:
        """Sweep number k of x (n, samples) bool, in place."""
        with np.errstate(over="ignore"):
            key0, key1 = rng.keys(
                rng.spread_seed(1), np.uint64(0), np.arange(x.shape[1], dtype="u8")
            )
        for v in range(0, len(x), VALUES if self.fields else 1):
            with np.errstate(over="ignore"):
                bits = rng.scramble(key0 + rng.counter(rng.SWEEP_ROUND + k, v, 0), key1)
            u = ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
            if self.fields:
                self._move_field(x, v, u)
            else:
                free, log_odds = self._free(x, v), self._field(x, v)
                x[v] = np.where(free, np.log(u) - np.log1p(-u) < log_odds, x[v])

    def _move_field(self, x: np.ndarray, first: int, u: np.ndarray) -> None:
        """Clauses across fields hold negative literals only: true values must be free."""
        own = range(first, first + VALUES)
        weight = np.exp([self._field(x, v) for v in own]) * [self._free(x, v) for v in own]
        reached = np.cumsum(weight, axis=0)
        drawn = (u * reached[-1] < reached).argmax(axis=0)
        x[first : first + VALUES] = drawn == np.arange(VALUES)[:, None]

    def _free(self, x: np.ndarray, v: int) -> np.ndarray:
        free = np.ones(x.shape[1], bool)
        for others, signs in self.clauses[v]:
            free &= (x[others] == signs[:, None]).any(0)
        return free

    def _field(self, x: np.ndarray, v: int) -> np.ndarray:
        field = np.full(x.shape[1], self.theta[v])
        for coefficient, other in self.terms[v]:
            field += coefficient * x[other]
        return field


def cases() -> Iterator[Case]:
    random = np.random.default_rng(0)
    formula = random_ksat(N, N, 3, seed=1)
    every = np.stack(np.triu_indices(N, 1), axis=1)
    few = every[random.choice(len(every), 300, replace=False)]
    c, theta = random.normal(size=len(every)) / 2, random.normal(size=N) / 2
    x = sample(formula, theta, SAMPLES, method="lovasz", sweeps=0, seed=1).to_numpy()
    yield Case("300 pairs", formula, few, c[:300], theta, x)
    yield Case("all 4,950 pairs", formula, every, c / 8, theta, x)

    groups = np.arange(1, N + 1).reshape(-1, VALUES).tolist()
    rules = [[-a, -b] for row in groups for a in row for b in row if a < b]
    across = every[every[:, 0] // VALUES != every[:, 1] // VALUES]
    apart = across[(across % VALUES > 0).all(1)]  # never two first values: the start is valid
    apart = apart[random.choice(len(apart), 50, replace=False)]
    fields = Formula([*groups, *rules, *(-apart - 1).tolist()], n_vars=N)
    x = np.tile(np.arange(N) % VALUES == 0, (SAMPLES, 1))
    some = across[random.choice(len(across), 300, replace=False)]
    yield Case("20 fields of 5 values, 300 pairs", fields, some, c[:300], theta, x, True)


def floor(moves: Units) -> float:
    """Seconds that the vector instructions of a sweep take at least."""
    p, total = moves.program, 0.0
    inputs = np.diff(p.input_at)
    for first, last in zip(p.unit_at[:-1], p.unit_at[1:], strict=True):
        own = inputs[p.literal[first:last] >> 1]
        if last - first > 1:
            total += 4 * (30 + float((2 * own + 28).sum()))
        elif own[0] <= _TABLE:
            blocks = 1 << max(0, int(own[0]) - INDEX)
            total += 2 * INDEX + 1.25 * (2 * blocks + 20)
        else:
            total += 4 * (2 * float(own[0]) + 40) + 25
    return total * SAMPLES / 64 / _RATE * 1e-9


def rows() -> Iterator[Row]:
    for case in cases():
        yield from _rows(case)


def _rows(case: Case) -> Iterator[Row]:
    problem = prepare(case.formula)
    moves = unit_moves(problem, Terms.of(case.pairs + 1))
    assert moves is not None
    request = replace(
        pilot_request(case.theta[None], SAMPLES, Budget(threads=1)), moves=moves.weighted(case.c)
    )
    words = pack(case.x)[None]
    valid = np.full(words.shape[:2], ~np.uint64(0))
    chains = Chains(problem, request, words, valid)
    chains.sweep_to(20)  # compiles the kernel, and leaves the start
    both = Chains(problem, replace(request, budget=Budget(threads=2)), chains.words, valid)
    y, ours, theirs, wall = np.ascontiguousarray(case.x.T), [], [], []
    y[:] = unpack(chains.words[0], SAMPLES).T
    peer = NumpyChain(case)
    for k in range(REPETITIONS):
        began = time.process_time()
        chains.sweep_to(chains.swept + SWEEPS)
        ours.append((time.process_time() - began) / SWEEPS)
        began = time.process_time()
        peer.sweep(y, k)
        theirs.append(time.process_time() - began)
        began = time.perf_counter()
        both.sweep_to(both.swept + SWEEPS)
        wall.append((time.perf_counter() - began) / SWEEPS)
    assert case.formula.satisfied(np.ascontiguousarray(y.T)).all()
    ratio = float(np.median(np.array(theirs) / ours))
    mine, least = float(np.median(ours)), floor(moves)
    note = (
        f"{1e3 * mine:.2f} ms a sweep against {1e3 * float(np.median(theirs)):.1f} ms in NumPy; "
        f"floor {1e3 * least:.2f} ms; {1e9 * mine / N / SAMPLES:.2f} ns a variable and sample; two "
        f"threads: {1e3 * float(np.median(wall)):.2f} ms of wall time (load of the machine: "
        f"{os.getloadavg()[0]:.0f})"
    )
    goal = (None, None) if case.fields else (20, 40)
    yield Row(f"sweep with {case.name}, one core", ratio, *goal, note=note)
    yield Row("the same, time over its floor", mine / least, 5, 3, at_most=True)
