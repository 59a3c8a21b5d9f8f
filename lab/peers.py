"""Every registered sampler side by side: speed, and how far its samples are from the law.

There are four formulas, each with theta = 0 and, for samplers that can use it, theta ~ N(0, 1). A
sampler is called twice through `nelson.sample`, on one thread, with a new formula object and
without the disk cache:

- for one sample, which includes the set-up of the sampler (a circuit, a count, a child process);
- for COUNT samples, or as many as it draws in SECONDS.

The speed is that of the second call. If it took less than SHORT_SECONDS, three further calls are
made, some for ten times as many samples, and the median counts. All kernels are compiled before,
on a tiny formula. Two distances are shown,

    L1 of the means = sum_i |mean of x_i - E[x_i]|        L1 of the law = sum_x |share of x - P(x)|

each with its *noise*: the mean distance of as many exact and independent samples. `INTERFACES` says
how each sampler is called.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import nelson
from lab import inputs
from lab.common import Row, ksat
from lab.exact import Distance, Law, exact
from lab.inputs import Call, Draw
from nelson import Formula
from nelson.kernels.core.rng import MAX_ROUNDS
from nelson.sampling import registry
from nelson_paper.experiments.base import Table
from nelson_paper.experiments.report import markdown
from nelson_paper.experiments.samplers import nothing_kept
from tests.problems import sink_free
from tests.structured import feature_model, grid, multiplier

COUNT = 100_000
SECONDS = 6.0
#: A call that takes less time is repeated three times, because one would be too noisy.
SHORT_SECONDS = 1.0
#: A sampler that stopped without a sample after this share of SECONDS has timed out.
TIMEOUT_SHARE = 0.7
#: Sweeps of the second row of `lovasz`.
SWEEPS = 16

#: How each sampler is called, printed below the tables.
INTERFACES = {
    "lovasz": "our kernel, bit-sliced, all samples at once; the second row adds sweeps",
    "moser-tardos": "our kernel, bit-sliced",
    "prs": "our kernel, bit-sliced",
    "gibbs": "our kernel, bit-sliced: a chain of 100 sweeps per sample; invalid samples are "
    "dropped",
    "rejection": "our kernel: proposals from the product law, 64 per word",
    "enumerate": "enumerates all structures once, then draws them by weight",
    "circuit": "D4 (py_d4) compiles once; our kernel draws, bit-sliced",
    "kus": "as circuit, uniform",
    "waps": "as circuit, weighted",
    "cmsgen": "pycmsgen: one Solver, set_var_weight, clauses as one array, solve() per sample",
    "unigen": "pyunigen: Sampler.sample(num=8) for each Sampler; the count that the first Sampler "
    "found is passed to all others",
    "weightgen": "written from its paper; CryptoMiniSat (pycryptosat) enumerates cells, one solver "
    "per cell",
    "xor": "PAWS, written from its paper; cells as in weightgen",
    "quicksampler": "written from its paper; RC2 (PySAT) finds mutations, up to 1,024 samples per "
    "epoch; invalid samples are dropped",
}


class Problem(NamedTuple):
    name: str
    make: Callable[[], Formula]
    inputs: int = 0  # variables 1..inputs determine all others


PROBLEMS = (
    Problem("5-SAT, n = L = 50", lambda: ksat(50)[0]),
    Problem("sink-free orientations of a 3 x 4 grid", lambda: sink_free(grid(3, 4))),
    Problem("feature model, 100 features", lambda: feature_model(100, 15, seed=1)),
    Problem("6-bit multiplier, Tseitin encoding", lambda: multiplier(6), inputs=12),
)


@dataclass
class Cell:
    """The result of one sampler on one formula under one theta: a row of a table."""

    name: str
    guarantee: str = ""
    first: float = float("nan")  # seconds until the first sample
    rate: float = 0.0  # samples per second
    count: int = 0
    validity: float = 1.0
    means: Distance | None = None
    law: Distance | None = None
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
    """Fill in the cell from a call for one sample and calls for many."""
    call = draw(1)
    cell.first = call.seconds
    if not call.count:
        late = cell.first > TIMEOUT_SHARE * SECONDS
        cell.remark = "T.O." if late else call.reason.split(";")[0]
        return
    call = draw(COUNT)
    cell.guarantee, cell.count, cell.validity = call.guarantee, call.count, call.validity
    if not call.count:
        cell.remark = "T.O."
        return
    if call.count < COUNT:
        cell.remark = f"stopped after {call.seconds:.0f} s"
    cell.means, cell.law = law.distances(call.rows())
    calls = [call]
    if call.seconds < SHORT_SECONDS:
        count = COUNT if call.seconds > SHORT_SECONDS / 10 else 10 * COUNT
        calls = [draw(count) for _ in range(3)]
    cell.rate = statistics.median(call.count / call.seconds for call in calls)


def registered(problem: Problem, name: str, theta: np.ndarray, sweeps: int | None = None) -> Draw:
    """A function that calls `nelson.sample` on a new formula object."""
    formula, weights = problem.make(), theta if theta.any() else None
    options: dict[str, Any] = {"method": name, "sweeps": sweeps, "threads": 1}
    for n in (1, 2000):  # compiles the narrowest and the widest kernel
        tiny = Formula([[1, 2], [-2, 3], [1, 3, 4]])
        nelson.sample(tiny, None, n, seconds=SHORT_SECONDS, **options)

    def draw(n: int) -> Call:
        started = time.perf_counter()
        s = nelson.sample(
            formula, weights, n, seed=n, seconds=SECONDS, max_rounds=MAX_ROUNDS, **options
        )
        wall = time.perf_counter() - started

        def rows() -> np.ndarray:
            x = s.to_numpy()
            if not formula.satisfied(x).all():
                raise AssertionError(f"{name} returned an invalid sample")
            return x

        validity = s.info.get("validity", 1.0)
        return Call(len(s), rows, wall, s.guarantee, validity, s.info.get("reason", ""))

    return draw


def table(problem: Problem, weighted: bool) -> tuple[Table, list[Cell]]:
    formula = problem.make()
    n = formula.n_vars
    theta = np.random.default_rng(5).normal(size=n) if weighted else np.zeros(n)
    law = exact(formula, theta)
    kind = "theta ~ N(0, 1)" if weighted else "uniform"
    size = f"{n} variables, {formula.n_clauses} clauses"
    cells = []
    for name in registry.names():
        if weighted and not registry.get(name).weighted:
            continue
        jobs: dict[str, Callable[[], Draw]] = {name: partial(registered, problem, name, theta)}
        if name == "lovasz" and not formula.is_extremal:
            job = partial(registered, problem, name, theta, SWEEPS)
            jobs[f"{name} + {SWEEPS} sweeps"] = job
        if problem.inputs and not weighted and name in inputs.SAMPLERS:
            job = partial(inputs.on_inputs, formula, name, problem.inputs, law.rows, SECONDS)
            jobs[f"{name}, inputs"] = job
        for title, job in jobs.items():
            cells.append(Cell(title))
            if missing := registry.missing_modules(registry.get(name)):
                cells[-1].remark = f"not installed ({', '.join(missing)})"
            else:
                measure(cells[-1], job(), law)
    title = f"{problem.name}, {kind} ({size}; {law.how})"
    return Table(title, COLUMNS, [cell.cells() for cell in cells]), cells


def rows() -> Iterator[Row]:
    every: list[Cell] = []
    with nothing_kept():
        for weighted in (False, True):
            for problem in PROBLEMS:
                shown, cells = table(problem, weighted)
                print(markdown(shown), end="\n\n")
                every += cells
    uniform_only = [name for name in registry.names() if not registry.get(name).weighted]
    print(f"{', '.join(uniform_only)} draw only uniformly and are not in the weighted tables.")
    print('"inputs": only the inputs of the circuit were drawn; they determine the rest.')
    for name in registry.names():
        told = INTERFACES.get(name, registry.get(name).summary)
        print(f"{name}: {told}")
    judged = [c for c in every if c.guarantee == "exact" and c.means is not None]
    ratios = [e / noise for c in judged for e, noise in (c.means, c.law or c.means) if noise]
    note = f"{len(judged)} cells of samplers that claim to be exact, at most {COUNT:,} samples each"
    name = "samplers that claim to be exact: worst L1 error / its noise"
    yield Row(name, max(ratios), 2.5, 2.0, at_most=True, note=note)
