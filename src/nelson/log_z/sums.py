"""Sums over tables: all of them if a formula is narrow, else given the values of a few units.

    P(C) = sum over h of W(h),     W(h) = P(h) * sum over all else of P(rest) C(h, rest)

h are the values of the *held* units. A unit is a variable, or a field of which at most one variable
is true (`chains/moves/factor_graph.py`). All other units are summed out one by one, in tables of at
most 2^width entries (`kernels/cpu/cutset.py`): 64 values of h at a time. If there are few h, all of
them are summed, and P(C) is exact up to the rounding of floats (cutset conditioning: Pearl 1986).
That needs neither a solver nor a child process. If there are many, `bridge.py` samples them.

Units with many neighbours are held first. A feature model of 500 features has 23 held units at
width 12, a Kconfig of 2,500 symbols 110 at width 8.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nelson.budget import Budget, seconds_left
from nelson.chains.diagnosis.diagnose import pilot_request
from nelson.chains.moves.factor_graph import FactorGraph, factor_graph
from nelson.chains.moves.joint import LOST, Runner
from nelson.chains.problem import Problem
from nelson.errors import BudgetExceeded, Unsatisfiable
from nelson.formula.groups import groups_of
from nelson.kernels.core.bits import pack, words_for
from nelson.kernels.cpu.cutset import Cutset, cutset
from nelson.log_z.method import LogProbability, LogZTask, MethodOutcome
from nelson.log_z.parts import WeightedClauses
from nelson.policy import DEFAULT, LogZPolicy

#: Widths that are tried, the largest first.
_WIDTHS = (18, 16, 14, 12, 10, 8, 5)
#: Values of h that are summed at once, by each thread.
_LANES = 1024


class LostEntries(BudgetExceeded):
    """Doubles cannot hold an entry of a table that may count: there is no sum."""


@dataclass(frozen=True, eq=False)
class Sums:
    """How the units of a problem that are not held are summed out."""

    problem: Problem
    theta: np.ndarray  # (n,) finite
    graph: FactorGraph
    program: Cutset
    width: int
    held: np.ndarray  # (units,)

    @classmethod
    def cheap(
        cls, problem: Problem, theta: np.ndarray, limits: LogZPolicy = DEFAULT.log_z
    ) -> Sums | None:
        """The sums that hold the fewest units, if each of them is cheap; None if there are none."""
        cheap = []
        for graph in _graphs(problem, limits):
            every = _by_width(problem, theta, graph, limits)
            widest = (sums for sums in every if sums.program.work <= limits.bridge_work)
            cheap += [next(widest, None)]
        return min(filter(None, cheap), key=lambda sums: len(sums.held), default=None)

    @classmethod
    def all(
        cls, problem: Problem, theta: np.ndarray, most: int, limits: LogZPolicy = DEFAULT.log_z
    ) -> Sums | None:
        """The sums that take the least work over all h; None if that is more than `most`."""
        best: Sums | None = None
        for graph in _graphs(problem, limits):
            for sums in _by_width(problem, theta, graph, limits):
                if sums.log2_states > math.log2(most):  # a smaller width holds more
                    break
                if best is None or sums.log2_work < best.log2_work:
                    best = sums
        return best if best is not None and best.log2_work <= math.log2(most) else None

    @property
    def log2_states(self) -> float:
        """log2 of the number of values h."""
        return float(np.log2(self.sizes).sum())

    @property
    def log2_work(self) -> float:
        """log2 of the work for all h, 64 or more."""
        return math.log2(self.program.work) + max(6.0, self.log2_states)

    @cached_property
    def sizes(self) -> np.ndarray:
        """(held,): how many values each held unit has."""
        return np.diff(self.graph.units.at)[self.held]

    @cached_property
    def _log_weights(self) -> tuple[np.ndarray, float]:
        """(the logarithms of the weights of all values, log P of the product law that is left out).

        The weights of a unit add up to 1, so that no table overflows.
        """
        at, literal = self.graph.units
        every = np.zeros(self.graph.n)  # helpers have no weight
        every[: len(self.theta)] = self.theta
        named = np.where(literal >= 0, every[np.maximum(literal, 0) >> 1], 0.0)
        energy = np.where(literal & 1, named, -named)  # against "no literal of the unit is true"
        top = np.maximum.reduceat(energy, at[:-1])
        sizes = np.diff(at)
        total = top + np.log(np.add.reduceat(np.exp(energy - np.repeat(top, sizes)), at[:-1]))
        negative = named[(literal >= 0) & (literal & 1 == 0)].sum()
        constant = total.sum() + negative - np.logaddexp(0.0, self.theta).sum()
        return energy - np.repeat(total, sizes), float(constant)

    def values(self, x: np.ndarray) -> np.ndarray:
        """States (lanes, n) bool -> the values of the held units, (lanes, held)."""
        at, literal = self.graph.units
        out = np.zeros((len(x), len(self.held)), np.int8, order="F")
        for j, u in enumerate(self.held):
            for value in range(at[u + 1] - at[u]):
                if (code := literal[at[u] + value]) >= 0:
                    out[x[:, code >> 1] == (code & 1), j] = value
        return out

    def states(self, values: np.ndarray) -> np.ndarray:
        """States (lanes, n) bool in which the held units have these values; all else is False."""
        at, literal = self.graph.units
        out = np.zeros((len(values), self.problem.formula.n_total), bool, order="F")
        for j, u in enumerate(self.held):
            for value in range(at[u + 1] - at[u]):
                if (code := literal[at[u] + value]) >= 0:
                    out[:, code >> 1] = (values[:, j] == value) == (code & 1)
        return out

    @cached_property
    def rules(self) -> list[list[tuple[int, np.ndarray]]]:
        """The clauses between held units only: (held unit, the values for which its literals are
        false, as (values,) bool). One of the units must have another value.
        """
        factors = self.graph.factors
        place = np.full(len(self.graph.moving), -1)
        place[self.held] = np.arange(len(self.held))
        inside = np.minimum.reduceat(place[factors.unit], factors.at[:-1]) >= 0
        rules = []
        for k in np.flatnonzero(inside) if len(factors.unit) else ():
            rule = []
            for p in range(factors.at[k], factors.at[k + 1]):
                unit = int(place[factors.unit[p]])
                false = factors.values[p] >> np.arange(self.sizes[unit]) & 1
                rule.append((unit, false.astype(bool)))
            rules.append(rule)
        return rules

    def log_w(self, values: np.ndarray, budget: Budget) -> np.ndarray:
        """(lanes,): log W of values of the held units (lanes, held); -inf if no state has them.

        Raises BudgetExceeded if the time was up, LostEntries if doubles cannot hold the tables.
        """
        weights, constant = self._log_weights
        out = np.full(len(values), constant)
        size = _LANES * budget.threads
        for first in range(0, len(values), size):
            out[first : first + size] += self._summed(values[first : first + size], weights, budget)
        for j, u in enumerate(self.held):
            out += weights[self.graph.units.at[u] + values[:, j]]
        for rule in self.rules:
            out[np.logical_and.reduce([false[values[:, j]] for j, false in rule])] = -np.inf
        return out

    def total(self, budget: Budget) -> float:
        """log of the sum of W over all h. Raises Unsatisfiable if it is 0: nothing is lost then, or
        LostEntries would be raised.
        """
        n_states = int(np.prod(self.sizes))
        size, total = _LANES * budget.threads, -math.inf
        for first in range(0, n_states, size):
            numbers = np.arange(first, min(n_states, first + size))
            values = np.stack(np.unravel_index(numbers, tuple(self.sizes) or (1,)), axis=1)
            log_w = self.log_w(values[:, : len(self.held)], budget)
            total = float(np.logaddexp(total, np.logaddexp.reduce(log_w)))
        if total == -math.inf:
            raise Unsatisfiable("sums over all assignments found no solution")
        return total

    def _summed(self, values: np.ndarray, weights: np.ndarray, budget: Budget) -> np.ndarray:
        """log of the sum over all units that are not held, without the weights of the held ones."""
        words = words_for(len(values))
        padded = np.zeros((64 * words, values.shape[1]), np.int8, order="F")
        padded[: len(values)] = values
        request = pilot_request(self.theta[None], 64 * words, budget)
        shape, weight = (1, words), np.exp(weights)[None]
        runner = Runner(self.graph, self.problem, request, shape, 0, weight)
        log2 = runner.run(self.program, pack(self.states(padded)), 0, draw=False)
        if runner.stopped:
            raise BudgetExceeded("the time was up in sums over tables")
        if np.isnan(log2[: len(values)]).any():
            raise LostEntries(LOST)
        return log2[: len(values)] * math.log(2)


def _graphs(problem: Problem, limits: LogZPolicy) -> Iterator[FactorGraph]:
    """With single variables, and with fields if the formula has any."""
    if len(problem.rest.literals) <= limits.tables_literals:
        yield factor_graph(problem)
        coded = factor_graph(problem, groups_of(problem.rest))
        if coded.fields:
            yield coded


def _by_width(
    problem: Problem, theta: np.ndarray, graph: FactorGraph, limits: LogZPolicy
) -> Iterator[Sums]:
    """The sums of each width, the largest first, if their tables are not too large."""
    literal = np.maximum.reduceat(graph.units.literal, graph.units.at[:-1])
    helper = literal >> 1 >= problem.formula.n_total  # no sample has values of these units
    factor = np.where(graph.moving, 1.0, -1.0)
    factor[helper] *= 1e-6
    for width in _WIDTHS:
        if 2.5e-6 * len(graph.factors.unit) > seconds_left():  # nothing would end the search
            return
        program = cutset(graph.units, graph.factors, width, factor, limits.tables_steps)
        if program is None:
            return
        held = np.setdiff1d(np.flatnonzero(graph.moving), program.variable)
        if program.entries <= limits.tables_entries and not helper[held].any():
            yield Sums(problem, theta, graph, program, width, held)


def by_tables(parts: list[WeightedClauses], task: LogZTask) -> MethodOutcome:
    """Each part whose sums take little work, and lose nothing."""
    limits = task.policy.log_z
    work = limits.tables_work if task.is_auto else limits.tables_work_if_asked
    budget = task.exact_budget() if task.is_auto else task.budget
    solved: list[LogProbability] = []
    left: list[WeightedClauses] = []
    reason = "done"
    for k, part in enumerate(parts):
        sums = Sums.all(part.problem, part.theta, work, limits)
        try:
            if sums is not None:
                solved.append(LogProbability(sums.total(budget), exact=True))
                continue
            reason = f"a component of {part.n} variables is too wide"
        except LostEntries as error:
            reason = str(error)
        except BudgetExceeded as error:
            return MethodOutcome(solved, left + parts[k:], str(error))
        left.append(part)
    return MethodOutcome(solved, left, reason)
