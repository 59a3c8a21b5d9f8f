"""Logits as tensors: their shape, their rows as NumPy arrays, and seeds from torch."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

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
