"""Heat-bath sweeps with the full conditional of a potential over several variables.

    P(x) ~ exp(theta . x + phi(x)) C(x),      phi(x) = sum_S c_S prod_{i in S} x_i

From a valid x, variable i is redrawn if all its clauses hold without it, with log-odds

    theta_i + phi(x with x_i = 1) - phi(x with x_i = 0)
        = theta_i + sum_{S with i in S} c_S prod_{j in S, j != i} x_j;

otherwise its value is forced. So P is stationary and valid samples stay valid (Glauber dynamics
inside the valid space). Unlike `nelson.formula.polynomial.lift` this adds no variables, so
variables that share a term can still move one at a time.

Layout: row v of `x` is variable v + 1 of all m samples, bool; a step is a few NumPy operations on
such rows. One sweep costs O(m (total literals + total size of the monomials)) byte operations.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from nelson.errors import FormulaError
from nelson.formula import Formula
from nelson.formula.checks import evidence_of
from nelson.formula.polynomial import Polynomial
from nelson.kernels.core import rng
from nelson.kernels.core.bits import pack, unpack
from nelson.sampling.diagnosis.diagnose import pilot_request, watch
from nelson.sampling.diagnosis.elsewhere import RARE_SHARE, Elsewhere, Walkers
from nelson.sampling.diagnosis.features import Features
from nelson.sampling.diagnosis.meeting import Coupled
from nelson.sampling.diagnosis.verdict import Verdict
from nelson.sampling.problem import prepare
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
    sweeps   None: a pilot run of 2048 samples measures how many are needed, and compares chains
             from other starts (`nelson.sampling.diagnosis`)
    seed     same seed, same samples, for any n
    options  of `nelson.sample`, which draws the valid starts from the single-variable part

    Returns `Samples`: "asymptotic" if the pilot run says so; "heuristic" if it does not, or if
    `sweeps` was given, so that there was none. Fewer than n samples if the budget for the starts
    ran out.
    """
    started = time.monotonic()
    seed = secrets.randbits(63) if seed is None else int(seed)
    phi = Polynomial.of(terms)
    # A start must be a full assignment, so auxiliary variables become visible.
    whole = Formula.from_arrays(formula.literals, formula.offsets, n_vars=formula.n_total)
    weights = np.concatenate([phi.linear(formula.n_vars, theta), np.zeros(formula.n_aux)])
    chain = compile_chain(whole, phi, weights)
    starts = partial(sample, whole, weights, method="lovasz", sweeps=0, seed=seed, **options)
    if sweeps is None:
        verdict = _diagnose(whole, phi, weights, starts(n=_PILOT_SAMPLES), seed)
    else:
        verdict = Verdict(sweeps, "heuristic", "nobody has diagnosed these sweeps")
    first = starts(n=n)
    x = np.ascontiguousarray(first.to_numpy().T)
    for k in range(verdict.sweeps):
        sweep(chain, x, seed, k)
    why = f"{verdict.sweeps} sweeps of the valid space with the full conditional of the terms"
    info = first.info | verdict.more | {"method": "heat-bath", "why": f"{why} ({verdict.why})"}
    info |= {"sweeps": verdict.sweeps, "seed": seed, "seconds": time.monotonic() - started}
    variables = tuple(range(1, formula.n_vars + 1))
    packed = pack(x[: formula.n_vars].T)
    return Samples(packed, first.count, variables, verdict.guarantee, first.status, info)


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


def _diagnose(
    formula: Formula, phi: Polynomial, theta: np.ndarray, starts: Samples, seed: int
) -> Verdict:
    """Chains from `starts`, compared with chains that begin elsewhere."""
    count = starts.count // 64 * 64
    if not count:
        return Verdict(0, "heuristic", "no valid start was found for a pilot run")
    problem = prepare(formula, evidence_of(formula, None, theta))
    finite = np.where(np.isinf(theta), 0.0, theta)
    sets = [*formula, *(list(monomial) for monomial in phi.products)]
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in sets])])
    literals = np.array([literal for one in sets for literal in one], np.int64)
    moves = np.isfinite(theta)
    moves[np.abs(problem.fixed) - 1] = False
    features = Features.among(np.flatnonzero(moves), literals, offsets.astype(np.int64), finite)
    chain = compile_chain(formula, phi, theta)
    elsewhere = _Elsewhere(problem, features, pilot_request(finite[None], count, 1, None, ~seed))
    elsewhere.chain, elsewhere.phi = chain, phi
    base = _Walkers(chain, starts.packed[: count // 64], ~seed)
    return watch(features, base, elsewhere).verdict()


class _Walkers:
    """Chains of one context, as `watch` needs them."""

    complete = True

    def __init__(self, chain: Chain, words: np.ndarray, seed: int) -> None:
        self.chain, self.seed, self.swept = chain, seed, 0
        self.x = np.ascontiguousarray(unpack(words, 64 * len(words)).T)
        self.words = words[None]

    def sweep_to(self, sweeps: int) -> None:
        for k in range(self.swept, sweeps):
            sweep(self.chain, self.x, self.seed, k)
        self.swept, self.words = max(self.swept, sweeps), pack(self.x.T)[None]


class _Coupled:
    """Chains of several starts with the same random numbers."""

    complete = True

    def __init__(self, walkers: list[_Walkers]) -> None:
        self.walkers = walkers
        self.words = np.concatenate([one.words for one in walkers])

    def sweep_to(self, sweeps: int) -> None:
        for one in self.walkers:
            one.sweep_to(sweeps)
        self.words = np.concatenate([one.words for one in self.walkers])


class _Elsewhere(Elsewhere):
    """Chains that know the terms, also from starts in which a rare product has its other value."""

    chain: Chain
    phi: Polynomial

    def walkers(self, words: np.ndarray, theta: np.ndarray) -> Walkers:
        return _Walkers(self.chain, words, self.seed())

    def coupled(self, rows: np.ndarray, words: int) -> Coupled:
        states = np.where(rows, ~np.uint64(0), np.uint64(0))[:, None]
        seed = self.seed()
        return _Coupled([_Walkers(self.chain, start, seed) for start in states])

    def rare_values(self, base: np.ndarray) -> Iterator[tuple[int, ...]]:
        yield from super().rare_values(base)
        for monomial in self.phi.products:
            on = np.bitwise_and.reduce(base[:, np.array(monomial) - 1], axis=1)
            share = np.bitwise_count(on).sum() / (64 * len(base))
            if share < RARE_SHARE:
                yield monomial
            elif share > 1 - RARE_SHARE:
                yield from ((-v,) for v in monomial)
