"""The law of maximum entropy over the solutions in which literals have given shares.

Of all laws over the solutions of C with P(l_k) = t_k, the one of maximum entropy is
P_theta(x | C), where theta is 0 except for the variables of the literals (Jaynes 1957). theta
maximises the dual, which is concave:

    D(theta) = theta . mu - log Z(theta),    grad D = mu - E_theta[x],    Hessian -Cov_theta(x)

mu holds the shares as means of variables. This is NELSON-CD with given moments in place of data.

Where exact moments are known (`log_z.moments`), Newton steps reach the shares to `tolerance`
(`optimum.minimise`). Elsewhere the loop of `learn` does the same with samples.

A share of 0 or 1 is evidence: theta = -+inf. If the shares are impossible, D is unbounded, and
`exact.hull` proves that they are. If they lie on the boundary of what is possible, theta goes to
infinity while the shares converge: |theta_i| grows by about 1 as the gap falls by a factor e.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nelson.budget import Budget
from nelson.chains.guarantee import weakest
from nelson.errors import BudgetExceeded, FormulaError, ImpossibleShares, Unsatisfiable
from nelson.exact.enumerated import finite
from nelson.exact.hull import Cut, separate
from nelson.exact.law import Law
from nelson.formula import Formula
from nelson.formula.checks import checked_theta, evidence_literals, evidence_of
from nelson.learning.data import Targets
from nelson.learning.group import OUTSIDE_ITERATIONS
from nelson.learning.loop import Loop
from nelson.learning.newton import NewtonSteps
from nelson.learning.optimizers import Newton
from nelson.learning.optimum import minimise, newton_step
from nelson.log_z.moments import condition, moments_of
from nelson.policy import DEFAULT, Policy
from nelson.sampling.sample_stream import sample


@dataclass(frozen=True, eq=False)
class Match:
    """theta (n,), 0 (or `base`) except for the variables of the literals, and what it achieves.

    achieved, errors  P_theta of each literal, (k,), and the standard errors; 0 if exact
    guarantee         "exact": the shares are computed. "diagnosed": estimated from samples of the
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
    budget: Budget | None = None,
    seed: int | None = None,
    tolerance: float = 1e-9,
    policy: Policy = DEFAULT,
) -> Match:
    """theta such that P_theta(literals[k] is true) = targets[k] for all k.

    literals  of visible variables; they may depend on each other.
    groups    places in `literals` (from 0), exactly one literal of each group holding in every
              solution: the values of a field. They serve for clear messages only.
    base      (n,) log-odds to start from, with +-inf as evidence; None: uniform. The result is then
              the law nearest to P_base (in relative entropy) that has the shares.
    budget    what was reached when it is spent is returned, and `why` says so.
    tolerance largest difference of a share, where the moments are exact. Where samples estimate
              them, their noise decides instead.
    policy    `policy.fit` says how the budget is divided, and when a proof is looked for.

    Raises ImpossibleShares, with a proof, if no law over the solutions has these shares;
    Unsatisfiable if there is no solution.

    Cost where moments are exact: about ten iterations, each of some tens of passes over the circuit
    or over the enumerated solutions. Milliseconds for a circuit of 10,000 edges.
    """
    started, budget = time.monotonic(), budget or Budget()
    task = _task(formula, literals, targets, groups, base, tolerance, budget, policy)
    share = policy.fit.exact_share
    source = moments_of(formula, budget=budget.share(share))
    if source is None and task.given is not formula:  # evidence may leave a formula that compiles
        source = moments_of(task.given, budget=budget.share(share))
    outcome = _sampled(task, seed) if source is None else _exact(task, source, seed)
    return Match(
        literals=tuple(task.literals.tolist()),
        targets=task.targets,
        seconds=time.monotonic() - started,
        **outcome,
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
    budget: Budget
    policy: Policy

    def shares(self, mean: np.ndarray) -> np.ndarray:
        """E[x] (n,) -> the share of each literal, (k,)."""
        mean = mean[np.abs(self.literals) - 1]
        return np.where(self.literals > 0, mean, 1 - mean)

    def refuse_impossible(self, known: np.ndarray, complete: bool = False) -> str:
        """Raise ImpossibleShares if that can be proved. Returns a remark if it is not known."""
        literals, targets = self.literals.tolist(), self.targets.tolist()
        limits = self.policy.fit
        if self.budget.spent:
            return "; the time was up before it was known whether the shares are possible"
        try:
            cut = separate(
                self.given,
                literals,
                targets,
                known,
                complete=complete,
                groups=self.groups,
                tolerance=self.tolerance,
                budget=self.budget.share(limits.proof_share).within(limits.proof_seconds),
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
    budget: Budget,
    policy: Policy,
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
        budget,
        policy,
    )


class _Dual:
    """-D as a function of the theta of the free variables, from exact moments.

    last_move  the largest |change of theta_i| in the last Newton step. Near a maximum these shrink
               quadratically. If the maximum is at infinity they stay near 1 or above
    doubt      what is known of impossible shares; None: not asked yet
    """

    def __init__(self, task: _Task, source: Law, seed: int | None) -> None:
        self.task, self.source, self.seed = task, source, seed
        self.theta, self.mean = task.start.copy(), task.start
        self.steps, self.last_move = 0, 0.0
        self.doubt: str | None = None

    def gradient(self, at: np.ndarray) -> np.ndarray:
        self.theta[self.task.free] = at
        self.mean = self.source.mean(self.theta[None])[0]
        return self.mean[self.task.free] - self.task.mu

    def step(self, at: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """The first step is right for independent variables; the others are Newton's."""
        task, mean = self.task, self.mean[self.task.free]
        self.steps += 1
        if self.steps == 1:
            step = _logit(task.mu) - _logit(mean)
            return np.where(np.isfinite(step), step, 0.0)
        far = np.abs(at - task.start[task.free]).max() > task.policy.fit.far
        if self.doubt is None and (far or self.steps > task.policy.fit.many_steps):
            self.suspect()
        step = newton_step(self._covariance_times, gradient, mean * (1 - mean))
        self.last_move = float(np.abs(step).max())
        return step

    def _covariance_times(self, v: np.ndarray) -> np.ndarray:
        wide = np.zeros(len(self.theta))
        wide[self.task.free] = v
        return self.source.pull(self.theta[None], wide[None])[0][self.task.free]

    def suspect(self, known: int = 4096) -> None:
        """Raise ImpossibleShares if that can be proved, from all solutions or `known` of them."""
        task, n = self.task, self.task.formula.n_vars
        given = self.source.given(evidence_of(task.formula, None, task.base))
        states = given.rows(self.task.policy.exact.few_cells // max(1, n), np.arange(n))
        complete = states is not None
        if states is None:
            states = self.source.draw(task.base[None], known, self.seed or 0)[0]
        self.doubt = task.refuse_impossible(states, complete=complete)


def _logit(p: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):  # a computed mean may be 1 + 1e-16
        return np.log(p) - np.log1p(-p)


def _exact(task: _Task, source: Law, seed: int | None) -> dict[str, Any]:
    """From exact moments."""
    dual = _Dual(task, source, seed)
    try:
        end = minimise(
            dual.gradient,
            task.start[task.free],
            direction=dual.step,
            tolerance=task.tolerance,
            evaluations=300,
            budget=task.budget,
        )
    except Unsatisfiable:  # under the evidence of shares 0 and 1
        dual.suspect()
        raise
    achieved = task.shares(dual.mean)
    gap = float(np.abs(achieved - task.targets).max(initial=0.0))
    converged = gap <= task.tolerance
    if converged:
        why = f"every share is within {gap:.1e} of its target ({source.why})"
        if dual.last_move > 0.5:  # still moving
            why += (
                "; the shares lie on the boundary of what is possible, so that theta would go to "
                f"infinity: it has stopped at {np.abs(end.at).max():.1f}"
            )
    else:
        late = "the time was up: " if task.budget.spent else ""
        if dual.doubt is None:
            dual.suspect()
        why = f"{late}shares are off by up to {gap:.1e} after {end.evaluations} iterations"
        why += dual.doubt or ""
    return {
        "theta": dual.theta,
        "achieved": achieved,
        "errors": np.zeros(len(achieved)),
        "guarantee": "exact",
        "converged": converged,
        "why": why,
        "iterations": end.evaluations,
    }


def _sampled(task: _Task, seed: int | None, known_solutions: int = 4096) -> dict[str, Any]:
    """From samples: the loop of `learn`, with the shares in place of the data's moments.

    known_solutions: are drawn to see what is possible.
    """
    base = finite(task.base)
    known = sample(
        task.given,
        base,
        known_solutions,
        project="all",
        seed=seed,
        threads=task.budget.threads,
        seconds=None
        if task.budget.counted
        else task.budget.share(task.policy.fit.proof_share).left,
    )
    doubt = task.refuse_impossible(known.to_numpy())
    given = condition(task.formula, task.start)
    moments = np.full(given.n_vars, np.nan)
    moments[task.free] = task.mu
    settings = Newton(prior=0.0, bound=50.0)
    start = base if base.any() else None
    learner = NewtonSteps(given, Targets.of(moments, task.policy.fit.examples), settings, start)
    budget = task.budget.share(task.policy.fit.loop_share)
    outcome = Loop(learner, seed=seed, budget=budget).outcome()
    learner.drawer.budget = task.budget  # the last draw has the rest of the time
    theta = learner.result()
    draw = learner.drawer(theta, learner.m, OUTSIDE_ITERATIONS + 2)
    if not draw.count and task.budget.spent:
        raise BudgetExceeded("the time was up before the shares under theta could be estimated")
    if not draw.count:
        raise BudgetExceeded("the sampler finds no valid sample under the theta that was found")
    achieved = task.shares(draw.mean)
    gap = float(np.abs(achieved - task.targets).max(initial=0.0))
    errors = np.sqrt(achieved * (1 - achieved) / draw.count)
    # The test of the loop does not see literals that evidence fixes, nor the second of two shares
    # of one variable.
    off = np.abs(achieved - task.targets) > task.policy.fit.sigmas * errors + task.tolerance
    why = (
        f"{outcome.why}; in {draw.count:,} fresh samples every share is within {gap:.1e} of its "
        f"target, standard errors are up to {errors.max(initial=0.0):.1e}{doubt}"
    )
    if off.any():
        first = int(np.flatnonzero(off)[0])
        why = f"the share of literal {task.literals[first]} differs by more than noise; {why}"
    return {
        "theta": np.where(np.isinf(task.start), task.start, theta),
        "achieved": achieved,
        "errors": errors,
        "guarantee": weakest(["diagnosed", outcome.guarantee, draw.guarantee]),
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
        [place] = up
        named = ", ".join(str(literals[i]) for i in down)
        several = len(down) > 1
        return (
            f"a share of {targets[place]:.10g} for literal {literals[place]}: every solution with "
            f"it has {'one of ' * several}{named}, whose "
            f"{'shares sum to' if several else 'share is'} {sum(targets[i] for i in down):.10g}"
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
