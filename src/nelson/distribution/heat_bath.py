"""Heat-bath sweeps with the full conditional of a potential over several variables.

    P(x) ~ exp(theta . x + phi(x)) C(x),      phi(x) = sum_S c_S prod_{i in S} x_i

From a valid x, variable i is redrawn if all its clauses hold without it, with log-odds

    theta_i + phi(x with x_i = 1) - phi(x with x_i = 0)
        = theta_i + sum_{S with i in S} c_S prod_{j in S, j != i} x_j;

otherwise its value is forced. So P is stationary and valid samples stay valid (Glauber dynamics
inside the valid space). Unlike `nelson.distribution.polynomial.lift` this adds no variables, so
variables that share a term can still move one at a time.

Layout: row v of `x` is variable v + 1 of all m samples, bool; a step is a few NumPy operations on
such rows. One sweep costs O(m (total literals + total size of the monomials)) byte operations.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from nelson.distribution.polynomial import Polynomial
from nelson.errors import FormulaError
from nelson.formula import Formula
from nelson.kernels.core import rng
from nelson.kernels.core.bits import pack
from nelson.sampling.mixing import LAGS, SWEEPS_PER_LAG, correlation
from nelson.sampling.sample_stream import sample
from nelson.sampling.samples import Samples

#: Samples in the pilot run.
_PILOT_SAMPLES = 2048
#: The random numbers of sweeps belong to this context, which no sampler uses.
_CONTEXT = (1 << 24) - 1


def heat_bath(
    formula: Formula,
    terms: Any,
    theta: Any = None,
    n: int = 1,
    *,
    sweeps: int | None = None,
    seed: int | None = None,
    **options: Any,
) -> Samples:
    """n samples of P(x) ~ exp(theta . x + phi(x)) C(x), asymptotically.

    terms    phi: a `Polynomial`, or what `Polynomial.of` takes
    sweeps   None: three times the smallest lag at which, in a pilot run of 2048 samples, every
             variable has an autocorrelation of at most 0.1
    seed     same seed, same samples, for any n
    options  of `nelson.sample`, which draws the valid starts from the single-variable part

    Returns `Samples`: "asymptotic", or "heuristic" if the pilot run did not mix or if a variable
    that takes both values was never free to move. The latter happens if auxiliary variables tie the
    visible ones together. Fewer than n samples if the budget for the starts ran out.
    """
    started = time.monotonic()
    seed = secrets.randbits(63) if seed is None else int(seed)
    phi = Polynomial.of(terms)
    # A start must be a full assignment, so auxiliary variables become visible.
    whole = Formula.from_arrays(formula.literals, formula.offsets, n_vars=formula.n_total)
    weights = np.concatenate([phi.linear(formula.n_vars, theta), np.zeros(formula.n_aux)])
    chain = compile_chain(whole, phi, weights)
    starts = partial(sample, whole, weights, method="lovasz", sweeps=0, seed=seed, **options)
    pilot: dict[str, Any] = {}
    if sweeps is None:
        sweeps, pilot = _pilot(chain, starts(n=_PILOT_SAMPLES), seed)
    first = starts(n=n)
    x = np.ascontiguousarray(first.to_numpy().T)
    moved = np.zeros(len(x), bool)
    for k in range(sweeps):
        moved |= sweep(chain, x, seed, k)
    visible = x[: formula.n_vars]
    frozen = int((~moved[: formula.n_vars] & visible.any(1) & ~visible.all(1)).sum())
    guarantee = "asymptotic"
    why = f"{sweeps} sweeps of the valid space with the full conditional of the terms"
    if not sweeps or frozen or not pilot.get("mixed", True):
        guarantee = "heuristic"
        why += f"; {frozen} variables could not move" if frozen else "; not known to mix"
    info = first.info | pilot | {"method": "heat-bath", "why": why, "sweeps": sweeps}
    info |= {"frozen": frozen, "seed": seed, "seconds": time.monotonic() - started}
    variables = tuple(range(1, formula.n_vars + 1))
    return Samples(pack(visible.T), first.count, variables, guarantee, first.status, info)


@dataclass(frozen=True)
class Chain:
    """A formula and a potential, arranged by variable for its update."""

    theta: np.ndarray  # (n,) +-inf is hard evidence
    #: For each clause of v: the sign of v, the other variables, their signs.
    clauses: list[list[tuple[bool, np.ndarray, np.ndarray]]]
    #: For each term of v: its coefficient, the other variables.
    terms: list[list[tuple[float, np.ndarray]]]


def compile_chain(formula: Formula, phi: Polynomial, theta: np.ndarray) -> Chain:
    n = formula.n_total
    if len(theta) != n:
        raise FormulaError(f"theta of {len(theta)} numbers", expected=f"{n}")
    chain = Chain(theta, [[] for _ in range(n)], [[] for _ in range(n)])
    for clause in formula:
        literals = np.array(clause)
        for k, literal in enumerate(clause):
            others = np.delete(literals, k)
            chain.clauses[abs(literal) - 1].append((literal > 0, np.abs(others) - 1, others > 0))
    for monomial, coefficient in phi.products.items():
        for v in monomial:
            others = np.array([u - 1 for u in monomial if u != v])
            chain.terms[v - 1].append((coefficient, others))
    return chain


def sweep(chain: Chain, x: np.ndarray, seed: int, k: int) -> np.ndarray:
    """Sweep number k of x (n, m) bool, in place -> (n,) bool: could v move in some sample?"""
    moved = np.zeros(len(x), bool)
    uniform = Uniform(seed, x.shape[1])
    for v in range(len(x)):
        if np.isinf(chain.theta[v]):
            continue
        needed = np.zeros((2, x.shape[1]), bool)  # must v be false, or true?
        for sign, others, signs in chain.clauses[v]:
            needed[int(sign)] |= ~(x[others] == signs[:, None]).any(0)
        free = ~(needed[0] | needed[1])
        if not free.any():
            continue
        moved[v] = True
        log_odds = np.full(x.shape[1], chain.theta[v])
        for coefficient, others in chain.terms[v]:
            log_odds += coefficient * x[others].all(0)
        u = uniform(k, v)
        # u < 1 / (1 + exp(-log_odds)), without overflow
        value = np.log(u) - np.log1p(-u) < log_odds
        x[v] = np.where(free, value, x[v])
    return moved


class Uniform:
    """m random numbers in (0, 1): functions of (seed, sample, sweep, variable) alone."""

    def __init__(self, seed: int, m: int) -> None:
        samples = np.arange(m, dtype=np.uint64)
        with np.errstate(over="ignore"):
            self._keys = rng.keys(rng.spread_seed(seed), np.uint64(_CONTEXT), samples)

    def __call__(self, k: int, v: int) -> np.ndarray:
        key0, key1 = self._keys
        with np.errstate(over="ignore"):
            bits = rng.scramble(key0 + rng.counter(rng.SWEEP_ROUND + k, v, 0), key1)
        return ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def _pilot(chain: Chain, starts: Samples, seed: int) -> tuple[int, dict[str, Any]]:
    """(sweeps, measurements). The autocorrelation at lag k compares x after k and 2k sweeps."""
    x = np.ascontiguousarray(starts.to_numpy().T)
    if not x.shape[1]:
        return 0, {}
    threshold = 0.1 + np.sqrt(2 * np.log(2 * len(x)) / x.shape[1])
    sweep(chain, x, ~seed, 0)
    late = _look(x)
    for lag in LAGS:
        early = late
        for k in range(lag, 2 * lag):
            sweep(chain, x, ~seed, k)
        late = _look(x)
        rho = correlation(early, late)
        if rho <= threshold:
            break
    return SWEEPS_PER_LAG * lag, {"mixed": bool(rho <= threshold), "lag": lag, "rho": rho}


def _look(x: np.ndarray) -> np.ndarray:
    """x (n, m), packed as `correlation` takes it; the last column says that all samples count."""
    return pack(np.vstack([x, np.ones_like(x[:1])]).T)[None]
