"""A path of laws from one without terms to one with them, and lanes that go along it.

    P_b(x) ~ exp(base . x + b E(x)) C(x),    E(x) = (theta - base) . x + sum_S c_S prod_{i in S} x_i

Each lane sums W = sum_k |b_k+1 - b_k| E(x_k), with one sweep of P_b at each b between 0 and 1
(annealed importance sampling, Neal 2001). What the sums say about log Z: `annealing.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from nelson.chains.term_chains import Fields, TermChains
from nelson.errors import BudgetExceeded
from nelson.formula import Formula
from nelson.formula.polynomial import Polynomial
from nelson.kernels.core.bits import pack, unpack
from nelson.log_z.method import SIGMAS
from nelson.policy import DEFAULT
from nelson.sampling.sample_stream import sample

#: Words of 64 lanes of a pilot and of the first run, and their points.
WORDS, PILOT_POINTS = 8, 64


@dataclass(frozen=True)
class PathRun:
    """One direction: log Z_1 / Z_0, its standard error, and the share of lanes that carry it."""

    value: float
    error: float
    effective: float

    @classmethod
    def of(cls, work: np.ndarray, sign: int) -> PathRun:
        """work: W of each lane; sign 1: forward, -1: back."""
        exponent = sign * work
        top = float(exponent.max())
        weight = np.exp(exponent - top)
        mean, m = float(weight.mean()), len(weight)
        error = float(weight.std(ddof=1)) / mean / math.sqrt(m)
        share = float(weight.sum() ** 2 / (weight**2).sum()) / m
        return cls(sign * (top + math.log(mean)), error, share)


@dataclass(frozen=True)
class PathRound:
    """Runs along one path: their results, and the states that they ended or started in."""

    forward: PathRun
    back: PathRun  # from resampled forward lanes
    others: dict[str, PathRun]
    last: np.ndarray  # of the run forward
    top: np.ndarray  # from which `back` started: samples of P_1
    states: dict[str, np.ndarray]  # from which the others started

    @cached_property
    def _share(self) -> float:
        """Of `forward` in the mean, by inverse variances. `forward` is biased downwards and `back`
        upwards, by about error^2 / 2."""
        both = self.forward.error**2 + self.back.error**2
        return self.back.error**2 / both if both else 0.5

    @property
    def value(self) -> float:
        return self._share * self.forward.value + (1 - self._share) * self.back.value

    @property
    def error(self) -> float:
        """The standard error of `value`. The two errors are added as they are: lanes that do not
        leave their region on the way back share the noise of the run forward. Sums of floats alone
        have an error of about 1e-7."""
        error = self._share * self.forward.error + (1 - self._share) * self.back.error
        return max(error, 1e-6)

    @property
    def bias(self) -> float:
        """What some run from elsewhere finds more than two standard errors allow."""
        runs = self.others.values()
        more = (run.value - self.value - 2 * math.hypot(run.error, self.error) for run in runs)
        return max(0.0, *more) if self.others else 0.0

    @property
    def effective(self) -> float:
        return min(self.forward.effective, self.back.effective)

    @property
    def seen(self) -> np.ndarray:
        return np.concatenate([self.last, self.top, *self.states.values()])

    def doubt(self, least_effective: float = DEFAULT.log_z.path_effective) -> str:
        """Why the estimate cannot be trusted; "" if it can.

        A run from elsewhere that finds less than the run forward is no reason: forward lanes visit
        its region more often than they should, and their weights say so.
        """
        if self.effective < least_effective:
            return f"{self.effective:.1%} of the chains carry the weight"
        runs = {"the end": self.back, **self.others}
        for name, run in runs.items():
            more = run.value - self.forward.value
            limit = SIGMAS * math.hypot(self.forward.error, run.error) + 0.02  # never matters
            if more > limit or (run is self.back and more < -limit):
                return f"annealing from {name} gives {more:+.2g} nats more than annealing forward"
        return ""


def valid_starts(
    chains: TermChains, theta: np.ndarray, words: int, seed: int
) -> tuple[np.ndarray, str]:
    """64 lanes for each word from the law without terms, and their guarantee."""
    drawn = sample(chains.formula, chains.padded(theta), 64 * words, seed=seed, project="all")
    if not drawn.count:
        raise BudgetExceeded("no valid start was found for chains with terms")
    packed = drawn.packed
    if drawn.count < 64 * words:
        packed = pack(drawn.to_numpy()[np.arange(64 * words) % drawn.count])
    return np.array(packed), drawn.guarantee


class AnnealingPath:
    """The laws between P_0 and P_1 for one formula, theta (n,) finite, and terms."""

    def __init__(
        self,
        formula: Formula,
        theta: np.ndarray,
        phi: Polynomial,
        seed: int,
        starts: np.ndarray | None = None,
    ) -> None:
        products = phi.products
        self.chains = TermChains(formula, list(products))
        self.theta, self.phi = phi.linear(formula.n_vars, theta), phi
        self.c = np.array(list(products.values()))
        self._streams = np.random.SeedSequence(seed)
        self.base, self.grid = self.theta, np.linspace(0.0, 1.0, PILOT_POINTS + 1)
        self.starts = starts if starts is not None and len(starts) else None
        self._prepare()

    def seed(self) -> int:
        """A new seed at each call."""
        return int(self._streams.spawn(1)[0].generate_state(1, np.uint64)[0] >> 1)

    def _prepare(self) -> None:
        """Choose the base by the marginals of a first run, or of the given starts, and the grid by
        the spread of E."""
        x = self.starts
        if x is None:
            words, _ = valid_starts(self.chains, self.theta, WORDS, self.seed())
            words, _, _ = self.along(words, self.grid)
            words = self.equilibrated(words, PILOT_POINTS // 4)
            x = unpack(words, 64 * len(words))[:, : len(self.theta)]
        fields = Fields(self.chains.given)
        self.base = fields.independent(x.mean(axis=0), 0.5 / len(x))
        words, self.guarantee = valid_starts(self.chains, self.base, WORDS, self.seed())
        _, _, spread = self.along(words, self.grid)
        length = np.concatenate([[0.0], np.cumsum(spread / max(spread.sum(), 1e-300))])
        self.length = (length + self.grid) / 2  # never sparse anywhere

    def points(self, k: int) -> np.ndarray:
        """A path of k steps."""
        return np.interp(
            np.linspace(0.0, 1.0, k + 1), self.length, np.linspace(0, 1, PILOT_POINTS + 1)
        )

    def along(
        self, words: np.ndarray, grid: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Lanes at grid[0] -> (their last states, W of each, the spread of E times each step)."""
        work, spread, seed = np.zeros(64 * len(words)), [], self.seed()
        shift = self.theta - self.base
        for k, (a, b) in enumerate(pairwise(grid)):
            energy = self.chains.potential(words, shift, self.c)
            work += abs(b - a) * energy
            spread.append(abs(b - a) * float(energy.std()))
            if k + 2 < len(grid):
                words = self.chains.sweep(words, self.base + b * shift, b * self.c, seed, k)
        return words, work, np.array(spread)

    def equilibrated(self, words: np.ndarray, sweeps: int) -> np.ndarray:
        """The states after sweeps of P_1."""
        return self.chains.sweep(words, self.theta, self.c, self.seed(), 0, sweeps)

    def resampled(self, words: np.ndarray, work: np.ndarray) -> np.ndarray:
        """Lanes chosen in proportion to exp(W), by one random number."""
        share = np.cumsum(np.exp(work - work.max()))
        u = (np.arange(len(work)) + np.random.default_rng(self.seed()).random()) / len(work)
        chosen = np.searchsorted(share / share[-1], u).clip(0, len(work) - 1)
        return pack(unpack(words, len(work))[chosen])

    def maxima(self, most: int = 6, sweeps: int = 24, cold: float = 4.0) -> np.ndarray:
        """Local maxima of the potential, most likely first, (m, n) bool; m <= most.

        Lanes climb to them in sweeps with all weights multiplied by `cold`.
        """
        seen = []
        for theta in (self.base, np.zeros_like(self.base)):
            words, _ = valid_starts(self.chains, theta, 2, self.seed())
            words = self.chains.sweep(
                words, cold * self.theta, cold * self.c, self.seed(), 0, sweeps
            )
            seen.append(unpack(words, 64 * len(words)))
        states = np.unique(np.concatenate(seen), axis=0)
        score = self.chains.potential(pack(states), self.theta, self.c)[: len(states)]
        order = np.argsort(-score, kind="stable")
        spread = np.linspace(0, len(order) - 1, min(most, len(order))).astype(int)
        return states[order[spread]]

    def others(self, given_lanes: int = 256) -> dict[str, np.ndarray]:
        """Words of lanes that start elsewhere: at local maxima, a word each, and at given
        structures.
        """
        states = {f"maximum {k + 1}": np.tile(x, (64, 1)) for k, x in enumerate(self.maxima())}
        known = self.starts
        if known is not None and self.chains.n == known.shape[1]:  # auxiliary ones are not known
            random = np.random.default_rng(self.seed())
            states["given structures"] = known[random.integers(0, len(known), given_lanes)]
        return {name: pack(x) for name, x in states.items()}

    def round(self, words: int, k: int, others: dict[str, np.ndarray]) -> PathRound:
        """One run forward, one back, and runs back from other starts, with k points each."""
        grid = self.points(k)
        first, _ = valid_starts(self.chains, self.base, words, self.seed())
        last, work, _ = self.along(first, grid)
        forward = PathRun.of(work, 1)
        top = self.equilibrated(self.resampled(last, work), k)
        elsewhere = np.concatenate([np.zeros((0, self.chains.n), np.uint64), *others.values()])
        elsewhere = self.equilibrated(elsewhere, 2 * k)
        _, work, _ = self.along(np.concatenate([top, elsewhere]), grid[::-1])
        ends = np.cumsum([0, *(len(some) for some in others.values())])
        runs, states = {}, {}
        for name, a, b in zip(others, ends[:-1], ends[1:], strict=True):
            runs[name] = PathRun.of(work[64 * (words + a) : 64 * (words + b)], -1)
            states[name] = elsewhere[a:b]
        return PathRound(forward, PathRun.of(work[: 64 * words], -1), runs, last, top, states)

    def log_sum(self, *words: np.ndarray) -> float:
        """log sum of the weights of the distinct states among these: a lower bound on log Z."""
        x = np.concatenate(words)
        states = np.unique(unpack(x, 64 * len(x)), axis=0)
        score = self.chains.potential(pack(states), self.theta, self.c)[: len(states)]
        top = float(score.max())
        return top + math.log(float(np.exp(score - top).sum()))
