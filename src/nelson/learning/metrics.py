"""How good a model is: figures with their error, each tested on cases done by hand.

| function             | its result                                                                |
|----------------------|---------------------------------------------------------------------------|
| `validity`           | share of assignments that satisfy the formula                             |
| `map_at`             | MAP@k: are examples ranked above other valid structures?                  |
| `map_at_10`          | the mean of MAP@10 over random choices of ten examples                    |
| `log_likelihood`     | mean log P_theta(x) over examples, with its error bar                     |
| `kl`                 | KL(P_theta* || P_theta) to a planted theta*                               |
| `moment_gap`         | E_data[x] - E_model[x] in three norms                                     |
| `evaluate`           | the report that `nelson evaluate` prints                                  |

>>> formula = nelson.Formula([[1, 2], [-1, 3]])
>>> nelson.metrics.validity(formula, [[True, False, True], [True, False, False]])
0.5
>>> rows = nelson.sample(formula, n=1000, seed=0).to_numpy()
>>> round(nelson.metrics.log_likelihood(formula, np.zeros(3), rows).value, 4)  # log 1/4
-1.3863
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from nelson.errors import BudgetExceeded, FormulaError
from nelson.exact.enumerated import MAX_LAW_VARIABLES, law
from nelson.exact.routes import ENUMERATE
from nelson.formula import Formula
from nelson.formula.checks import duration
from nelson.formula.polynomial import Polynomial, lift
from nelson.kernels.cpu.packed_samples import dot
from nelson.learning.data import load_examples
from nelson.learning.terms import completed, completed_examples
from nelson.log_z import compute
from nelson.log_z.result import Z95, LogPartition
from nelson.sampling.sample_stream import sample


class Divergence(NamedTuple):
    """A number and its 95% half-width, which is 0 if the number is exact."""

    value: float
    half_width: float
    method: str = "exact"

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        bar = f" ± {self.half_width:.2g}" if self.half_width else ""
        return f"{self.value:.6g}{bar}"


class Likelihood(NamedTuple):
    """Mean log P_theta(x | C) over examples.

    half_width  95%, of two errors together: the error of log Z, and (s.d. of phi) / sqrt(N) because
                the examples are a sample. The first is the same for train and held-out examples.
    """

    value: float
    half_width: float
    log_z: float
    log_z_half_width: float
    data_half_width: float
    examples: int
    method: str

    def __str__(self) -> str:
        return f"{self.value:.6g} ± {self.half_width:.2g} nats ({self.examples:,} examples)"


def validity(formula: Formula, x: Any) -> float:
    """Share of the rows of x, (m, n) bool, with C(x) = 1. NaN if x has no rows."""
    ok = formula.satisfied(x)
    return float(np.mean(ok)) if ok.size else math.nan


def potential(theta: Any, x: Any) -> np.ndarray:
    """phi_theta(x) = sum_i theta_i x_i, (m,); x (m, n) bool, or packed `Samples`."""
    theta = np.asarray(theta, np.float64)
    if hasattr(x, "packed"):
        return dot(x.packed, len(x), theta)
    return np.asarray(x, np.float64) @ theta


def map_at(theta: Any, seen: Any, unseen: Any, k: int = 10) -> float:
    """MAP@k = (1/k) sum_(j=1..k) (examples among the j highest potentials) / j.

    `seen`: examples; `unseen`: other valid structures; ranked together, highest potential first
    (errata 12). Among equal potentials the unseen come first, so ties earn nothing. If
    there are fewer than k structures, k is their number.
    """
    scores = np.concatenate([potential(theta, unseen), potential(theta, seen)])
    relevant = np.arange(len(scores)) >= len(scores) - len(seen)
    k = min(k, len(scores))
    if k == 0:
        return math.nan
    top = relevant[np.argsort(-scores, kind="stable")[:k]]
    return float(np.mean(np.cumsum(top) / np.arange(1, k + 1)))


def log_likelihood(
    formula: Formula, theta: Any, x: Any, *, terms: Any = None, log_z: Any = None, **options: Any
) -> Likelihood:
    """(1/N) sum_k phi_theta(x_k) - log Z(theta), for examples x (N, n) or `Samples`.

    terms: coefficients of products (see `nelson.learn`). log_z: a `LogPartition` or a number; None
    computes it with `nelson.log_z` and the options. The value is -inf if an example
    is invalid.
    """
    rows = x.to_numpy() if hasattr(x, "to_numpy") else np.asarray(x)
    phi = potential(theta, x)
    if not len(phi):
        raise FormulaError("no examples", expected="at least one")
    if terms:
        phi = phi + Polynomial.of(terms)(rows)
        options.setdefault("starts", rows)
    if log_z is None:
        log_z = compute.log_z(formula, np.asarray(theta, np.float64), terms=terms, **options)
    z, z_error = float(log_z), float(getattr(log_z, "half_width", 0.0))
    mean = mean_likelihood(phi, z, z_error, str(getattr(log_z, "method", "given")))
    return mean if validity(formula, rows) == 1.0 else mean._replace(value=-math.inf)


def mean_likelihood(
    phi: np.ndarray, log_z: float, log_z_half_width: float, method: str
) -> Likelihood:
    """Mean of phi - log Z over valid examples with potentials phi (N,), and its 95% half-width."""
    spread = float(phi.std(ddof=1)) if len(phi) > 1 else math.nan
    data_half_width = Z95 * spread / math.sqrt(len(phi))
    return Likelihood(
        float(phi.mean()) - log_z,
        math.hypot(data_half_width, log_z_half_width),
        log_z,
        log_z_half_width,
        data_half_width,
        len(phi),
        method,
    )


def kl(
    formula: Formula,
    planted: Any,
    theta: Any,
    *,
    samples: int = 1 << 18,
    seed: int = 0,
    method: str = "auto",
    **options: Any,
) -> Divergence:
    """KL(P_theta* || P_theta) = (theta* - theta) . mu* - log Z(theta*) + log Z(theta).

    method `enumerate` (n <= 20): exact. `samples`: with y = (theta - theta*) . x under P_theta*,

        log Z(theta) - log Z(theta*) = log E[exp y],    KL = log E[exp y] - E[y],

    whose two terms share their noise. For a small KL the relative error is about sqrt(2/samples);
    two separate estimates of log Z would be too noisy. The options go to `nelson.sample`.
    """
    planted, theta = np.asarray(planted, np.float64), np.asarray(theta, np.float64)
    if method == "auto":
        method = ENUMERATE if formula.n_vars <= MAX_LAW_VARIABLES else "samples"
    if method == ENUMERATE:
        states, p = law(formula, planted)
        phi = states @ (theta - planted)
        mean = float(p @ phi)
        return Divergence(float(np.log(p @ np.exp(phi - mean))), 0.0, method)
    if method != "samples":
        raise FormulaError(f"method {method!r}", expected="auto, enumerate or samples")
    drawn = sample(formula, planted, samples, seed=seed, project="all", **options)
    if len(drawn) < 2:
        raise BudgetExceeded("no samples of the planted theta within the budget")
    y = potential(theta - planted, drawn)
    y -= y.mean()
    weight = np.exp(y - y.max())
    value = float(np.log(weight.mean()) + y.max())
    error = Z95 * float((weight / weight.mean() - y).std()) / math.sqrt(len(y))
    return Divergence(value, error, method)


def moment_gap(data: Any, model: Any) -> dict[str, float]:
    """|E_data[x] - E_model[x]| as {"l1", "l2", "max"}; arguments are means (n,)."""
    gap = np.abs(np.asarray(data, float) - np.asarray(model, float))
    return {
        "l1": float(gap.sum()),
        "l2": float(np.sqrt((gap**2).sum())),
        "max": float(gap.max(initial=0.0)),
    }


def evaluate(
    formula: Formula,
    theta: Any,
    data: Any,
    *,
    samples: int = 10_000,
    seed: int | None = 0,
    seconds: float | None = None,
    train: Any = None,
    terms: Any = None,
    drop_invalid: bool = False,
    threads: int | None = None,
) -> dict[str, Any]:
    """Every metric that needs only theta and examples (anything that `nelson.learn` takes).

    A dict of plain values. `train`: the examples that theta was fitted to, to report their
    likelihood as well. `terms`: coefficients of products (see `nelson.learn`). log Z may take up to
    `seconds`; if it could not be computed, the likelihood is None and `reason` says why.
    """
    if seconds is not None:
        duration(seconds, positive=True)
    theta = np.asarray(theta, np.float64)
    examples = load_examples(formula, data, drop_invalid)
    trained = None if train is None else load_examples(formula, train, drop_invalid)
    uniform = sample(formula, None, 1000, seed=seed, project="all", threads=threads)
    rows = examples.to_numpy()
    log_z, reason = _log_z(formula, theta, terms, rows, seconds, seed, threads)
    if terms:
        shape = lift(formula, terms, theta)
        drawn = sample(formula, theta, samples, seed=seed, threads=threads, terms=terms)
        drawn, uniform = completed(shape, drawn), completed(shape, uniform)
        examples = completed_examples(shape, examples)
        trained = None if trained is None else completed_examples(shape, trained)
        formula, theta = shape.formula, shape.theta
        log_z = None if log_z is None else log_z.shifted(-shape.constant)
    else:
        drawn = sample(formula, theta, samples, seed=seed, project="all", threads=threads)
    x = examples.to_numpy()
    report: dict[str, Any] = {
        "examples": examples.count,
        "dropped": examples.dropped,
        "samples": len(drawn),
        "guarantee": drawn.guarantee,
        "validity": validity(formula, drawn.to_numpy()),
        "moment_gap": moment_gap(examples.mean(), drawn.mean()),
        "map_at_10": map_at_10(theta, x, uniform.to_numpy(), seed) if len(uniform) else math.nan,
        "log_likelihood": None,
    }
    if log_z is None:
        return report | {"reason": reason}
    trust = {"method": log_z.method, "guarantee": log_z.info.get("guarantee", "exact")}
    report["log_z"] = _shown(log_z) | trust
    report["log_likelihood"] = _shown(log_likelihood(formula, theta, x, log_z=log_z))
    if trained is not None:
        fitted = log_likelihood(formula, theta, trained.to_numpy(), log_z=log_z)
        report["train_log_likelihood"] = _shown(fitted)
    return report


def _log_z(
    formula: Formula,
    theta: np.ndarray,
    terms: Any,
    rows: np.ndarray,
    seconds: float | None,
    seed: int | None,
    threads: int | None,
) -> tuple[LogPartition | None, str]:
    """log Z, or why there is none. rows: likely structures."""
    more = {"terms": terms, "starts": rows} if terms else {}
    try:
        return compute.log_z(
            formula, theta, seconds=seconds, seed=seed, threads=threads, **more
        ), ""
    except BudgetExceeded as error:
        return None, str(error)


def _shown(value: LogPartition | Likelihood) -> dict[str, float]:
    return {"value": float(value.value), "half_width": value.half_width}


def map_at_10(theta: Any, seen: np.ndarray, unseen: np.ndarray, seed: int | None = 0) -> float:
    """MAP@10 of ten examples among twenty structures, the mean of 100 choices (errata 12)."""
    random = np.random.default_rng(seed)
    scores = []
    for _ in range(100):
        rows = random.choice(len(seen), min(10, len(seen)), replace=False)
        others = random.choice(len(unseen), min(10, len(unseen)), replace=False)
        scores.append(map_at(theta, seen[rows], unseen[others]))
    return float(np.mean(scores))
