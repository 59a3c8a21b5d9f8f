"""The samples drawn at one theta, and their moments: means, pair counts, spread."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nelson.kernels.core.bits import words_for
from nelson.kernels.cpu.packed_samples import dot, pair_counts
from nelson.learning.group import ALONE, ProcessGroup
from nelson.sampling.device.samples import DeviceSamples
from nelson.sampling.samples import Samples


@dataclass
class Draw:
    """m samples of theta: their mean by popcount, and the packed bits themselves.

    With several ranks, `mean` and `count` are over the samples of all ranks. Each rank holds the
    bits of its own samples, which are numbered in order of the ranks.
    """

    mean: np.ndarray  # (n,); (contexts, n) if theta has a row for each context
    bits: np.ndarray | DeviceSamples  # packed, in the host's memory or on a GPU
    count: int  # samples of each context
    rounds: int
    seconds: float
    guarantee: str
    first: int = 0  # number of the first sample that this rank holds
    held: int | None = None  # samples that this rank holds; None: all of them
    group: ProcessGroup = ALONE

    @classmethod
    def of(cls, samples: Samples, started: float) -> Draw:
        """Samples that this process began to draw at `started` (`time.perf_counter`)."""
        mean = samples.mean()  # on a GPU this waits for the samples
        seconds = time.perf_counter() - started
        bits = samples if isinstance(samples, DeviceSamples) else samples.packed
        rounds = int(samples.info.get("rounds") or 0)
        return cls(mean, bits, len(samples), rounds, seconds, samples.guarantee)

    @cached_property
    def packed(self) -> np.ndarray:
        """(words, n) uint64, in the host's memory."""
        return self.bits.host().packed if isinstance(self.bits, DeviceSamples) else self.bits

    @property
    def _held(self) -> int:
        return self.count if self.held is None else self.held

    def pair_counts(self, columns: np.ndarray, most: int) -> tuple[np.ndarray, int]:
        """X^T X of the given columns over the first `most` samples; how many samples that were.

        The counts are integers, so they are the same for any number of ranks.
        """
        mine = min(self._held, max(0, most - self.first))
        words = self.packed[: words_for(mine)][:, columns]
        if mine % 64:
            words[-1] &= np.uint64((1 << mine % 64) - 1)
        return self.group.sum(pair_counts(words)), min(self.count, most)

    def spread(self, weights: np.ndarray) -> float:
        """The standard deviation of X w.

        A sum of floats depends on its order. So the ranks exchange their X w (8 bytes a sample),
        rank 0 alone computes the result, and the others receive it.
        """
        along = self.group.join(dot(self.packed, self._held, weights))
        deviation = float(along.std()) if self.group.rank == 0 else 0.0
        return float(self.group.sum(np.array([deviation]))[0])
