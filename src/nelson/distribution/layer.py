"""A network layer whose outputs are always valid structures.

    forward     theta (..., n)  ->  x (..., m, n),   x_k ~ P_theta(. | C) independently

A draw of bits has no pathwise derivative, but an expectation has one,

    d E[f(x)] / d theta_i = Cov(f(x), x_i),

and m samples estimate it without bias and without log Z or E[x]:

    1/m sum_k (f_k - mean of the other f_l) x_k  =  1/(m-1) sum_k (f_k - f_mean) (x_k - x_mean)

(score function with a leave-one-out baseline: Kool, van Hoof, Welling 2019). The estimate needs the
*values* f(x_k). Autograd gives a layer only the gradients of the loss at the samples, so no
backward pass of the samples can be right for every f. Hence there are two ways to use the layer.

`layer.expectation(f, theta)` is unbiased for any f, differentiable or not, and also gives gradients
for parameters inside f. `layer.score(values, x, theta)` is the same for known values.

`layer(theta)` returns samples. Their backward pass replaces the missing values by the trapezoid
rule on the gradients g_k = f'(x_k),

    f_k - f(x_mean)  ~  (g_k + g_mean)/2 . (x_k - x_mean),

which is an equality if f is quadratic. So
- for a mean over samples of a linear or quadratic f (a squared error, a moment, a quadratic energy)
  it equals the estimate above;
- for a smooth function of the samples' mean it is right as m grows (there the rule is the
  derivative of E[x], the covariance);
- for an f of higher order in a single sample it is biased, and an f that is not differentiable has
  no gradient: use `expectation`.

`gradient="straight-through"` makes both ways pass gradients through as if x were theta:
dx/dtheta := I. This is always biased; it is there because it is in wide use.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nelson.distribution.planned_draws import PlannedDraws
from nelson.distribution.tensors import check_shape, finite, rows_of, torch_seed
from nelson.errors import FormulaError
from nelson.formula import Formula

GRADIENTS = ("score", "straight-through")
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


class LovaszLayer(nn.Module):
    """theta (..., n) -> samples (..., m, n) of P_theta(x | C) = exp(theta . x) C(x) / Z, all valid.

    formula   C
    samples   m, at least 2: one sample has no baseline
    gradient  "score" or "straight-through"; see the module
    method, sweeps: the sampler, as in `nelson.sample`. If "auto" has to diagnose chains, it does so
              at the first call, after 100 calls, and after 20 calls if the law has moved: log P by
              more than 0.5 nats, all logits together. Until then samples of a law that has moved
              are called heuristic.

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
    ) -> None:
        super().__init__()
        if gradient not in GRADIENTS:
            raise FormulaError(f"gradient={gradient!r}", expected=" or ".join(GRADIENTS))
        if samples < 2:
            raise FormulaError(
                f"samples={samples}",
                expected="2 or more: the baseline of a sample is the mean of the others",
            )
        self.formula, self.samples, self.gradient = formula, samples, gradient
        self.method, self.sweeps = method, sweeps
        self.info: dict[str, Any] = {}
        self._draws = PlannedDraws(formula, method, sweeps)
        self._calls = 0  # since the last diagnosis
        self._diagnosed: np.ndarray | None = None  # samples (b, m, n) of the law diagnosed

    def extra_repr(self) -> str:
        return f"{self.formula!r}, samples={self.samples}, gradient={self.gradient!r}"

    def forward(self, logits: Tensor) -> Tensor:
        x = self.sample(logits)
        through = _StraightThrough if self.gradient == "straight-through" else _Trapezoid
        return through.apply(logits, x)

    def expectation(self, f: Callable[[Tensor], Tensor], logits: Tensor) -> Tensor:
        """The mean of f over m samples; its backward is the leave-one-out estimate of Cov(f, x).

        f maps samples (..., m, n) to values (..., m) or (..., m, k, ...): the result is (...) or
        (..., k, ...). Parameters inside f get the gradients of the mean.
        """
        if self.gradient == "straight-through":
            x = self(logits)
            return self._checked(f(x), x).mean(logits.ndim - 1)
        x = self.sample(logits)
        return self.score(f(x), x, logits)

    def score(self, values: Tensor, x: Tensor, logits: Tensor) -> Tensor:
        """The mean of values f(x_k), (..., m) or (..., m, k, ...), with the backward of
        `expectation`; x (..., m, n) as drawn by `sample`.
        """
        m, axis = x.shape[-2], logits.ndim - 1
        values = self._checked(values, x)
        potential = (finite(logits).unsqueeze(-2) * x.detach()).sum(-1)  # (..., m)
        mean = values.mean(axis)
        # f_k - mean of the others = m / (m - 1) (f_k - mean): constants, they sum to 0.
        weight = (values - mean.unsqueeze(axis)).detach() / (m - 1)
        potential = potential.reshape(potential.shape + (1,) * (values.ndim - potential.ndim))
        surrogate = (weight * potential).sum(axis)
        return mean + (surrogate - surrogate.detach())

    @torch.no_grad()
    def sample(self, logits: Tensor) -> Tensor:
        """(..., n) -> (..., m, n) in the dtype and on the device of the logits; no gradient."""
        check_shape(logits, self.formula)
        rows = rows_of(logits)
        moved = self._moved(rows)
        wait = PILOT_IF_MOVED if moved > NEAR else PILOT_EVERY
        keep = 0 < self._calls < wait
        if not keep:
            self._draws = PlannedDraws(self.formula, self.method, self.sweeps)
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
            f"the law has moved since the chains were diagnosed: log P by up to {moved:.2g} nats "
            f"(one standard deviation), more than {NEAR}"
        )
        self.info |= {"guarantee": "heuristic", "why": f"{why} ({self.info['why']})"}
        warnings.warn(f"samples without a known law: {why}", stacklevel=4)

    def _checked(self, values: Tensor, x: Tensor) -> Tensor:
        if values.shape[: x.ndim - 1] != x.shape[:-1]:
            raise FormulaError(
                f"values of shape {tuple(values.shape)} for samples {tuple(x.shape)}",
                expected=f"{tuple(x.shape[:-1])} first: one value for each sample",
            )
        return values


class _StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return grad.sum(-2), None


class _Trapezoid(torch.autograd.Function):
    """m/(m-1) sum_k [(g_k + g_mean)/2 . (x_k - x_mean)] (x_k - x_mean); 0 at infinite logits.

    g_k is the gradient of the whole loss at sample k. If the loss is a mean, g_k contains its 1/m.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, x: Tensor) -> Tensor:
        ctx.save_for_backward(logits, x)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        logits, x = ctx.saved_tensors
        m = x.shape[-2]
        centred = x - x.mean(-2, keepdim=True)
        slope = (grad + grad.mean(-2, keepdim=True)) / 2
        rise = (slope * centred).sum(-1, keepdim=True)
        pulled = (rise * centred).sum(-2) * (m / (m - 1))
        return pulled.masked_fill(torch.isinf(logits), 0.0), None
