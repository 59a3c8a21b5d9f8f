"""A network layer whose outputs are always valid structures.

    forward     theta (..., n)  ->  x (..., m, n),   x_k ~ P_theta(. | C) independently

`layer.expectation(f, theta)` has an unbiased gradient for every f. The backward pass of
`layer(theta)` is right for functions of degree two in a sample; `gradient.py` says why.
"""

from __future__ import annotations

import warnings

import numpy as np
import torch
from torch import Tensor

from nelson.distribution.gradient import SamplingLayer
from nelson.distribution.planned_draws import PlannedDraws
from nelson.distribution.tensors import check_shape, rows_of, torch_seed
from nelson.formula import Formula
from nelson.sampling.plan import Plan

#: Chains are diagnosed again after this many calls.
PILOT_EVERY = 100
#: They are diagnosed again after this many calls if the law has moved: a diagnosis costs as much
#: as dozens of draws.
PILOT_IF_MOVED = 20
#: A diagnosis holds while log P changes by at most this many nats (one standard deviation under
#: the law that was diagnosed): the divergence of the two laws is then about NEAR^2 / 2 at most.
NEAR = 0.5
#: A standard deviation of fewer samples is not trusted: a bound takes its place.
_ENOUGH = 32


class LovaszLayer(SamplingLayer):
    """theta (..., n) -> samples (..., m, n) of P_theta(x | C) = exp(theta . x) C(x) / Z, all valid.

    formula   C
    samples   m, at least 2: one sample has no baseline
    gradient  "score" or "straight-through"; see the module
    method, sweeps: the sampler, as in `nelson.sample`. If "auto" has to diagnose chains, it does so
              at the first call, after 100 calls, and after 20 calls if the law has moved: log P by
              more than 0.5 nats, all logits together. Until then samples of a law that has moved
              are called heuristic.

    seconds   for a decision, and for each draw; None: no limit

    `info` is `Samples.info` of the last draw, with its guarantee. Seeds come from torch's global
    generator. The layer has no parameters. Cost of backward: O(batch m n).

    >>> import torch
    >>> layer = nelson.LovaszLayer(nelson.Formula([[1, 2], [-1, 3]]), samples=64)
    >>> theta = torch.zeros(8, 3, requires_grad=True)  # one row for each of eight inputs
    >>> layer(theta).shape  # 64 valid assignments for each row
    torch.Size([8, 64, 3])
    >>> layer.expectation(lambda x: x.sum(-1), theta).sum().backward()
    >>> theta.grad.shape
    torch.Size([8, 3])
    """

    def __init__(
        self,
        formula: Formula,
        samples: int = 32,
        *,
        gradient: str = "score",
        method: str = "auto",
        sweeps: int | None = None,
        seconds: float | None = None,
    ) -> None:
        super().__init__(formula, samples, gradient)
        self.method, self.sweeps, self.seconds = method, sweeps, seconds
        self._draws = PlannedDraws(formula, method, sweeps, seconds)
        self._calls = 0  # since the last diagnosis
        self._diagnosed: np.ndarray | None = None  # samples (b, m, n) of the law diagnosed

    def plan(self, logits: Tensor) -> Plan:
        """How a draw at these logits is decided, with its guarantee; kept for that draw."""
        check_shape(logits, self.formula)
        return self._draws.planned(rows_of(logits), logits.device)

    @torch.no_grad()
    def sample(self, logits: Tensor) -> Tensor:
        """(..., n) -> (..., m, n) in the dtype and on the device of the logits; no gradient."""
        check_shape(logits, self.formula)
        rows = rows_of(logits)
        moved = self._moved(rows)
        wait = PILOT_IF_MOVED if moved > NEAR else PILOT_EVERY
        keep = 0 < self._calls < wait
        if not keep and self._calls:
            self._draws = PlannedDraws(self.formula, self.method, self.sweeps, self.seconds)
        if not keep:
            self._calls, self._diagnosed = 0, None
        seed = torch_seed()
        x, self.info = self._draws.draw(rows, self.samples, seed, logits.device, keep=keep)
        if self._draws.is_auto and self.info.get("guarantee") == "diagnosed":
            if not keep:
                self._diagnosed = x.cpu().numpy() if isinstance(x, Tensor) else x
            elif moved > NEAR:
                self._relabel(moved)
        self._calls += 1
        shape = (*logits.shape[:-1], self.samples, logits.shape[-1])
        x = x if isinstance(x, Tensor) else torch.from_numpy(x)
        return x.reshape(shape).to(logits.device).to(logits.dtype)

    def _moved(self, rows: np.ndarray) -> float:
        """How far the law of these logits is from the law that was diagnosed: the largest standard
        deviation, over rows, of the change of log P, d . x. Infinite if rows were added.
        """
        known, x = self._draws.rows, self._diagnosed
        if x is None:
            return 0.0
        if len(known) not in (1, len(rows)):
            return np.inf
        with np.errstate(invalid="ignore"):
            change = np.where(rows == known, 0.0, rows - known)  # infinite logits may stay
        if not np.isfinite(change).all():
            return np.inf
        x = x.reshape(len(known), -1, x.shape[-1])
        if x.shape[1] < _ENOUGH:  # sd(d . x) <= sum |d_i| sd(x_i), and sd(x_i) <= 1/2
            return float(np.abs(change).sum(axis=1).max() / 2)
        spread = (x @ change[:, :, None]).std(axis=1).max()
        return float(spread * (1 + 3 / np.sqrt(2 * x.shape[1])))  # three standard errors more

    def _relabel(self, moved: float) -> None:
        """A diagnosis at another theta says nothing about this one."""
        why = (
            f"theta has moved since the chains were diagnosed: log P by up to {moved:.2g} nats "
            f"(one standard deviation), more than {NEAR}"
        )
        self.info |= {"guarantee": "heuristic", "why": f"{why} ({self.info['why']})"}
        warnings.warn(f"samples of an unknown distribution: {why}", stacklevel=4)
