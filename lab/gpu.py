"""On a GPU: valid samples per second, against the dense formulation in torch on the same card.

    python -m lab gpu            needs an NVIDIA GPU; prints the table, writes gpu.svg

A time is the wall-clock time of a whole call of `nelson.sample(..., device="cuda")`, which returns
when the card is done: the median of five calls. Before, the kernels are compiled and the formula is
copied to the card. The dense formulation gets its best batch size, and its samples stay on the card
like ours.

The floor is the larger of two times: the bytes of the samples, each written once, divided by the
memory bandwidth; and the necessary operations divided by the integer rate of the card. Necessary
operations are

- 12 for each random word of 64 bits. A Bernoulli draw for 64 lanes needs log2(64) + 1.33 words per
  variable and round on average.
- one AND for each literal and 32 lanes, each time a clause is evaluated.

Instructions that load, store, branch or search are not counted.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

import nelson
from lab.common import Row, ksat, seconds
from tests.problems import random_ksat, sink_free

#: Integer instructions that one random word of 64 bits takes.
_OPERATIONS_PER_RANDOM_WORD = 12
#: Integer instructions that one multiprocessor of an H200 starts in a clock cycle.
_OPERATIONS_PER_CYCLE = 64
#: Random words that a weighted draw for 64 lanes takes on average: log2(64) + 1.33.
_WORDS_PER_WEIGHTED_DRAW = 7.33
#: Hertz: the clock that the H200's counters show under this load.
_CLOCK = 1.98e9


def rows() -> Iterator[Row]:
    import torch

    if not torch.cuda.is_available():
        print("gpu: skipped, because this machine has no NVIDIA GPU")
        return
    card = _Card()
    print(card)
    rates: dict[int, float] = {}
    floors: dict[int, float] = {}
    dense: dict[int, _Dense] = {}
    for n, count in ((100, 1 << 28), (300, 1 << 27), (1000, 1 << 27), (3000, 1 << 23)):
        f, theta = ksat(n)
        rates[n], floors[n] = _rate(f, theta, count), card.floor(f, theta)
        dense[n] = _dense(f, theta)
        rate, floor = rates[n] / 1e9, floors[n] / 1e9
        print(f"n = {n}: {rate:.3f} G samples/s, floor {floor:.2f}, dense torch {dense[n]}")
    f, theta = ksat(1000)
    yield _rate_row("n = L = 1000, weighted", rates[1000], 0.8, 2, floors[1000])
    peer, note = dense[1000], f"{dense[1000]}; valid samples leave the batch"
    yield Row("n = L = 1000, against dense torch", rates[1000] / peer.rate, 1500, 1500, note=note)
    peer = _dense(f, theta, tf32=True)
    note = f"{peer}; TF32 represents 0 and 1 exactly; no goal"
    yield Row("  against the same in TF32", rates[1000] / peer.rate, None, None, note=note)
    floor = card.floor(f, np.zeros(1000))
    yield _rate_row("n = L = 1000, uniform", _rate(f, None, 1 << 27), 1.2, 3, floor)
    yield _rate_row("n = L = 100, weighted", rates[100], 6, 12, floors[100])
    yield _sink_free(card)
    yield _million(card)
    yield _cd(f, theta, card)
    draw = _seconds(lambda: _sample(f, theta, 1 << 24))
    swept = _seconds(lambda: _sample(f, theta, 1 << 24, sweeps=8))
    yield Row(
        "n = 1000: 8 sweeps against the draw",
        (swept - draw) / draw,
        6,
        4,
        at_most=True,
        note=f"floor {8 * card.sweep(f, theta) / card.draw(f, theta):.1f}",
    )
    for clauses in (800, 1000):
        yield _coupled(clauses, "uniform", 0.0)
        yield _coupled(clauses, "weighted", 1.0)
    _picture(rates, dense, card)


class _Card:
    """The card, and the floor that its bandwidth and its integer rate set."""

    def __init__(self) -> None:
        import torch

        self.name = torch.cuda.get_device_name()
        self.processors = torch.cuda.get_device_properties(0).multi_processor_count
        a = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
        b = torch.empty_like(a)
        took = _seconds(lambda: (b.copy_(a), torch.cuda.synchronize()))
        self.bandwidth = 2 * a.numel() / took  # bytes per second, read and written

    def __str__(self) -> str:
        return (
            f"{self.name}, {self.processors} multiprocessors, copies "
            f"{self.bandwidth / 1e12:.2f} TB/s"
        )

    def floor(self, f: nelson.Formula, theta: np.ndarray, count: int = 4096) -> float:
        """Samples per second if only the necessary operations and bytes took time."""
        return 1 / max(self.draw(f, theta, count), f.n_vars / 8 / self.bandwidth)

    def draw(self, f: nelson.Formula, theta: np.ndarray, count: int = 4096) -> float:
        """Seconds that the necessary operations of a sample take.

        How often variables are resampled is measured on the CPU, on `count` samples.
        """
        s = nelson.sample(f, theta, count, method="lovasz", sweeps=0, seed=1)
        n, weighted = f.n_vars, theta.any()
        resampled = s.info["resampled"] * len(f.literals) / max(1, f.n_clauses) / count / n
        # All 64 lanes are drawn once; then `resampled` lanes of each variable, in about 3 rounds.
        words = _WORDS_PER_WEIGHTED_DRAW if weighted else 1.0
        words += resampled * 64 / (4.0 if weighted else 10.0)
        drawing = n * words * _OPERATIONS_PER_RANDOM_WORD / 64
        return self._seconds(drawing + len(f.literals) * 2 * 3 / 64)

    def sweep(self, f: nelson.Formula, theta: np.ndarray) -> float:
        """The same for a sweep.

        Every variable is drawn, and for each of its clauses the other literals are evaluated.
        """
        words = _WORDS_PER_WEIGHTED_DRAW if theta.any() else 1.0
        lengths = np.diff(f.offsets)
        evaluated = int((lengths * (lengths - 1)).sum())
        drawing = f.n_vars * words * _OPERATIONS_PER_RANDOM_WORD / 64
        return self._seconds(drawing + evaluated * 2 / 64)

    def _seconds(self, operations: float) -> float:
        return operations / (self.processors * _OPERATIONS_PER_CYCLE * _CLOCK)


def _sample(f: nelson.Formula, theta: np.ndarray | None, count: int, sweeps: int = 0) -> object:
    return nelson.sample(f, theta, count, method="lovasz", sweeps=sweeps, seed=1, device="cuda")


def _seconds(job: Callable[[], object], repetitions: int = 5) -> float:
    """The median wall-clock time, after one run that is not timed."""
    job()
    return statistics.median(seconds(job, time.perf_counter) for _ in range(repetitions))


def _rate(f: nelson.Formula, theta: np.ndarray | None, count: int) -> float:
    return count / _seconds(lambda: _sample(f, theta, count))


def _rate_row(name: str, rate: float, must: float, aim: float, floor: float) -> Row:
    return Row(name, rate / 1e9, must, aim, "G samples/s", note=f"floor {floor / 1e9:.1f}")


class _Dense(NamedTuple):
    """The speed of the dense formulation, in samples per second, and its batch size."""

    rate: float
    batch: int

    def __str__(self) -> str:
        return f"{self.rate:,.0f}/s in batches of {self.batch:,}"


def _dense(f: nelson.Formula, theta: np.ndarray, tf32: bool = False) -> _Dense:
    """The best speed: the batch is made four times as large until that gains less than 3%."""
    import torch

    from lab.dense_rate import dense_rate

    best, batch = _Dense(0.0, 0), 1024
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = tf32
    try:
        helps = True
        while helps:
            rate = dense_rate(f, theta, batch=batch, seconds=0.5, device="cuda")
            helps = rate > 1.03 * best.rate
            best, batch = max(best, _Dense(rate, batch)), 4 * batch
    except torch.cuda.OutOfMemoryError:
        pass  # the best of the smaller batches counts
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    return best


def _sink_free(card: _Card) -> Row:
    random = np.random.default_rng(1)
    edges = [(u, v) for u in range(50) for v in range(u + 1, 50) if random.random() < 0.55]
    f = sink_free(edges, 50)
    rate = _rate(f, None, 1 << 26)
    floor = card.floor(f, np.zeros(len(edges)))
    note = f"exact; floor {floor / 1e9:.1f}"
    return Row("sink-free, 50 vertices, p = 0.55", rate / 1e9, None, None, "G samples/s", note=note)


def _coupled(clauses: int, name: str, scale: float) -> Row:
    """Exact samples of a formula that is not extremal, by coupling from the past."""
    f = random_ksat(1000, clauses, 5)
    theta = scale * np.random.default_rng(1).normal(size=1000)
    count, drawn = 1 << 22, []

    def draw() -> None:
        drawn.append(nelson.sample(f, theta, count, method="cftp", seed=1, device="cuda"))
        del drawn[:-1]

    rate = count / _seconds(draw)
    s = drawn[0]
    note = f"{len(s):,} samples, {s.guarantee}; the longest run has {s.info['rounds']} sweeps"
    must, aim = (10, 20) if clauses == 800 else (None, None)
    name = f"cftp, n = 1000, L = {clauses}, {name}"
    return Row(name, rate / 1e6, must, aim, "M samples/s", note=note)


def _million(card: _Card) -> Row:
    import torch

    f, theta = ksat(1_000_000)
    torch.cuda.empty_cache()  # otherwise this case would reuse memory and `held` would not show it
    before = torch.cuda.mem_get_info()[0]
    s = _sample(f, theta, 1 << 15)
    held = (before - torch.cuda.mem_get_info()[0]) / 1e9
    rate = (1 << 15) / _seconds(lambda: _sample(f, theta, 1 << 15), 2)
    floor = card.floor(f, theta, count=64)
    note = f"{len(s)} samples, {s.status}; {held:.1f} GB on the card; floor {floor:,.0f}"
    return Row("n = L = 1,000,000, weighted", rate, None, None, "samples/s", note=note)


def _cd(f: nelson.Formula, theta: np.ndarray, card: _Card) -> Row:
    """One step of contrastive divergence: draw m samples, take the mean, update theta (on the CPU).

    NELSON-CD is Algorithm 2 of the paper.
    """
    goal = np.full(f.n_vars, 0.5)
    state = {"theta": theta.copy()}

    def step() -> None:
        mean = _sample(f, state["theta"], 65_536).mean()
        state["theta"] += 0.1 * (goal - mean)

    note = f"floor {1e3 * 65_536 / card.floor(f, theta):.2f} ms"
    took = 1e3 * _seconds(step, 15)
    name = "NELSON-CD, n = 1000, m = 65,536: one iteration"
    return Row(name, took, 3, 1, "ms", at_most=True, note=note)


def _picture(rates: dict[int, float], dense: dict[int, _Dense], card: _Card) -> None:
    import matplotlib.pyplot as plt

    from nelson_paper import style

    with style.style():
        figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
        sizes = sorted(rates)
        ours, theirs = [rates[n] for n in sizes], [dense[n].rate for n in sizes]
        axes.loglog(sizes, ours, "o-", color=style.BLUE)
        axes.loglog(sizes, theirs, "s--", color=style.GREY)
        for n, fast, slow in zip(sizes, ours, theirs, strict=True):
            place = n, (fast * slow) ** 0.5
            axes.annotate(f"{fast / slow:,.0f} x", place, ha="center", fontsize="small")
        style.measured(
            axes,
            xlabel="variables (and clauses) of random 5-SAT, θ ~ N(0, 1)",
            ylabel="valid samples per second",
            title=f"{card.name}: one call, wall time",
        )
        batches = f"float32, batches of {min(d.batch for d in dense.values()):,} or more"
        ends = [(ours[-1], "nelson, packed bits", style.BLUE)]
        ends.append((theirs[-1], f"dense W, b, V in torch\n({batches})", style.GREY))
        style.label_ends(axes, ends)
        figure.savefig("gpu.svg")
    print("gpu.svg written")
