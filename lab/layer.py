"""CPU time and memory of a training step as functions of n, batch and K: the layer in numbers.

    python -m lab layer

A step is log P of a batch and its backward pass, by the exact law of a chain of n implications
("i + 1 implies i", a hierarchy of one line for each ten variables): by `CircuitLayer` in single
precision, and by `ConstrainedMRF` in double; and a step of `ContrastiveLoss` by chains. Memory is
how far the process grows in the step (Linux only).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path
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
        layer = nelson.CircuitLayer(formula)
        theta = torch.randn(batch, k, n, generator=torch.Generator().manual_seed(0))
        y, mix = torch.zeros(batch, n), torch.zeros(batch, k)

        def by_layer(layer: Any = layer, theta: Any = theta, y: Any = y, mix: Any = mix) -> None:
            logits = theta.clone().requires_grad_()
            value = layer(logits, y, mix) if mix.shape[1] > 1 else layer(logits[:, 0], y)
            value.sum().backward()

        def by_law(f: Any = formula, theta: Any = theta, y: Any = y, mix: Any = mix) -> None:
            logits = theta.clone().requires_grad_()
            one = mix.shape[1] == 1
            law = nelson.ConstrainedMRF(
                f, logits[:, 0] if one else logits, mix=None if one else mix
            )
            law.log_prob(y).sum().backward()

        shape = f"n = {n}, batch {batch}, K = {k}"
        yield from _measured(f"CircuitLayer, {shape}", by_layer)
        yield from _measured(f"ConstrainedMRF, {shape}", by_law)
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
    ctypes.CDLL(None).malloc_trim(0)  # give back what earlier steps have freed
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    before = _kilobytes("VmRSS")
    step()
    grown = f"{(_kilobytes('VmHWM') - before) / 1e3:.1f} MB"
    yield Row(name, 1e3 * took, None, None, "ms", at_most=True, note=grown)


def _kilobytes(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1])
