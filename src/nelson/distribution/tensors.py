"""Logits and samples as torch sees them: shapes, rows as NumPy arrays, seeds, the support."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.distributions import constraints

from nelson.errors import FormulaError
from nelson.formula import Formula
from nelson.formula.evaluate import violated


def rows_of(theta: Tensor) -> np.ndarray:
    """(..., n) -> (contexts, n) float64 NumPy."""
    flat = theta.detach().reshape(theta.shape[:-1].numel(), theta.shape[-1])
    return flat.double().cpu().numpy()


def finite(theta: Tensor) -> Tensor:
    """theta with 0 for hard evidence, whose part of the potential is the same for every x."""
    return theta.masked_fill(torch.isinf(theta), 0.0)


def log_sum_exp(each: Tensor) -> Tensor:
    """Over the last axis, with the gradient 0 where all are -inf."""
    top = each.detach().amax(-1, keepdim=True)
    top = top.masked_fill(top.isinf(), 0.0)
    return (each - top).exp().sum(-1).log() + top.squeeze(-1)


def picked(x: Tensor, at: Tensor) -> Tensor:
    """x[..., at, :]: of K rows (..., K, n) that of the number (...)."""
    return x.gather(-2, at[..., None, None].expand(*at.shape, 1, x.shape[-1])).squeeze(-2)


def check_layout(logits: Tensor, formula: Formula) -> None:
    """FormulaError unless the logits are floats, (..., n). It does not wait for a GPU."""
    if not isinstance(logits, Tensor):
        raise FormulaError(f"logits of type {type(logits).__name__}", expected="a tensor")
    if logits.ndim == 0 or logits.shape[-1] != formula.n_vars:
        shape = tuple(logits.shape)
        raise FormulaError(f"logits of shape {shape}", expected=f"(..., {formula.n_vars})")
    if not logits.is_floating_point():
        raise FormulaError(f"logits of {logits.dtype}", expected="floating-point numbers")


def check_shape(logits: Tensor, formula: Formula) -> None:
    """FormulaError unless the logits are numbers, (..., n), none of them NaN."""
    check_layout(logits, formula)
    if logits.device.type != "meta" and bool((missing := logits.isnan()).any()):
        where = missing.nonzero()[0].tolist()
        raise FormulaError(
            f"logits with {int(missing.sum())} NaN, the first of variable {where[-1] + 1}"
            + (f" in row {where[:-1]}" if where[:-1] else ""),
            expected="numbers or +-inf: has training diverged?",
        )


def check_device(name: str, value: Tensor, logits: Tensor) -> None:
    if value.device != logits.device:
        raise FormulaError(
            f"{name} on {value.device} for logits on {logits.device}",
            expected=f'one device: {name}.to("{logits.device}")',
        )


def check_targets(logits: Tensor, targets: Tensor, formula: Formula) -> Tensor:
    """The targets in the dtype of the logits. FormulaError unless they have the shape and the
    device of the logits, and each is a valid structure that agrees with infinite logits.
    """
    if targets.shape != logits.shape:
        raise FormulaError(
            f"targets of shape {tuple(targets.shape)}",
            expected=f"the shape of the logits, {tuple(logits.shape)}",
        )
    check_device("targets", targets, logits)
    y = targets.detach()
    rows = rows_of(y)
    if len(wrong := np.argwhere((rows != 0) & (rows != 1))):
        k, i = wrong[0]
        raise FormulaError(
            f"target {k} has the value {rows[k, i]:g} for variable {i + 1}", expected="0 or 1"
        )
    valid = np.asarray(formula.satisfied(rows == 1))
    if not valid.all():
        k = int(np.argmin(valid))
        rule = violated(formula, rows[k] == 1)
        raise FormulaError(
            f"{int((~valid).sum())} of {len(rows)} targets violate the formula, the first is "
            f"target {k}: it breaks {rule}",
            expected="targets that satisfy every clause",
        )
    theta = rows_of(logits)
    if len(wrong := np.argwhere(np.isinf(theta) & ((theta > 0) != (rows == 1)))):
        k, i = wrong[0]
        raise FormulaError(
            f"target {k} has the value {rows[k, i]:g} for variable {i + 1}, but its logit is "
            f"{theta[k, i]:g}, which rules that out",
            expected="infinite logits only where they agree with the target",
        )
    return y.to(logits.dtype)


def torch_seed() -> int:
    """A seed from torch's global generator, so that `torch.manual_seed` makes draws repeatable."""
    return int(torch.randint(0, 2**62, ()).item())


class ValidStructure(constraints.Constraint):
    """x in {0,1}^n with C(x): the support of a constrained MRF."""

    is_discrete = True
    event_dim = 1

    def __init__(self, formula: Formula) -> None:
        self.formula = formula
        super().__init__()

    def __repr__(self) -> str:
        """The words of torch's error message; torch's own drops the first letter of the class."""
        return f"valid structures of {self.formula!r}: each x_i is 0 or 1, and every clause holds"

    def check(self, value: Tensor) -> Tensor:
        x = value.detach().cpu()
        boolean = ((x == 0) | (x == 1)).all(-1)
        valid = self.formula.satisfied((x == 1).numpy())
        return (boolean & torch.from_numpy(np.asarray(valid))).to(value.device)
