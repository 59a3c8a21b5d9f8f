"""Maximum likelihood without log Z: contrastive divergence as a torch loss.

    loss = theta . mean of samples - theta . target,      samples ~ P_theta(x | C)

The samples count as constants, so that the gradient in theta is (mean of samples - target): an
estimate of E[x] - target, the gradient of -log P_theta(target | C), without bias if the samples
are exact (Algorithm 2 of the paper, for a theta that a network computes from a context). The value
is not the likelihood; it is near 0 where samples and targets are equally likely.

Where the samples come from is decided at the first call:

- If a law or a plan of `nelson.sample` is exact or diagnosed within `seconds`, from that plan.
- Else from chains that begin at the targets, which are valid structures, and go on from call to
  call (`target_chains.py`). They are heuristic; `history` says how far they have come.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Hashable
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nelson.distribution.layer import LovaszLayer
from nelson.distribution.target_chains import TargetChains
from nelson.distribution.tensors import (
    check_shape,
    check_targets,
    finite,
    rows_of,
    torch_seed,
)
from nelson.errors import BudgetExceeded, FormulaError
from nelson.formula import Formula

REDUCTIONS = ("mean", "sum", "none")


class ContrastiveLoss(nn.Module):
    """loss(logits, targets): (..., n) and (..., n) -> a number with the gradient of -log P.

    formula    C
    samples    m for each context and call; even, at least 2
    seconds    for the decision at the first call where the samples come from
    proposals  of each chain and call, if chains are needed
    reduction  "mean" over the contexts, "sum" or "none"

    `guarantee` and `why` are those of the samples of the last call. `history` has a row for each
    call: `gradient` and `noise` are the length of the gradient in the logits (of the mean over
    contexts) and the standard error of that gradient, so it says when more samples would help;
    `memory` is how far chains of the two kinds of starts differ, in standard errors.

    >>> import torch
    >>> formula = nelson.Formula([[1, 2], [-1, 3]])
    >>> loss = nelson.ContrastiveLoss(formula)
    >>> logits = torch.zeros(2, 3, requires_grad=True)
    >>> loss(logits, torch.tensor([[1, 0, 1], [0, 1, 0]])).backward()
    >>> logits.grad.shape, loss.guarantee
    (torch.Size([2, 3]), 'exact')
    """

    def __init__(
        self,
        formula: Formula,
        samples: int = 8,
        *,
        seconds: float = 5.0,
        proposals: int = 2000,
        reduction: str = "mean",
    ) -> None:
        super().__init__()
        if reduction not in REDUCTIONS:
            raise FormulaError(f"reduction={reduction!r}", expected=" or ".join(REDUCTIONS))
        if samples < 2 or samples % 2:
            raise FormulaError(f"samples={samples}", expected="an even number, 2 or more")
        if proposals < 1:
            raise FormulaError(f"proposals={proposals}", expected="1 or more")
        self.formula, self.samples, self.seconds = formula, samples, seconds
        self.proposals, self.reduction = proposals, reduction
        self.guarantee, self.why = "", "no sample was drawn yet"
        self.history: list[dict[str, Any]] = []
        self._source: LovaszLayer | TargetChains | None = None

    def extra_repr(self) -> str:
        return f"{self.formula!r}, samples={self.samples}"

    def forward(self, logits: Tensor, targets: Tensor, index: Any = None) -> Tensor:
        """index: the numbers of the examples (...), by which chains find their states again;
        default: by the target, which is enough unless many examples share one.
        """
        started = time.perf_counter()
        check_shape(logits, self.formula)
        y = check_targets(logits, targets, self.formula)
        x = self._samples(logits, y, index)
        gradient = x.mean(-2) - y
        values = (finite(logits) * gradient.masked_fill(torch.isinf(logits), 0.0)).sum(-1)
        self._record(gradient.double(), x.double(), time.perf_counter() - started)
        if self.reduction == "none":
            return values
        return values.sum() if self.reduction == "sum" else values.mean()

    @torch.no_grad()
    def _samples(self, logits: Tensor, y: Tensor, index: Any) -> Tensor:
        """(..., m, n), in the dtype and on the device of the logits."""
        if self._source is None:
            self._source = self._decided(logits)
        if isinstance(self._source, LovaszLayer):
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "samples of an unknown distribution")
                x = self._source.sample(logits)
            self.guarantee, self.why = (self._source.info.get(k, "") for k in ("guarantee", "why"))
            return x
        theta, targets = rows_of(logits), rows_of(y) > 0.5
        keys: list[Hashable] = [row.tobytes() for row in np.packbits(targets, axis=1)]
        if index is not None:
            keys = torch.as_tensor(index).reshape(-1).tolist()
            if len(keys) != len(theta):
                raise FormulaError(
                    f"an index of {len(keys)} numbers", expected=f"{len(theta)}: one a context"
                )
        drawn = self._source.draw(theta, targets, keys, torch_seed())
        self.guarantee = "heuristic"
        self.why = (
            f"chains from the targets, {self.proposals} proposals a call, of which "
            f"{self._source.accepted:.1%} were accepted"
        )
        shape = (*logits.shape[:-1], self.samples, logits.shape[-1])
        return torch.from_numpy(drawn).reshape(shape).to(logits.device, logits.dtype)

    def _decided(self, logits: Tensor) -> LovaszLayer | TargetChains:
        layer = LovaszLayer(self.formula, self.samples, seconds=self.seconds)
        with suppress(BudgetExceeded):  # too little time for a plan
            if layer.plan(logits).guarantee in ("exact", "diagnosed"):
                return layer
        try:
            return TargetChains(self.formula, self.samples, self.proposals)
        except FormulaError:  # auxiliary variables that no constraint explains
            return layer

    def _record(self, gradient: Tensor, x: Tensor, seconds: float) -> None:
        contexts = max(1, gradient.shape[:-1].numel())
        variance = x.var(-2) / x.shape[-2]  # of the mean of m samples, if they are independent
        row = {
            "call": len(self.history) + 1,
            "gradient": float(gradient.norm()) / contexts,
            "noise": float(variance.sum().sqrt()) / contexts,
            "seconds": seconds,
            "guarantee": self.guarantee,
        }
        if isinstance(self._source, TargetChains):
            row |= {"accepted": self._source.accepted, "memory": self._source.memory}
        self.history.append(row)
