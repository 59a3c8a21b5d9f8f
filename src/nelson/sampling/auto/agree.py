"""Do chains that begin in different places come to agree?

Heat-bath moves change one variable at a time. Where the valid space falls apart under such moves,
a chain never leaves the part it began in, and its own autocorrelation need not show that: within
its part it mixes well. So the same sweeps are run from starts of another kind, found by resampling
under theta + SHIFT s with random signs s_v, or with s = 1 (which weigh the parts differently), or
by a solver with such preferences, and the marginals of all kinds must agree within noise:

    |E_a[x_v] - E_b[x_v]| <= z sqrt(p (1 - p) (1/m_a + 1/m_b)),   z^2 = 2 log(2 tests / ALPHA)

after 2k sweeps, k being the lag at which single variables forget (3k are made in the end), for all
variables and pairs of kinds. Necessary, not sufficient: parts that all kinds of starts
enter equally often, or that none of them enters, do not show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from nelson.sampling.chain import Chains
from nelson.sampling.mixing import columns_for, means
from nelson.sampling.problem import Problem
from nelson.sampling.sampler import Request

#: False alarms of one check, and how far the other starts lie (log-odds), the first that works.
ALPHA, SHIFTS = 1e-3, (1.5, 0.5)
#: Lanes: as many as this many variables times lanes allow.
_CELLS, _LEAST, _LANES = 1 << 19, 512, 16384
#: Variables up to which there are two kinds of other starts.
_SMALL = 500

Look = tuple[np.ndarray, np.ndarray]  # marginals (contexts, columns), and lanes (contexts, 1)


@dataclass(frozen=True)
class Agreement:
    agree: bool | None  # None: not checked
    worst: float = 0.0  # the largest difference, in units of what noise allows
    why: str = ""


def signs(n: int) -> np.ndarray:
    """(n,) of +-1, always the same."""
    return 2.0 * np.random.default_rng(n).integers(0, 2, n) - 1


def shifted(problem: Problem, request: Request) -> list[Chains]:
    """Chains from starts under a theta shifted by random signs, and, where that costs little, under
    one shifted up; none if those are not found.
    """
    n = problem.formula.n_total
    lanes = 64 * (int(np.clip(_CELLS // max(1, n), _LEAST, _LANES)) // 64)
    # No tile is to be half empty.
    asked = replace(request, count=lanes, block=lanes, width=4 if lanes <= 512 else None)
    ways = [signs(problem.n)] + [np.ones(problem.n)] * (n <= _SMALL)
    for shift in SHIFTS:
        found = []
        for k, way in enumerate(ways):
            asked = replace(asked, seed=request.seed + 1 + k)
            chains = Chains.resampled(problem, asked, request.theta + shift * way)
            held = np.bitwise_count(chains.valid).sum(axis=1)
            if not chains.complete:
                return []
            if (2 * held < lanes).any():
                break
            found.append(chains)
        if len(found) == len(ways):
            return found
    return []


def looks(kinds: Sequence[Chains], sweeps: int) -> list[Look] | None:
    """Marginals after so many sweeps; None if the time was up."""
    found = []
    for chains in kinds:
        chains.sweep_to(sweeps)
        if not chains.complete:
            return None
        found.append(means(chains.look(columns_for(chains.problem))))
    return found


def compare(kinds: Sequence[Look] | None) -> Agreement:
    """Of single variables, between all pairs of kinds."""
    if kinds is None:
        return Agreement(None, 0.0, "the time was up")
    pairs = list(combinations(kinds, 2))
    if not pairs:
        return Agreement(None, 0.0, "no second kind of start was found")
    tests = max(1, kinds[0][0].size * len(pairs))
    z = np.sqrt(2 * np.log(2 * tests / ALPHA))
    worst = 0.0
    for (a, many), (b, more) in pairs:
        p = (a * many + b * more) / (many + more)
        # At least some samples' worth of spread: a variable that is nearly constant does not have
        # the tails of a normal law.
        fewest = np.minimum(many, more)
        spread = np.sqrt(np.maximum(p * (1 - p), z / fewest) * (1 / many + 1 / more))
        worst = max(worst, float(np.max(np.abs(a - b) / (z * spread), initial=0.0)))
    told = f"marginals from {len(kinds)} kinds of starts differ by {worst:.2g} of what noise allows"
    return Agreement(worst <= 1, worst, told)
