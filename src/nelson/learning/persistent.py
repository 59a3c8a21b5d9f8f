"""Persistent chains: the samples of one step of learning start where those of the last step ended.

theta moves little in one step, so that a few sweeps bring the chains to the new law (persistent
contrastive divergence: Younes 1989, Tieleman 2008). The chains begin at examples. They are part of
a checkpoint: a run that is resumed goes on with the same states.

Where fields depend strongly on each other, a law has regions between which chains do not move. Then
chains show what each region looks like, but not how likely it is, and learning drifts. If samples
of another kind differ from the chains (`renew`), rungs are added: chains of the laws

    P_b(x) ~ exp(base . x + b E(x)) C(x),    E(x) = (theta - base) . x + sum_S c_S prod_{i in S} x_i

with b from 0 on, as many as there are chains of P_1. After each step, lanes of neighbouring rungs
exchange their states with probability min(1, exp((b' - b) (E(x) - E(x')))), which leaves all laws
as they are (parallel tempering: Swendsen, Wang 1986; in learning: Desjardins et al. 2010).
"""

from __future__ import annotations

import numpy as np

from nelson.chains.term_chains import Fields, TermChains
from nelson.formula import Formula
from nelson.formula.polynomial import Lifted
from nelson.kernels.core.bits import pack, unpack, words_for
from nelson.learning.draw import NamedSampler
from nelson.learning.group import stream_seed
from nelson.log_z.path import valid_starts
from nelson.sampling.methods import lovasz
from nelson.sampling.sample_stream import sample
from nelson.sampling.samples import Samples


