"""The law of maximum entropy over the solutions in which literals have given shares.

Of all laws over the solutions of C with P(l_k) = t_k, the one of maximum entropy is
P_theta(x | C), where theta is 0 except for the variables of the literals (Jaynes 1957). theta
maximises the dual, which is concave:

    D(theta) = theta . mu - log Z(theta),    grad D = mu - E_theta[x],    Hessian -Cov_theta(x)

mu holds the shares as means of variables. This is NELSON-CD with given moments in place of data.

Where exact moments are known (`log_z.moments`), Newton steps reach the shares to `tolerance`
(`climb`). Elsewhere the loop of `learn` does the same with samples.

A share of 0 or 1 is evidence: theta = -+inf. If the shares are impossible, D is unbounded, and
`exact.hull` proves that they are. If they lie on the boundary of what is possible, theta goes to
infinity while the shares converge: |theta_i| grows by about 1 as the gap falls by a factor e.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nelson.errors import BudgetExceeded, FormulaError, ImpossibleShares, Unsatisfiable
from nelson.exact.compiled import Compiled
from nelson.exact.enumerated import Enumerated, finite
from nelson.exact.hull import Cut, separate
from nelson.formula import Formula
from nelson.formula.checks import checked_theta, duration, evidence_literals
from nelson.learning.climb import climb
from nelson.learning.data import Targets
from nelson.learning.loop import Options, run
from nelson.learning.newton import Newton
from nelson.learning.seeds import OUTSIDE_ITERATIONS
from nelson.learning.settings import settings_for
from nelson.log_z.moments import condition, moments_of
from nelson.sampling.guarantee import weakest
from nelson.sampling.sample_stream import sample

TOLERANCE = 1e-9
#: Where samples estimate the moments, the loop draws four times as many in a step, and averages
#: eight steps: the shares under theta are then off by 0.0007 at most (standard error).
_EXAMPLES = 1 << 14
_BOUND = 50.0  # of |theta_i|, there
_KNOWN_SOLUTIONS = 4096  # drawn to see what is possible
_PROOF_SECONDS = 20.0  # for the search of a proof that the shares are impossible
_SIGMAS = 6.0  # standard errors by which a share may differ
#: If the last Newton step was longer than this, the maximum is at infinity.
_STILL_MOVING = 0.5


@dataclass(frozen=True, eq=False)
class Match:
    """theta (n,), 0 (or `base`) except for the variables of the literals, and what it achieves.

    achieved, errors  P_theta of each literal, (k,), and the standard errors; 0 if exact
    guarantee         "exact": the shares are computed. "asymptotic": estimated from samples of the
                      right law. "heuristic": from samples of an unknown law
    converged         every share is as asked for, to the tolerance or within its noise
    why               the same in words, with figures
    """

    theta: np.ndarray
    literals: tuple[int, ...]
    targets: np.ndarray
    achieved: np.ndarray
    errors: np.ndarray
    guarantee: str
    converged: bool
    why: str
    iterations: int
    seconds: float


def match(
    formula: Formula,
    literals: Iterable[int],
    targets: Iterable[float],
    *,
    groups: Iterable[Sequence[int]] | None = None,
    base: Any = None,
    seconds: float | None = None,
    seed: int | None = None,
    tolerance: float = TOLERANCE,
) -> Match:
    """theta such that P_theta(literals[k] is true) = targets[k] for all k.

    literals  of visible variables; they may depend on each other.
    groups    places in `literals` (from 0), exactly one literal of each group holding in every
              solution: the values of a field. They serve for clear messages only.
    base      (n,) log-odds to start from, with +-inf as evidence; None: uniform. The result is then
              the law nearest to P_base (in relative entropy) that has the shares.
    seconds   time limit: what was reached by then is returned, and `why` says so.
    tolerance largest difference of a share, where the moments are exact. Where samples estimate
              them, their noise decides instead.

    Raises ImpossibleShares, with a proof, if no law over the solutions has these shares;
    Unsatisfiable if there is no solution.

    Cost where moments are exact: about ten iterations, each of some tens of passes over the circuit
    or over the enumerated solutions. Milliseconds for a circuit of 10,000 edges.
    """
    started = time.monotonic()
    until = math.inf if seconds is None else started + duration(seconds)
    task = _task(formula, literals, targets, groups, base, tolerance, until)
    source = moments_of(formula)
    if source is None and task.given is not formula:  # evidence may leave a formula that compiles
        source = moments_of(task.given)
    found = _sampled(task, seed) if source is None else _exact(task, source, seed)
    return Match(
        literals=tuple(task.literals.tolist()),
        targets=task.targets,
        seconds=time.monotonic() - started,
        **found,
    )


@dataclass(frozen=True)
class _Task:
    formula: Formula
    given: Formula  # the formula under the evidence of the caller's base
    literals: np.ndarray  # (k,)
    targets: np.ndarray  # (k,)
    groups: list[list[int]]
    base: np.ndarray  # (n,), as the caller gave it
    start: np.ndarray  # (n,), base with the evidence of shares 0 and 1
    free: np.ndarray  # variables (from 0) whose theta moves
    mu: np.ndarray  # the E[x] to reach, of these
    tolerance: float
    until: float

    def shares(self, mean: np.ndarray) -> np.ndarray:
        """E[x] (n,) -> the share of each literal, (k,)."""
        mean = mean[np.abs(self.literals) - 1]
        return np.where(self.literals > 0, mean, 1 - mean)

    def left(self) -> float | None:
        """Seconds, 1 at least; None: no limit."""
        return None if math.isinf(self.until) else max(1.0, self.until - time.monotonic())

    def refuse_impossible(self, known: np.ndarray, complete: bool = False) -> str:
        """Raise ImpossibleShares if that can be proved. Returns a remark if it is not known."""
        literals, targets = self.literals.tolist(), self.targets.tolist()
        try:
            cut = separate(
                self.given,
                literals,
                targets,
                known,
                complete=complete,
                groups=self.groups,
                tolerance=self.tolerance,
                seconds=min(_PROOF_SECONDS, self.left() or math.inf),
            )
        except BudgetExceeded as error:
            return f"; {error}"
        if cut is None:
            return ""
        raise ImpossibleShares(
            _in_words(cut, literals, targets),
            expected="shares that some mixture of solutions has",
            literals=tuple(literals),
            targets=tuple(targets),
            **vars(cut),
        )


def _task(
    formula: Formula,
    literals: Iterable[int],
    targets: Iterable[float],
    groups: Iterable[Sequence[int]] | None,
    base: Any,
    tolerance: float,
    until: float,
) -> _Task:
    """Check the arguments, and turn literals into variables."""
    wanted = evidence_literals(list(literals), formula.n_vars).astype(np.int64)
    shares = np.array(list(targets), np.float64)
    if shares.shape != wanted.shape:
        raise FormulaError(f"{len(shares)} shares", expected=f"one for each of {len(wanted)}")
    for literal, share in zip(wanted.tolist(), shares.tolist(), strict=True):
        if not 0 <= share <= 1:
            raise FormulaError(f"a share of {share:g} for literal {literal}", expected="0 to 1")
    if not 0 < tolerance < 1:
        raise FormulaError(f"tolerance = {tolerance!r}", expected="above 0, below 1")
    fields = [[int(i) for i in group] for group in groups or ()]
    if not all(0 <= i < len(wanted) for group in fields for i in group):
        raise FormulaError("a group with a place outside `literals`", expected="0 to k - 1")
    begin = checked_theta(np.zeros(formula.n_vars) if base is None else base, formula.n_vars)
    assert begin is not None
    # A variable may stand for several literals. If their shares disagree, the first one counts
    # here, and the other is found to be impossible.
    free, first = np.unique(np.abs(wanted) - 1, return_index=True)
    mu = np.where(wanted > 0, shares, 1 - shares)[first]
    open_ = np.isfinite(begin[free])
    certain = open_ & ((mu == 0) | (mu == 1))
    start = begin.copy()
    start[free[certain]] = np.where(mu[certain] == 1, np.inf, -np.inf)
    moves = open_ & ~certain
    return _Task(
        formula,
        condition(formula, begin),
        wanted,
        shares,
        fields,
        begin,
        start,
        free[moves],
        mu[moves],
        tolerance,
        until,
    )


def _exact(task: _Task, source: Enumerated | Compiled, seed: int | None) -> dict[str, Any]:
    """From exact moments."""
    doubts: list[str] = []

    def suspect() -> None:
        if isinstance(source, Enumerated):
            fixed = np.isinf(task.base)
            agree = (source.states[:, fixed] == (task.base[fixed] > 0)).all(axis=1)
            doubts.append(task.refuse_impossible(source.states[agree], complete=True))
        else:
            known = source.draw(task.base[None], _KNOWN_SOLUTIONS, seed or 0)[0]
            doubts.append(task.refuse_impossible(known))

    try:
        end = climb(source, task.start, task.free, task.mu, task.tolerance, task.until, suspect)
    except Unsatisfiable:  # under the evidence of shares 0 and 1
        suspect()
        raise
    achieved = task.shares(end.mean)
    gap = float(np.abs(achieved - task.targets).max(initial=0.0))
    converged = gap <= task.tolerance
    if converged:
        why = f"every share is within {gap:.1e} of its target ({source.why})"
        if end.last_move > _STILL_MOVING:
            why += (
                "; the shares lie on the boundary of what is possible, so that theta would go to "
                f"infinity: it has stopped at {np.abs(end.theta[task.free]).max():.1f}"
            )
    else:
        if not doubts:
            suspect()
        why = f"shares are off by up to {gap:.1e} after {end.iterations} iterations"
        why = ("the time was up: " if end.late else "") + why + "".join(doubts)
    return {
        "theta": end.theta,
        "achieved": achieved,
        "errors": np.zeros(len(achieved)),
        "guarantee": "exact",
        "converged": converged,
        "why": why,
        "iterations": end.iterations,
    }


def _sampled(task: _Task, seed: int | None) -> dict[str, Any]:
    """From samples: the loop of `learn`, with the shares in place of the data's moments."""
    base = finite(task.base)
    known = sample(
        task.given, base, _KNOWN_SOLUTIONS, project="all", seed=seed, seconds=task.left()
    )
    doubt = task.refuse_impossible(known.to_numpy())
    given = condition(task.formula, task.start)
    moments = np.full(given.n_vars, np.nan)
    moments[task.free] = task.mu
    settings = settings_for("default", prior=0.0, bound=_BOUND)
    learner = Newton(given, Targets.of(moments, _EXAMPLES), settings, base if base.any() else None)
    options = Options(sampler="auto", seed=seed, seconds=task.left(), progress=False)
    outcome = run(learner, options)
    found = learner.result()
    draw = learner.drawer(found, learner.m, OUTSIDE_ITERATIONS + 2)
    if not draw.count:
        raise BudgetExceeded("the sampler finds no valid sample under the theta that was found")
    achieved = task.shares(draw.mean)
    gap = float(np.abs(achieved - task.targets).max(initial=0.0))
    errors = np.sqrt(achieved * (1 - achieved) / draw.count)
    # The test of the loop does not see literals that evidence fixes, nor the second of two shares
    # of one variable.
    off = np.abs(achieved - task.targets) > _SIGMAS * errors + task.tolerance
    why = (
        f"{outcome.why}; in {draw.count:,} fresh samples every share is within {gap:.1e} of its "
        f"target, standard errors are up to {errors.max(initial=0.0):.1e}{doubt}"
    )
    if off.any():
        first = int(np.flatnonzero(off)[0])
        why = f"the share of literal {task.literals[first]} differs by more than noise; {why}"
    return {
        "theta": np.where(np.isinf(task.start), task.start, found),
        "achieved": achieved,
        "errors": errors,
        "guarantee": weakest(["asymptotic", outcome.guarantee, draw.guarantee]),
        "converged": outcome.converged and not off.any(),
        "why": why,
        "iterations": len(outcome.history),
    }


