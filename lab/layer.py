"""CPU time and memory of a training step as functions of n, batch and K: the layer in numbers.

    python -m lab layer

A step is log P of a batch and its backward pass, by the exact law of a chain of n implications
("i + 1 implies i", a hierarchy of one line for each ten variables), and a step of
`ContrastiveLoss` by chains. Memory is what Python and NumPy allocate at most in the step.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import nelson
from lab.common import Row, seconds
from nelson import Formula

#: (n, batch, K); the first is the unit that the others are compared with.
SHAPES = (
    (500, 64, 1), (1000, 64, 1), (2000, 64, 1),
    (500, 128, 1), (500, 256, 1),
    (500, 64, 2), (500, 64, 4), (500, 64, 8),
)  # fmt: skip


def lines(n: int) -> Formula:
    """A label implies the one before, in lines of ten."""
    return Formula([[-(v + 1), v] for v in range(1, n) if v % 10], n_vars=n)


def rows() -> Iterator[Row]:
    import torch

    torch.set_num_threads(1)
    for n, batch, k in SHAPES:
        formula = lines(n)
        theta = torch.randn(batch, k, n, generator=torch.Generator().manual_seed(0))
        y = torch.zeros(batch, n)

        def step(theta: Any = theta, y: Any = y, formula: Formula = formula, k: int = k) -> None:
            logits = theta.clone().requires_grad_()
            mix = torch.zeros(len(y), k)
            law = nelson.ConstrainedMRF(formula, logits, mix=mix) if k > 1 else None
            law = nelson.ConstrainedMRF(formula, logits[:, 0]) if law is None else law
            law.log_prob(y).sum().backward()

        yield from _measured(f"likelihood, n = {n}, batch {batch}, K = {k}", step)
    from nelson.distribution.target_chains import TargetChains

    for n, batch, _ in SHAPES[:5]:
        chains = TargetChains(lines(n), 8, 2000)
        theta = np.random.default_rng(0).normal(size=(batch, n))
        y = np.zeros((batch, n), bool)

        def draw(chains: Any = chains, theta: Any = theta, y: Any = y) -> None:
            chains.draw(theta, y, range(len(y)), 0)

        yield from _measured(f"8 chains of 2,000 proposals, n = {n}, batch {batch}", draw)


def _measured(name: str, step: Callable[[], None]) -> Iterator[Row]:
    step()
    took = float(np.median([seconds(step) for _ in range(5)]))
    tracemalloc.start()
    step()
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    yield Row(name, 1e3 * took, None, None, "ms", at_most=True, note=f"{peak:.1f} MB")
