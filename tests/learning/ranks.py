"""Ranks that are threads, examples for them to learn from, and cases to train on.

Ranks of `torchrun` import this module too.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from importlib import resources
from pathlib import Path

import numpy as np

from nelson import Formula
from nelson.learning import PAPER, Adam, Newton
from nelson.learning.group import ProcessGroup

STREETS = Path(str(resources.files("nelson_paper.tasks") / "data")) / "streets.cnf"
THETA = [1.5, -1.0, 0.5, 0.0, 1.0, -0.5, 0.0]
MIXED = [[1, 2, 3], [2, 3, 4], [-1, 4, 5], [6, 7], [8]]  # components, and a fixed variable


class Threads:
    """A group whose ranks are threads: what `Ranks` does, without the processes."""

    class Rank(ProcessGroup):
        def __init__(self, home: Threads, rank: int) -> None:
            self.home, self.rank, self.size = home, rank, home.size

        def gather(self, value):
            self.home.slots[self.rank] = value
            self.home.barrier.wait(60)
            values = list(self.home.slots)
            self.home.barrier.wait(60)
            return values

        def sum(self, x):
            return np.sum(self.gather(np.array(x)), axis=0)

        def join(self, x):
            return np.concatenate(self.gather(x))

        def tell(self, state):
            return self.gather(state)[0]

    def __init__(self, size: int) -> None:
        self.size, self.slots, self.barrier = size, [None] * size, threading.Barrier(size)

    def run(self, work):
        """work(group) on every rank; -> what they return."""
        results, errors = [None] * self.size, []

        def one(rank: int) -> None:
            try:
                results[rank] = work(self.Rank(self, rank))
            except BaseException as error:
                errors.append(error)
                self.barrier.abort()

        ranks = [threading.Thread(target=one, args=(rank,)) for rank in range(self.size)]
        for thread in ranks:
            thread.start()
        for thread in ranks:
            thread.join()
        if errors:
            raise next(e for e in errors if not isinstance(e, threading.BrokenBarrierError))
        return results


def random_clauses() -> list[list[int]]:
    """Not extremal, 5-SAT with as many clauses as variables."""
    rng = np.random.default_rng(0)
    pick = [rng.choice(40, 5, replace=False) + 1 for _ in range(40)]
    return [(row * rng.choice([-1, 1], 5)).tolist() for row in pick]


def training_cases(folder: str) -> dict[str, tuple[list[list[int]], str, dict]]:
    streets = Formula.from_dimacs(STREETS).clauses()
    return {
        "newton": (streets, f"{folder}/streets.npy", {}),
        "another seed": (streets, f"{folder}/streets.npy", {"theta0": np.full(7, 0.1)}),
        "sweeps": (random_clauses(), f"{folder}/random.npz", {"method": "lovasz"}),
        "parts": (MIXED, f"{folder}/mixed.npy", {"optimizer": Newton(iterations=12)}),
        "minibatches": (MIXED, f"{folder}/mixed.npy", {
            "optimizer": Adam(batch=100, m=100, iterations=20), "method": "enumerate",
        }),
        "rank 0 only": (streets, f"{folder}/streets.npy", {
            "optimizer": replace(PAPER, iterations=5), "method": "rejection",
        }),
    }  # fmt: skip
