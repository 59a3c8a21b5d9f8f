"""Heat-bath sweeps with the full conditional of a potential over several variables.

    P(x) ~ exp(theta . x + phi(x)) C(x),      phi(x) = sum_S c_S prod_{i in S} x_i

From a valid x, variable i is redrawn where all its clauses hold without it, with log-odds

    theta_i + phi(x with x_i = 1) - phi(x with x_i = 0)
        = theta_i + sum_{S with i in S} c_S prod_{j in S, j != i} x_j;

elsewhere its value is forced. So P is stationary and valid samples stay valid (Glauber dynamics
inside the valid space). No variable is added, unlike in `nelson.distribution.polynomial`, so variables that share a
term move freely.

Layout: row v of `x` is variable v + 1 of all m samples, bool; a step is a few NumPy operations on
such rows. One sweep costs O(m (total literals + total size of the monomials)) byte operations.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from nelson.distribution.polynomial import Polynomial
from nelson.errors import FormulaError
from nelson.formula import Formula
from nelson.sampling.samples import Samples

#: Lags tried by the pilot, samples it runs, and sweeps in lags (as in `samplers.mixing`).
_LAGS = (1, 2, 4, 8, 16, 32, 64)
_PILOT = 2048
_FACTOR = 3
#: Random numbers of the sweeps are those of a context that no sampler uses.
_CONTEXT = (1 << 24) - 1
_SHIFT, _UNIT = np.uint64(11), 2.0**-53


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
    sweeps   None: three times the lag at which, in a pilot of 2048 samples, no variable correlates
             by more than 0.1 with itself
    seed     same seed, same samples, for any n
    options  of `nelson.sample`, which draws the valid starts from the single-variable part

    Returns `Samples`: "asymptotic", or "heuristic" if the pilot did not mix or some variable that
    takes both values was never free to move (so it is where auxiliary variables tie the visible
    ones). Fewer than n if the starts ran out of budget.
    """
    from nelson.kernels.core.bits import pack
    from nelson.sampling.sample_stream import sample

    started = time.monotonic()
    seed = secrets.randbits(63) if seed is None else int(seed)
    phi = Polynomial.of(terms)
    weights = phi.linear(formula.n_vars, theta)
    # Auxiliary variables are shown: a start is a full assignment.
    whole = Formula.from_arrays(formula.literals, formula.offsets, n_vars=formula.n_total)
    weights = np.concatenate([weights, np.zeros(formula.n_aux)])
    chain = compile_chain(whole, phi, weights)

    def starts(count: int) -> Samples:
        return sample(whole, weights, count, method="lovasz", sweeps=0, seed=seed, **options)

    found: dict[str, Any] = {}
    if sweeps is None:
        sweeps, found = _pilot(chain, starts(_PILOT), seed)
    first = starts(n)
    x = np.ascontiguousarray(first.to_numpy().T)
    moved = np.zeros(len(x), bool)
    for k in range(sweeps):
        moved |= sweep(chain, x, seed, k)
    visible = x[: formula.n_vars]
    stuck = int((~moved[: formula.n_vars] & (visible.any(1) & ~visible.all(1))).sum())
    guarantee = "asymptotic"
    why = f"{sweeps} sweeps of the valid space with the full conditional of the terms"
    if not sweeps or stuck or not found.get("mixed", True):
        guarantee = "heuristic"
        why += f"; {stuck} variables could not move" if stuck else "; not known to mix"
    info = (
        first.info
        | found
        | {
            "method": "heat-bath",
            "why": why,
            "sweeps": sweeps,
            "frozen": stuck,
            "seed": seed,
            "seconds": time.monotonic() - started,
        }
    )
    variables = tuple(range(1, formula.n_vars + 1))
    return Samples(pack(visible.T), first.count, variables, guarantee, first.status, info)


@dataclass(frozen=True)
class Chain:
    """A formula and a potential as what each variable's update needs."""

    theta: np.ndarray  # (n,) +-inf is hard evidence
    clauses: list[list[tuple[bool, np.ndarray, np.ndarray]]]  # of v: its sign, others, their signs
    terms: list[list[tuple[float, np.ndarray]]]  # of v: coefficient, the other variables


