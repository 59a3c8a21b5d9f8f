"""Persistent chains: the samples of one step of learning start where those of the last step ended.

theta moves little in one step, so that a few sweeps bring the chains to the new law (persistent
contrastive divergence: Younes 1989, Tieleman 2008). The chains begin at examples. They are part of a
checkpoint: a run that is resumed goes on with the same states.
"""

from __future__ import annotations

import numpy as np

from nelson.formula import Formula
from nelson.formula.polynomial import Lifted
from nelson.kernels.core.bits import pack, unpack, words_for
from nelson.learning.draw import Kept
from nelson.log_z.walk import Walk
from nelson.sampling.samples import Samples

#: Sweeps for each step, unless the caller says another number.
SWEEPS = 2


class Persistent(Kept):
    """The sampler of the loop: (lifted formula, theta, m, seed) -> completed samples."""

    def __init__(
        self,
        formula: Formula,
        shape: Lifted,
        examples: np.ndarray,
        sweeps: int | None,
        threads: int | None,
    ) -> None:
        self.shape, self.threads = shape, threads
        self.sweeps = SWEEPS if sweeps is None else sweeps
        self.walk = Walk(formula, shape.monomials)
        self.examples = examples
        self.words: np.ndarray | None = None

    def __call__(self, formula: Formula, theta: np.ndarray, m: int, seed: int) -> Samples:
        n, count = self.shape.n, words_for(m)
        words = self._first(theta[:n], count, seed) if self.words is None else self.words
        if len(words) < count:  # m has grown: copies part soon
            words = words[np.arange(count) % len(words)]
        words = self.walk.sweep(
            words[:count], theta[:n], theta[n:], seed, 0, self.sweeps, self.threads
        )
        self.words = words
        whole = self.shape.completed(np.ascontiguousarray(words[:, :n]))
        if m % 64:
            whole[-1] &= np.uint64((1 << m % 64) - 1)
        variables = tuple(range(1, self.shape.formula.n_vars + 1))
        info = {"method": "persistent", "sweeps": self.sweeps}
        return Samples(whole, m, variables, "asymptotic", "ok", info)

    def _first(self, theta: np.ndarray, count: int, seed: int) -> np.ndarray:
        if self.walk.n > self.shape.n or not len(self.examples):
            return self.walk.start(theta, count, seed)[0]
        random = np.random.default_rng(seed)
        return pack(self.examples[random.integers(0, len(self.examples), 64 * count)])

    def arrays(self) -> dict[str, np.ndarray]:
        return {} if self.words is None else {"chains": self.words}

    def take(self, arrays: dict[str, np.ndarray]) -> None:
        if "chains" not in arrays:
            return
        words = np.array(arrays["chains"])
        good = words.dtype == np.uint64 and words.ndim == 2 and words.shape[1] == self.walk.n
        if not good or not len(words):
            raise ValueError(f"chains are not words of {self.walk.n} variables")
        if not self.walk.formula.satisfied(unpack(words, 64 * len(words))).all():
            raise ValueError("chains are not valid structures")
        self.words = words
