"""How many sweeps a formula needs: measured, not guessed.

With counter-based random numbers, the chain after k and after 2k sweeps is one run, observed twice.
So the autocorrelation at lag k,

    rho(k) = max_v |corr(x_v after k sweeps, x_v after 2k sweeps)|,

costs 2k sweeps and a popcount. k doubles until rho(k) <= 0.1 + noise. Then 3k sweeps leave about
0.1^3 of the bias that resampling starts with. Measured on random 5-SAT (n = 18, L = n and 2n,
theta ~ N(0,1), 24 formulas): the L1 error of the marginals over 2 million draws is 0.7 to 1.5
times the noise floor; without sweeps it is 10 to 130 times the floor.

The same run gives the drift max_v |E[x_v] after 2k - E[x_v] after k|: how far the second half of
the run still moved the marginals, to compare with the first half.

rho sees single variables only: a chain can be slow in ways that no single variable shows. That is
why the guarantee stays "asymptotic". A chain whose rho does not fall is called "heuristic".
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from nelson.formula.memo import Recent, Slot
from nelson.sampling.chain import Chains, share
from nelson.sampling.problem import Problem
from nelson.sampling.sampler import Request

SEED = 0x6E656C736F6E
#: By (evidence, hash of theta).
MEASURED: Slot[Recent[tuple[tuple[int, ...], int], Mixing]] = Slot("measured mixing")
LAGS = (1, 2, 4, 8, 16, 32, 64)
#: A draw makes this many times the lag at which the correlation is gone.
SWEEPS_PER_LAG = 3
#: (most variables, lanes of the pilot run)
_PILOT_LANES = ((500, 4096), (20_000, 2048), (200_000, 1024), (np.inf, 256))
#: Variables that are observed; enough to see a chain that is slow anywhere.
_MAX_COLUMNS = 4096
#: Contexts that are measured; the others are taken to be alike.
_MAX_CONTEXTS = 4
#: The correlation is gone when it is below this, plus noise.
_GONE = 0.1


@dataclass(frozen=True)
class Mixing:
    sweeps: int
    lag: int
    rho: float
    mixed: bool  # is the correlation gone after `lag` sweeps
    converged: bool = True  # did resampling find valid states to start from
    moved: float = 0.0  # largest change of a marginal over the first `lag` sweeps
    drift: float = 0.0  # the same over the next `lag` sweeps
    noise: float = 0.0  # how large the drift may be by chance
    complete: bool = True  # did the deadline let it finish
    #: Marginals (contexts, columns) at the end, and their number of lanes (contexts, 1).
    means: tuple[np.ndarray, np.ndarray] | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        if not self.complete:
            return "the time was up in a pilot run"
        if not self.converged:
            return "resampling did not converge in a pilot run"
        if not self.mixed:
            return f"variables still correlate by {self.rho:.2f} after {self.lag} sweeps"
        return f"correlations fall to {self.rho:.2f} within {self.lag} sweeps"


def rows_for(theta: np.ndarray) -> np.ndarray:
    """At most four of the contexts."""
    return theta[:: -(-len(theta) // _MAX_CONTEXTS)] if len(theta) else theta


def columns_for(problem: Problem) -> np.ndarray:
    """Swept visible variables, at most 4096 of them."""
    order = problem.program.name[problem.program.order]
    visible = order[order < problem.n]
    return visible[:: -(-len(visible) // _MAX_COLUMNS)] if len(visible) else visible


def pilot_request(
    theta: np.ndarray, lanes: int, threads: int, deadline: float | None, seed: int = SEED
) -> Request:
    return Request(
        theta=theta,
        contexts=np.arange(len(theta)),
        count=lanes,
        block=lanes,
        seed=seed,
        columns=np.zeros(0, np.int64),
        sweeps=0,
        max_rounds=1000,
        threads=threads,
        deadline=deadline,
    )


def mixing(problem: Problem, theta: np.ndarray, threads: int, deadline: float | None) -> Mixing:
    """Measure on at most four of the contexts; kept with the formula."""
    rows = rows_for(theta)
    known = problem.formula.memo.once(MEASURED, lambda: Recent(64))
    key = (problem.evidence, hash(rows.tobytes()))
    if (kept := known.get(key)) is not None:
        return kept
    n = problem.formula.n_total
    lanes = next(lanes for most, lanes in _PILOT_LANES if n <= most)
    request = pilot_request(rows, lanes, threads, share(deadline, 0.2))
    measured = measure(Chains.resampled(problem, request, rows))
    return known.put(key, measured) if measured.complete else measured


def measure(chains: Chains) -> Mixing:
    """Sweep the chains until a lag is found at which they have forgotten their start."""
    columns, wanted = columns_for(chains.problem), (chains.request.count or 0) * len(chains.words)
    tests = max(1, len(columns) * len(chains.words))
    lanes = max(1, chains.request.count or 1)
    spread = np.sqrt(2 * np.log(2 * tests) / lanes)  # the largest of `tests` noises
    if 2 * chains.lanes() < wanted:
        return Mixing(SWEEPS_PER_LAG, 1, 1.0, False, False, complete=chains.complete)
    before = chains.look(columns)
    lag, rho, mixed = LAGS[0], 1.0, False
    chains.sweep_to(lag)
    early = late = chains.look(columns)
    for lag in LAGS:
        if not chains.complete:
            break
        chains.sweep_to(2 * lag)
        if not chains.complete:
            break
        early, late = late, chains.look(columns)
        rho = correlation(early, late)
        if rho <= _GONE + spread:
            mixed = True
            break
    moved, drift = change(before, early), change(early, late)
    return Mixing(
        SWEEPS_PER_LAG * lag,
        lag,
        rho,
        mixed,
        True,
        moved,
        drift,
        float(spread),
        chains.complete,
        means(late),
    )


def _counts(words: np.ndarray) -> np.ndarray:
    return np.bitwise_count(words).sum(axis=1, dtype=np.int64).astype(float)


def means(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Marginals (contexts, columns) of a packed look (contexts, words, columns + 1), and lanes
    (contexts, 1).
    """
    m = np.maximum(_counts(words[:, :, -1:]), 1)
    return _counts(words[:, :, :-1]) / m, m


def change(a: np.ndarray, b: np.ndarray) -> float:
    """The largest difference between marginals of two looks."""
    return float(np.max(np.abs(means(a)[0] - means(b)[0]), initial=0.0))


def correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Largest |correlation| of a column between two packed looks (contexts, words, columns + 1).

    The last column marks the valid lanes. (Nearly) constant columns are left out.
    """
    (one, m), (two, _), (both, _) = means(a), means(b), means(a & b)
    spread = np.sqrt(one * (1 - one) * two * (1 - two))
    varies = spread * m > 64
    return float(np.max(np.abs(both - one * two)[varies] / spread[varies], initial=0.0))
