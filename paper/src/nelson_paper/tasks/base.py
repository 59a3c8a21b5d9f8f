"""What a task is: one concrete problem, from examples to pictures of new structures.

All tasks share one law over their valid structures x in {0, 1}^n,

    P_theta(x) = exp(sum_i theta_i x_i) / Z,        theta = 0: uniform,

so theta is learned from the means of the variables: grad log P = E_data[x] - E_model[x].
`FormulaTask` does this with `nelson.learn` and `nelson.sample`. A task with its own sampler derives
from `Task`.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from nelson.errors import BudgetExceeded, FormulaError
from nelson.formula import Formula
from nelson.formula.checks import checked_theta
from nelson.learning.learn import learn
from nelson.learning.metrics import evaluate, moment_gap
from nelson.sampling.sample_stream import sample
from nelson_paper.tasks.drawing import AnyPath

#: Contexts of the random numbers: with one seed, these four purposes share no randomness.
SAMPLES, EXAMPLES, LEARNING, JUDGING = 0, 1, 2, 3


@dataclass(frozen=True, eq=False)
class Generated:
    """New structures: x (n, n_vars) bool, every row valid; the guarantee of their law; details."""

    x: np.ndarray
    guarantee: str
    info: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.x)


@dataclass(frozen=True, eq=False)
class Learned:
    """The result of `Task.learn`: theta (n_vars,), one dict per iteration, and how it ended."""

    theta: np.ndarray
    history: list[dict[str, Any]]
    seconds: float
    converged: bool | None = None
    why: str = ""
    guarantee: str = ""
    info: dict[str, Any] = field(default_factory=dict)


class Task(ABC):
    """One problem: this formula, this graph, these locations. Variables are columns 0..n_vars-1.

    names    one readable name per variable
    formula  CNF over exactly these variables; None if the task has only its own sampler
    planted  the theta that `examples` are drawn from, (n_vars,); None if there is none
    """

    name: ClassVar[str]
    #: The heading of its part of a page.
    heading: ClassVar[str]
    #: What `picture` shows.
    caption: ClassVar[str] = (
        "examples on the left, what was learned from them in the middle, new structures on the "
        "right; wide lines are frequent or have a large weight"
    )
    #: Kinds of training data; the first is the default.
    KINDS: ClassVar[tuple[str, ...]]
    #: Whether theta may be infinite, which fixes the variable.
    INFINITE_WEIGHTS: ClassVar[bool] = False

    n_vars: int
    names: list[str]
    formula: Formula | None = None
    planted: np.ndarray | None = None

    @classmethod
    @abstractmethod
    def small(cls, seed: int = 0) -> Self:
        """An instance that is learned in seconds; `nelson demo` shows it."""

    @abstractmethod
    def describe(self) -> str:
        """One line: the size of the problem and which structures are valid."""

    @abstractmethod
    def valid(self, x: Any) -> np.ndarray:
        """Which rows are valid structures: (m, n_vars) bool -> (m,) bool."""

    @abstractmethod
    def examples(self, n: int, *, seed: int = 0, kind: str | None = None) -> np.ndarray:
        """Training data, (n, n_vars) bool, every row valid; `kind` is one of KINDS."""

    @abstractmethod
    def sample(self, theta: Any, n: int, *, seed: int = 0, **options: Any) -> Generated:
        """n structures from P_theta (None: uniform)."""

    @abstractmethod
    def learn(self, data: Any, *, seed: int = 0, **options: Any) -> Learned:
        """The theta under which `data`, (N, n_vars), is most likely."""

    @abstractmethod
    def draw(self, x: Any, path: AnyPath, *, theta: Any = None, title: str | None = None) -> Path:
        """A picture of one structure (n_vars,); PNG, SVG or PDF by the path's suffix."""

    @abstractmethod
    def picture(self, data: Any, theta: Any, generated: Any, path: AnyPath) -> Path:
        """Examples, learned weights and generated structures side by side."""

    def evaluate(
        self,
        theta: Any,
        held_out: Any,
        *,
        train: Any = None,
        n: int = 2000,
        seed: int = 0,
        **options: Any,
    ) -> dict[str, Any]:
        """How well theta fits examples that it was not learned from: a dict of plain values.

        validity    share of `n` new structures that are valid, checked by `valid`
        moment_gap  E_held_out[x] - E_model[x] as {"l1", "l2", "max"} (`nelson.metrics.moment_gap`)
        floor       the expected gap if noise is its only cause (`noise_floor`); the noise of the
                    held-out examples, of the new structures and, if given, of `train`
        guarantee   guarantee of the new structures
        log_likelihood, train_log_likelihood  nats per example, as {"value", "half_width"}, if
                    log Z can be computed
        """
        held_out = self.checked_data(held_out)
        train = None if train is None else self.checked_data(train)
        generated = self.sample(theta, n, seed=seed, **options)
        if n and not len(generated):
            raise BudgetExceeded(generated.info.get("reason", "no structure was generated"))
        mean, trained = held_out.mean(axis=0), 0 if train is None else len(train)
        report = {
            "examples": len(held_out),
            "samples": len(generated),
            "guarantee": generated.guarantee,
            "validity": float(np.mean(self.valid(generated.x))),
            "moment_gap": moment_gap(mean, generated.x.mean(axis=0)),
            "floor": noise_floor(mean, len(held_out), len(generated), trained),
        }
        return report | self.further_report(theta, generated, held_out, train, seed)

    # ------------------------------------------------------------------------------ for subclasses

    def further_report(
        self, theta: Any, generated: Generated, held_out: np.ndarray, train: Any, seed: int
    ) -> dict[str, Any]:
        """The entries that this task adds to `evaluate`; `held_out` and `train` are checked."""
        return {}

    def checked(self, x: Any) -> np.ndarray:
        """x as (m, n_vars) bool, or FormulaError. One structure (n_vars,) becomes one row."""
        x = np.asarray(x)
        if x.ndim == 1:
            x = x[None]
        if x.ndim != 2 or x.shape[1] != self.n_vars:
            raise FormulaError(
                f"structures of shape {x.shape}", expected=f"(m, {self.n_vars}): {self.describe()}"
            )
        if x.dtype != bool:
            if not np.isin(x, (0, 1)).all():
                raise FormulaError("values other than 0 and 1", expected="booleans")
            x = x.astype(bool)
        return x

    def checked_data(self, data: Any) -> np.ndarray:
        """As `checked`; also at least one row, and every row valid."""
        x = self.checked(data)
        if not len(x):
            raise FormulaError("no examples", expected="at least one")
        bad = np.flatnonzero(~self.valid(x))
        if len(bad):
            shown = ", ".join(map(str, bad[:5].tolist())) + (", ..." if len(bad) > 5 else "")
            raise FormulaError(
                f"{len(bad)} of {len(x)} examples are invalid (rows {shown})",
                expected=self.describe(),
            )
        return x

    def checked_weights(self, theta: Any) -> np.ndarray:
        """theta as (n_vars,) float64; None is uniform."""
        weights = checked_theta(theta, self.n_vars)
        if weights is None:
            return np.zeros(self.n_vars)
        if not self.INFINITE_WEIGHTS and not np.isfinite(weights).all():
            k = int(np.argmin(np.isfinite(weights)))
            raise FormulaError(
                f"theta of {self.names[k]} is {weights[k]}", expected="finite weights in this task"
            )
        return weights

    def checked_kind(self, kind: str | None) -> str:
        """One of KINDS; None is the first."""
        if kind is None:
            return self.KINDS[0]
        if kind not in self.KINDS:
            raise FormulaError(f"kind {kind!r}", expected=" or ".join(map(repr, self.KINDS)))
        return kind

    def weights(self, theta: Any) -> dict[str, float]:
        """theta by name of variable, largest |theta| first."""
        pairs = zip(self.names, self.checked_weights(theta).tolist(), strict=True)
        return dict(sorted(pairs, key=lambda pair: -abs(pair[1])))

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.describe()}>"


