"""On a GPU: valid samples a second, against the dense formulation in torch on the same card.

    python -m benchmarks gpu            needs an NVIDIA GPU; prints the table, writes gpu.png

Times are wall times of whole calls of `nelson.sample(..., device="cuda")` that end when the card is
done; kernels are compiled and the formula is on the card before the clock starts; the median of
five. The dense formulation is given its best batch size; its samples stay on the card too.

The floor of a case is the larger of two times: bytes (the samples written once) over the memory
bandwidth, and operations over the integer rate. Operations counted: 12 a random word of 64 bits,
with as few words as the binary expansions need (log2(lanes) + 1.33 a variable and round), and one
AND a literal and 32 lanes in each look at a clause. Every instruction that finds, moves or decides
something is left out.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

import nelson
from benchmarks.common import Row, ksat

#: Integer instructions of a random word, lanes of the integer units of a multiprocessor.
_WORD, _LANES = 12, 64
#: Random words that 64 weighted lanes take: log2(64) + 1.33.
_FIRST = 7.33


def rows() -> Iterator[Row]:
    import torch

    if not torch.cuda.is_available():
        print("gpu: no NVIDIA GPU here; skipped")
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
        print(f"n = {n}: {rates[n] / 1e9:.3f} G/s, floor {floors[n] / 1e9:.2f}, dense {dense[n]}")
    f, theta = ksat(1000)
    yield _samples("n = L = 1000, weighted", rates[1000], 0.8, 2, floors[1000])
    peer, note = dense[1000], f"{dense[1000]}; valid samples leave the batch"
    yield Row("n = L = 1000, against dense torch", rates[1000] / peer.rate, 1500, 1500, note=note)
    peer = _dense(f, theta, tf32=True)
    note = f"{peer}; 0 and 1 lose nothing by it; not asked for"
    yield Row("  against the same in TF32", rates[1000] / peer.rate, None, None, note=note)
    floor = card.floor(f, np.zeros(1000))
    yield _samples("n = L = 1000, uniform", _rate(f, None, 1 << 27), 1.2, 3, floor)
    yield _samples("n = L = 100, weighted", rates[100], 6, 12, floors[100])
    yield _sink_free(card)
    yield _million(card)
    yield _cd(f, theta, card)
    draw = _seconds(lambda: _sample(f, theta, 1 << 24))
    swept = _seconds(lambda: _sample(f, theta, 1 << 24, sweeps=8))
    yield Row(
        "8 sweeps, n = 1000, over the draw",
        (swept - draw) / draw,
        6,
        4,
        at_most=True,
        note=f"floor {8 * card.sweep(f, theta) / card.draw(f, theta):.1f}",
    )
    _picture(rates, dense, card)


class _Card:
    """What the floor is computed from: measured bandwidth, and the clock under load."""

    def __init__(self) -> None:
        import torch

        self.name = torch.cuda.get_device_name()
        self.processors = torch.cuda.get_device_properties(0).multi_processor_count
        a = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
        b = torch.empty_like(a)
        took = _seconds(lambda: (b.copy_(a), torch.cuda.synchronize()))
        self.bandwidth = 2 * a.numel() / took
        self.clock = 1.98e9  # boost clock of the H200, as its own counters read under this load

    def __str__(self) -> str:
        return (
            f"{self.name}, {self.processors} multiprocessors, copy {self.bandwidth / 1e12:.2f} TB/s"
        )

    def floor(self, f: nelson.Formula, theta: np.ndarray, count: int = 4096) -> float:
        """Samples a second if only the counted operations and bytes took time."""
        return 1 / max(self.draw(f, theta, count), f.n_vars / 8 / self.bandwidth)

    def draw(self, f: nelson.Formula, theta: np.ndarray, count: int = 4096) -> float:
        """Seconds that the counted operations of a sample take; from so many drawn on the CPU."""
        s = nelson.sample(f, theta, count, method="lovasz", sweeps=0, seed=1)
        n, weighted = f.n_vars, theta.any()
        resampled = s.info["resampled"] * len(f.literals) / max(1, f.n_clauses) / count / n
        # A first draw of 64 lanes; then `resampled` lanes of each variable, in about three rounds.
        words = _FIRST if weighted else 1.0
        words += resampled * 64 / (4.0 if weighted else 10.0)
        return self._seconds(n * words * _WORD / 64 + len(f.literals) * 2 * 3 / 64)

    def sweep(self, f: nelson.Formula, theta: np.ndarray) -> float:
        """The same for a sweep: variables are drawn, the others of their clauses looked at."""
        words = _FIRST if theta.any() else 1.0
        lengths = np.diff(f.offsets)
        looked_at = int((lengths * (lengths - 1)).sum())
        return self._seconds(f.n_vars * words * _WORD / 64 + looked_at * 2 / 64)

    def _seconds(self, operations: float) -> float:
        return operations / (self.processors * _LANES * self.clock)


def _sample(f: nelson.Formula, theta: np.ndarray | None, count: int, sweeps: int = 0) -> object:
    return nelson.sample(f, theta, count, method="lovasz", sweeps=sweeps, seed=1, device="cuda")


def _seconds(job: Callable[[], object], repetitions: int = 5) -> float:
    job()
    times = []
    for _ in range(repetitions):
        started = time.perf_counter()
        job()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def _rate(f: nelson.Formula, theta: np.ndarray | None, count: int) -> float:
    return count / _seconds(lambda: _sample(f, theta, count))


def _samples(name: str, rate: float, must: float, aim: float, floor: float) -> Row:
    return Row(name, rate / 1e9, must, aim, "G samples/s", note=f"floor {floor / 1e9:.1f}")


class _Dense(NamedTuple):
    """The dense formulation: samples a second, in batches of so many."""

    rate: float
    batch: int

    def __str__(self) -> str:
        return f"{self.rate:,.0f}/s in batches of {self.batch:,}"


def _dense(f: nelson.Formula, theta: np.ndarray, tf32: bool = False) -> _Dense:
    """At its best: batches four times as large, until that helps by less than 3%."""
    import torch

    from benchmarks.dense_torch import dense_rate

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
        pass  # smaller batches were measured
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    return best


def _sink_free(card: _Card) -> Row:
    random = np.random.default_rng(1)
    edges = [(u, v) for u in range(50) for v in range(u + 1, 50) if random.random() < 0.55]
    clauses: list[list[int]] = [[] for _ in range(50)]
    for e, (u, v) in enumerate(edges, 1):
        clauses[u].append(e)
        clauses[v].append(-e)
    f = nelson.Formula(clauses, n_vars=len(edges))
    rate = _rate(f, None, 1 << 26)
    floor = card.floor(f, np.zeros(len(edges)))
    note = f"exact; floor {floor / 1e9:.1f}"
    return Row("sink-free, 50 vertices, p = 0.55", rate / 1e9, None, None, "G samples/s", note=note)


def _million(card: _Card) -> Row:
    import torch

    f, theta = ksat(1_000_000)
    torch.cuda.empty_cache()  # what earlier cases held would be used again, and not be seen
    before = torch.cuda.mem_get_info()[0]
    s = _sample(f, theta, 1 << 15)
    held = (before - torch.cuda.mem_get_info()[0]) / 1e9
    rate = (1 << 15) / _seconds(lambda: _sample(f, theta, 1 << 15), 2)
    floor = card.floor(f, theta, count=64)
    note = f"{len(s)} samples, {s.status}; {held:.1f} GB on the card; floor {floor:,.0f}"
    return Row("n = L = 1,000,000, weighted", rate, None, None, "samples/s", note=note)


def _cd(f: nelson.Formula, theta: np.ndarray, card: _Card) -> Row:
    """One step of plain contrastive divergence: draw m, mean, update; theta stays on the host."""
    goal = np.full(f.n_vars, 0.5)
    state = {"theta": theta.copy()}

    def step() -> None:
        mean = _sample(f, state["theta"], 65_536).mean()
        state["theta"] += 0.1 * (goal - mean)

    note = f"floor {1e3 * 65_536 / card.floor(f, theta):.2f}"
    took = 1e3 * _seconds(step, 15)
    return Row("NELSON-CD, n = 1000, m = 65,536", took, 3, 1, "ms", at_most=True, note=note)


def _picture(rates: dict[int, float], dense: dict[int, _Dense], card: _Card) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    sizes = sorted(rates)
    axes.loglog(sizes, [rates[n] for n in sizes], "o-", label="nelson")
    axes.loglog(
        sizes, [dense[n].rate for n in sizes], "s--", color="grey", label="dense W, b, V in torch"
    )
    axes.set_xlabel("variables (and clauses) of a random 5-SAT formula")
    axes.set_ylabel("valid samples a second")
    axes.set_title(card.name)
    axes.grid(alpha=0.3, which="both")
    axes.legend()
    figure.savefig("gpu.png", dpi=150)
    print("gpu.png written")
