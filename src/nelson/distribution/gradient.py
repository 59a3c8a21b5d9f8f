"""Gradients: of samples of P_theta(x | C), which all sampling layers share; of log Z; of the mean.

A draw of bits has no pathwise derivative, but an expectation has one,

    d E[f(x)] / d theta_i = Cov(f(x), x_i),

and m samples estimate it without bias and without log Z or E[x]:

    1/m sum_k (f_k - mean of the other f_l) x_k  =  1/(m-1) sum_k (f_k - f_mean) (x_k - x_mean)

(score function with a leave-one-out baseline: Kool, van Hoof, Welling 2019). The estimate needs the
*values* f(x_k): that is `layer.expectation(f, theta)`, unbiased for any f, differentiable or not.
It also gives gradients for parameters inside f. `layer.score(values, x, theta)` is the same for
known values.

`layer(theta)` returns samples. Autograd hands their backward pass only the gradients
g_k = f'(x_k), and no rule on these can be right for every f: f(x) and f(x) + sum_i sin(2 pi x_i)
agree at all x in {0,1}^n, hence have the same d E[f] / d theta, but not the same g_k. The layer
replaces the missing values by the trapezoid rule,

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

`log_z_of` and `mean_of` make functions of theta out of values that were computed in any way:

    d log Z / d theta = E[x],      d E[x] / d theta = Cov(x)

A backward pass through log Z needs a mean, and a second one a product with the covariance. Both
come from a `nelson.log_z.moments.Moments`, which is made only if a gradient is needed. There are no
third derivatives. All gradients at infinite theta (hard evidence) are 0.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from nelson.distribution.tensors import finite, rows_of
from nelson.errors import FormulaError
from nelson.formula import Formula
from nelson.log_z.moments import Moments

#: Made when a gradient is needed.
Source = Callable[[], Moments]

GRADIENTS = ("score", "straight-through")


class SamplingLayer(nn.Module):
    """theta (..., n) -> m samples (..., m, n). A subclass says how they are drawn: `sample`."""

    def __init__(self, formula: Formula, samples: int, gradient: str) -> None:
        super().__init__()
        if gradient not in GRADIENTS:
            raise FormulaError(f"gradient={gradient!r}", expected=" or ".join(GRADIENTS))
        if samples < 2:
            raise FormulaError(
                f"samples={samples}",
                expected="2 or more: the baseline of a sample is the mean of the others",
            )
        self.formula, self.samples, self.gradient = formula, samples, gradient
        self.info: dict[str, Any] = {}  # of the last draw

    def extra_repr(self) -> str:
        return f"{self.formula!r}, samples={self.samples}, gradient={self.gradient!r}"

    @abstractmethod
    def sample(self, logits: Tensor) -> Tensor:
        """(..., n) -> (..., m, n) in the dtype and on the device of the logits; no gradient."""

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


# --- log Z and the mean ---------------------------------------------------------------------------


def log_z_of(theta: Tensor, values: Tensor, source: Source) -> Tensor:
    """`values` (batch) as a function of theta (batch, n), both float64."""
    return _LogZ.apply(theta, values, source)


def mean_of(theta: Tensor, source: Source) -> Tensor:
    """E[x], (batch, n) float64, as a function of theta (batch, n) float64."""
    return _Mean.apply(theta, source())


class _LogZ(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, theta: Tensor, values: Tensor, source: Source) -> Tensor:
        ctx.save_for_backward(theta)
        ctx.source = source
        return values.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        (theta,) = ctx.saved_tensors
        moved = grad.unsqueeze(-1) * _Mean.apply(theta, ctx.source())
        return moved.masked_fill(torch.isinf(theta), 0.0), None, None


class _Mean(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, theta: Tensor, moments: Moments) -> Tensor:
        ctx.save_for_backward(theta)
        ctx.moments = moments
        return torch.from_numpy(moments.mean(rows_of(theta))).to(theta.device).reshape(theta.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        (theta,) = ctx.saved_tensors
        pulled = torch.from_numpy(ctx.moments.pull(rows_of(theta), rows_of(grad)))
        return pulled.to(theta.device).reshape(theta.shape).masked_fill(theta.isinf(), 0.0), None
