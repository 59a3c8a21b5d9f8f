"""Peer: the paper's dense W, b, V formulation of Algorithm 1 in torch.

    Z = W x + b (m, L, K),   S = 1 - max_k Z (m, L),   A = 1[S V >= 1] (m, n)

with W (L, K, n) and V (L, n) dense float32 and a batch of m = 200 assignments, as in the paper.
We made it as fast as this formulation allows:

- The product with W is one matrix product (m, n) x (n, L K), not an einsum. W is stored transposed
  and contiguous, and the same call adds b (addmm).
- Everything runs in float32 and under inference_mode.
- Which samples are valid is read from S, so that costs no further product.
- With `compact=True` (default) valid samples leave the batch, so late rounds are small products.
  `compact=False` is the paper's loop, which keeps all 200 samples until the last one is valid.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from lab import dense

if TYPE_CHECKING:
    from nelson.formula import Formula


class DenseTorch:
    """A formula as W, b, V on a torch device, and batches drawn by Algorithm 1."""

    def __init__(self, f: Formula, theta: np.ndarray | None, device: str = "cpu") -> None:
        import torch

        W, b, V = dense.build(f)
        self.n_clauses, self.width, n = W.shape
        full = np.zeros(n) if theta is None else np.asarray(theta, dtype=np.float64)
        as_float: dict[str, Any] = {"dtype": torch.float32, "device": device}
        self.W = torch.as_tensor(W.reshape(-1, n), **as_float).T.contiguous()  # (n, L K)
        self.b = torch.as_tensor(b.reshape(-1), **as_float)
        self.V = torch.as_tensor(V, **as_float)
        self.P = torch.as_tensor(dense.probability_of_zero(full), **as_float)
        self.device = device
        # Literals of each clause, for `satisfied`; a shorter clause repeats its last literal.
        lengths = np.diff(f.offsets)
        k = np.minimum(np.arange(lengths.max(initial=1)), lengths[:, None] - 1)
        literals = f.literals[f.offsets[:-1, None] + k]
        self.variables = torch.as_tensor(np.abs(literals).astype(np.int64) - 1, device=device)
        self.signs = torch.as_tensor(literals > 0, device=device)

    def batch(self, m: int, *, compact: bool = True, max_rounds: int = 1000) -> Any:
        """Up to m valid assignments (m, n), booleans on the device.

        Samples that are not valid after max_rounds are dropped.
        """
        import torch

        with torch.inference_mode():
            x = (torch.rand(m, len(self.P), device=self.device) > self.P).float()
            finished = []
            for _ in range(max_rounds):
                Z = torch.addmm(self.b, x, self.W).view(len(x), self.n_clauses, self.width)
                S = 1 - Z.amax(dim=2)
                busy = S.amax(dim=1) > 0.5
                if not busy.any():
                    break
                if compact:
                    finished.append(x[~busy])
                    x, S = x[busy], S[busy]
                A = S @ self.V >= 1
                x = torch.where(A, (torch.rand_like(x) > self.P).float(), x)
            else:
                x = x[:0] if compact else x[~busy]
            return torch.cat([*finished, x]).bool()

    def satisfied(self, x: Any, chunk: int = 65_536) -> bool:
        """Do all assignments satisfy all clauses? Computed from the clauses, not from W."""
        import torch

        if not len(self.signs):
            return True
        return all(
            bool((part[:, self.variables] == self.signs).any(2).all())
            for part in torch.split(x, chunk)
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
        sampler = DenseTorch(f, theta, device)
        sampler.batch(batch, compact=compact)  # warm up
        count, spent = 0, 0.0
        while spent < seconds:
            wait()
            start = time.perf_counter()
            x = sampler.batch(batch, compact=compact)
            wait()
            spent += time.perf_counter() - start
            count += len(x)
            if not sampler.satisfied(x):
                raise AssertionError("the dense sampler returned an invalid sample")
    finally:
        torch.set_num_threads(threads)
    return count / spent