class Persistent(NamedSampler):
    """The sampler of the loop: (lifted formula, theta, m, seed) -> completed samples."""

    name = "persistent"
    #: Rungs below the law itself, at b = 0, 1/5, ..., 4/5: on mushrooms 75% of exchanges succeed.
    RUNGS = 5
    #: Chains lag if the mean of some variable differs by this from samples of another kind. Noise
    #: of 512 samples is below 0.1.
    LAG = 0.2

    def __init__(
        self,
        formula: Formula,
        shape: Lifted,
        examples: np.ndarray,
        sweeps: int | None,
        threads: int | None,
    ) -> None:
        self.formula, self.shape, self.threads = formula, shape, threads
        self.made = 2 if sweeps is None else sweeps
        self.sweeps = self.made
        self.walk = TermChains(formula, shape.monomials)
        self.examples = examples
        self.words: np.ndarray | None = None
        self.rungs: np.ndarray | None = None  # (RUNGS, words, n), or none

    def __call__(self, formula: Formula, theta: np.ndarray, m: int, seed: int) -> Samples:
        n, count = self.shape.n, words_for(m)
        words = self._first(theta[:n], count, seed) if self.words is None else self.words
        if len(words) < count:  # m has grown: copies part soon
            words = words[np.arange(count) % len(words)]
        words = self.walk.sweep(
            words[:count], theta[:n], theta[n:], seed, 0, self.made, self.threads
        )
        if self.rungs is not None and self.rungs.shape[1] == count:
            words = self._exchanged(words, theta, seed)
        self.words = words
        whole = self.shape.completed(np.ascontiguousarray(words[:, :n]))
        if m % 64:
            whole[-1] &= np.uint64((1 << m % 64) - 1)
        variables = tuple(range(1, self.shape.formula.n_vars + 1))
        info = {"method": "persistent", "sweeps": self.sweeps}
        return Samples(whole, m, variables, "diagnosed", "ok", info)

    def _first(self, theta: np.ndarray, count: int, seed: int) -> np.ndarray:
        if self.walk.n > self.shape.n or not len(self.examples):
            return valid_starts(self.walk, theta, count, seed)[0]
        random = np.random.default_rng(seed)
        return pack(self.examples[random.integers(0, len(self.examples), 64 * count)])

    def _exchanged(self, words: np.ndarray, theta: np.ndarray, seed: int) -> np.ndarray:
        """The chains of P_1 after a step of all rungs and exchanges between neighbours."""
        assert self.rungs is not None
        n, steps = self.shape.n, np.arange(self.RUNGS + 1) / self.RUNGS
        mean = self.examples.mean(axis=0)
        base = Fields(self.formula).independent(mean, 0.5 / len(self.examples))
        shift, c = theta[:n] - base, theta[n:]
        levels = [
            self.walk.sweep(
                below, base + b * shift, b * c, stream_seed(seed, k), 0, self.made, self.threads
            )
            for k, (b, below) in enumerate(zip(steps, self.rungs, strict=False))
        ]
        levels.append(words)
        energy = self.walk.potential(np.concatenate(levels), shift, c).reshape(self.RUNGS + 1, -1)
        random = np.random.default_rng(seed)
        for k in (*range(0, self.RUNGS, 2), *range(1, self.RUNGS, 2)):
            gain = (energy[k] - energy[k + 1]) / self.RUNGS
            taken = np.log(random.random(len(gain))) < gain
            differ = (levels[k] ^ levels[k + 1]) & pack(taken[:, None])
            levels[k], levels[k + 1] = levels[k] ^ differ, levels[k + 1] ^ differ
            low, high = energy[k].copy(), energy[k + 1].copy()
            energy[k], energy[k + 1] = np.where(taken, high, low), np.where(taken, low, high)
        self.rungs = np.array(levels[:-1])
        return levels[-1]

    def renew(self, samples: np.ndarray) -> bool:
        """Half of the chains go on from these samples: chains that stay near the examples do not
        see what else the model makes likely. True if the chains lag behind: then rungs are added,
        unless auxiliary variables leave no base for them."""
        if self.words is None:
            return False
        words, n = self.words.copy(), self.shape.n
        means = [unpack(x, 64 * len(x))[:, :n].mean(axis=0) for x in (words, samples)]
        lag = float(np.abs(means[0] - means[1]).max()) > self.LAG
        count = len(words) // 2
        words[:count] = samples[np.linspace(0, len(samples) - 1, count).astype(int)]
        self.words = words
        if lag and self.rungs is None and self.walk.n == n and len(self.examples):
            self.rungs = np.tile(words, (self.RUNGS, 1, 1))
        return lag

    def forget(self) -> None:
        self.words = self.rungs = None

    def judge(self, theta: np.ndarray) -> tuple[str, str]:
        """By chains from fresh starts of several kinds, which must agree."""
        n = self.shape.n
        products = dict(zip(self.shape.monomials, theta[n:].tolist(), strict=True))
        drawn = sample(
            self.formula,
            theta[:n],
            64,
            method=lovasz.SAMPLER.name,
            seed=0,
            threads=self.threads,
            terms=products,
        )
        return drawn.guarantee, str(drawn.info["why"])

    def arrays(self) -> dict[str, np.ndarray]:
        states = {"chains": self.words, "rungs": self.rungs}
        return {name: words for name, words in states.items() if words is not None}

    def take(self, arrays: dict[str, np.ndarray]) -> None:
        if "chains" in arrays:
            self.words = self._checked(arrays["chains"], 2)
        if "rungs" in arrays:
            self.rungs = self._checked(arrays["rungs"], 3)
            if len(self.rungs) != self.RUNGS:
                raise ValueError(f"chains have {len(self.rungs)} rungs; expected {self.RUNGS}")

    def _checked(self, words: np.ndarray, axes: int) -> np.ndarray:
        words, n = np.array(words), self.walk.n
        good = words.dtype == np.uint64 and words.ndim == axes and words.shape[-1] == n
        if not good or not words.size:
            raise ValueError(f"chains are not words of {n} variables")
        flat = words.reshape(-1, n)
        if not self.walk.formula.satisfied(unpack(flat, 64 * len(flat))).all():
            raise ValueError("chains are not valid structures")
        return words