class FormulaTask(Task):
    """A task whose structures are the solutions of a formula: everything goes through the library.

    `sample` takes the options of `nelson.sample`, `learn` those of `nelson.learn`, `evaluate` those
    of `nelson.metrics.evaluate`.
    """

    INFINITE_WEIGHTS = True
    formula: Formula

    def __init__(
        self, formula: Formula, names: Sequence[str], planted: np.ndarray | None = None
    ) -> None:
        self.formula = formula
        self.n_vars = formula.n_vars
        self.names = list(names)
        self.planted = planted
        if len(self.names) != self.n_vars:
            raise FormulaError(f"{len(self.names)} names", expected=f"{self.n_vars}")

    def valid(self, x: Any) -> np.ndarray:
        return self.formula.satisfied(self.checked(x))

    def sample(self, theta: Any, n: int, *, seed: int = 0, **options: Any) -> Generated:
        weights = None if theta is None else self.checked_weights(theta)
        s = sample(
            self.formula, weights, n, seed=seed, **{"strict": True, "project": "all", **options}
        )
        return Generated(s.to_numpy(), s.guarantee, {**s.info, "status": s.status})

    def learn(self, data: Any, *, seed: int = 0, **options: Any) -> Learned:
        started = time.monotonic()
        fit = learn(self.formula, self.checked(data), seed=seed, **options)
        assert fit.theta is not None
        return Learned(
            fit.theta,
            list(fit.history),
            time.monotonic() - started,
            fit.converged,
            fit.why,
            fit.guarantee,
            fit.info,
        )

    def evaluate(
        self, theta: Any, held_out: Any, *, train: Any = None, n: int = 2000, **options: Any
    ) -> dict[str, Any]:
        """As `nelson.metrics.evaluate`, with the `floor` of `Task.evaluate`."""
        held_out, weights = self.checked(held_out), self.checked_weights(theta)
        train = None if train is None else self.checked(train)
        report = evaluate(self.formula, weights, held_out, samples=n, train=train, **options)
        trained = 0 if train is None else len(train)
        report["floor"] = noise_floor(
            held_out.mean(axis=0), len(held_out), report["samples"], trained
        )
        return report


