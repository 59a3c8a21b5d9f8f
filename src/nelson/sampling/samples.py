"""The result of a draw: packed bits, their guarantee, and how they were drawn."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nelson.errors import FormulaError


@dataclass(frozen=True, eq=False)
class Samples:
    """m samples of n variables, all of them valid (unless `check=False` allowed invalid ones).

    packed     (words, n) uint64: bit k of word w is sample 64 w + k; bits behind the last are 0.
               For a batch of theta rows: (contexts, words, n).
    count      m (per context)
    variables  the DIMACS variable of each column
    guarantee  "exact":       drawn from P_theta(. | C), probabilities rounded to multiples of 2^-32
               "approximate": within a factor 1 + info["epsilon"] of it
               "asymptotic":  P_theta(. | C) is stationary; the bias shrinks with every sweep
               "heuristic":   valid; nothing is known about the distribution (or it is known not to
                              be P_theta: distinct samples of weights that are not uniform)
    status     "ok", or "budget": fewer samples than asked for (info["reason"] says why), all valid
    info       method, why, seed, rounds, resampled (constraints, over all samples), sweeps,
               seconds, threads, requested, ...; of heuristic samples: advice, what would help
    """

    packed: np.ndarray
    count: int
    variables: tuple[int, ...]
    guarantee: str
    status: str = "ok"
    info: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Kernels trust `count`: more samples than words would read memory behind the array."""
        packed = self.packed
        if not isinstance(packed, np.ndarray):  # in the memory of a GPU: `DeviceSamples`
            return
        fits = packed.ndim in (2, 3) and packed.shape[-1] == len(self.variables)
        if not fits or packed.dtype != np.uint64 or not 0 <= self.count <= 64 * packed.shape[-2]:
            raise FormulaError(
                f"{self.count} samples of {len(self.variables)} variables in an array of shape "
                f"{packed.shape} and type {packed.dtype}",
                expected="(words, n) or (contexts, words, n) uint64, 64 samples in a word",
            )

    def __len__(self) -> int:
        return self.count

    @property
    def contexts(self) -> int | None:
        """The number of theta rows; None for a single vector."""
        return self.packed.shape[0] if self.packed.ndim == 3 else None

    def to_numpy(self) -> np.ndarray:
        """(m, n) bool, or (contexts, m, n)."""
        from nelson.kernels.core.bits import unpack

        if self.packed.ndim == 2:
            return unpack(self.packed, self.count)
        blocks = [unpack(block, self.count) for block in self.packed]
        return np.stack(blocks) if blocks else np.zeros((0, self.count, len(self.variables)), bool)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.to_numpy() if dtype is None else self.to_numpy().astype(dtype)

    def mean(self) -> np.ndarray:
        """Marginals by popcount: (n,), or (contexts, n). NaN if there is no sample."""
        ones = np.bitwise_count(self.packed).sum(axis=-2, dtype=np.int64)
        with np.errstate(invalid="ignore", divide="ignore"):
            return ones / np.float64(self.count)

    def literals(self) -> np.ndarray:
        """(m, n) int32 DIMACS literals: what SAT samplers print."""
        sign = 2 * self.to_numpy().astype(np.int32) - 1
        return sign * np.array(self.variables, np.int32)

    def __repr__(self) -> str:
        shape = " x ".join(map(str, [*self.packed.shape[:-2], self.count, len(self.variables)]))
        method = self.info.get("method", "?")
        advice = ", ".join(self.info.get("advice", ()))
        told = f"; would help: {advice}" if advice else ""
        return f"Samples({shape}, {self.guarantee}, {self.status}, method={method!r}{told})"
