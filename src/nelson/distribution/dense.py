"""The paper's Neural Lovász Sampler, Eqs. 8-15, as a plain `torch.nn.Module`.

For a formula with n variables, L clauses and at most K literals per clause:

    W (L, K, n) in {-1, 0, 1}   +1 / -1 where literal k of clause j is X_i / not X_i     Eq. 8
    b (L, K)    in {0, 1}       1 where literal k of clause j is negated                 Eq. 9
    V (L, n)    in {0, 1}       1 where clause j mentions variable i                     Eq. 10

and for P_i = P(X_i = 0), assignments x (rows, n) and u uniform on [0, 1):

    x = 1[u > P]                line 1 of Algorithm 1                       (rows, n)    Eq. 11
    Z = W x + b                 value of each literal                       (rows, L, K) Eq. 12
    S = 1 - max_k Z             1 where a clause is violated                (rows, L)    Eq. 13
    A = 1[S V >= 1]             1 where a variable is resampled             (rows, n)    Eq. 14
    x = (1 - A) x + A 1[u > P]  redraws them, until no clause is violated   (rows, n)    Eq. 15

A clause with fewer than K literals is padded with zero rows: literals that are never true. The
paper states the shape of b as (L, n), but it is (L, K). A round takes O(rows L K n) time and
memory for W: `LovaszLayer` draws the same law thousands of times faster. This layer is for reading
beside the paper, for comparisons, and for devices where only torch runs.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import linear, pad

from nelson.distribution.gradient import SamplingLayer
from nelson.distribution.tensors import check_shape
from nelson.errors import BudgetExceeded, FormulaError
from nelson.formula import Formula


class DenseLayer(SamplingLayer):
    """theta (..., n) -> m valid samples (..., m, n), with the gradients of `LovaszLayer`.

    formula     its auxiliary variables, if any, are drawn with theta = 0 and left out of samples
    samples, gradient: as in `LovaszLayer`
    max_rounds  BudgetExceeded if some sample is not valid after so many rounds
    compact     True: valid samples leave the batch, and late rounds are small products.
                False: the paper's loop, which carries all samples until the last one is valid

    The samples follow P_theta(x | C) if the formula is extremal (Condition 1). All others are valid
    samples of another law, and `info["guarantee"]` says heuristic. W, b and V are buffers:
    `layer.to(device)` moves them. They hold 0, 1 and -1, so TF32 products are exact, too.
    """

    W: Tensor
    b: Tensor
    V: Tensor

    def __init__(
        self,
        formula: Formula,
        samples: int = 32,
        *,
        gradient: str = "score",
        max_rounds: int = 1000,
        compact: bool = True,
    ) -> None:
        super().__init__(formula, samples, gradient)
        self.max_rounds, self.compact = max_rounds, compact
        lengths = np.diff(formula.offsets)
        width = int(lengths.max()) if lengths.size else 0
        clause = np.repeat(np.arange(formula.n_clauses), lengths)
        position = np.arange(formula.literals.size) - np.repeat(formula.offsets[:-1], lengths)
        literals = torch.from_numpy(formula.literals.astype(np.int64))
        j, k, i = torch.from_numpy(clause), torch.from_numpy(position), literals.abs() - 1
        W = torch.zeros(formula.n_clauses, width, formula.n_total)
        b = torch.zeros(formula.n_clauses, width)
        V = torch.zeros(formula.n_clauses, formula.n_total)
        W[j, k, i] = literals.sign().float()
        b[j, k] = (literals < 0).float()
        V[j, i] = 1.0
        for name, buffer in (("W", W), ("b", b), ("V", V)):
            self.register_buffer(name, buffer, persistent=False)  # the formula determines them

    def literal_values(self, x: Tensor) -> Tensor:
        """Z = W x + b, (rows, n) -> (rows, L, K), as one matrix product."""
        n_clauses, width, n = self.W.shape
        Z = linear(x.to(self.W.dtype), self.W.view(n_clauses * width, n), self.b.view(-1))
        return Z.view(len(x), n_clauses, width)

    def violated(self, x: Tensor) -> Tensor:
        """S = 1 - max_k Z, (rows, n) -> (rows, L)."""
        Z = self.literal_values(x)
        return 1 - Z.amax(2) if Z.shape[2] else Z.new_ones(Z.shape[:2])

    def resampled(self, S: Tensor) -> Tensor:
        """A = 1[S V >= 1], (rows, L) -> (rows, n) bool."""
        return S @ self.V >= 1

    def draw(self, P: Tensor) -> tuple[Tensor, Tensor, int]:
        """Algorithm 1 for each row of P (rows, n): (x bool (rows, n), valid (rows,), rounds)."""
        x = torch.rand_like(P) >= P  # rand is in [0, 1): this is 1 always where P = 0, never at 1
        waiting = torch.arange(len(P), device=P.device)
        for rounds in range(1, self.max_rounds + 1):
            rows = x[waiting]
            S = self.violated(rows)
            busy = (S > 0.5).any(1)
            if not busy.any():
                return x, torch.ones_like(P[:, 0], dtype=torch.bool), rounds
            if self.compact:
                waiting, rows, S = waiting[busy], rows[busy], S[busy]
            part = P[waiting]
            x[waiting] = torch.where(self.resampled(S), torch.rand_like(part) >= part, rows)
        valid = ~(self.violated(x) > 0.5).any(1)
        return x, valid, self.max_rounds

    @torch.no_grad()
    def sample(self, logits: Tensor) -> Tensor:
        """(..., n) -> (..., m, n) in the dtype and on the device of the logits; no gradient."""
        check_shape(logits, self.formula)
        if logits.device != self.W.device:
            raise FormulaError(
                f"logits on {logits.device} for a layer on {self.W.device}",
                expected=f'one device: layer.to("{logits.device}")',
            )
        theta = logits.reshape(-1, logits.shape[-1])
        theta = pad(theta, (0, self.formula.n_total - self.formula.n_vars))
        P = torch.sigmoid(-theta.to(torch.promote_types(theta.dtype, torch.float32)))
        x, valid, rounds = self.draw(P.repeat_interleave(self.samples, 0))
        if not valid.all():
            raise BudgetExceeded(
                f"{int(valid.sum())} of {len(valid)} samples are valid after {rounds} rounds: "
                "raise max_rounds, or use LovaszLayer"
            )
        law = "exact" if self.formula.is_extremal else "heuristic"
        self.info = {"method": "dense", "guarantee": law, "rounds": rounds}
        x = x[:, : logits.shape[-1]].reshape(*logits.shape[:-1], self.samples, logits.shape[-1])
        return x.to(logits.dtype)