def data_seed(seed: int, purpose: int = 1) -> int:
    """A seed for examples, such that `examples(seed=s)` and `sample(seed=s)` share no randomness.

    With shared random numbers, data and samples would agree more closely than their laws do, and a
    model would look better than it is.
    """
    return int(np.random.SeedSequence([abs(seed), seed < 0, purpose]).generate_state(2)[0])


def noise_floor(
    mean: np.ndarray, examples: int, samples: int, trained: int = 0
) -> dict[str, float]:
    """Expected |E_held_out[x] - E_model[x]| if there is only noise, in the norms of `moment_gap`.

    A difference of means is about normal with variance p (1 - p) (1/N + 1/m + 1/T), with N held-out
    examples, m samples of the model and T training examples: the maximum-likelihood theta has their
    means. T = 0: theta is the true one. The mean absolute difference is sqrt(2 / pi) sigma; "max"
    is the usual sqrt(2 log 2n) bound for the largest of n.
    """
    p = np.clip(np.asarray(mean, float), 0.5 / examples, 1 - 0.5 / examples)
    counts = [count for count in (examples, samples, trained) if count]
    sigma = np.sqrt(p * (1 - p) * sum(1 / count for count in counts))
    widest = float(np.sqrt(2 * np.log(2 * max(len(sigma), 1)))) * float(sigma.max(initial=0.0))
    return {
        "l1": float(np.sqrt(2 / np.pi) * sigma.sum()),
        "l2": float(np.sqrt((sigma**2).sum())),
        "max": widest,
    }
