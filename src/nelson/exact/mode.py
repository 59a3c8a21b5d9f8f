"""The most likely structure: weighted MaxSAT.

    argmax_{x : C(x)} sum_i theta_i x_i

Each variable gives one soft clause: x_i with weight theta_i, or not x_i with weight -theta_i. A
float64 is an integer times a power of two, so all |theta_i| are multiples of one power of two,
2^-s. The solver gets the integers 2^s |theta_i|, divided by their greatest common divisor: nothing
is rounded, and the maximum is the one of exact arithmetic. (Python's integers have no size limit;
the solver's totalizers count literals, not weights.)

Solver: RC2 with stratification (Ignatiev, Morgado, Marques-Silva 2019), core-guided. The worst case
takes exponential time, so there is a budget: seconds, or conflicts, which no clock changes.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from nelson.budget import Budget, TimeUp
from nelson.errors import BudgetExceeded, Unsatisfiable
from nelson.formula import Formula
from nelson.formula.checks import duration
from nelson.kernels.core.deadline import check_time

#: Default budget.
SECONDS = 60.0


def integer_weights(theta: np.ndarray) -> list[int]:
    """Integers in exactly the proportions of finite float64 numbers."""
    ratios = [float(t).as_integer_ratio() for t in theta]
    scale = max((denominator for _, denominator in ratios), default=1)
    whole = [numerator * (scale // denominator) for numerator, denominator in ratios]
    common = math.gcd(*whole) or 1
    return [w // common for w in whole]


def best_row(states: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """The first of the states (m, n) bool of greatest weight; theta (n,) finite. Not rounded: of
    states whose weights floats cannot tell apart, integers decide.
    """
    scores = np.concatenate(
        [some @ theta for some in np.array_split(states, 1 + (states.size >> 24))]
    )
    rounding = 4 * np.finfo(float).eps * len(theta) * np.abs(theta).sum()
    near = np.flatnonzero(scores >= scores.max() - rounding)
    weights = integer_weights(theta)
    exact = [sum(weights[i] for i in np.flatnonzero(states[k]).tolist()) for k in near.tolist()]
    return states[near[exact.index(max(exact))]]


def most_likely(
    formula: Formula,
    theta: np.ndarray,
    seconds: float | None = SECONDS,
    conflicts: int | None = None,
) -> np.ndarray:
    """(n,) log-odds, +-inf being hard evidence -> (n,) bool, a valid structure of greatest weight.

    If several structures have the greatest weight, every call returns the same one of them.
    Raises Unsatisfiable if there is no valid structure, BudgetExceeded if `seconds` or `conflicts`
    of the SAT solver ran out; None: no limit.
    """
    from pysat.examples.rc2 import RC2, RC2Stratified

    began = time.monotonic()
    if seconds is not None:
        duration(seconds)
    problem = _weighted_clauses(formula, theta)
    late = threading.Event()
    # RC2Stratified fails if there is no soft clause.
    kind = RC2Stratified if problem.soft else RC2
    with kind(problem, solver="mgh", adapt=True, minz=True) as solver:
        if conflicts is not None:
            _limit(solver, conflicts)

        def stop() -> None:
            late.set()
            solver.interrupt()

        check_time()
        left = threading.TIMEOUT_MAX
        if seconds is not None:
            left = max(0.0, seconds - (time.monotonic() - began))
        _end_when(late, solver)
        timer = threading.Timer(left, stop)
        timer.start()
        try:
            model = solver.compute(expect_interrupt=True)
        except TimeUp:
            model = None
        finally:
            timer.cancel()
            timer.join()
    if model is None:
        if late.is_set():
            raise BudgetExceeded("the most likely structure was not found in time")
        raise Unsatisfiable("a MaxSAT solver proved that the formula has no solution")
    x = theta > 0  # the value of a variable that is in no clause
    literals = np.array([literal for literal in model if abs(literal) <= len(x)], int)
    x[np.abs(literals) - 1] = literals > 0
    return x


@dataclass
class ModeSearch:
    """The mode of a formula by this search; it answers nothing else."""

    formula: Formula
    budget: Budget
    why: str = "exact: weighted MaxSAT"

    def mode(self, theta: np.ndarray) -> np.ndarray:
        """(n,), may be infinite -> (n,) bool."""
        seconds = None if self.budget.counted else self.budget.left
        return most_likely(self.formula, theta, seconds)


def _end_when(late: threading.Event, solver: Any) -> None:
    """Have RC2 raise TimeUp where it looks at soft clauses and cores one by one: it takes no
    interrupt there.
    """

    def looked(step: Callable[..., Any]) -> Callable[..., Any]:
        def ended(*given: Any, **options: Any) -> Any:
            if late.is_set():
                raise TimeUp("the time was up")
            return step(*given, **options)

        return ended

    solver.oracle.propagate = looked(solver.oracle.propagate)
    for name in ("_call_oracle", "process_am1", "process_core"):
        setattr(solver, name, looked(getattr(solver, name)))


def _limit(solver: Any, conflicts: int) -> None:
    """Have RC2 raise BudgetExceeded after this number of conflicts."""
    # Conflicts that one question to the SAT solver counts as, at least.
    question = 100
    ask, left = solver._call_oracle, conflicts

    def counted(assumptions: Any = (), expect_interrupt: bool = False) -> Any:
        nonlocal left
        if not expect_interrupt:  # RC2 shortens a core, with its own limit
            return ask(assumptions=assumptions)
        before = solver.oracle.accum_stats()["conflicts"]
        solver.oracle.conf_budget(max(left, 1))
        answer = ask(assumptions=assumptions, expect_interrupt=True)
        left -= max(question, solver.oracle.accum_stats()["conflicts"] - before)
        if left <= 0 and answer is not True:
            raise BudgetExceeded(f"no most likely structure was found in {conflicts} conflicts")
        return answer

    solver._call_oracle = counted


def _weighted_clauses(formula: Formula, theta: np.ndarray) -> Any:
    from pysat.formula import WCNF

    problem = WCNF()
    for clause in formula.clauses():
        if not clause:
            raise Unsatisfiable("the formula has an empty clause")
        problem.append(clause)
    infinite = np.isinf(theta)
    for i in np.flatnonzero(infinite).tolist():
        problem.append([i + 1 if theta[i] > 0 else -(i + 1)])
    for i, weight in enumerate(integer_weights(np.where(infinite, 0.0, theta))):
        if i % 4096 == 0:
            check_time()
        if weight:
            problem.append([i + 1 if weight > 0 else -(i + 1)], weight=abs(weight))
    return problem
