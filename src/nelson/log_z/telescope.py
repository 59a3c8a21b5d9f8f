"""log P(C) by adding the clauses in groups and sampling one ratio a group.

    log P(C) = log P(G_0) + sum_g log P(G_g | G_0, .., G_(g-1))

G_0 is a maximal set of clauses that share no variable: its factor is known. Each later ratio r_g is
the fraction, among N_g samples that satisfy the earlier groups, of those that satisfy group g too.
A pilot cuts the groups so that r_g is about 1/3: with cost c a sample and A nats in steps of a, the
work for a given variance grows with (e^a - 1) / a^2, which is flat from a = 0.9 to 2.4. Samples
then go where they pay, N_g ~ sqrt((1/r_g - 1) / c_g). Only the components that a group touches are
sampled. The method is Jerrum, Valiant, Vazirani 1986 with the sampler of Guo, Jerrum, Liu 2019.

The interval adds three things:
- noise: log r has variance (1/r - 1)/N, r by (k + 2)/(N + 4) so that k = N still has some; 1.96
  standard deviations of the sum, whose terms are independent (a seed each);
- bias of samples that are only asymptotically right: `mixing` found the lag at which correlations
  fall to rho, and 3 lags are run. A second, smaller run stops after 1 lag. If bias falls by rho a
  lag, what is left is (difference of the two) rho^2 / (1 - rho^2), plus 2 of its own deviations;
- rounding: the sampler's probabilities are multiples of 2^-32, and |d log P / d theta_i| <= 1.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from nelson.errors import BudgetExceeded, Unsatisfiable
from nelson.exact.reduce import Part
from nelson.log_z.result import Z95
from nelson.log_z.stages import Conditional, How, choose, draw, surviving

#: A group is closed once fewer of the pilot's samples than this survive it.
RATIO = 1 / 3
#: Samples of a pilot, and the least a ratio is taken from.
PILOT, LEAST = 4096, 1024
#: Samples drawn at once, and of a pilot that looks for a clause that seldom holds.
CHUNK, SEARCH = 1 << 17, 1 << 18
#: The run at one lag gets this share of a stage's samples.
REFERENCE = 0.125
#: Aim a little below the half width asked for; runs that miss it are extended.
AIM, EXTENSIONS = 0.97, 4
#: With a rounding error above this, in nats, an interval would tell nothing.
RESOLUTION = 5.0


@dataclass
class Stage:
    """One ratio: clauses [first, last) of the ordered list, given those before."""

    first: int
    last: int
    how: How
    guess: float  # of the ratio, by the pilot
    cost: float  # of a sample, relative to the other stages
    seconds: float  # of a sample, as the pilot took them: only a budget looks at this
    held: int = 0  # of `drawn` samples, how many satisfy the group
    drawn: int = 0
    held_early: int = 0  # the same after one lag
    drawn_early: int = 0
    chunks: int = field(default=0, repr=False)

    @property
    def wanted(self) -> float:
        """Samples in proportion to this give the least variance for the time."""
        return math.sqrt((1 / self.guess - 1) / self.cost)

    def bias(self) -> tuple[float, float]:
        """(what may be left of the bias, its variance)."""
        if not self.drawn_early:
            return 0.0, 0.0
        factor = self.how.rho**2 / (1 - self.how.rho**2)
        a, b = _log_ratio(self.held, self.drawn), _log_ratio(self.held_early, self.drawn_early)
        return factor * (b[0] - a[0]), factor**2 * (a[1] + b[1])


@dataclass(frozen=True)
class Estimate:
    log_p: float
    half_width: float
    info: dict[str, Any]


def _log_ratio(held: int, drawn: int) -> tuple[float, float]:
    """(log of held/drawn, its variance): bias O(N^-2), and never a variance of 0."""
    smooth = (held + 2) / (drawn + 4)
    return math.log((held + 0.5) / (drawn + 0.5)), (1 / smooth - 1) / drawn


class Telescope:
    """A run: `cut` makes the stages, `extend` draws, `estimate` reads them."""

    def __init__(
        self, part: Part, seed: int, threads: int | None, deadline: float, device: Any = None
    ) -> None:
        self.part, self.known, self.base = ordered(part)
        self.seed, self.threads, self.deadline = seed, threads, deadline
        self.device = device
        self.stages: list[Stage] = []

    def numbers(self, stage: int, purpose: int, chunk: int = 0) -> int:
        """An independent seed for each draw."""
        words = np.random.SeedSequence([self.seed, stage, purpose, chunk]).generate_state(2)
        return int(words[0]) << 31 ^ int(words[1])

    def left(self) -> float:
        return self.deadline - time.monotonic()

    # --- groups -----------------------------------------------------------------------------------

    def cut(self) -> None:
        """Cut the clauses into groups. The pilot's samples are not used again: they chose."""
        first, prs = self.known, True
        log_holds = np.log1p(-np.minimum(_violation(self.part), 1 - 1e-16))
        reach = np.concatenate([[0.0], np.cumsum(log_holds)])
        while first < self.part.n_clauses:
            if self.left() <= 0:
                done = f"{first} of {self.part.n_clauses} clauses"
                raise BudgetExceeded(f"the time was up after pilots for {done}")
            window = int(np.searchsorted(-reach, -reach[first] - 3 * math.log(RATIO), "right"))
            window = min(max(window, first + 1), self.part.n_clauses)
            stage = self._pilot(first, window, prs)
            prs = stage.how.guarantee == "exact"  # else the next, with more clauses, is worse
            self.stages.append(stage)
            first = stage.last

    def _pilot(self, first: int, window: int, prs: bool) -> Stage:
        given = Conditional.of(self.part, first, window)
        number, count = len(self.stages), PILOT
        how = choose(given, self.threads, self.left(), self.numbers(number, 0), prs)
        while True:
            began = time.monotonic()
            drawn = draw(
                given,
                how,
                count,
                self.numbers(number, 1, count),
                self.threads,
                self.left(),
                device=self.device,
            )
            if drawn.count == 0:
                raise BudgetExceeded(
                    f"no sample of {first} of {self.part.n_clauses} clauses ({drawn.reason})"
                )
            each = (time.monotonic() - began) / count
            alive = surviving(given, drawn, RATIO)
            if alive[0] > 0 or count == SEARCH:
                break
            self._prove_or_continue()
            count = SEARCH
        if alive[0] == 0:
            raise BudgetExceeded(
                f"clause {first + 1} (in the order used) holds in fewer than one of "
                f"{drawn.count} samples of those before it"
            )
        groups = int((alive >= RATIO * drawn.count).sum())  # alive never grows
        groups = max(groups, 1)
        guess = (alive[groups - 1] + 0.5) / (drawn.count + 1)
        return Stage(first, first + groups, how, float(guess), how.cost(given.formula), each)

    def _prove_or_continue(self) -> None:
        from nelson.exact import solver
        from nelson.formula import Formula

        f = Formula.from_arrays(self.part.literals, self.part.offsets, n_vars=self.part.n)
        if solver.satisfiable(f, seconds=max(self.left(), 1.0)) is False:
            raise Unsatisfiable("a CDCL solver proved that the formula has no solution")

    # --- samples ----------------------------------------------------------------------------------

    def extend(self, totals: list[int]) -> bool:
        """Draw until stage g has totals[g] samples. False: the time was up first."""
        return all(self._extend(g, total) for g, total in enumerate(totals))

    def _extend(self, g: int, total: int) -> bool:
        stage = self.stages[g]
        if stage.drawn >= total:
            return True
        given = Conditional.of(self.part, stage.first, stage.last)
        while stage.drawn < total:
            count = min(CHUNK, -(-(total - stage.drawn) // 64) * 64)
            got = self._one(given, stage.how, g, stage.chunks, count)
            if got is None:
                return False
            stage.held, stage.drawn = stage.held + got[0], stage.drawn + got[1]
            if got[2] == "heuristic":  # some variables could not move at all
                stage.how = replace(stage.how, guarantee="heuristic")
            if stage.how.lag:
                early = replace(stage.how, sweeps=stage.how.lag)
                count = max(-(-int(REFERENCE * count) // 64) * 64, LEAST)
                got = self._one(given, early, g, -1 - stage.chunks, count)
                if got is None:
                    return False
                stage.held_early += got[0]
                stage.drawn_early += got[1]
            stage.chunks += 1
        return True

    def _one(self, given: Conditional, how: How, g: int, chunk: int, count: int) -> Any:
        """(held, drawn, guarantee), or None if the time was up: a draw cut short leaves nothing."""
        if self.left() <= 0:
            return None
        seed = self.numbers(g, 2 if chunk >= 0 else 3, abs(chunk))
        drawn = draw(given, how, count, seed, self.threads, self.left(), device=self.device)
        if drawn.late or not drawn.count:
            return None
        return int(surviving(given, drawn)[-1]), drawn.count, drawn.guarantee

    # --- the answer -------------------------------------------------------------------------------

    def estimate(self) -> Estimate:
        pairs = [_log_ratio(stage.held, stage.drawn) for stage in self.stages]
        biases = [stage.bias() for stage in self.stages]
        noise = Z95 * math.sqrt(sum(variance for _, variance in pairs))
        bias = abs(sum(b for b, _ in biases)) + 2 * math.sqrt(sum(v for _, v in biases))
        rounding = _rounding(self.part)
        worst = ["exact", "approximate", "asymptotic", "heuristic"]
        info = {
            "samples": sum(stage.drawn + stage.drawn_early for stage in self.stages),
            "stages": [
                {
                    "clauses": stage.last - stage.first,
                    "ratio": stage.held / stage.drawn,
                    "samples": stage.drawn,
                    "method": stage.how.method,
                    "sweeps": stage.how.sweeps,
                }
                for stage in self.stages
            ],
            "noise": noise,
            "bias": bias,
            "rounding": rounding,
            "guarantee": max(
                (s.how.guarantee for s in self.stages), key=worst.index, default="exact"
            ),
        }
        log_p = self.base + sum(value for value, _ in pairs)
        return Estimate(log_p, noise + bias + rounding, info)


def telescope(
    part: Part,
    half_width: float,
    seed: int,
    threads: int | None,
    seconds: float,
    device: Any = None,
) -> Estimate:
    """log P(part holds) with a 95% half width of at most `half_width`, or what the time allows.

    Raises BudgetExceeded if the time ends before every ratio has some samples.
    """
    if _rounding(part) > RESOLUTION:
        far = float(np.abs(part.theta).max())
        raise BudgetExceeded(f"|theta| = {far:.3g} is beyond the sampler's resolution")
    run = Telescope(part, seed, threads, time.monotonic() + seconds, device)
    run.cut()
    if not run.stages:
        estimate = run.estimate()
        estimate.info["reached"] = True
        return estimate
    if not run.extend([LEAST] * len(run.stages)):
        raise BudgetExceeded(f"{seconds:.3g} s were too short for {len(run.stages)} ratios")
    wanted = np.array([stage.wanted for stage in run.stages])
    each = np.array([stage.seconds for stage in run.stages])
    variance = np.array([1 / stage.guess - 1 for stage in run.stages])
    scale = (variance / wanted).sum() / (AIM * half_width / Z95) ** 2
    for _ in range(EXTENSIONS):
        affordable = 0.9 * run.left() / max(float(wanted @ each), 1e-12)
        totals = np.maximum(wanted * min(scale, affordable), LEAST).astype(np.int64)
        finished = run.extend(totals.tolist()) and scale <= affordable
        estimate = run.estimate()
        # More samples mend noise, and the bias of a chain that mixes: its bound is mostly noise.
        mendable = estimate.info["noise"]
        if estimate.info["guarantee"] != "heuristic":
            mendable += estimate.info["bias"]
        room = half_width - estimate.info["rounding"]
        if mendable <= room or not finished or room <= 0:
            break
        scale *= (mendable / (AIM * room)) ** 2
    estimate.info["reached"] = estimate.half_width <= half_width
    return estimate


# --- shared pieces --------------------------------------------------------------------------------


def _violation(part: Part) -> np.ndarray:
    """p_j of each clause under the product law."""
    literals = part.literals
    log_false = part.log_p[np.abs(literals) - 1, (literals < 0).astype(np.int64)]
    return np.exp(np.add.reduceat(log_false, part.offsets[:-1])) if len(literals) else np.zeros(0)


def _rounding(part: Part) -> float:
    """Sum over variables of the change of log-odds by rounding p to multiples of 2^-32."""
    from nelson.kernels.core.reference import threshold

    p = threshold(part.theta).astype(np.float64) / 2.0**32
    with np.errstate(divide="ignore"):
        return float(np.abs(np.log(p) - np.log1p(-p) - part.theta).sum())


def ordered(part: Part) -> tuple[Part, int, float]:
    """G_0, taken greedily, before the other clauses; how many are in it; and log P(G_0)."""
    taken = np.zeros(part.n, bool)
    front = np.zeros(part.n_clauses, bool)
    for j in range(part.n_clauses):
        own = np.abs(part.literals[part.offsets[j] : part.offsets[j + 1]]) - 1
        if not taken[own].any():
            taken[own] = front[j] = True
    lengths = np.diff(part.offsets)
    order = np.argsort(~front, kind="stable")
    ends = np.concatenate([[0], np.cumsum(lengths[order])])
    at = np.arange(ends[-1]) + np.repeat(part.offsets[order] - ends[:-1], lengths[order])
    base = float(np.log1p(-_violation(part)[front]).sum())
    return Part(part.literals[at], ends, part.theta), int(front.sum()), base
