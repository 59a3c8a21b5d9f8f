"""Networks of one shape, trained side by side as one: weights (members, inputs, outputs).

Members differ in their seed, learning rate and dropout. A step of ten members takes about as long
as a step of one on a GPU, where it is captured once and replayed as a CUDA graph.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor

WEIGHT_DECAY = 1e-5
BETAS, EPSILON = (0.9, 0.999), 1e-8
#: Steps before a capture, as torch asks for.
_WARM_UP = 3


class Stack:
    """sizes: inputs, widths of the layers, outputs. A layer in `dropped` is followed by dropout."""

    def __init__(
        self,
        sizes: Sequence[int],
        dropped: Sequence[int],
        seeds: Sequence[int],
        rates: Sequence[float],
        dropouts: Sequence[float],
        device: torch.device,
    ) -> None:
        layers = [
            [_linear(inputs, outputs, seed, k) for seed in seeds]
            for k, (inputs, outputs) in enumerate(pairwise(sizes))
        ]
        self.parameters = [
            torch.stack([member[k] for member in layer]).to(device).requires_grad_()
            for layer in layers
            for k in (0, 1)
        ]
        self.dropped = set(dropped)
        self.rates = torch.tensor(rates, device=device)[:, None, None]
        self.dropouts = torch.tensor(dropouts, device=device)[:, None, None]
        self.first = [torch.zeros_like(p) for p in self.parameters]
        self.second = [torch.zeros_like(p) for p in self.parameters]
        self.steps = torch.zeros((), device=device)

    def __call__(self, x: Tensor, training: bool = False) -> Tensor:
        """(members, rows, inputs) -> (members, rows, outputs)."""
        layers = len(self.parameters) // 2
        for k in range(layers):
            weight, bias = self.parameters[2 * k : 2 * k + 2]
            x = torch.baddbmm(bias, x, weight)
            if k == layers - 1:
                break
            x = torch.relu(x)
            if training and k in self.dropped:
                x = x * ((torch.rand_like(x) >= self.dropouts) / (1 - self.dropouts))
        return x

    def descend(self, loss: Tensor) -> None:
        """One step of Adam. loss: the sum of the members' losses."""
        grads = list(torch.autograd.grad(loss, self.parameters))
        with torch.no_grad():
            parameters: list[Tensor] = list(self.parameters)
            self.steps += 1
            torch._foreach_add_(grads, parameters, alpha=WEIGHT_DECAY)
            torch._foreach_lerp_(self.first, grads, 1 - BETAS[0])
            torch._foreach_mul_(self.second, BETAS[1])
            torch._foreach_addcmul_(self.second, grads, grads, 1 - BETAS[1])
            scale = self.rates / (1 - BETAS[0] ** self.steps)
            size = torch._foreach_sqrt(self.second)
            torch._foreach_mul_(size, (1 - BETAS[1] ** self.steps).rsqrt())
            torch._foreach_add_(size, EPSILON)
            moved = torch._foreach_div(self.first, size)
            for p, change in zip(parameters, moved, strict=True):
                p.sub_(change * scale)

    def state(self) -> list[Tensor]:
        return [t.detach().clone() for t in self._tensors()]

    @torch.no_grad()
    def load(self, state: Sequence[Tensor]) -> None:
        for tensor, value in zip(self._tensors(), state, strict=True):
            tensor.copy_(value)

    def _tensors(self) -> list[Tensor]:
        return [*self.parameters, *self.first, *self.second, self.steps]


def _linear(inputs: int, outputs: int, seed: int, layer: int) -> tuple[Tensor, Tensor]:
    """Weight and bias as torch.nn.Linear begins: uniform up to 1 / sqrt(inputs)."""
    generator = torch.Generator().manual_seed(1000 * seed + layer)
    bound = 1 / math.sqrt(inputs)
    weight = torch.rand(inputs, outputs, generator=generator)
    bias = torch.rand(1, outputs, generator=generator)
    return (2 * weight - 1) * bound, (2 * bias - 1) * bound


class Step:
    """step(rows): `work` on the rows (members, batch) of this step; a CUDA graph on a GPU."""

    def __init__(self, stack: Stack, work: Callable[[Tensor], None], rows: Tensor) -> None:
        self.work = work
        self.graph: torch.cuda.CUDAGraph | None = None
        if rows.device.type != "cuda":
            return
        self.rows, before = rows.clone(), stack.state()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(_WARM_UP):
                work(self.rows)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        gc.collect()
        gc.disable()  # freeing an older graph would break the capture
        try:
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                work(self.rows)
        finally:
            gc.enable()
        self.graph = graph
        stack.load(before)

    def __call__(self, rows: Tensor) -> None:
        if self.graph is None:
            self.work(rows)
        else:
            self.rows.copy_(rows)
            self.graph.replay()
