"""On a GPU: valid samples per second, against the dense formulation in torch on the same card.

    python -m lab.gpu gpu.json         needs an NVIDIA GPU, torch and numba-cuda; at most 8 minutes
    python -m lab page gpu gpu.json    table and picture of docs/gpu.md from that file, anywhere

A time is the wall-clock time of a whole call of `nelson.sample(..., device="cuda")`, which returns
when the card is done: the median of up to five calls, after one that compiles the kernels and
copies the formula to the card. *Dense* is the paper's formulation (`DenseLayer`) in float32 and in
TF32, at every batch size that fits; its samples stay on the card like ours.

The floor is the larger of two times: the bytes of the samples, each written once, divided by the
memory bandwidth; and the necessary operations divided by the integer rate of the card. Necessary
operations are

- 12 for each random word of 64 bits. A Bernoulli draw for 64 lanes needs log2(64) + 1.33 words per
  variable and round on average.
- one AND for each literal and 32 lanes, each time a clause is evaluated.

Instructions that load, store, branch or search are not counted.

This module loads nothing but nelson, NumPy and torch, so it runs where nothing can be installed.
The file is written after each measurement; what the time did not suffice for is named in it.
"""

from __future__ import annotations

import contextlib
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

import nelson
from lab.common import ksat
from tests.problems import random_ksat, sink_free

#: Integer instructions that one random word of 64 bits takes.
_OPERATIONS_PER_RANDOM_WORD = 12
#: Integer instructions that one multiprocessor of an H200 starts in a clock cycle.
_OPERATIONS_PER_CYCLE = 64
#: Random words that a weighted draw for 64 lanes takes on average: log2(64) + 1.33.
_WORDS_PER_WEIGHTED_DRAW = 7.33
#: Hertz: the clock that the H200's counters show under this load.
_CLOCK = 1.98e9
#: Seconds of repetitions after which a time is taken as it is, with fewer than five of them.
_ENOUGH = 4.0


@dataclass(frozen=True)
class Scale:
    """How large the measured calls are."""

    sizes: tuple[tuple[int, int], ...] = ((1000, 27), (100, 28), (300, 27), (3000, 23))  # n, log2
    latencies: tuple[int, ...] = (0, 6, 10, 13, 16, 20, 24)  # log2 of the samples of a call
    dense_batches: tuple[int, ...] = (1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22)
    dense_seconds: float = 0.5
    layer: tuple[int, int] = (64, 64)  # rows of theta, samples of each
    sink_free: tuple[int, int] = (50, 26)  # vertices, log2 of the samples
    sweeps: int = 24  # log2
    cftp: tuple[int, int] = (1000, 22)  # variables, log2
    million: tuple[int, int] = (1_000_000, 15)  # variables, log2
    gradient: int = 65_536  # samples of a learning step
    same_bits: tuple[int, int] = (1000, 12)  # variables, log2
    pilot: int = 4096  # samples that say how often variables are resampled


#: For the simulator, where a launch takes seconds.
TINY = Scale(
    sizes=((12, 6), (10, 6)), latencies=(0, 6), dense_batches=(64, 128), dense_seconds=0.01,
    layer=(2, 4), sink_free=(5, 6), sweeps=6, cftp=(20, 6), million=(20, 6), gradient=64,
    same_bits=(12, 7), pilot=64,
)  # fmt: skip


def main(words: list[str]) -> int:
    if len(words) != 1 or words[0].startswith("-"):
        print(__doc__)
        return 2
    import torch

    if not torch.cuda.is_available():
        print("this machine has no NVIDIA GPU that torch can use")
        return 1
    Measurements(Scale(), Path(words[0]), "cuda", seconds=420.0).run()
    return 0


