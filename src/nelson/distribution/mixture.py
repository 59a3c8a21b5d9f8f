"""A mixture of K laws over one formula: correlations between variables beyond the rules.

    P(x) = sum_k w_k P_k(x),      P_k(x) = exp(theta_k . x) C(x) / Z_k,      w = softmax(mix)

Log-odds of single variables cannot say "either both or none", two components can. Every number is
exact where the components' numbers are: log_prob and mean sum over k, and samples choose k first.
The mode is the exception, since a maximum of sums is no sum of maxima:

    max_x P(x)  <=  sum_k w_k max_x P_k(x)

is a bound. A structure is found by ascent: with q_k = w_k P_k(x) / P(x), Jensen's inequality makes
P(x') >= P(x) for the mode x' of the law with log-odds sum_k q_k theta_k (minorise and maximise,
Hunter and Lange 2004). Where all structures can be listed, the mode is exact.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Distribution, constraints

from nelson.distribution.tensors import log_sum_exp, picked, rows_of
from nelson.errors import FormulaError
from nelson.exact.listing import structures
from nelson.exact.queries import mode

if TYPE_CHECKING:
    from nelson.distribution.mrf import ConstrainedMRF

#: Structures x components x variables that the mode lists for one row, at most.
_CELLS = 1 << 22
#: Steps of an ascent, at most; two or three are usual.
_STEPS = 20
#: Up to this difference of log P the bound is reached: rounding.
_REACHED = 1e-9


class ConstrainedMixture(Distribution):
    """`ConstrainedMRF(formula, logits=(..., K, n), mix=(..., K))`: batch shape (...).

    components  the laws P_k, a `ConstrainedMRF` of batch shape (..., K)
    log_weights (..., K), log softmax of `mix`

    `info["mode"]` has, for each row, "log_prob" of the mode, the "bound" on any structure, and
    whether it is "exact".
    """

    arg_constraints = {}  # noqa: RUF012
    has_enumerate_support = True

    def __init__(self, components: ConstrainedMRF, mix: Any) -> None:
        mix = torch.as_tensor(mix, device=components.logits.device)
        if not mix.is_floating_point():
            mix = mix.to(components.logits.dtype)
        if mix.shape != components.batch_shape or not mix.ndim or not mix.shape[-1]:
            raise FormulaError(
                f"mix of shape {tuple(mix.shape)} for logits {tuple(components.logits.shape)}",
                expected="logits (..., K, n) and mix (..., K), K at least 1",
            )
        if bool(mix.isnan().any()) or bool((mix == math.inf).any()):
            raise FormulaError("mix with NaN or +inf", expected="numbers, or -inf for weight 0")
        self.components, self.formula, self.names = components, components.formula, components.names
        self.log_weights = torch.log_softmax(mix, -1)
        self.info = components.info
        shape = components.batch_shape[:-1]
        super().__init__(shape, components.event_shape, validate_args=False)

    def __repr__(self) -> str:
        k = self.log_weights.shape[-1]
        return f"ConstrainedMRF({self.formula!r}, {k} components, batch: {tuple(self.batch_shape)})"

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> constraints.Constraint:
        return self.components.support

    @property
    def mean(self) -> Tensor:
        """P(x_i = 1), (..., n). Differentiable."""
        return (self.log_weights.exp().unsqueeze(-1) * self.components.mean).sum(-2)

    @property
    def variance(self) -> Tensor:
        mean = self.mean
        return mean * (1 - mean)

    def log_prob(self, value: Tensor) -> Tensor:
        """log sum_k w_k P_k(x), sample_shape + batch_shape; differentiable in logits and mix."""
        each = self.components.log_prob(value.unsqueeze(-2)) + self.log_weights
        return log_sum_exp(each)

    def responsibilities(self, value: Tensor) -> Tensor:
        """P(component k | x), (..., K)."""
        each = self.components.log_prob(value.unsqueeze(-2)) + self.log_weights
        return torch.softmax(each, -1)

    def sample(self, sample_shape: Any = torch.Size()) -> Tensor:  # noqa: B008 (as torch has it)
        """sample_shape + (..., n), all valid. Draws from all components, and keeps one of them."""
        x = self.components.sample(sample_shape)
        shape = torch.Size(sample_shape)
        return picked(x, torch.distributions.Categorical(logits=self.log_weights).sample(shape))

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """As `ConstrainedMRF.enumerate_support`."""
        x = self.components.enumerate_support(False).squeeze(1)
        return x.expand(-1, *self.batch_shape, -1) if expand else x

    def read(self, x: Any, *, values: bool = False) -> Any:
        return self.components.read(x, values=values)

    @property
    def mode(self) -> Tensor:
        """A likely structure, (..., n); `info["mode"]` says how far from the best it can be."""
        return self.most_likely()

    @torch.no_grad()
    def most_likely(self, seconds: float | None = None) -> Tensor:
        """`mode`, with seconds for each search of a component's mode, as `ConstrainedMRF` has."""
        peaks = self.components.most_likely(seconds)  # (..., K, n)
        bound = (self.log_weights + self.components.log_prob(peaks)).logsumexp(-1)
        each = self.components.logits.shape[-2:].numel()
        listed = structures(self.formula, _CELLS // max(1, each))
        if listed is not None:
            best = self._best_listed(listed)
        else:
            best = self._ascended(peaks, seconds)
        reached = self.log_prob(best)
        exact = listed is not None
        rows = zip(reached.reshape(-1).tolist(), bound.reshape(-1).tolist(), strict=True)
        self.info["mode"] = [
            {
                "log_prob": value,
                "bound": value if exact else max(limit, value),
                "exact": exact or limit - value <= _REACHED,
            }
            for value, limit in rows
        ]
        return best

    def _best_listed(self, listed: np.ndarray) -> Tensor:
        """The best of all structures (m, n), a row of the batch after the other."""
        logits = self.components.logits
        states = torch.from_numpy(listed).to(logits.device, logits.dtype)
        flat = logits.reshape(-1, *logits.shape[-2:])
        weights = self.log_weights - self.components.log_partition()
        out = torch.empty(len(flat), states.shape[1], dtype=logits.dtype, device=logits.device)
        for b, (theta, weight) in enumerate(zip(flat, weights.reshape(len(flat), -1), strict=True)):
            hard = theta.isinf()
            score = states @ theta.masked_fill(hard, 0.0).T + weight  # (m, K)
            if hard.any():
                fixed = hard.any(0)  # only these columns need the comparison
                wrong = (states[:, None, fixed] != (theta[:, fixed] > 0)) & hard[:, fixed]
                score = score.masked_fill(wrong.any(-1), -math.inf)
            out[b] = states[int(score.logsumexp(-1).argmax())]
        return out.reshape(*self.batch_shape, -1)

    def _ascended(self, peaks: Tensor, seconds: float | None) -> Tensor:
        """The best peak of a component, and then uphill."""
        each = torch.stack([self.log_prob(peak) for peak in peaks.unbind(-2)], -1)  # (..., K)
        x = picked(peaks, each.argmax(-1))
        for _ in range(_STEPS):
            q = self.responsibilities(x).unsqueeze(-1)
            pull = torch.where(q > 0, q * self.components.logits, 0.0).sum(-2)  # not 0 x inf
            rows = [mode(self.formula, row, seconds=seconds) for row in rows_of(pull)]
            after = torch.from_numpy(np.array(rows)).to(x).reshape(x.shape)
            better = self.log_prob(after) > self.log_prob(x) + _REACHED
            if not better.any():
                break
            x = torch.where(better.unsqueeze(-1), after, x)
        return x
