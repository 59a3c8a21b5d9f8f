"""Peer: the paper's dense W, b, V formulation of Algorithm 1, `nelson.distribution.dense`.

A batch of m = 200 assignments, as in the paper, in float32. With `compact=True` (default) valid
samples leave the batch, so late rounds are small products; `compact=False` is the paper's loop.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from nelson.formula import Formula


class Dense:
    """Batches drawn by the paper's layer at one theta; samples that never become valid are dropped.

    f        with its auxiliary variables, which take the last entries of theta, (n_total,)
    """

    def __init__(
        self, f: Formula, theta: np.ndarray | None, device: str = "cpu", *, compact: bool = True
    ) -> None:
        import torch

        from nelson.distribution.dense import DenseLayer

        self.layer = DenseLayer(f, compact=compact).to(device)
        self.at(np.zeros(f.n_total) if theta is None else theta)
        literals = self.layer.W  # the literals of each clause, for `satisfied`
        self.variables = literals.abs().argmax(2)
        self.signs = literals.sum(2)
        self.torch: Any = torch

    def at(self, theta: np.ndarray) -> None:
        """Move to another theta."""
        import torch

        W = self.layer.W
        self.P = torch.sigmoid(-torch.as_tensor(theta, dtype=W.dtype, device=W.device))[None]

    def batch(self, m: int) -> Any:
        """Up to m valid assignments (m, n), booleans on the device."""
        with self.torch.inference_mode():
            x, valid, _ = self.layer.draw(self.P.expand(m, -1))
            return x if bool(valid.all()) else x[valid]

    def satisfied(self, x: Any, chunk: int = 65_536) -> bool:
        """Do all assignments satisfy all clauses? Looked up literal by literal, not by products."""
        return all(
            bool(((rows[:, self.variables] == (self.signs > 0)) & (self.signs != 0)).any(2).all())
            for rows in self.torch.split(x, chunk)
        )


def dense_rate(
    f: Formula,
    theta: np.ndarray | None = None,
    *,
    batch: int = 200,
    seconds: float = 3.0,
    compact: bool = True,
    device: str = "cpu",
) -> float:
    """Valid samples per second, drawn by one thread and left on the device.

    All samples are checked; the time of the check is excluded.
    """
    import torch

    def wait() -> None:
        if device != "cpu":
            torch.cuda.synchronize()

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        torch.manual_seed(0)
        sampler = Dense(f, theta, device, compact=compact)
        sampler.batch(batch)  # warm up
        count, spent = 0, 0.0
        while spent < seconds:
            wait()
            start = time.perf_counter()
            x = sampler.batch(batch)
            wait()
            spent += time.perf_counter() - start
            count += len(x)
            if not sampler.satisfied(x):
                raise AssertionError("the dense sampler returned an invalid sample")
    finally:
        torch.set_num_threads(threads)
    return count / spent
