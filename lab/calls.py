"""What one call costs on a tiny formula, what many calls leave behind, and what joining costs.

Times are medians of single calls, in microseconds: drawing takes less than one of them, so that
this is the cost of the way to the kernel and back. Growth is measured over 20,000 calls after a
warm-up, as resident bytes per call and as open file descriptors: a leak shows as a number that does
not shrink when the calls are doubled.
"""

from __future__ import annotations

import gc
import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
import psutil

import nelson
from lab.common import Row, ratio, seconds
from nelson import Formula
from nelson.budget import Budget
from nelson.chains.problem import Problem, prepare
from nelson.chains.request import Request
from nelson.sampling import auto
from nelson.sampling.registry import get
from tests.structured import random_circuit
from tests.structured.circuits import Circuit

CLAUSES = [[1, 3], [-1, 2, 4], [-2, 5], [-3, 6], [-4, -6, 7], [-5, -7]]
TIMED, WARM_UP, MANY = 400, 1000, 20_000
#: Resident bytes per call that count as noise: 20,000 calls may grow the heap by a megabyte or two.
NOISE_BYTES = 128.0


def rows() -> Iterator[Row]:
    for name, call in calls().items():
        middle, worst = microseconds(call)
        note = f"95% of {TIMED} calls took at most {worst:,.0f} us"
        yield Row(f"one call: {name}", middle, None, None, "us", at_most=True, note=note)
    for name, call in calls().items():
        held, files = growth(call)
        note = f"{held / 1e6:.1f} MB over {MANY:,} calls after {WARM_UP:,}"
        yield Row(
            f"memory per call: {name}", held / MANY, NOISE_BYTES, NOISE_BYTES, "bytes", True, note
        )
        yield Row(f"open files: {name}", files, 0, 0, "more", True, f"over {MANY:,} calls")
    for name, formula in composites().items():
        yield joining(name, formula)


def calls() -> dict[str, Callable[[], object]]:
    formula, theta = Formula(CLAUSES), np.linspace(-1, 1, 7)
    samples = nelson.sample(formula, theta, 64, seed=1).to_numpy()
    seeds = iter(range(10**9))
    every: dict[str, Callable[[], object]] = {
        "sample, n = 1": lambda: nelson.sample(formula, theta, 1, seed=next(seeds)),
        "sample, n = 64": lambda: nelson.sample(formula, theta, 64, seed=next(seeds)),
        "sample, a new formula": lambda: nelson.sample(
            Formula(CLAUSES), theta, 64, seed=next(seeds)
        ),
        "satisfied, 64 rows": lambda: formula.satisfied(samples),
        **of_a_bus(),
    }
    if find_spec("torch") is not None:
        import torch

        from nelson.distribution.mrf import ConstrainedMRF

        model = ConstrainedMRF(formula, torch.as_tensor(theta))
        every["ConstrainedMRF.sample, 64"] = lambda: model.sample((64,))
    return every


def of_a_bus() -> dict[str, Callable[[], object]]:
    """One row of the space of the README, asked for in several ways."""
    bus = nelson.Space()
    addr = bus.integer("addr", 0, 0xFFFF)
    length = bus.integer("len", 1, 15)
    burst = bus.choice("burst", ["FIXED", "INCR", "WRAP"])
    bus.require(addr + length <= 0xFFFF, addr % 4 == 0)
    bus.require((burst == "WRAP").implies(length.isin([2, 4, 8])))
    plan, addresses = bus.plan(), itertools.cycle(range(0, 65_000, 4))
    rows = plan.rows()
    return {
        "Space.sample, one row": lambda: bus.sample(1),
        "the next row of a plan": lambda: next(rows),
        "Space.sample, one row, another value given": lambda: bus.sample(
            1, given={"addr": next(addresses)}
        ),
    }


def microseconds(call: Callable[[], object]) -> tuple[float, float]:
    """Median and 95% quantile of the time of one call."""
    for _ in range(TIMED // 4):
        call()
    times = []
    for _ in range(TIMED):
        started = time.perf_counter()
        call()
        times.append(1e6 * (time.perf_counter() - started))
    return statistics.median(times), statistics.quantiles(times, n=20)[-1]


def growth(call: Callable[[], object]) -> tuple[int, int]:
    """Resident bytes and open files that `MANY` calls add."""
    process = psutil.Process()
    for _ in range(WARM_UP):
        call()
    gc.collect()
    held, files = process.memory_info().rss, process.num_fds()
    for _ in range(MANY):
        call()
    gc.collect()
    return process.memory_info().rss - held, process.num_fds() - files


def composites() -> dict[str, Formula]:
    """Formulas that preprocessing makes much smaller."""
    return {
        "circuit of 300 gates, 20 outputs given": random_circuit(30, 300, 20),
        "circuit of 1,000 gates": gates(400, 1000),
        "circuit of 9,000 gates": gates(2000, 9000),
    }


def gates(inputs: int, count: int, seed: int = 0) -> Formula:
    """And, or and xor gates, and copies, of inputs and recent wires; every output is free."""
    random, circuit = np.random.default_rng(seed), Circuit(inputs)
    wires = list(range(1, inputs + 1))
    for kind in random.random(count).tolist():
        recent = len(wires) - 1 - random.integers(0, 400, 2)
        places = np.where(random.random(2) < 0.6, recent, random.integers(0, inputs, 2)).tolist()
        a, b = (wires[k] * sign for k, sign in zip(places, random.choice([-1, 1], 2), strict=True))
        if kind < 0.2 or abs(a) == abs(b):
            wires.append(circuit.wire())
            circuit.clauses += [[-wires[-1], a], [wires[-1], -a]]
        else:
            make = (
                circuit.both if kind < 0.55 else circuit.either if kind < 0.95 else circuit.differ
            )
            wires.append(make(a, b))
    return Formula([[int(a) for a in clause] for clause in circuit.clauses], n_vars=circuit.n)


def joining(name: str, formula: Formula) -> Row:
    """The draw of a formula in parts, against the sum of its parts."""
    n, problem = formula.n_vars, prepare(formula)
    count = 64 * max(256, 2_000_000 // n // 4)
    decision = auto.decide(problem, np.zeros((1, n)), Budget(threads=1))

    def drawn(blocks: Any, problem: Problem, theta: np.ndarray, sweeps: int = 0) -> float:
        one, every = np.zeros(1, np.int64), np.arange(theta.shape[1])
        request = Request(theta, one, count, count, 1, every, sweeps, 1000, Budget(threads=1))
        return seconds(lambda: list(blocks(problem, request))) / count

    def whole() -> float:
        return drawn(auto.sampler({(): decision}).blocks, problem, np.zeros((1, n)))

    def parts() -> float:
        held = sum(len(group.variables) for group in decision.groups)
        free = np.zeros((1, n - held))
        total = drawn(get("lovasz").blocks, prepare(Formula([], n_vars=n - held)), free)
        return total + sum(
            drawn(get(group.method).blocks, group.problem, group.theta, group.sweeps)
            for group in decision.groups
        )

    figure, ours, sum_of_parts = ratio(whole, parts)
    methods = " + ".join(f"{g.method} of {len(g.variables)}" for g in decision.groups)
    note = f"{n:,} variables as {methods}: {ours * 1e6:.3g} us a sample, "
    note += f"the parts {sum_of_parts * 1e6:.3g} us"
    return Row(f"joining parts: {name}", figure, 3, 1.5, at_most=True, note=note)
