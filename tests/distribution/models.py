"""Formulas, random logits, and the error bounds of the statistical tests of this folder.

Statistical tests reject a right model with probability ALPHA each; about 15 of them: 2e-5 in all.
Seeds are fixed.
"""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import nelson  # noqa: E402
from tests.problems import extremal, non_extremal  # noqa: E402

ALPHA = 1e-6
SIGMAS = 5.2  # two-sided: 2e-7 for each number
SMALL = {**extremal(), **non_extremal()}
ENCODED = nelson.Formula([[1, 2, 3]], n_vars=8).exactly(range(1, 9), 3).xor([1, 2, 3, 4, 5, 6])


def logits(formula, *batch, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*batch, formula.n_vars, generator=generator, dtype=dtype)
