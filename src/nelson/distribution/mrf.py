"""A constrained Markov random field as a `torch.distributions.Distribution`.

    P_theta(x | C) = exp(sum_i theta_i x_i) C(x) / Z_C(theta),      x in {0,1}^n

If all valid structures can be enumerated (`nelson.exact.listing`) or the formula compiles to a
circuit (`nelson.exact.compiled`), every number below is exact. Otherwise log Z comes from
`nelson.log_z`, which reports its error, and moments come from samples.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Distribution, constraints, register_kl

from nelson.budget import Budget, TimeUp
from nelson.distribution.gradient import log_z_of, mean_of
from nelson.distribution.mixture import ConstrainedMixture
from nelson.distribution.planned_draws import PlannedDraws
from nelson.distribution.tensors import (
    ValidStructure,
    check_device,
    check_shape,
    finite,
    rows_of,
    torch_seed,
)
from nelson.errors import BudgetExceeded, FormulaError
from nelson.exact.compiled import compiled
from nelson.exact.enumerated import enumerated
from nelson.exact.law import Law, law
from nelson.exact.listing import all_structures
from nelson.exact.queries import mode
from nelson.exact.routes import CIRCUIT, ENUMERATE, Reason
from nelson.formula import Formula
from nelson.formula.names import Names
from nelson.log_z.moments import Moments, Sampled, log_z_rows, once_per_row
from nelson.policy import DEFAULT

#: Samples for moments that cannot be computed exactly.
SAMPLES = 1 << 14
#: What to do where log Z has no exact way.
ADVICE = (
    "to train without log Z use nelson.ContrastiveLoss, to compare a few contexts raise seconds"
)


class ConstrainedMRF(Distribution):
    """P_theta(x | C) = exp(sum_i theta_i x_i) C(x) / Z: event shape (n,), batch shape of `logits`.

    formula   C, over n = formula.n_vars variables.
    logits    (..., n) floats, theta; +-inf is hard evidence, and then sums of theta_i x_i (in
              log_prob, log Z) run over the finite theta_i. Results have its device and dtype.
    names     names of the variables, for `read` and `given`.
    method, sweeps: the sampler, as in `nelson.sample`. If the sampler that "auto" chooses returns
              too few samples, they come from enumeration or from a circuit, if there is one;
              `enumerate` and `circuit` use these at once.

    mix       (..., K) for logits (..., K, n): a mixture of K laws with weights softmax(mix), as a
              `mixture.ConstrainedMixture` of batch shape (...)
    seconds   for one answer about the whole batch: log_prob, mean, sample, mode; None: no limit,
              and a warning before something slow. `answers` says what is exact within it.

    `info` has the keys "sample", "log_partition" and "mean": how each was last computed. Random
    numbers come from torch's global generator: `torch.manual_seed` makes them repeatable.

    >>> import torch
    >>> formula = nelson.Formula([[1, 2], [-1, 3]])
    >>> law = nelson.ConstrainedMRF(formula, torch.zeros(3), names=["tea", "milk", "cup"])
    >>> law.sample((5,)).shape
    torch.Size([5, 3])
    >>> law.mean  # of the four valid assignments, two have tea
    tensor([0.5000, 0.7500, 0.7500])
    >>> law.given({"tea": True, "milk": False}).mode  # whoever has tea needs a cup
    tensor([1., 0., 1.])
    """

    def __new__(
        cls, formula: Any = None, logits: Any = None, *, mix: Any = None, **options: Any
    ) -> Any:
        """With `mix` a mixture, which is another class."""
        if mix is None:
            return super().__new__(cls)
        return ConstrainedMixture(ConstrainedMRF(formula, logits, **options), mix)

    arg_constraints = {"logits": constraints.real_vector}  # noqa: RUF012
    has_enumerate_support = True

    def __init__(
        self,
        formula: Formula,
        logits: Any,
        *,
        mix: Any = None,
        names: Names | Sequence[Any] | Mapping[int, Any] | None = None,
        method: str = "auto",
        sweeps: int | None = None,
        seconds: float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        logits = torch.as_tensor(logits)
        if not logits.is_floating_point():
            logits = logits.to(torch.get_default_dtype())
        check_shape(logits, formula)
        self.formula = formula
        self.logits = logits
        self.names = names if isinstance(names, Names) else Names(formula.n_vars, names)
        self.method, self.sweeps, self.seconds = method, sweeps, seconds
        self._draws = PlannedDraws(formula, method, sweeps, seconds)
        self.info: dict[str, Any] = {}
        self._last_log_z: tuple[Any, np.ndarray] | None = None  # (arguments, values)
        self._source: Moments | None = None  # of `mean` and of the gradients
        super().__init__(logits.shape[:-1], logits.shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> ConstrainedMRF:
        new = self._get_checked_instance(ConstrainedMRF, _instance)
        batch_shape = torch.Size(batch_shape)
        new.formula, new.names = self.formula, self.names
        new.method, new.sweeps, new.seconds = self.method, self.sweeps, self.seconds
        new._draws = PlannedDraws(self.formula, self.method, self.sweeps, self.seconds)
        new.info, new._last_log_z, new._source = {}, None, None
        new.logits = self.logits.expand(batch_shape + self.event_shape)
        super(ConstrainedMRF, new).__init__(batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def given(self, evidence: Mapping[Any, bool] | Iterable[Any]) -> ConstrainedMRF:
        """The law given a partial assignment; the variables and the logits stay the same.

        evidence: {name or variable: value}, or literals, or names of true variables.
        """
        return ConstrainedMRF(
            self.formula.given(self.names.literals(evidence)),
            self.logits,
            names=self.names,
            method=self.method,
            sweeps=self.sweeps,
            seconds=self.seconds,
            validate_args=self._validate_args,
        )

    def read(self, x: Any, *, values: bool = False) -> Any:
        """Samples (..., n) -> nested lists of the names of true variables.

        values=True: dicts name -> bool instead of lists of names.
        """
        return self.names.read(x, values)

    def __repr__(self) -> str:
        return f"ConstrainedMRF({self.formula!r}, logits: {tuple(self.logits.shape)})"

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> constraints.Constraint:
        return ValidStructure(self.formula)

    # --- drawing ---------------------------------------------------------------------------------

    def sample(self, sample_shape: Any = torch.Size()) -> Tensor:  # noqa: B008 (as torch has it)
        """sample_shape + batch_shape + (n,), all valid. info["sample"] has the guarantee.

        Raises BudgetExceeded if not all samples could be drawn.
        """
        shape = self._extended_shape(torch.Size(sample_shape))
        x = self._draw(rows_of(self.logits), math.prod(torch.Size(sample_shape)), torch_seed())
        if not isinstance(x, Tensor):
            x = self._tensor(np.ascontiguousarray(x))
        return x.swapaxes(0, 1).reshape(shape).to(self.logits.dtype)

    def _draw(self, rows: np.ndarray, count: int, seed: int, fewer: bool = False) -> Any:
        """(contexts, count, n): a bool array, or a tensor of bytes if drawn on a GPU."""
        device = self.logits.device
        x, self.info["sample"] = self._draws.draw(rows, count, seed, device, fewer=fewer)
        return x

    # --- what is exact ---------------------------------------------------------------------------

    def answers(self) -> dict[str, str]:
        """How log_prob, mean, sample and mode are computed within `seconds`: exact, or what else,
        and what to use instead. Decides what is not decided yet; nothing is estimated.
        """
        with self._draws.limited():
            exact = self._law()
            if isinstance(exact, Law):
                return dict.fromkeys(("log_prob", "mean", "sample", "mode"), exact.why)
            try:
                plan = self._draws.planned(rows_of(self.logits), self.logits.device)
                drawn = f"{plan.guarantee}: {plan.why}"
            except BudgetExceeded as error:
                drawn = f"none: {error}"
        return {
            "log_prob": f"estimated, one context after the other: {exact}; {ADVICE}",
            "mean": f"estimated from {SAMPLES} samples for each context: {drawn}",
            "sample": drawn,
            "mode": "exact: weighted MaxSAT, one context after the other",
        }

    def _law(self) -> Law | Reason:
        """The exact law, within a share of `seconds` that leaves time for an estimate."""
        budget, rows = self._draws.budget.share(DEFAULT.log_z.exact_share), self.batch_shape
        try:
            with budget.enforced():
                return law(self.formula, budget=budget, rows=max(1, math.prod(rows)))
        except TimeUp as late:
            return Reason(str(late))

    # --- likelihood ------------------------------------------------------------------------------

    def log_prob(self, value: Tensor) -> Tensor:
        """theta . x - log Z, sample_shape + batch_shape; -inf where P(x) = 0.

        With validate_args (torch's default) an x that violates the formula is a ValueError.
        Differentiable in the logits: d log P(x) / d theta = x - E[x].
        """
        check_device("x", value, self.logits)
        theta, x = self.logits.double(), value.double()
        with self._draws.limited():
            if self._validate_args:
                self._validate_sample(value)
            score = (finite(theta) * x).sum(-1) - self._log_z()
            possible = (~torch.isinf(theta) | (x == (theta > 0))).all(-1)
            if not self._validate_args:
                possible = possible & self.support.check(value)
        return score.masked_fill(~possible, -math.inf).to(self.logits.dtype)

    def log_partition(self, method: str = "auto", **options: Any) -> Tensor:
        """log Z, batch_shape. Its gradient in the logits is `mean`; at infinite logits it is 0.

        method    "auto": exact, by enumeration or from a circuit if there is one, else as
                  `nelson.log_z` decides; or the name of one of its methods.
        options   `half_width`, ... of that function; `seconds` is for the whole batch.

        `log_partition_info` has the method and the error, `info["mean"]` those of the gradient.
        """
        return self._log_z(method, **options).to(self.logits.dtype)

    @property
    def log_partition_info(self) -> tuple[Any, ...]:
        """One `nelson.log_z.LogPartition` for each (flattened) batch element, for the log Z that
        was computed last.
        """
        return self.info.get("log_partition", ())

    def _log_z(self, method: str = "auto", **options: Any) -> Tensor:
        """float64, batch_shape."""
        rows = rows_of(self.logits)
        if self.seconds is not None:
            options = {"seconds": self.seconds} | options
        key = rows.tobytes(), method, tuple(sorted(options.items()))
        if self._last_log_z is None or self._last_log_z[0] != key:
            if method == "auto" and "seconds" not in options:
                self._warn_if_slow(len(rows))
            options = {"seed": torch_seed()} | options
            try:
                with self._draws.limited():
                    if self.seconds is not None:  # what is left of them
                        left = self._draws.budget.left
                        options["seconds"] = min(options["seconds"], left)
                    results = log_z_rows(self.formula, rows, method, options)
            except BudgetExceeded as error:
                raise BudgetExceeded(f"{error}; {ADVICE}") from error
            self._last_log_z = key, np.array([float(result) for result in results])
            self.info["log_partition"] = tuple(results)
        values = self._tensor(self._last_log_z[1]).reshape(self.batch_shape)
        return log_z_of(self.logits.double(), values, self._moments)

    def _warn_if_slow(self, rows: int) -> None:
        if rows and isinstance(reason := self._law(), Reason):
            warnings.warn(
                f"log Z of {rows} contexts is estimated, in up to {DEFAULT.log_z.seconds:g} s "
                f"each: no exact method applies ({reason}); {ADVICE}",
                stacklevel=5,
            )

    # --- moments ---------------------------------------------------------------------------------

    def moments(self, method: str = "auto", samples: int = SAMPLES) -> Moments:
        """A source of means and covariances; its `.why` names the method, `.exact` is a bool.

        method    `enumerate`: sums over all structures; `circuit`: a compiled d-DNNF; `samples`;
                  "auto": the cheaper of the first two (`nelson.log_z.moments.moments_of`), or
                  samples if both fail. `enumerate` and `circuit` raise BudgetExceeded if they fail.
        """
        exact: Moments | None = None
        if method == "auto":
            law_or_reason = self._law()
            exact = law_or_reason if isinstance(law_or_reason, Law) else None
        elif method == ENUMERATE:
            all_structures(self.formula)  # raises if there are too many
            exact = enumerated(self.formula)
        elif method == CIRCUIT:
            exact = compiled(self.formula)
            if exact is None:
                raise BudgetExceeded(f"{self.formula!r} was not compiled to a circuit")
        elif method != "samples":
            expected = f'"auto", "{ENUMERATE}", "{CIRCUIT}" or "samples"'
            raise FormulaError(f"method {method!r}", expected=expected)
        if exact is not None:
            return exact
        seed = torch_seed()
        return Sampled(lambda rows, count, k: self._draw(rows, count, seed + k, True), samples)

    def _moments(self) -> Moments:
        """Chosen once: all estimates of one object use the same samples."""
        if self._source is None:
            self._source = self.moments()
        self.info["mean"] = self._source.why
        return self._source

    @property
    def mean(self) -> Tensor:
        """P(x_i = 1), batch_shape + (n,). Differentiable: its Jacobian is the covariance."""
        with self._draws.limited():
            return mean_of(self.logits.double(), self._moments).to(self.logits.dtype)

    @property
    def variance(self) -> Tensor:
        mean = self.mean
        return mean * (1 - mean)

    def covariance(self, method: str = "auto", samples: int = SAMPLES) -> Tensor:
        """Cov(x), batch_shape + (n, n); the method as in `moments`. Not differentiable."""
        with self._draws.limited():
            matrices = self.moments(method, samples).covariance(rows_of(self.logits))
        shape = self.batch_shape + 2 * self.event_shape
        return self._tensor(matrices).reshape(shape).to(self.logits.dtype)

    def entropy(self) -> Tensor:
        """H = log Z - theta . E[x] in nats, batch_shape. Differentiable."""
        theta = self.logits.double()
        with self._draws.limited():
            mean = mean_of(theta, self._moments)
            return (self._log_z() - (finite(theta) * mean).sum(-1)).to(self.logits.dtype)

    # --- single structures -----------------------------------------------------------------------

    @property
    def mode(self) -> Tensor:
        """A most likely valid structure, batch_shape + (n,), with proof: weighted MaxSAT."""
        return self.most_likely()

    def most_likely(self, seconds: float | None = None) -> Tensor:
        """`mode` with a budget for each batch element, default `seconds` for the whole batch, or a
        minute for each; BudgetExceeded if it runs out.

        The arithmetic is exact. If there are several maxima, every call returns the same one.
        """
        budget = Budget.of(self.seconds if seconds is None else None)

        def best(row: np.ndarray) -> np.ndarray:
            return mode(
                self.formula, row, seconds=budget.seconds_left if seconds is None else seconds
            )

        rows = once_per_row(rows_of(self.logits), best)
        return self._tensor(np.array(rows, bool).reshape(self.logits.shape)).to(self.logits.dtype)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All m valid structures, (m,) + batch_shape + (n,); BudgetExceeded if there are too many.

        expand=False: (m,) + (1, ..., 1) + (n,).
        """
        x = self._tensor(all_structures(self.formula)).to(self.logits.dtype)
        x = x.reshape(-1, *[1] * len(self.batch_shape), *self.event_shape)
        return x.expand(-1, *self.batch_shape, -1) if expand else x

    def _tensor(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(self.logits.device)


@register_kl(ConstrainedMRF, ConstrainedMRF)
def _kl(p: ConstrainedMRF, q: ConstrainedMRF) -> Tensor:
    """KL(p, q) = (theta_p - theta_q) . E_p[x] - log Z_p + log Z_q, for two models of one formula.

    Exact if both log Z and the mean are exact. Infinite if q's hard evidence forbids a structure
    that is possible under p.
    """
    if not same_clauses(p.formula, q.formula):
        raise ValueError("KL divergence needs two ConstrainedMRFs over one formula")
    theta_p, theta_q = p.logits.double(), q.logits.double()
    mean = mean_of(theta_p, p._moments)
    gap = finite(theta_p) - finite(theta_q)
    kl = (gap * mean).sum(-1) - p._log_z() + q._log_z()
    forbidden = theta_q.isinf() & ((mean.detach() - (theta_q > 0).double()).abs() > 1e-12)
    return kl.masked_fill(forbidden.any(-1), math.inf).to(p.logits.dtype)


def same_clauses(a: Formula, b: Formula) -> bool:
    """Do the two formulas agree, apart from weights and projection?"""
    bare = {"theta": None, "projection": None}
    return a is b or a.replace(**bare) == b.replace(**bare)
