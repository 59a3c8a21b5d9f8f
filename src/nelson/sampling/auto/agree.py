"""Do chains with different starts come to agree?

Heat-bath moves change one variable at a time. The valid space may fall apart into regions that such
moves do not connect. A chain then never leaves the region it started in, and its autocorrelation
need not show that: within the region it may mix well. So the same sweeps are run from other kinds
of starts, which weigh the regions differently: found by resampling under theta + SHIFT s with
random signs s_v or with s = 1, or by a solver with such preferences. The marginals of all kinds
must agree within noise:

    |E_a[x_v] - E_b[x_v]| <= z sqrt(p (1 - p) (1/m_a + 1/m_b)),   z^2 = 2 log(2 tests / ALPHA)

after 2k sweeps, for all variables and pairs of kinds. k is the lag at which single variables forget
their start (a draw makes 3k sweeps). The check is necessary, not sufficient: it does not see
regions that all kinds of starts enter equally often, or that none of them enters.
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

#: Probability of a false alarm of one check.
ALPHA = 1e-3
#: How far the weights of other starts are shifted, in log-odds; the first that converges is taken.
SHIFTS = (1.5, 0.5)
#: Variables times lanes of a check, within the limits on lanes below.
_CELLS = 1 << 19
_MIN_LANES = 512
_MAX_LANES = 16384
#: Up to this many variables there are two other kinds of starts, as they cost little.
_SMALL = 500

Look = tuple[np.ndarray, np.ndarray]  # marginals (contexts, columns), and lanes (contexts, 1)


@dataclass(frozen=True)
class Agreement:
    agree: bool | None  # None: not checked
    worst: float = 0.0  # the largest difference, in units of what noise allows
    why: str = ""


def signs(n: int) -> np.ndarray:
    """(n,) of +-1, the same in every run."""
    return 2.0 * np.random.default_rng(n).integers(0, 2, n) - 1


def shifted(problem: Problem, request: Request) -> list[Chains]:
    """Chains that start under theta shifted by random signs and, if n is small, under theta shifted
    up; an empty list if resampling does not find such starts.
    """
    n = problem.formula.n_total
    lanes = 64 * (int(np.clip(_CELLS // max(1, n), _MIN_LANES, _MAX_LANES)) // 64)
    # A width of 4 fills the only tile of few lanes.
    asked = replace(request, count=lanes, block=lanes, width=4 if lanes <= 512 else None)
    ways = [signs(problem.n)] + [np.ones(problem.n)] * (n <= _SMALL)
    for shift in SHIFTS:
        kinds = []
        for k, way in enumerate(ways):
            asked = replace(asked, seed=request.seed + 1 + k)
            chains = Chains.resampled(problem, asked, request.theta + shift * way)
            held = np.bitwise_count(chains.valid).sum(axis=1)
            if not chains.complete:
                return []
            if (2 * held < lanes).any():
                break
            kinds.append(chains)
        if len(kinds) == len(ways):
            return kinds
    return []


def looks(kinds: Sequence[Chains], sweeps: int) -> list[Look] | None:
    """The marginals of each kind after `sweeps` sweeps; None if the time was up."""
    marginals = []
    for chains in kinds:
        chains.sweep_to(sweeps)
        if not chains.complete:
            return None
        marginals.append(means(chains.look(columns_for(chains.problem))))
    return marginals


def compare(kinds: Sequence[Look] | None) -> Agreement:
    """Compare the marginals of single variables between all pairs of kinds."""
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
        # The variance is at least z / m: a nearly constant variable has heavier tails than a
        # normal law.
        fewest = np.minimum(many, more)
        spread = np.sqrt(np.maximum(p * (1 - p), z / fewest) * (1 / many + 1 / more))
        worst = max(worst, float(np.max(np.abs(a - b) / (z * spread), initial=0.0)))
    told = f"marginals from {len(kinds)} kinds of starts differ by {worst:.2g} of what noise allows"
    return Agreement(worst <= 1, worst, told)
