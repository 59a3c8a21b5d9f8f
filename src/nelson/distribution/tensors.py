"""Logits and samples as torch sees them: shapes, rows as NumPy arrays, seeds, the support."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.distributions import constraints

from nelson.errors import FormulaError
from nelson.formula import Formula


def rows_of(theta: Tensor) -> np.ndarray:
    """(..., n) -> (contexts, n) float64 NumPy."""
    flat = theta.detach().reshape(theta.shape[:-1].numel(), theta.shape[-1])
    return flat.double().cpu().numpy()


def finite(theta: Tensor) -> Tensor:
    """theta with 0 for hard evidence, whose part of the potential is the same for every x."""
    return theta.masked_fill(torch.isinf(theta), 0.0)


def check_shape(logits: Tensor, formula: Formula) -> None:
    if logits.ndim == 0 or logits.shape[-1] != formula.n_vars:
        shape = tuple(logits.shape)
        raise FormulaError(f"logits of shape {shape}", expected=f"(..., {formula.n_vars})")


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
