"""Every registered sampler side by side: speed, and how far its samples are from the law.

Four formulas, each uniform and (samplers that can) with theta ~ N(0, 1). A cell is two calls of
`nelson.sample` on one thread, on a formula object that nobody has seen, with nothing on disk: one
sample, which pays for whatever a sampler sets up (a circuit, a count, a child process); then
`COUNT` samples in one call, of which as many are used as `SECONDS` allow. (A fast sampler's rate is
that of further calls, for ten times as many.) Kernels are compiled before, on a tiny formula.
Distances:

    L1 of the means = sum_i |mean of x_i - E[x_i]|        L1 of the law = sum_x |share of x - P(x)|

beside what independent samples of the law, as many, would have on average (`noise`). `HOW` says
what of each peer is called: its own interface, one call for many samples.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from tests.structured import feature_model, grid, multiplier

import nelson
from benchmarks.common import Row, ksat
from benchmarks.exact import Law, exact
from benchmarks.inputs import NAMES, Draw, Drawn, on_inputs
from nelson import Formula
from nelson.experiments.samplers import nothing_kept
from nelson.kernels.core.rng import MAX_ROUNDS
from nelson.sampling import registry

COUNT, SECONDS = 100_000, 6.0
#: Of calls that take less, the median of three is taken, with more samples if it takes far less.
SHORT = 1.0
SWEEPS = 16

HOW = {
    "lovasz": "own kernel, bit-sliced, all samples at once; the second row adds sweeps",
    "moser-tardos": "own kernel, bit-sliced",
    "prs": "own kernel, bit-sliced",
    "gibbs": "own kernel, bit-sliced: a chain of 100 sweeps a sample; what is invalid is dropped",
    "rejection": "own kernel: proposals from the product law, 64 a word",
    "enumerate": "all structures listed once, then drawn by weight",
    "circuit": "D4 (py_d4) compiles once; own kernel draws, bit-sliced",
    "kus": "the same, uniform",
    "waps": "the same, weighted",
    "cmsgen": "pycmsgen: one Solver, set_var_weight, clauses as one array, solve() once a sample",
    "unigen": "pyunigen: Sampler.sample(num=8) a Sampler, told the count that the first one found",
    "weightgen": "after its paper; CryptoMiniSat (pycryptosat) lists cells, one solver a cell",
    "xor": "PAWS after its paper; cells as in weightgen",
    "quicksampler": "after its paper; RC2 (PySAT) finds mutations, up to 1,024 samples an epoch; "
    "what is invalid is dropped",
}


class Problem(NamedTuple):
    name: str
    make: Callable[[], Formula]
    inputs: int = 0  # variables 1..inputs determine all others


def orientations(width: int, height: int) -> Formula:
    """Sink-free orientations of a grid: edge e = (u, v) is variable e + 1, true for u -> v."""
    edges = grid(width, height)
    clauses: list[list[int]] = [[] for _ in range(width * height)]
    for e, (u, v) in enumerate(edges, 1):
        clauses[u].append(e)
        clauses[v].append(-e)
    return Formula(clauses, n_vars=len(edges))


PROBLEMS = (
    Problem("5-SAT, n = L = 50", lambda: ksat(50)[0]),
    Problem("sink-free orientations of a 3 x 4 grid", lambda: orientations(3, 4)),
    Problem("feature model, 100 features", lambda: feature_model(100, 15, seed=1)),
    Problem("multiplier of 6 bits, Tseitin", lambda: multiplier(6), inputs=12),
)


@dataclass
class Cell:
    """What one sampler did with one formula under one theta."""

    name: str
    guarantee: str = ""
    first: float = float("nan")  # seconds to the first sample
    rate: float = 0.0
    count: int = 0
    validity: float = 1.0
    means: tuple[float, float] | None = None
    law: tuple[float, float] | None = None
    remark: str = ""

    def cells(self) -> list[str]:
        if not self.count:
            late = self.remark == "T.O."
            rate, why = ("T.O.", "") if late else ("none", self.remark)
            return [self.name, "", "", rate, "", "", "", "", why]
        law = f"{self.law[0]:.3f} ({self.law[1]:.3f})" if self.law else ""
        return [
            self.name,
            self.guarantee,
            f"{self.first:.2g} s",
            f"{self.rate:,.0f}" if self.rate >= 10 else f"{self.rate:.2g}",
            f"{self.count:,}",
            f"{self.validity:.1%}".replace("100.0%", "all"),
            f"{self.means[0]:.3f} ({self.means[1]:.3f})" if self.means else "",
            law,
            self.remark,
        ]


COLUMNS = (
    "sampler",
    "guarantee",
    "first sample",
    "samples/s",
    "samples",
    "valid",
    "L1 of the means (noise)",
    "L1 of the law (noise)",
    "remark",
)


def measure(cell: Cell, draw: Draw, law: Law) -> None:
    """Fills the cell: one sample, then many."""
    got = draw(1)
    cell.first = got.seconds
    if not got.count:
        cell.remark = "T.O." if cell.first > 0.7 * SECONDS else got.reason.split(";")[0]
        return
    got = draw(COUNT)
    cell.guarantee, cell.count, cell.validity = got.guarantee, got.count, got.validity
    if not got.count:
        cell.remark = "T.O."
        return
    if got.count < COUNT:
        cell.remark = f"stopped after {got.seconds:.0f} s"
    cell.means, cell.law = law.distances(got.rows())
    runs = [got]
    if got.seconds < SHORT:  # so short that once, and so few, would tell little
        runs = [draw(COUNT if got.seconds > SHORT / 10 else 10 * COUNT) for _ in range(3)]
    cell.rate = statistics.median(run.count / run.seconds for run in runs)


def registered(problem: Problem, name: str, theta: np.ndarray, sweeps: int | None = None) -> Draw:
    """`nelson.sample`, on a formula that nothing is kept with."""
    formula, weights = problem.make(), theta if theta.any() else None
    options: dict[str, Any] = {"method": name, "sweeps": sweeps, "threads": 1}
    for n in (1, 2000):  # one row of the kernels, and the widest
        tiny = Formula([[1, 2], [-2, 3], [1, 3, 4]])
        nelson.sample(tiny, None, n, seconds=SHORT, **options)

    def draw(n: int) -> Drawn:
        started = time.perf_counter()
        s = nelson.sample(
            formula, weights, n, seed=n, seconds=SECONDS, max_rounds=MAX_ROUNDS, **options
        )
        wall = time.perf_counter() - started

        def rows() -> np.ndarray:
            x = s.to_numpy()
            if not formula.satisfied(x).all():
                raise AssertionError(f"{name} handed out an invalid sample")
            return x

        validity = s.info.get("validity", 1.0)
        return Drawn(len(s), rows, wall, s.guarantee, validity, s.info.get("reason", ""))

    return draw


def table(problem: Problem, weighted: bool) -> tuple[Table, list[Cell]]:
    formula = problem.make()
    n = formula.n_vars
    theta = np.random.default_rng(5).normal(size=n) if weighted else np.zeros(n)
    law = exact(formula, theta)
    kind = "theta ~ N(0, 1)" if weighted else "uniform"
    size = f"{n} variables, {formula.n_clauses} clauses"
    shown = Table(title=f"{problem.name}, {kind} ({size}; {law.how})", title_justify="left")
    for k, column in enumerate(COLUMNS):
        shown.add_column(column, justify="right" if 2 <= k <= 7 else "left")
    cells = []
    for name in registry.names():
        if weighted and not registry.get(name).weighted:
            continue
        jobs: dict[str, Callable[[], Draw]] = {name: partial(registered, problem, name, theta)}
        if name == "lovasz" and not formula.is_extremal:
            job = partial(registered, problem, name, theta, SWEEPS)
            jobs[f"{name} + {SWEEPS} sweeps"] = job
        if problem.inputs and not weighted and name in NAMES:
            job = partial(on_inputs, formula, name, problem.inputs, law.rows, SECONDS)
            jobs[f"{name}, inputs"] = job
        for title, job in jobs.items():
            cells.append(Cell(title))
            if missing := registry.missing_modules(registry.get(name)):
                cells[-1].remark = f"not installed ({', '.join(missing)})"
            else:
                measure(cells[-1], job(), law)
            shown.add_row(*cells[-1].cells())
    return shown, cells


def rows() -> Iterator[Row]:
    console = Console(width=150)
    every: list[Cell] = []
    with nothing_kept():
        for weighted in (False, True):
            for problem in PROBLEMS:
                shown, cells = table(problem, weighted)
                console.print(shown, highlight=False)
                every += cells
    uniform_only = [name for name in registry.names() if not registry.get(name).weighted]
    console.print(f"Not in the weighted tables, since uniform only: {', '.join(uniform_only)}.")
    console.print('"inputs": asked for the inputs of the circuit only, which determine the rest.')
    for name in registry.names():
        console.print(f"{name}: {HOW.get(name, registry.get(name).summary)}", highlight=False)
    judged = [c for c in every if c.guarantee == "exact" and c.means is not None]
    ratios = [e / floor for c in judged for e, floor in (c.means, c.law or c.means) if floor]
    note = f"{len(judged)} cells of samplers that claim to be exact, {COUNT:,} samples each at most"
    name = "L1 error over its noise, worst of the exact samplers"
    yield Row(name, max(ratios), 2.5, 2.0, at_most=True, note=note)
