"""The exact law of a compiled formula in torch operations alone: on any device that torch knows.

The circuit is evaluated level by level (`nelson.exact.circuit.decisions`): a level holds the
decisions whose branches mention lower levels only. With log w of both literals of each variable,

    term(b)  = sum of log w(l) over its literals + sum of value(j) over its decisions
    value(i) = log(e^term(2i) + e^term(2i + 1)),          value(root) = log P(C)

Downward, flow(root) = 1, and a branch gets the share e^(term(b) - value(i)) of the flow of its
decision. The flow of a literal is d log P(C) / d log w(l): the backward pass. With maxima instead
of sums the upward pass finds the mode; with coins instead of shares the downward pass is a sample.

Rows are decisions and columns are contexts, so that every step moves contiguous rows. A pass takes
O(edges) operations for each context, in about six calls of torch for each level.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import logsigmoid, softplus

from nelson.budget import Budget
from nelson.distribution.tensors import (
    check_device,
    check_layout,
    check_shape,
    check_targets,
    finite,
    log_sum_exp,
    picked,
)
from nelson.errors import BudgetExceeded, FormulaError
from nelson.exact.circuit.decisions import DecisionCircuit
from nelson.exact.compiled import compiled, why_not
from nelson.formula import Formula

#: Steps uphill from the best mode of a component: two or three are usual.
_STEPS_UP = 4


class CircuitLevel(NamedTuple):
    at: slice  # its decisions, in the order of levels
    edges: slice
    rows: tuple[int, int]  # its decisions among all values: after the literals


class CircuitLayer(nn.Module):
    """The law of `ConstrainedMRF(formula, logits)` for formulas that compile to a circuit.

    formula   C
    seconds   for the compiler; None: as `ConstrainedMRF`. Raises BudgetExceeded if it fails.

    Logits are (..., n) floats on the device of the layer, +-inf is evidence; results have the
    precision of the logits: take float64 where small probabilities matter. Calling the layer is
    `log_prob` of targets: FormulaError for NaN logits and for targets that are not valid, with the
    rule that they break. The methods check shapes, devices and types alone, which needs no wait for
    a GPU, and so does a call while a CUDA graph is captured.

    mix       (..., K) for logits (..., K, n): a mixture of K laws with weights softmax(mix)

    >>> import torch
    >>> layer = nelson.CircuitLayer(nelson.Formula([[1, 2], [-1, 3]]))  # .to("cuda")
    >>> logits = torch.zeros(3, requires_grad=True)
    >>> layer.log_partition(logits).exp()
    tensor(4., grad_fn=<ExpBackward0>)
    >>> layer(logits, torch.tensor([1.0, 0.0, 1.0])).backward()
    >>> logits.grad  # x - mean
    tensor([ 0.5000, -0.7500,  0.2500])
    """

    def __init__(self, formula: Formula, seconds: float | None = None) -> None:
        super().__init__()
        circuit_law = compiled(formula, Budget.of(seconds))
        if circuit_law is None:
            raise BudgetExceeded(f"{formula!r} was not compiled to a circuit: {why_not(formula)}")
        self.formula, self.circuit = formula, circuit_law.circuit
        self._levels, edges, single = _levels(self.circuit)
        self.edges: Tensor
        self.single: Tensor
        self.clauses: Tensor
        self.register_buffer("edges", torch.from_numpy(edges), persistent=False)
        self.register_buffer("single", torch.from_numpy(single), persistent=False)
        clauses = torch.from_numpy(_padded_clauses(formula))
        self.register_buffer("clauses", clauses, persistent=False)

    def extra_repr(self) -> str:
        return f"{self.formula!r}, {self.circuit.edges:,} edges in {len(self._levels)} levels"

    def forward(self, logits: Tensor, x: Tensor, mix: Tensor | None = None) -> Tensor:
        """log P(x) of targets x, the shape of both without the last axis."""
        if not (getattr(logits, "is_cuda", False) and torch.cuda.is_current_stream_capturing()):
            single = logits if mix is None else logits[..., 0, :]
            check_shape(logits, self.formula)
            x = check_targets(single, x, self.formula)
        return self.log_prob(logits, x, mix)

    def log_prob(self, logits: Tensor, x: Tensor, mix: Tensor | None = None) -> Tensor:
        """theta . x - log Z; -inf where P(x) = 0. Differentiable in logits and mix."""
        check_layout(logits, self.formula)
        check_device("x", x, logits)
        if x.ndim == 0 or x.shape[-1] != self.formula.n_vars:
            shape = tuple(x.shape)
            raise FormulaError(f"x of shape {shape}", expected=f"(..., {self.formula.n_vars})")
        if mix is not None:
            if mix.shape != logits.shape[:-1]:
                expected = f"the shape of the logits without variables, {tuple(logits.shape[:-1])}"
                raise FormulaError(f"mix of shape {tuple(mix.shape)}", expected=expected)
            each = self.log_prob(logits, x.unsqueeze(-2)) + mix.log_softmax(-1)
            return log_sum_exp(each)
        x = x.to(logits.dtype)
        score = (finite(logits) * x).sum(-1) - self.log_partition(logits)
        possible = self.valid(x) & (~torch.isinf(logits) | (x == (logits > 0))).all(-1)
        return score.masked_fill(~possible, -torch.inf)

    def log_partition(self, logits: Tensor) -> Tensor:
        """log Z, the shape of the logits without the last axis. The sum in the potential runs over
        the finite theta_i; -inf if no structure agrees with the infinite ones.
        """
        theta = self._rows(logits)
        log_p = _LogP.apply(_log_weights(theta), self)
        free = softplus(theta).masked_fill(torch.isinf(theta), 0.0).sum(0)
        return (log_p + free).reshape(logits.shape[:-1])

    def valid(self, x: Tensor) -> Tensor:
        """C(x) for x (..., n) of 0 and 1."""
        sat = torch.cat([x <= 0, x > 0, torch.zeros_like(x[..., :1], dtype=torch.bool)], -1)
        if self.formula.n_total > self.formula.n_vars:
            hidden = torch.where(x > 0, torch.inf, -torch.inf).to(x.dtype)
            return self.log_partition(hidden) > -torch.inf
        return sat[..., self.clauses].any(-1).all(-1)

    @torch.no_grad()
    def mean(self, logits: Tensor, mix: Tensor | None = None) -> Tensor:
        """P(x_i = 1), the shape of a structure; no gradient."""
        if mix is not None:
            return (mix.softmax(-1).unsqueeze(-1) * self.mean(logits)).sum(-2)
        theta = self._rows(logits)
        log_w = _log_weights(theta)
        log_p, terms, values = self._upward(log_w)
        flow = self._downward(terms, values, torch.ones_like(log_p))
        off, on = flow[0 : 2 * len(theta) : 2], flow[1 : 2 * len(theta) : 2]
        p = on + (1 - on - off).clamp_min(0) * log_w[1::2].exp()
        return self._columns(p.clamp(0, 1), logits)

    @torch.no_grad()
    def mode(self, logits: Tensor, mix: Tensor | None = None) -> Tensor:
        """A structure of greatest weight, up to the rounding of sums of logits, in their dtype. Of
        a mixture a likely one: the best mode of a component, and then uphill.
        """
        if mix is not None:
            return self._uphill(logits, mix.log_softmax(-1) - self.log_partition(logits))
        theta = self._rows(logits)
        # The better literal of each variable weighs 1, so that unmentioned variables count 0.
        worse = torch.stack([-theta.clamp_min(0), theta.clamp_max(0)], 1).flatten(0, 1)
        _, terms, values = self._upward(worse, maximum=True)
        first = [(t[0] >= t[1]).to(theta.dtype) for t in terms]
        passed = self._descent(values, first, torch.ones_like(values[0]))
        return self._structures(passed, (theta > 0).to(theta.dtype), logits)

    def _uphill(self, logits: Tensor, offset: Tensor) -> Tensor:
        """offset (..., K): log weight - log Z. The pull on a structure is the mean of the logits
        under the responsibilities of the components; its mode is no less likely (as in EM).
        """

        def each(x: Tensor) -> Tensor:
            return (finite(logits) @ x.unsqueeze(-1)).squeeze(-1) + offset

        peaks = self.mode(logits)
        values = (finite(logits) @ peaks.mT + offset.unsqueeze(-1)).logsumexp(-2)  # of each peak
        best, at = values.max(-1)
        x = picked(peaks, at)
        for _ in range(_STEPS_UP):
            pull = (each(x).softmax(-1).unsqueeze(-2) @ finite(logits)).squeeze(-2)
            after = self.mode(pull)
            value = each(after).logsumexp(-1)
            x = torch.where((value > best).unsqueeze(-1), after, x)
            best = torch.maximum(value, best)
        return x

    @torch.no_grad()
    def sample(self, logits: Tensor, samples: int, mix: Tensor | None = None) -> Tensor:
        """(samples, ..., n), independent and exact, from torch's generator of the device."""
        if mix is not None:
            weights = mix.softmax(-1).expand(samples, *mix.shape)
            chosen = torch.multinomial(weights.reshape(-1, mix.shape[-1]), 1)
            x = self.sample(logits, samples)
            return picked(x, chosen.reshape(x.shape[:-2]))
        theta = self._rows(logits)
        log_w = _log_weights(theta)
        _, terms, values = self._upward(log_w)
        levels = zip(terms, self._levels, strict=True)
        zero = [_share(t[0], values[slice(*level.rows)]) for t, level in levels]
        wide = [p.repeat(1, samples) for p in zero]
        first = [(torch.rand_like(p) < p).to(p.dtype) for p in wide]
        p_free = log_w[1::2].exp().repeat(1, samples)
        free = (torch.rand_like(p_free) < p_free).to(p_free.dtype)
        ones = torch.ones(p_free.shape[1], dtype=p_free.dtype, device=p_free.device)
        passed = self._descent(values, first, ones)
        return self._structures(passed, free, logits.expand(samples, *logits.shape))

    # --- passes ----------------------------------------------------------------------------------

    def _edges(self, level: CircuitLevel) -> tuple[Tensor, Tensor, Tensor]:
        """Source and branch of each edge, and the column of decisions without branch 1."""
        return self.edges[0, level.edges], self.edges[1, level.edges], self.single[level.at]

    def _down(self, items: list[Any]) -> list[tuple[Any, CircuitLevel]]:
        return list(zip(items, self._levels, strict=True))[::-1]

    def _upward(self, log_w: Tensor, maximum: bool = False) -> tuple[Tensor, list[Tensor], Tensor]:
        """log_w (2 n, b) -> values of the root (b,), terms of each level (2, decisions, b), and all
        values: literals first, then decisions by level.
        """
        values = log_w.new_empty(len(log_w) + self.circuit.decisions, log_w.shape[1])
        values[: len(log_w)] = log_w
        terms = []
        for level in self._levels:
            here = slice(*level.rows)
            source, branch, single = self._edges(level)
            t = log_w.new_zeros(2, len(single), log_w.shape[1])
            t.flatten(0, 1).index_add_(0, branch, values[source])
            t[1].masked_fill_(single, -torch.inf)  # without a wait for the device
            values[here] = torch.maximum(*t) if maximum else torch.logaddexp(*t)
            terms.append(t)
        return values[-1], terms, values

    def _downward(self, terms: list[Tensor], values: Tensor, root: Tensor) -> Tensor:
        """The flow of literals and decisions, (rows of values, b), from the root's flow (b,)."""
        flow = torch.zeros_like(values)
        flow[-1] = root
        for t, level in self._down(terms):
            here = slice(*level.rows)
            source, branch, _ = self._edges(level)
            passed = (_share(t, values[here]) * flow[here]).flatten(0, 1)
            flow.index_add_(0, source, passed[branch])
        return flow

    def _descent(self, values: Tensor, first: list[Tensor], root: Tensor) -> Tensor:
        """As `_downward`, along the branches chosen: 1 for branch 0, else 0."""
        flow = values.new_zeros(len(values), len(root))
        flow[-1] = root
        for zero, level in self._down(first):
            source, branch, _ = self._edges(level)
            here = flow[slice(*level.rows)]
            passed = torch.cat([here * zero, here * (1 - zero)])
            flow.index_add_(0, source, passed[branch])
        return flow

    # --- shapes ----------------------------------------------------------------------------------

    def _rows(self, logits: Tensor) -> Tensor:
        """(..., n) -> (variables of the circuit, contexts): 0 for auxiliary variables."""
        check_layout(logits, self.formula)
        theta = logits.reshape(-1, self.formula.n_vars).T
        hidden = self.circuit.n - len(theta)
        return torch.cat([theta, theta.new_zeros(hidden, theta.shape[1])]) if hidden else theta

    def _columns(self, rows: Tensor, like: Tensor) -> Tensor:
        return rows[: self.formula.n_vars].T.reshape(like.shape).contiguous()

    def _structures(self, passed: Tensor, free: Tensor, like: Tensor) -> Tensor:
        """The values of literals on the way, and `free` for variables that it does not mention."""
        off, on = passed[0 : 2 * len(free) : 2], passed[1 : 2 * len(free) : 2]
        return self._columns(torch.where(on > 0, 1.0, torch.where(off > 0, 0.0, free)), like)


