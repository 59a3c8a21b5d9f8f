"""The support of a constrained MRF as a constraint of `torch.distributions`."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.distributions import constraints

from nelson.formula import Formula


class ValidStructure(constraints.Constraint):
    """x in {0,1}^n with C(x)."""

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