class Measurements:
    """All figures of the pages, one after the other, in the order of their importance.

    device     where the dense formulation runs; ours runs on "cuda", perhaps simulated
    seconds    no measurement begins after this time
    """

    def __init__(self, scale: Scale, target: Path, device: str, seconds: float) -> None:
        self.scale, self.target, self.device = scale, target, device
        self.started, self.seconds = time.perf_counter(), seconds
        self.card = Card(device, scale.pilot)
        self.found: dict[str, Any] = {"machine": self.card.described, "skipped": []}
        self.found |= {"cases": [], "dense": [], "latencies": [], "layers": []}

    def run(self) -> None:
        jobs: list[tuple[str, Callable[[], None]]] = []
        for n, log_count in self.scale.sizes:
            jobs.append((f"n = {n}", lambda n=n, k=log_count: self._weighted(n, k)))
            for tf32 in (False, True):
                name = f"dense, n = {n}, {'TF32' if tf32 else 'float32'}"
                jobs.append((name, lambda n=n, tf32=tf32: self._dense(n, tf32)))
        jobs += [
            ("uniform", self._uniform),
            ("latencies", self._latencies),
            ("layers", self._layers),
            ("sink-free", self._sink_free),
            ("learning", self._learning),
            ("sweeps", self._sweeps),
            ("cftp", self._coupled),
            ("million", self._million),
            ("same bits", self._same_bits),
        ]
        for name, job in jobs:
            if time.perf_counter() - self.started > self.seconds:
                self.found["skipped"].append(f"{name}: no time was left")
                continue
            begun = time.perf_counter()
            try:
                job()
            except Exception as error:  # the other figures are wanted all the same
                self.found["skipped"].append(f"{name}: {type(error).__name__}: {error}")
            print(f"{name}: {time.perf_counter() - begun:.1f} s", flush=True)
            self._write()
        self.found["seconds"] = time.perf_counter() - self.started
        self._write()

    def _write(self) -> None:
        self.target.write_text(json.dumps(self.found, indent=1))

    def _case(self, name: str, n: int, count: int, job: Callable[[], Any], **more: Any) -> None:
        times = repeated(job)
        rate = count / statistics.median(times)
        self.found["cases"].append(
            {"case": name, "n": n, "samples": count, "seconds": times, "rate": rate} | more
        )
        print(f"  {name}: {rate:,.0f}/s", flush=True)

    # -------------------------------------------------------------------------------- whole calls

    def _weighted(self, n: int, log_count: int) -> None:
        f, theta = ksat(n)
        floor = self.card.floor(f, theta)
        self._case("weighted", n, 1 << log_count, lambda: _sample(f, theta, 1 << log_count),
                   floor=floor)  # fmt: skip

    def _uniform(self) -> None:
        n, log_count = self.scale.sizes[0]
        f, _ = ksat(n)
        floor = self.card.floor(f, np.zeros(n))
        self._case("uniform", n, 1 << log_count, lambda: _sample(f, None, 1 << log_count),
                   floor=floor)  # fmt: skip

    def _latencies(self) -> None:
        """Calls for few samples: a call by itself, and a draw from a plan that was made before."""
        n = self.scale.sizes[0][0]
        f, theta = ksat(n)
        plan = nelson.plan(f, theta, method="lovasz", sweeps=0, device="cuda")
        for k in self.scale.latencies:
            call = repeated(lambda k=k: _sample(f, theta, 1 << k), 15)
            drawn = repeated(lambda k=k: plan.sample(1 << k, seed=1), 15)
            self.found["latencies"].append(
                {"n": n, "samples": 1 << k, "call": call, "plan": drawn}
            )  # fmt: skip

    def _sink_free(self) -> None:
        vertices, log_count = self.scale.sink_free
        random = np.random.default_rng(1)
        pairs = [(u, v) for u in range(vertices) for v in range(u + 1, vertices)]
        edges = [pair for pair in pairs if random.random() < 0.55]
        f = sink_free(edges, vertices)
        draw, floor = (
            lambda: _sample(f, None, 1 << log_count),
            self.card.floor(f, np.zeros(len(edges))),
        )
        self._case("sink-free", len(edges), 1 << log_count, draw, floor=floor, vertices=vertices,
                   guarantee=draw().guarantee)  # fmt: skip

    def _sweeps(self) -> None:
        n, count = self.scale.sizes[0][0], 1 << self.scale.sweeps
        f, theta = ksat(n)
        draw = statistics.median(repeated(lambda: _sample(f, theta, count)))
        swept = statistics.median(repeated(lambda: _sample(f, theta, count, sweeps=8)))
        self.found["sweeps"] = {
            "n": n, "samples": count, "draw": draw, "with 8 sweeps": swept,
            "floor": 8 * self.card.sweep(f, theta) / self.card.draw(f, theta),
        }  # fmt: skip

    def _coupled(self) -> None:
        """Exact samples of formulas that are not extremal, by coupling from the past."""
        n, log_count = self.scale.cftp
        for clauses in (4 * n // 5, n):
            f = random_ksat(n, clauses, 5)
            for law, scale in (("uniform", 0.0), ("weighted", 1.0)):
                theta = scale * np.random.default_rng(1).normal(size=n)
                drawn: list[Any] = []

                def draw(f: Any = f, theta: Any = theta, drawn: list[Any] = drawn) -> None:
                    drawn[:] = [
                        nelson.sample(
                            f, theta, 1 << log_count, method="cftp", seed=1, device="cuda"
                        )
                    ]

                self._case(f"cftp, L = {clauses}, {law}", n, 1 << log_count, draw)
                s = drawn[0]
                self.found["cases"][-1] |= {
                    "guarantee": s.guarantee, "got": len(s), "sweeps": s.info["rounds"]
                }  # fmt: skip

    def _million(self) -> None:
        import torch

        n, log_count = self.scale.million
        f, theta = ksat(n)
        memory = 0
        if torch.cuda.is_available():
            torch.cuda.empty_cache()  # otherwise this case would reuse memory, unseen
            memory = torch.cuda.mem_get_info()[0]
        s = _sample(f, theta, 1 << log_count)
        if torch.cuda.is_available():
            memory -= torch.cuda.mem_get_info()[0]
        floor = self.card.floor(f, theta, count=64)
        self._case("large", n, 1 << log_count, lambda: _sample(f, theta, 1 << log_count),
                   floor=floor, bytes=memory, status=s.status)  # fmt: skip

    def _learning(self) -> None:
        """A step of NELSON-CD (Algorithm 2): draw m samples, take the mean, update theta."""
        n, m = self.scale.sizes[0][0], self.scale.gradient
        f, theta = ksat(n)
        goal, state = np.full(n, 0.5), {"theta": theta.copy()}

        def step() -> None:
            state["theta"] += 0.1 * (goal - _sample(f, state["theta"], m).mean())

        times = repeated(step, 15)
        self.found["learning"] = {
            "n": n, "samples": m, "seconds": times, "floor": m / self.card.floor(f, theta)
        }  # fmt: skip

    # ----------------------------------------------------------------------------- dense in torch

    def _dense(self, n: int, tf32: bool) -> None:
        """Batches four times as large each time, until that gains less than 3% or does not fit."""
        from lab.dense_rate import dense_rate

        f, theta = ksat(n)
        best = 0.0
        with _products(tf32):
            for batch in self.scale.dense_batches:
                rate = self._dense_rate(dense_rate, f, theta, batch)
                entry = {"n": n, "precision": "TF32" if tf32 else "float32", "batch": batch}
                self.found["dense"].append(entry | {"rate": rate, "compact": True})
                if rate < 1.03 * best:
                    break
                best = rate
            if n == self.scale.sizes[0][0]:  # the loop of the paper: no sample leaves early
                batch = max(self.found["dense"], key=_rate_of(n, entry["precision"]))["batch"]
                rate = self._dense_rate(dense_rate, f, theta, batch, compact=False)
                self.found["dense"].append(
                    entry | {"batch": batch, "rate": rate, "compact": False}
                )  # fmt: skip

    def _dense_rate(self, measure: Any, f: Any, theta: Any, batch: int, **more: Any) -> float:
        import torch

        seconds = self.scale.dense_seconds
        try:
            rate = measure(f, theta, batch=batch, seconds=seconds, device=self.device, **more)
            return float(rate)
        except torch.cuda.OutOfMemoryError:
            return 0.0  # the smaller batches count
        finally:
            if torch.cuda.is_available():
                torch.cuda.empty_cache()

    def _layers(self) -> None:
        """A training step of both layers: samples of each row of theta, a loss, its gradient."""
        import torch

        from nelson.distribution.dense import DenseLayer
        from nelson.distribution.layer import LovaszLayer

        n, (rows, m) = self.scale.sizes[0][0], self.scale.layer
        f, theta = ksat(n)
        logits = torch.tensor(np.tile(theta, (rows, 1)), dtype=torch.float32, device=self.device)
        logits.requires_grad_()
        weights = torch.linspace(-1, 1, n, device=self.device)

        def step(layer: Any) -> None:
            logits.grad = None
            layer.expectation(lambda x: (x * weights).sum(-1).square(), logits).sum().backward()
            if torch.cuda.is_available():
                torch.cuda.synchronize()

        ours = LovaszLayer(f, m, method="lovasz", sweeps=0)
        dense = DenseLayer(f, m).to(self.device)
        for name, layer, tf32 in (
            ("LovaszLayer", ours, False),
            ("DenseLayer, float32", dense, False),
            ("DenseLayer, TF32", dense, True),
        ):
            with _products(tf32):
                times = repeated(lambda layer=layer: step(layer), 15)
            self.found["layers"].append(
                {"layer": name, "n": n, "rows": rows, "samples": m, "seconds": times}
            )

    # ------------------------------------------------------------------------------ same as a CPU

    def _same_bits(self) -> None:
        n, log_count = self.scale.same_bits
        f, theta = ksat(n)
        for sweeps in (0, 2):
            card = _sample(f, theta, 1 << log_count, sweeps).to_numpy()
            host = nelson.sample(f, theta, 1 << log_count, method="lovasz", sweeps=sweeps, seed=1)
            same = bool((card == host.to_numpy()).all()) and bool(f.satisfied(card).all())
            self.found.setdefault("same bits", []).append(
                {"n": n, "samples": 1 << log_count, "sweeps": sweeps, "same": same}
            )


class Card:
    """The card, and the floor that its bandwidth and its integer rate set."""

    def __init__(self, device: str, pilot: int = 4096) -> None:
        import torch

        self.pilot = pilot
        self.name, self.processors = "simulated", 1
        if device == "cuda":
            self.name = torch.cuda.get_device_name()
            self.processors = torch.cuda.get_device_properties(0).multi_processor_count
        a = torch.empty(1 << 30 if device == "cuda" else 1 << 16, dtype=torch.uint8, device=device)
        b = torch.empty_like(a)
        done = torch.cuda.synchronize if device == "cuda" else (lambda: None)
        took = statistics.median(repeated(lambda: (b.copy_(a), done())))
        self.bandwidth = 2 * a.numel() / took  # bytes per second, read and written
        self.described = {
            "card": self.name, "multiprocessors": self.processors, "bandwidth": self.bandwidth,
            "date": time.strftime("%Y-%m-%d"), "python": platform.python_version(),
        }  # fmt: skip
        packages = ("torch", "numba", "numba-cuda", "numpy")
        self.described |= {name: _version(name) for name in packages}
        self.described["nelson"] = nelson.__version__

    def floor(self, f: nelson.Formula, theta: np.ndarray, count: int = 0) -> float:
        """Samples per second if only the necessary operations and bytes took time."""
        return 1 / max(self.draw(f, theta, count), f.n_vars / 8 / self.bandwidth)

    def draw(self, f: nelson.Formula, theta: np.ndarray, count: int = 0) -> float:
        """Seconds that the necessary operations of a sample take.

        How often variables are resampled is measured, on `count` samples (0: on `pilot`).
        """
        count = count or self.pilot
        s = _sample(f, theta, count)
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


def _sample(f: nelson.Formula, theta: np.ndarray | None, count: int, sweeps: int = 0) -> Any:
    return nelson.sample(f, theta, count, method="lovasz", sweeps=sweeps, seed=1, device="cuda")


def repeated(job: Callable[[], object], repetitions: int = 5) -> list[float]:
    """Wall-clock times, after one run that is not timed: two or more, until they take seconds."""
    job()
    times: list[float] = []
    while len(times) < 2 or (len(times) < repetitions and sum(times) < _ENOUGH):
        begun = time.perf_counter()
        job()
        times.append(time.perf_counter() - begun)
    return times


@contextlib.contextmanager
def _products(tf32: bool) -> Iterator[None]:
    """Matrix products in TF32, or in float32."""
    import torch

    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = tf32
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def _rate_of(n: int, precision: str) -> Callable[[dict[str, Any]], float]:
    """The rate of an entry, or -1 for entries of another size, precision or loop."""

    def rate(entry: dict[str, Any]) -> float:
        ours = (entry["n"], entry["precision"], entry["compact"]) == (n, precision, True)
        return float(entry["rate"]) if ours else -1.0

    return rate


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "missing"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
