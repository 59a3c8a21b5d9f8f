"""What Barbarik's test (`barbarik.py`) asks for each pair of structures: how many draws, from which
formula.

    t  = ceil(ln(2 / delta) / ln(10 / (10 - eta (eta - 6 epsilon))))      pairs
    lo = (1 + epsilon) / (1 - epsilon),  L = alpha lo / (1 + alpha lo)
    hi = 1 + (eta + 6 epsilon) / 4,      H = alpha hi / (1 + alpha hi)

N, the number of draws for a pair, is the smallest for which Chernoff's bound exp(-N KL(T | p)) is
at most delta / t at p = L and 1/5 at p = H, with the threshold T where both bounds meet. These are
the two errors that the paper's proof uses. The paper takes N = 8 ln(t / delta) H / (H - L)^2, from
a weaker bound: 4 times as many draws at alpha = 1, hundreds of times as many for large alpha.

The solutions of the formula K extend one of two given structures s and t, equally many for each.

    K = C(x)  and  (x = s  or  x = t)  and, for some literals l of s,
        (l -> psi(y))  and  (not l -> psi(not y))            y: a block of new variables for each l

psi is a chain formula, psi = y_1 o (y_2 o ( ... y_k)) with each o an OR or an AND. It has exactly c
solutions, where c = (o_1 ... o_(k-1) 1) in binary with 1 for OR (Chakraborty, Fried, Meel, Vardi
2015). So s and t have prod c extensions each. New variables have weight 1 either way, hence
P_theta(x = s | K) = w(s) / (w(s) + w(t)). The extensions are there for samplers that look for
distinct or diverse solutions.

This is the formula "Kernel" of Barbarik2 (Meel, Pote, Chakraborty 2020) with these differences:
a variable in which s and t agree becomes one unit clause instead of two binary clauses; the counts
c are random (odd, 4 bits) instead of fixed; blocks are added until there are `least` extensions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import expit, rel_entr

from nelson.errors import FormulaError
from nelson.formula import Formula


class PairPlan(NamedTuple):
    """How one pair is tested: reject if a share > threshold of the draws is the sampler's own."""

    draws: float  # may be infinite
    threshold: float
    low: float  # L: the largest share that a law within epsilon can have


@dataclass(frozen=True)
class Design:
    epsilon: float
    eta: float
    delta: float

    def __post_init__(self) -> None:
        if not 0 <= self.epsilon < 1 / 3:
            raise FormulaError(f"epsilon = {self.epsilon}", expected="0 <= epsilon < 1/3")
        if not 6 * self.epsilon < self.eta <= 2:
            raise FormulaError(f"eta = {self.eta}", expected="6 epsilon < eta <= 2 (L1 distance)")

    @property
    def pairs(self) -> int:
        far = self.eta * (self.eta - 6 * self.epsilon)
        return math.ceil(math.log(2 / self.delta) / math.log(10 / (10 - far)))

    def plan(self, log_alpha: float) -> PairPlan:
        """For a pair of structures whose weights have the ratio exp(log_alpha)."""
        low = float(expit(log_alpha + math.log((1 + self.epsilon) / (1 - self.epsilon))))
        high = float(expit(log_alpha + math.log(1 + (self.eta + 6 * self.epsilon) / 4)))
        if not 0 < low < high < 1:
            return PairPlan(math.inf, 1.0, low)
        false_alarm, missed = math.log(self.pairs / self.delta), math.log(5)
        a, b = low, high
        for _ in range(100):  # bisection
            mid = (a + b) / 2
            if false_alarm * _kl(mid, high) > missed * _kl(mid, low):
                a = mid
            else:
                b = mid
        gap = _kl(b, low)
        return PairPlan(math.ceil(false_alarm / gap) if gap > 0 else math.inf, b, low)


def _kl(a: float, p: float) -> float:
    """KL divergence, in nats, of a coin with probability a from a coin with probability p."""
    return float(rel_entr(a, p) + rel_entr(1 - a, 1 - p))


#: New variables in a block.
_BLOCK = 4


@dataclass(frozen=True)
class PairFormula:
    formula: Formula  # visible variables: those of the original formula, then the new ones
    new: int  # number of new variables
    extensions: int  # of each of the two structures


def pair_formula(f: Formula, s: np.ndarray, t: np.ndarray, least: int, seed: int) -> PairFormula:
    """s, t: (n,) bool, two different structures of f. O(total literals + n)."""
    rng = np.random.default_rng([seed, 17])
    n = f.n_vars
    mine = np.arange(1, n + 1) * np.where(s, 1, -1)  # the literals of s
    differ = np.flatnonzero(s != t)
    clauses = [[int(literal)] for literal in mine[s == t]]
    lead = int(rng.choice(differ))
    for i in differ[differ != lead]:
        clauses += [[-int(mine[lead]), int(mine[i])], [int(mine[lead]), -int(mine[i])]]
    # Variables that differ between s and t get the first blocks.
    order = np.concatenate([rng.permutation(differ), rng.permutation(np.flatnonzero(s == t))])
    extensions, blocks = 1, 0
    while extensions < least:
        literal = int(mine[order[blocks % n]])
        c = int(rng.integers(1 << (_BLOCK - 2), 1 << (_BLOCK - 1))) * 2 + 1
        y = [n + blocks * _BLOCK + k for k in range(1, _BLOCK + 1)]
        clauses += [[-literal, *clause] for clause in chain(c, y)]
        clauses += [[literal, *clause] for clause in chain(c, [-v for v in y])]
        extensions, blocks = extensions * c, blocks + 1
    new = blocks * _BLOCK
    old = f.literals.copy()
    old[old > n] += new  # auxiliary variables move behind the new ones
    old[old < -n] -= new
    flat = np.array([literal for clause in clauses for literal in clause], np.int32)
    ends = np.cumsum([len(clause) for clause in clauses], dtype=np.int64)
    joined = Formula.from_arrays(
        np.concatenate([old, flat]),
        np.concatenate([f.offsets, f.offsets[-1] + ends]),
        n_vars=n + new,
        n_aux=f.n_aux,
        constraints=f.constraints,
    )
    return PairFormula(joined, new, extensions)


def chain(c: int, literals: list[int]) -> list[list[int]]:
    """Clauses over k literals with exactly c solutions; c odd, below 2^k."""
    clauses = [[literals[-1]]]
    for k in range(len(literals) - 2, -1, -1):
        bit = c >> (len(literals) - 1 - k) & 1
        mine = literals[k]
        clauses = [[mine, *clause] for clause in clauses] if bit else [[mine], *clauses]
    return clauses