def compile_chain(formula: Formula, phi: Polynomial, theta: np.ndarray) -> Chain:
    n = formula.n_total
    if len(theta) != n:
        raise FormulaError(f"theta of {len(theta)} numbers", expected=f"{n}")
    clauses: list[list[tuple[bool, np.ndarray, np.ndarray]]] = [[] for _ in range(n)]
    for clause in formula:
        literals = np.array(clause)
        for k, literal in enumerate(clause):
            others = np.delete(literals, k)
            clauses[abs(literal) - 1].append((literal > 0, np.abs(others) - 1, others > 0))
    terms: list[list[tuple[float, np.ndarray]]] = [[] for _ in range(n)]
    for monomial, coefficient in phi.products.items():
        for v in monomial:
            others = np.array([u - 1 for u in monomial if u != v])
            terms[v - 1].append((coefficient, others))
    return Chain(theta, clauses, terms)


def sweep(chain: Chain, x: np.ndarray, seed: int, k: int) -> np.ndarray:
    """Sweep number k, in place, of x (n, m) bool; -> (n,) bool: which could move in some sample."""
    moved = np.zeros(len(x), bool)
    draws = _Uniform(seed, x.shape[1])
    for v in range(len(x)):
        if np.isinf(chain.theta[v]):
            continue
        needed = [np.zeros(x.shape[1], bool), np.zeros(x.shape[1], bool)]  # false, true
        for sign, others, signs in chain.clauses[v]:
            needed[sign] |= ~(x[others] == signs[:, None]).any(0)
        free = ~(needed[0] | needed[1])
        if not free.any():
            continue
        moved[v] = True
        odds = np.full(x.shape[1], chain.theta[v])
        for coefficient, others in chain.terms[v]:
            odds += coefficient * x[others].all(0)
        u = draws(k, v)
        # u < 1 / (1 + exp(-odds)), without overflow
        value = np.log(u) - np.log1p(-u) < odds
        x[v] = np.where(free, value, x[v])
    return moved


class _Uniform:
    """u in (0, 1), one a sample: a function of (seed, sample, sweep, variable) alone."""

    def __init__(self, seed: int, m: int) -> None:
        from nelson.kernels.core import rng

        self._rng = rng
        with np.errstate(over="ignore"):
            samples = np.arange(m, dtype=np.uint64)
            self._key0, self._key1 = rng.keys(rng.spread_seed(seed), np.uint64(_CONTEXT), samples)

    def __call__(self, k: int, v: int) -> np.ndarray:
        with np.errstate(over="ignore"):
            at = self._rng.counter(self._rng.SWEEP_ROUND + k, v, 0)
            bits = self._rng.scramble(self._key0 + at, self._key1)
        return ((bits >> _SHIFT).astype(np.float64) + 0.5) * _UNIT


def _pilot(chain: Chain, starts: Samples, seed: int) -> tuple[int, dict[str, Any]]:
    """(sweeps, what was seen): the autocorrelation at lag k is that of x after k and 2k sweeps."""
    x = np.ascontiguousarray(starts.to_numpy().T)
    if not x.shape[1]:
        return 0, {}
    bar = 0.1 + np.sqrt(2 * np.log(2 * len(x)) / x.shape[1])
    done, early, lag, rho = 0, x, 0, 1.0
    for lag in _LAGS:
        while done < 2 * lag:
            if done == lag:
                early = x.copy()
            sweep(chain, x, ~seed, done)
            done += 1
        rho = _correlation(early, x)
        if rho <= bar:
            return _FACTOR * lag, {"mixed": True, "lag": lag, "rho": rho}
    return _FACTOR * lag, {"mixed": False, "lag": lag, "rho": rho}


def _correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Largest |correlation| of a variable between (n, m) and (n, m); constants say nothing."""
    one, two, both = a.mean(1), b.mean(1), (a & b).mean(1)
    spread = np.sqrt(one * (1 - one) * two * (1 - two))
    told = spread * a.shape[1] > 64
    return float(np.max(np.abs(both - one * two)[told] / spread[told], initial=0.0))
