"""The model's side of the gradient: samples of the present theta, by any sampler.

A biased sampler gives a biased theta. So where the formula is not extremal and no number of sweeps
was asked for, it is measured (`nelson.sampling.choose`), and measured again as theta moves. Where
"auto" finds lists or circuits they are kept with the formula: a new theta costs a pass over them.

Several ranks draw a share each of the same m samples, cut by their numbers (`shares.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from nelson.errors import FormulaError
from nelson.formula import Formula
from nelson.learning.group import ALONE, Group
from nelson.sampling.choose import choose, sweeps_for
from nelson.sampling.device.samples import DeviceSamples
from nelson.sampling.options import Options, gpu_number
from nelson.sampling.registry import get, names
from nelson.sampling.sample_stream import draw
from nelson.sampling.samples import Samples

#: `sampler(formula, theta, m, seed)` -> Samples, or an (m, n) Boolean array.
Custom = Callable[[Formula, np.ndarray, int, int], Any]

#: Samplers whose sweeps a pilot run can set: what they draw is only made unbiased by those.
_NEED_SWEEPS = ("lovasz", "moser-tardos")


@dataclass
class Draw:
    """m samples of one theta: their mean by popcount, and the packed bits themselves.

    Of several ranks, mean and count are of all samples; each holds some, in order of the ranks.
    """

    mean: np.ndarray  # (n,)
    bits: np.ndarray | DeviceSamples  # packed, in the host's memory or on a GPU
    count: int
    rounds: int
    seconds: float
    guarantee: str
    first: int = 0  # number of the first sample held here
    held: int | None = None  # how many are; None: all
    group: Group = ALONE

    @cached_property
    def packed(self) -> np.ndarray:
        """(words, n) uint64, in the host's memory."""
        return self.bits.host().packed if isinstance(self.bits, DeviceSamples) else self.bits

    def pair_counts(self, columns: np.ndarray, most: int) -> tuple[np.ndarray, int]:
        """X^T X of some columns over the first samples, `most` of them or all; how many those are.

        Integers: the same for any number of ranks.
        """
        from nelson.kernels.core.bits import words_for
        from nelson.kernels.cpu.moments import pair_counts

        held = self.count if self.held is None else self.held
        mine = min(held, max(0, most - self.first))
        words = self.packed[: words_for(mine)][:, columns]
        if mine % 64:
            words[-1] &= np.uint64((1 << mine % 64) - 1)
        return self.group.sum(pair_counts(words)), min(self.count, most)

    def spread(self, weights: np.ndarray) -> float:
        """The standard deviation of X w.

        Ranks hand their X w around, 8 bytes a sample: a sum of floats depends on its order, and so
        it has one. Rank 0 adds them up.
        """
        from nelson.kernels.cpu.moments import dot

        held = self.count if self.held is None else self.held
        along = self.group.join(dot(self.packed, held, weights))
        found = float(along.std()) if self.group.rank == 0 else 0.0
        return float(self.group.sum(np.array([found]))[0])


class Drawer:
    """Draws; `refresh(theta)` decides anew how. Sample i of (seed, key) is always the same bits."""

    def __init__(
        self,
        formula: Formula,
        sampler: str | Custom,
        sweeps: int | None,
        seed: int,
        threads: int | None = None,
        device: Any = None,
        group: Group = ALONE,
    ) -> None:
        self.formula = formula
        self.group = group
        self.custom = sampler if callable(sampler) else None
        self.sampler = "custom" if callable(sampler) else sampler
        self.asked = sweeps
        self.seed = seed
        self.threads = threads
        self.device = device
        if sampler == "auto" and gpu_number(device) is not None:
            self.sampler = "lovasz"  # what there is on a GPU
        self.method, self.sweeps = self.sampler, sweeps
        self.why = "asked for"
        if self.custom is None and self.sampler != "auto" and self.sampler not in names():
            get(self.sampler)  # raises, and lists the names

    @property
    def adaptive(self) -> bool:
        """Does what to do depend on theta?"""
        if self.custom is not None or self.asked is not None or self.formula.is_extremal:
            return False
        return self.sampler == "auto" or self.sampler in _NEED_SWEEPS

    def refresh(self, theta: np.ndarray) -> None:
        """Choose method and number of sweeps for this theta (a pilot run, some milliseconds)."""
        if self.group.rank == 0:
            self._choose(theta)
        self.restore(self.group.tell(({}, self.state()))[1])

    def _choose(self, theta: np.ndarray) -> None:
        if self.custom is not None:
            return
        if not self.adaptive:
            self.method = "lovasz" if self.sampler == "auto" else self.sampler
            if self.asked is None and self.method in _NEED_SWEEPS:
                self.sweeps = 0  # extremal: nothing to mend
            return
        if self.sampler != "auto":
            self.sweeps = sweeps_for(self.formula, theta)
            self.why = f"{self.sweeps} sweeps, as a pilot run asks for"
            return
        choice = choose(self.formula, theta)
        self.why = choice.why
        # One method for the formula as given needs no decision until the next look; components
        # with methods of their own are put together by "auto" in every iteration.
        if choice.whole:
            able = get(choice.method).sweeps is not None
            self.method, self.sweeps = choice.method, choice.sweeps if able else None
        else:
            self.method, self.sweeps = "auto", None

    def options(self, key: int) -> Options:
        """`key` (the iteration) selects the random bits."""
        return Options(
            method=self.method,
            sweeps=self.sweeps,
            seed=stream_seed(self.seed, key),
            threads=self.threads,
            device=self.device,
        )

    def sample(self, theta: np.ndarray, m: int, key: int) -> Samples:
        """m samples; theta (n,) or (contexts, n)."""
        return draw(self.formula, theta, m, self.options(key))

    def __call__(self, theta: np.ndarray, m: int, key: int) -> Draw:
        if self.group.size > 1:
            from nelson.learning.shares import drawn_together

            return drawn_together(self, theta, m, key)
        return self.alone(theta, m, key)

    def alone(self, theta: np.ndarray, m: int, key: int) -> Draw:
        """All m of them, here."""
        started = time.perf_counter()
        if self.custom is not None:
            drawn = self.custom(self.formula, theta, m, stream_seed(self.seed, key))
        else:
            drawn = self.sample(theta, m, key)
        if not isinstance(drawn, Samples):
            drawn = _packed(self.formula, drawn)
        return Draw(
            drawn.mean(),
            drawn if isinstance(drawn, DeviceSamples) else drawn.packed,
            len(drawn),
            int(drawn.info.get("rounds") or 0),
            time.perf_counter() - started,
            drawn.guarantee,
        )

    def state(self) -> dict[str, Any]:
        return {"method": self.method, "sweeps": self.sweeps, "why": self.why}

    def restore(self, state: dict[str, Any]) -> None:
        self.method, self.sweeps, self.why = state["method"], state["sweeps"], state["why"]


def stream_seed(seed: int, key: int) -> int:
    """63 bits from (seed, key): every iteration has its own, whatever happened before it."""
    words = np.random.SeedSequence([abs(seed), int(seed < 0), key]).generate_state(1, np.uint64)
    return int(words[0] >> np.uint64(1))


def _packed(formula: Formula, x: Any) -> Samples:
    from nelson.kernels.core.bits import pack

    x = np.asarray(x, bool)
    if x.ndim != 2 or x.shape[1] != formula.n_vars:
        raise FormulaError(
            f"a sampler that returns shape {x.shape}", expected=f"(m, {formula.n_vars})"
        )
    return Samples(pack(x), len(x), tuple(range(1, formula.n_vars + 1)), "heuristic")