class _LogP(torch.autograd.Function):
    """log P(C) (b,) of log weights (2 n, b)."""

    @staticmethod
    def forward(ctx: Any, log_w: Tensor, layer: CircuitLayer) -> Tensor:
        log_p, terms, values = layer._upward(log_w)
        ctx.save_for_backward(values, *terms)
        ctx.layer, ctx.literals = layer, len(log_w)
        return log_p.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        values, *terms = ctx.saved_tensors
        return ctx.layer._downward(terms, values, grad)[: ctx.literals], None


def _log_weights(theta: Tensor) -> Tensor:
    """(n, b) -> (2 n, b): log w of x_v = 0 and of x_v = 1, one after the other."""
    return torch.stack([logsigmoid(-theta), logsigmoid(theta)], 1).flatten(0, 1)


def _share(terms: Tensor, values: Tensor) -> Tensor:
    """e^(term - value); 0 in decisions that no structure passes."""
    return (terms - values.masked_fill(values == -torch.inf, 0.0)).exp()


def _levels(circuit: DecisionCircuit) -> tuple[list[CircuitLevel], np.ndarray, np.ndarray]:
    """The levels, bottom-up, with edges (2, edges): `source` among all values, and `branch` within
    the level, all branches 0 first. single (decisions, 1): there is no branch 1.
    """
    m, literals = circuit.decisions, 2 * circuit.n
    kid_owner = np.repeat(np.arange(2 * m), np.diff(circuit.kid_ptr))
    height = np.zeros(m, np.int64)
    while True:  # once for each level
        higher = np.zeros(m, np.int64)
        np.maximum.at(higher, kid_owner // 2, height[circuit.kids] + 1)
        if (higher == height).all():
            break
        height = higher
    order = np.argsort(height, kind="stable")  # the root is last
    place = np.empty(m, np.int64)
    place[order] = np.arange(m)
    owner = np.concatenate([np.repeat(np.arange(2 * m), np.diff(circuit.lit_ptr)), kid_owner])
    source = np.concatenate([circuit.lits.astype(np.int64), literals + place[circuit.kids]])
    ends = np.cumsum(np.bincount(height))
    begins, sizes = ends - np.bincount(height), np.bincount(height)
    level = height[owner // 2]
    branch = place[owner // 2] - begins[level] + owner % 2 * sizes[level]
    by_level = np.lexsort((branch, level))
    edge_ends = np.cumsum(np.bincount(level, minlength=len(ends)))
    edge_begins = np.concatenate([[0], edge_ends[:-1]])
    spans = zip(
        begins.tolist(), ends.tolist(), edge_begins.tolist(), edge_ends.tolist(), strict=True
    )
    levels = [
        CircuitLevel(slice(a, b), slice(c, d), (literals + a, literals + b)) for a, b, c, d in spans
    ]
    edges = np.stack([source, branch])[:, by_level]
    return levels, edges, circuit.single[order].astype(bool)[:, None]


def _padded_clauses(formula: Formula) -> np.ndarray:
    """(clauses, longest) int64: columns of (x = 0, x = 1, false), padded by the last."""
    n = formula.n_vars
    lengths = np.diff(formula.offsets)
    table = np.full((len(lengths), max(1, int(lengths.max(initial=0)))), 2 * n)
    row = np.repeat(np.arange(len(lengths)), lengths)
    column = np.arange(len(formula.literals)) - np.repeat(formula.offsets[:-1], lengths)
    literals = np.asarray(formula.literals, np.int64)
    table[row, column] = np.abs(literals) - 1 + n * (literals > 0)
    return table