def _in_words(cut: Cut, literals: list[int], targets: list[float]) -> str:
    """What every solution obeys and the shares do not."""
    up = [i for i, d in enumerate(cut.direction) if d > 0]
    down = [i for i, d in enumerate(cut.direction) if d < 0]
    plain = max(map(abs, cut.direction)) == 1
    if plain and cut.highest == 0 and len(up) == 1 and down:
        [one] = up
        named = ", ".join(str(literals[i]) for i in down)
        several = len(down) > 1
        return (
            f"a share of {targets[one]:.10g} for literal {literals[one]}: every solution with it "
            f"has {'one of ' * several}{named}, whose {'shares sum to' if several else 'share is'} "
            f"{sum(targets[i] for i in down):.10g}"
        )
    # An upper limit for a sum of literals: -[l] is [not l] - 1.
    shift = -sum(cut.direction[i] for i in down)
    highest, asked = cut.highest + shift, cut.asked + shift
    if plain and len(up + down) == 1:
        literal = literals[up[0]] if up else -literals[down[0]]
        return f"a share of {asked:.10g} for literal {literal}, which holds in no solution"
    parts = []
    for i in sorted(up + down):
        d, literal = cut.direction[i], literals[i]
        parts.append(f"{abs(d)} x " * (abs(d) > 1) + str(literal if d > 0 else -literal))
    return (
        f"shares that sum to {asked:.10g} for the literals {', '.join(parts)}, of which at most "
        f"{highest} can hold in one solution"
    )
