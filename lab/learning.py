"""Learning: time of an iteration, distance to a planted theta*, error of the gradient.

Speeds are ratios measured within one run. A statistical figure is the mean over several seeds; its
note says how many seeds and gives the worst.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

import nelson
from lab.common import Row, ksat, ratio
from nelson import metrics
from nelson.budget import Budget
from nelson.exact.enumerated import law
from nelson.learning import PAPER
from nelson.learning.draw import Drawer
from nelson.learning.learn import Fit, learn
from nelson.sampling.method_choice import verdict_for
from nelson_paper.gradient_error import gradient_error, gradient_floor
from tests.problems import sink_free

#: Examples N, and seeds (each with another formula), of the fits to a planted theta*.
EXAMPLES = 10_000
SEEDS = 16


class Timing(NamedTuple):
    """Seconds per iteration."""

    sampling: float
    update: float

    @property
    def total(self) -> float:
        return self.sampling + self.update


def time_per_iteration(history: Sequence[dict[str, Any]]) -> Timing:
    """Medians over the iterations of a `History`."""
    return Timing(*(float(np.median([row[k] for row in history])) for k in Timing._fields))


def iteration() -> Iterator[Row]:
    """One iteration of Algorithm 2 with n = L = 1000 and m = 200.

    The peer is the same loop with the paper's dense sampler in it.
    """
    import torch

    from lab.dense_rate import Dense

    formula, theta = ksat(1000)
    data = nelson.sample(formula, theta, 2000, seed=1)

    def with_dense(compact: bool) -> Any:
        dense = Dense(formula, theta, compact=compact)

        def draw(formula: nelson.Formula, at: np.ndarray, m: int, seed: int) -> np.ndarray:
            torch.manual_seed(seed)
            dense.at(at)
            return dense.batch(m)[:, : formula.n_vars].numpy()

        return draw

    def seconds(sampler: Any, iterations: int, **more: Any) -> float:
        """The median time of an iteration in one run that starts at the planted theta."""
        optimizer = replace(PAPER, iterations=iterations, **more)
        options: dict[str, Any] = {"optimizer": optimizer, "seed": 1, "threads": 1}
        fit = learn(formula, data, method=sampler or "auto", theta0=theta, **options)
        return time_per_iteration(fit.history).total

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for name, options, compact, must in (
            ("CD iteration, n=L=1000, m=200, against the dense sampler", {}, False, 150),
            ("  against the dense sampler, improved", {}, True, 1),
            ("  ours with 12 sweeps (little bias)", {"sweeps": 12}, False, 1),
        ):
            dense_sampler = with_dense(compact)
            figure, peer, ours = ratio(
                lambda dense_sampler=dense_sampler: seconds(dense_sampler, 2),
                lambda options=options: seconds("lovasz", 50, **options),
                5,
            )
            note = f"{ours * 1e3:.2f} ms against {peer * 1e3:,.0f} ms"
            note += "; valid samples leave its batch" if compact else ""
            yield Row(name, figure, must, must, note=note)
    finally:
        torch.set_num_threads(threads)


def four_regular(edges: int, seed: int) -> nelson.Formula:
    """Sink-free orientations of a random graph with four edges at each vertex: extremal."""
    import networkx

    graph = networkx.random_regular_graph(4, edges // 2, seed=seed)
    return sink_free(list(graph.edges()), len(graph))


def planted() -> Iterator[Row]:
    """KL(theta*, learned theta) divided by n / (2 N), its mean for a maximum-likelihood fit."""
    for name, make in (
        ("sink-free, 60 edges", lambda seed: four_regular(60, seed)),
        ("5-SAT, n = L = 100", lambda seed: ksat(100, seed=seed)[0]),
    ):
        ratios, seconds, converged, bars = [], [], 0, []
        for seed in range(SEEDS):
            formula = make(seed)
            theta = np.random.default_rng(seed).normal(size=formula.n_vars)
            data = nelson.sample(formula, theta, EXAMPLES, seed=1000 + seed)
            started = time.perf_counter()
            fit: Fit = learn(formula, data, seed=seed, threads=1)
            seconds.append(time.perf_counter() - started)
            converged += fit.converged
            kl = metrics.kl(formula, theta, fit.theta, samples=1 << 18, seed=7)
            limit = formula.n_vars / (2 * EXAMPLES)
            ratios.append(kl.value / limit)
            bars.append(kl.half_width / limit)
        note = (
            f"mean of {SEEDS} seeds, worst {max(ratios):.2f} (± {max(bars):.2f}); "
            f"{converged} converged; median {np.median(seconds):.2f} s"
        )
        title = f"planted theta*, {name}: KL / (n/2N)"
        yield Row(title, float(np.mean(ratios)), 1.5, 1.1, "x", True, note)


def gradient() -> Iterator[Row]:
    """L1 error of grad log Z divided by the error that m exact draws leave; 5-SAT, n = L = 10..18.

    The latter is the Monte Carlo floor, `gradient_floor`.
    """
    for m, formulas, must in ((2_000, 20, 1.25), (2_000_000, 6, 2.0)):
        errors, floors, worst = [], [], 0.0
        for n in range(10, 19, 2):
            for seed in range(formulas):
                formula, theta = ksat(n, seed=seed)
                states, p = law(formula, theta)
                exact = p @ states
                drawer = Drawer(formula, "auto", None, seed, Budget.of(threads=1))
                drawer.refresh(theta)
                errors.append(gradient_error(drawer(theta, m, 1).mean, exact))
                floors.append(gradient_floor(exact, m))
                worst = max(worst, errors[-1] / floors[-1])
        note = f"L1 {np.mean(errors):.3g}, floor {np.mean(floors):.3g}; {len(errors)} formulas, "
        note += f"worst {worst:.2f}"
        name = f"grad log Z, m = {m:,}: L1 error / Monte Carlo floor"
        yield Row(name, float(np.mean(errors) / np.mean(floors)), must, 1.1, "x", True, note)


def paper() -> Iterator[Row]:
    """The time of a whole call of `learn`, n = L = 1000, on one core."""
    formula, theta = ksat(1000)
    data = nelson.sample(formula, theta, 2000, seed=1)
    learn(formula, data, optimizer=replace(PAPER, iterations=5), threads=1)  # compiles the kernels
    for name in ("", ", with sweeps"):
        started, optimizer = time.perf_counter(), PAPER
        if name:  # a pilot run decides how many sweeps remove the bias of plain resampling
            optimizer = replace(PAPER, sweeps=verdict_for(formula, theta).sweeps)
        fit = learn(formula, data, optimizer=optimizer, seed=1, threads=1)
        spent = time.perf_counter() - started
        timing = time_per_iteration(fit.history)
        note = f"sampling {timing.sampling * 1e3:.2f} ms, update {timing.update * 1e3:.2f} ms"
        note += f" per iteration; KL to theta* {metrics.kl(formula, theta, fit.theta)!s}"
        yield Row(f"paper preset, n=1000, 1,000 iterations{name}", spent, 30, 5, "s", True, note)
    started = time.perf_counter()
    fit = learn(formula, data, seed=1, threads=1)
    spent = time.perf_counter() - started
    note = f"{len(fit.history)} iterations; KL to theta* {metrics.kl(formula, theta, fit.theta)!s}"
    yield Row("  default preset, same data", spent, 30, 5, "s", True, note)


ALL = {"cd": iteration, "planted": planted, "gradient": gradient, "paper": paper}
