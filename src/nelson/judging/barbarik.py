"""A conditional test of a sampler where nothing can be counted.

    repeat t times:  s ~ sampler,  r ~ reference,  alpha = w(s) / w(r)
                     K = formula whose solutions extend s or r (`kernel.py`)
                     reject if the share of s among the sampler's draws from K is far above
                     alpha / (1 + alpha)

A sampler that gives some structures too much weight shows them as s, and against an r from the
right law they win more often than they should. This is Barbarik2 (Meel, Pote, Chakraborty, "On
Testing of Samplers", NeurIPS 2020); with alpha = 1 it tests uniform samplers, as Barbarik did
(Chakraborty and Meel, "On Testing of Uniform Samplers", AAAI 2019). With the paper's constants

    t  = ceil(ln(2 / delta) / ln(10 / (10 - eta (eta - 6 epsilon))))
    lo = (1 + epsilon) / (1 - epsilon),  L = alpha lo / (1 + alpha lo)
    hi = 1 + (eta + 6 epsilon) / 4,      H = alpha hi / (1 + alpha hi)

    accepts with probability >= 1 - delta if (1 - epsilon) P <= law <= (1 + epsilon) P everywhere
    rejects with probability >= 1 - delta if the L1 distance of the laws is eta or more (of 2)

for 0 <= epsilon < 1/3 and 6 epsilon < eta <= 2, *provided that the sampler on K follows its law on
the formula, conditioned* ("subquery consistent"): the test sees the sampler on K only. Samplers
under test that say themselves that they promise less on K than on the formula leave it undecided.

Departures from the paper. N, the draws from K, is the smallest for which Chernoff's bound
exp(-N KL(T | p)) gives errors delta / t at p = L and 1/5 at p = H, with T where both meet: the two
errors that the paper's proof uses (there N = 8 ln(t / delta) H / (H - L)^2, by a weaker bound: 4
times as many at alpha = 1, hundreds of times as many where alpha is large). Kernels are built as
`kernel.py` says. Pairs whose alpha would take more than `MOST` draws are left out, and then the
test does not accept.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from nelson.errors import FormulaError, NelsonError, Unsatisfiable
from nelson.formula import Formula
from nelson.judging.ideal import ideal
from nelson.judging.kernel import Kernel, kernel
from nelson.judging.source import Drawn, Source
from nelson.judging.tails import binomial_tails
from nelson.judging.verdict import probability
from nelson.sampling.guarantee import GUARANTEES

#: Draws from one kernel, at most.
MOST = 4_000_000
#: Times that a sampler is asked for the draws that it still owes.
_AGAIN = 8

Answer = tuple[bool | None, str, dict[str, Any]]


@dataclass(frozen=True)
class Design:
    """Constants for (epsilon, eta, delta)."""

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

    def draws(self, log_alpha: float) -> tuple[float, float, float]:
        """(N, T, L); N may be infinite."""
        lo = (1 + self.epsilon) / (1 - self.epsilon)
        hi = 1 + (self.eta + 6 * self.epsilon) / 4
        low, high = (_sigma(log_alpha + math.log(v)) for v in (lo, hi))
        if not 0 < low < high < 1:
            return math.inf, 1.0, low
        false, missed = math.log(self.pairs / self.delta), math.log(5)
        a, b = low, high
        for _ in range(100):
            mid = (a + b) / 2
            if false * _kl(mid, high) > missed * _kl(mid, low):
                a = mid
            else:
                b = mid
        gap = _kl(b, low)
        return (math.ceil(false / gap) if gap > 0 else math.inf), b, low


class Asked(NamedTuple):
    """What the sampler drew from a kernel: how many are its own structure, of how many."""

    own: int = 0
    drawn: int = 0
    unusable: str = ""  # why it says nothing of the sampler's law on the formula
    invalid: int = 0


def barbarik(
    formula: Formula,
    theta: np.ndarray,
    given: tuple[Formula, np.ndarray],
    source: Source,
    design: Design,
    seed: int,
    deadline: float,
    say: Callable[[str], None],
) -> Answer:
    """theta (n,), may be infinite; given: the formula conditioned on that, finite theta."""
    assert source.draw is not None
    t = design.pairs
    evidence: dict[str, Any] = {"epsilon": design.epsilon, "eta": design.eta, "delta": design.delta}
    evidence |= {"pairs": t, "tested": 0, "samples": 0}
    say(f"drawing {t} pairs")
    right, how = ideal(*given, t, seed + 1_000_003, deadline)
    evidence["reference"] = how
    if right is None:
        return None, f"no reference sampler: {how}", evidence
    weighted = theta if np.any(theta) else None
    first = source.draw(formula, weighted, t, seed, max(0.1, (deadline - time.monotonic()) / 2))
    if len(first) < t:
        why = first.info.get("reason", "in time")
        return None, f"{source.name} gave {len(first)} of {t} samples: {why}", evidence
    dear, worst = 0, -math.inf
    for k, (s, r) in enumerate(zip(first.x[:t], right, strict=True)):
        if (s == r).all():
            continue
        log_alpha = float(given[1] @ s - given[1] @ r)
        n, bar, low = design.draws(log_alpha)
        if n > MOST:
            dear += 1
            continue
        say(f"pair {k + 1} of {t}: {n:,.0f} draws, {evidence['samples']:,} so far")
        of_pair = kernel(formula, s, r, int(n), seed + k)
        own_seed = (seed + 1) * 1_000_003 + _AGAIN * k
        asked = _ask(of_pair, weighted, source, (s, r), int(n), own_seed, deadline, first.info)
        if asked.invalid:
            what = f"{asked.invalid} draws from a conditioned formula violate it"
            return False, f"pair {k + 1}: {what}", evidence
        if asked.unusable:
            return None, f"pair {k + 1} of {t}: {asked.unusable}", evidence
        evidence["tested"] += 1
        evidence["samples"] += asked.drawn
        share, right_share = asked.own / asked.drawn, _sigma(log_alpha)
        told = (
            f"pair {k + 1}: {share:.4f} of {asked.drawn:,} draws are the sampler's own structure, "
            f"{right_share:.4f} ideal, {bar:.4f} allowed"
        )
        z = (share - right_share) * math.sqrt(asked.drawn / (right_share * (1 - right_share)))
        if z > worst:
            worst, evidence["worst"] = z, told
        if share > bar:
            p = float(binomial_tails(asked.own, asked.drawn, low)[1])
            return False, f"{told}; {probability(p)} if epsilon-close", evidence
    if dear:
        reason = f"{dear} of {t} pairs differ too much in weight: more than {MOST:,} draws each"
        return None, reason, evidence
    if not evidence["tested"]:
        return True, f"all {t} pairs were of two equal structures", evidence
    return True, f"in none of {t} pairs the sampler's own structure won too often", evidence


def _ask(
    pair_formula: Kernel,
    theta: np.ndarray | None,
    source: Source,
    pair: tuple[np.ndarray, np.ndarray],
    n: int,
    seed: int,
    deadline: float,
    before: dict[str, Any],
) -> Asked:
    """Draws from the kernel. before: what the sampler said of its samples of the formula."""
    assert source.draw is not None
    weights = None if theta is None else np.concatenate([theta, np.zeros(pair_formula.new)])
    own = drawn = 0
    got = Drawn(np.zeros((0, 0), bool), np.zeros(0, np.int64))
    for k in range(_AGAIN):
        left = deadline - time.monotonic()
        if drawn >= n or left <= 0:
            break
        # A sampler that gives up on some of its draws is asked for more.
        more = n - drawn if not drawn else math.ceil(1.1 * (n - drawn) * k * n / drawn)
        try:
            got = source.draw(pair_formula.formula, weights, min(more, MOST), seed + k, left)
        except Unsatisfiable:
            return Asked(unusable="the sampler says that the conditioned formula has no solution")
        except NelsonError as error:
            return Asked(unusable=f"the sampler failed on the conditioned formula: {error}")
        x = got.x[: n - drawn, : len(pair[0])]
        mine, other = (int((x == structure).all(axis=1).sum()) for structure in pair)
        if mine + other < len(x):
            return Asked(invalid=len(x) - mine - other)
        own, drawn = own + mine, drawn + len(x)
        if not len(x):
            break
    if drawn < n:
        short = f"{drawn:,} of {n:,} samples of the conditioned formula in time"
        return Asked(unusable=f"{source.name} gave {short}")
    for key, rank in (("method", None), ("guarantee", GUARANTEES)):
        was, now = before.get(key), got.info.get(key)
        if was is None or now is None or was == now:
            continue
        if rank is None or rank.index(now) < rank.index(was):
            said = f"its {key} is {now!r} on the conditioned formula, {was!r} on the formula"
            return Asked(unusable=f"{source.name} is not the same sampler there: {said}")
    return Asked(own, drawn)


def _sigma(z: float) -> float:
    return 1 / (1 + math.exp(-z)) if z >= 0 else math.exp(z) / (1 + math.exp(z))


def _kl(a: float, p: float) -> float:
    """Of two coins, in nats; 0 <= a <= 1, 0 < p < 1."""
    out = 0.0
    if a > 0:
        out += a * math.log(a / p)
    if a < 1:
        out += (1 - a) * math.log((1 - a) / (1 - p))
    return out
