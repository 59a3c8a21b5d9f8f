"""log Z and the mean as differentiable functions of theta, for any way to compute their values.

    d log Z / d theta = E[x],      d E[x] / d theta = Cov(x)

So a backward pass through log Z needs a mean, and a second one needs a product with the covariance.
Both come from a `nelson.log_z.moments.Moments`, which is made only if a gradient is needed.
Gradients at infinite theta (hard evidence) are 0. There are no third derivatives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nelson.distribution.tensors import rows_of
from nelson.log_z.moments import Moments

Source = Callable[[], Moments]


def log_z(theta: Tensor, values: Tensor, source: Source) -> Tensor:
    """`values` (batch) as a function of theta (batch, n), both float64."""
    return _LogZ.apply(theta, values, source)


def mean(theta: Tensor, source: Source) -> Tensor:
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
