"""A case of the suite: a formula, theta, how samples are drawn, and quantities of known value.

    wrong   a quantity is off by more than SIGMAS standard errors of the sample, and by more than
            TOLERANCE (a probability) or SHIFT standard deviations (any other quantity)

Each sample of a chain sampler is the end of its own chain, so the standard error of a mean over m
samples is sd / sqrt(m). Beyond 5 standard errors a right sampler falls once in 1.7 million
quantities; most cases watch fewer than 100.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import nelson
from nelson.errors import NelsonError
from nelson.exact.enumerated import probabilities
from nelson.exact.listing import structures
from nelson.formula import Formula

#: Standard errors between an estimate and the truth that count as an error.
SIGMAS = 5.0
#: Smaller errors of a probability are not counted.
TOLERANCE = 0.02
#: Smaller errors of another quantity, in its standard deviations, are not counted. A normal law
#: that is shifted by 0.05 standard deviations has total variation 0.02.
SHIFT = 0.05
#: Samples of a case.
COUNT = 16384
#: Chains and sweeps of the long run that stands for the truth of a large honest case.
_LONG_LANES, _LONG_SWEEPS = 8192, 256

Quantity = Callable[[np.ndarray], Any]  # samples (m, n) bool -> (m,)


@dataclass(frozen=True)
class Watch:
    """A quantity of known mean. sd None: a probability if the values are 0 and 1, else unknown."""

    name: str
    of: Quantity
    truth: float
    sd: float | None = None


@dataclass(frozen=True)
class Case:
    """`means` are the true marginals, (n,) or (contexts, n); NaN: not known, not compared."""

    formula: Formula
    theta: Any = None
    watch: tuple[Watch, ...] = ()
    means: np.ndarray | None = None
    means_error: np.ndarray | float = 0.0  # standard error of `means`
    call: str = "chains"  # "auto", "lovasz", "terms", "log_z": see draw.py
    options: Mapping[str, Any] = field(default_factory=dict)
    count: int = COUNT
    log_z: float | None = None  # the truth of the call "log_z"


@dataclass(frozen=True)
class Family:
    name: str
    kind: str  # "adversarial" or "honest"
    build: Callable[[int], Case]  # seed -> case


FAMILIES: dict[str, Family] = {}


def family(kind: str, **variants: Mapping[str, Any]) -> Callable[[Callable[..., Case]], Any]:
    """Register build(seed, **arguments) once for each variant: its name, and its arguments.

    Some arguments are not passed on: `disguise` negates a random half of the variables; `call`,
    `count` and `options` replace those of the case.
    """

    def register(build: Callable[..., Case]) -> Callable[..., Case]:
        for name, given in variants.items():
            name = f"{build.__name__}_{name}".replace("_", "-")
            if name in FAMILIES:
                raise NelsonError(f"two families are called {name!r}: rename one of them")
            FAMILIES[name] = Family(name, kind, _builder(build, given))
        return build

    return register


def _builder(build: Callable[..., Case], given: Mapping[str, Any]) -> Callable[[int], Case]:
    arguments = dict(given)
    disguise = arguments.pop("disguise", False)
    changes = {
        name: arguments.pop(name) for name in ("call", "count", "options") if name in arguments
    }

    def built(seed: int) -> Case:
        case = replace(build(seed, **arguments), **changes)
        return disguised(case, seed) if disguise else case

    return built


def disguised(case: Case, seed: int) -> Case:
    """The same law with a random half of the variables negated."""
    f, random = case.formula, np.random.default_rng([seed, 77])
    flip = np.concatenate([random.random(f.n_vars) < 0.5, np.zeros(f.n_aux, bool)])
    literals = np.where(flip[np.abs(f.literals) - 1], -f.literals, f.literals)
    flip = flip[: f.n_vars]
    theta = np.zeros(f.n_vars) if case.theta is None else case.theta
    means = case.means if case.means is None else np.where(flip, 1 - case.means, case.means)
    return replace(
        case,
        formula=Formula.from_arrays(literals, f.offsets, f.n_vars, n_aux=f.n_aux),
        theta=np.where(flip, -theta, theta),
        means=means,
        log_z=None if case.log_z is None else case.log_z - float(theta[flip].sum()),
        watch=tuple(replace(w, of=_flipped(w.of, flip)) for w in case.watch),
    )


def _flipped(of: Quantity, flip: np.ndarray) -> Quantity:
    return lambda x: of(x ^ flip)


# --- truth ---------------------------------------------------------------------------------------


def law_of(formula: Formula, theta: Any = None) -> tuple[np.ndarray, np.ndarray] | None:
    """All structures and their probabilities; None if there are too many."""
    rows = structures(formula.replace())  # a copy: the case must not know the list
    theta = np.zeros(formula.n_vars) if theta is None else np.asarray(theta, float)
    return None if rows is None else (rows, probabilities(rows, theta))


def enumerated(formula: Formula, theta: Any = None, **watch: Quantity) -> Case:
    """A case whose truth is a sum over all structures: all marginals, and the quantities given."""
    known = law_of(formula, theta)
    if known is None:
        raise NelsonError(f"{formula!r} has too many structures to enumerate: take fewer variables")
    rows, p = known
    watches = []
    for name, of in watch.items():
        value = of(rows).astype(float)
        mean = float(p @ value)
        watches.append(Watch(name, of, mean, float(np.sqrt(p @ (value - mean) ** 2))))
    return Case(formula, theta, tuple(watches), p @ rows)


def measured(formula: Formula, theta: Any = None, watch: tuple[Watch, ...] = ()) -> Case:
    """A case whose marginals are exact if the formula can be enumerated; else they are those of a
    long run from independent starts. For honest cases only.
    """
    known = law_of(formula, theta)
    if known is not None:
        return Case(formula, theta, watch, known[1] @ known[0])
    run = nelson.sample(
        formula.replace(), theta, _LONG_LANES, method="lovasz", sweeps=_LONG_SWEEPS, seed=987654321
    )  # a copy: what is measured about it is not kept with the formula of the case
    means = run.mean()
    error = np.sqrt(np.maximum(means * (1 - means), 1 / len(run)) / len(run))
    return Case(formula, theta, watch, means, error)


# --- the judgement -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Error:
    """The worst quantity of a sample: the worst of those that are wrong, if there are any."""

    quantity: str
    estimate: float
    truth: float
    sigmas: float
    wrong: bool


def worst_error(case: Case, x: np.ndarray, variables: tuple[int, ...]) -> Error | None:
    """The largest error of samples x, (m, columns) or (contexts, m, columns) bool; None if the case
    has no known quantity among these columns.
    """
    m = x.shape[-2]
    errors: list[tuple[float, Error]] = []

    def add(name: str, estimate: float, truth: float, sigma: float, least: float) -> None:
        off = abs(estimate - truth)
        error = Error(name, estimate, truth, off / sigma, off > SIGMAS * sigma and off > least)
        errors.append(((1e6 + off / least) if error.wrong else error.sigmas, error))

    if m and case.means is not None:
        columns = np.array(variables) - 1
        truth = np.atleast_2d(case.means)[:, columns].ravel()
        given = np.broadcast_to(case.means_error, case.means.shape)
        given = np.atleast_2d(given)[:, columns].ravel()
        estimate = x.mean(axis=-2).ravel()
        sigma = np.sqrt(np.maximum(truth * (1 - truth), 1 / m) / m + given**2)
        with np.errstate(invalid="ignore"):
            score = np.nan_to_num(np.abs(estimate - truth) / sigma, nan=-1.0)
        for k in np.argsort(-score)[:8]:
            if score[k] >= 0:
                name = f"x{columns[k % len(columns)] + 1}"
                add(name, float(estimate[k]), float(truth[k]), float(sigma[k]), TOLERANCE)
    # A quantity is a function of all variables: it is not known of a projection.
    whole = m > 0 and len(variables) == case.formula.n_vars
    for watch in case.watch if whole else ():
        value = watch.of(x).astype(float)
        is_event = bool(np.isin(value, (0.0, 1.0)).all()) and 0 <= watch.truth <= 1
        sd = np.sqrt(watch.truth * (1 - watch.truth)) if is_event else watch.sd
        sd = max(float(value.std() if sd is None else sd), 1 / np.sqrt(m))
        least = TOLERANCE if is_event else SHIFT * sd
        add(watch.name, float(value.mean()), watch.truth, sd / np.sqrt(m), least)
    return max(errors, key=lambda pair: pair[0])[1] if errors else None
