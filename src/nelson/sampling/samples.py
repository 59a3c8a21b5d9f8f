"""The result of a draw: packed bits, their guarantee, and how they were drawn."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nelson import pictures
from nelson.errors import FormulaError


@dataclass(frozen=True, eq=False)
class Samples:
    """m samples of n variables, all of them valid (unless `check=False` allowed invalid ones).

    packed     (words, n) uint64: bit k of word w is sample 64 w + k; bits behind the last are 0.
               For a batch of theta rows: (contexts, words, n).
    count      m (per context)
    variables  the DIMACS variable of each column
    guarantee  "exact":       drawn from P_theta(. | C), up to a total variation of `tv_bound`,
                              which is at most 1e-6
               "approximate": within a factor 1 + info["epsilon"] of it
               "diagnosed":   P_theta(. | C) is stationary under every move, and tests saw no
                              difference between chains of different starts
               "heuristic":   valid; nothing is known about the distribution (or it is known not to
                              be P_theta: distinct samples of weights that are not uniform)
    status     "ok", or "budget": fewer samples than asked for (info["reason"] says why), all valid
    info       method, why, seed, rounds, resampled (constraints, over all samples), sweeps,
               seconds, threads, requested, ...; of heuristic samples: advice, what would help

    >>> s = nelson.sample(nelson.Formula([[1, 2], [-1, 3]]), n=1000, seed=0)
    >>> s.guarantee, s.status, s.to_numpy().shape
    ('exact', 'ok', (1000, 3))
    >>> bool(np.all(s.mean() == s.to_numpy().mean(axis=0)))
    True
    >>> s.literals()[0].tolist()  # as SAT samplers write it
    [-1, 2, 3]
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

    @property
    def why(self) -> str:
        """Why the guarantee is what it is."""
        return str(self.info.get("why", ""))

    @property
    def tv_bound(self) -> float | None:
        """A bound on the total variation between the law of a sample and P_theta(. | C), of any row
        of theta; None if the guarantee is not exact. `sampling/total_variation.py` has the math.
        """
        return self.info.get("tv_bound") if self.guarantee == "exact" else None

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

    def plot(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        names: Sequence[str] | None = None,
        other: Any = None,
    ) -> Any:
        """A picture: how often each variable is true, with error bars, and which pairs depend on
        each other.

        path   a file to write: .png, .svg or .pdf
        names  of the variables; their numbers if None
        other  rows to compare with, (m, n) 0/1 or `Samples`: the examples of a fit, for instance

        Returns the matplotlib figure. Correlations are those of the first 20,000 samples and of 40
        variables.
        """
        if self.packed.ndim == 3 or not self.count:
            raise FormulaError(
                f"a picture of {self!r}", expected="samples of one theta, one or more of them"
            )
        names = list(map(str, names or self.variables))
        shares = {"samples": (self.mean(), self.count)}
        if other is not None:
            rows = np.asarray(other)
            if rows.ndim != 2 or rows.shape[1] != len(self.variables) or not len(rows):
                raise FormulaError(
                    f"other= of shape {rows.shape}", expected=f"(rows, {len(self.variables)})"
                )
            shares["other"] = rows.mean(axis=0), len(rows)
        words = min(len(self.packed), -(-20_000 // 64))
        x = Samples(
            self.packed[:words], min(self.count, 64 * words), self.variables, self.guarantee
        ).to_numpy()
        shown = np.flatnonzero(x.any(0) & ~x.all(0))[: pictures.MOST_NAMED]
        title = f"{self.count:,} samples, {self.guarantee}"
        drawn = [pictures.marginals(names, shares, title)]
        if len(shown) > 1:
            some = [names[k] for k in shown]
            drawn.append(
                pictures.correlations(some, x[:, shown], "Which pairs depend on each other")
            )
        return pictures.figure(drawn, path)

    def __repr__(self) -> str:
        shape = " x ".join(map(str, [*self.packed.shape[:-2], self.count, len(self.variables)]))
        method = self.info.get("method", "?")
        advice = ", ".join(self.info.get("advice", ()))
        help_text = f"; would help: {advice}" if advice else ""
        far = "" if self.tv_bound is None else f" within {self.tv_bound:.1g}"
        return (
            f"Samples({shape}, {self.guarantee}{far}, {self.status}, method={method!r}{help_text})"
        )
