"""The hubs of a formula, laws of their values, and regions: what the jumps of `jumps.py` need.

*Hubs* are variables that leave a narrow formula if they are held. Their number is small on
configurations, where a menu has hundreds of options below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from nelson.chains.moves.factor_graph import FactorGraph, factor_graph
from nelson.chains.moves.trees import Tree, fitted, mixture
from nelson.chains.problem import Problem, prepare
from nelson.kernels.core.bits import unpack
from nelson.kernels.cpu import hubs as kernel
from nelson.kernels.cpu.cutset import Cutset, cutset
from nelson.policy import DEFAULT, MovesPolicy


@dataclass(frozen=True, eq=False)
class Hubs:
    """The hubs of a problem."""

    problem: Problem
    width: int  # of what is left if they are held, at most
    graph: FactorGraph
    program: Cutset  # holds the hubs
    variable: np.ndarray  # (hubs,) sorted
    clauses: list[np.ndarray]  # those with all literals among the hubs: 2 h + s

    @classmethod
    def of(cls, problem: Problem, limits: MovesPolicy = DEFAULT.moves) -> Hubs | str:
        """The hubs of a problem, or why there are no jumps."""
        graph = factor_graph(problem)
        factor = np.where(graph.moving, 1.0, -1.0)
        factor[graph.helpers.variable] *= 1e-6  # a jump cannot propose values of helpers
        program = cutset(graph.units, graph.factors, limits.width, factor, limits.cutset_steps)
        if program is None:
            return "the search for hubs takes too long"
        variable = np.setdiff1d(np.flatnonzero(graph.moving), program.variable)
        share = len(variable) / max(1, int(graph.moving.sum()))
        if len(variable) > limits.hubs or share > limits.hub_share:
            return f"its tables are too large unless {len(variable):,} variables are kept fixed"
        if np.isin(variable, graph.helpers.variable).any() or program.work > limits.jump_work:
            return "jumps would cost too much"
        number = np.full(problem.formula.n_total, -1)
        number[variable] = np.arange(len(variable))
        clauses = []
        for clause in problem.rest.clauses():
            numbers = number[np.abs(clause) - 1]
            if (numbers >= 0).all():
                clauses.append(2 * numbers + (np.array(clause) > 0))
        return cls(problem, limits.width, graph, program, variable, clauses)

    def values(self, words: np.ndarray) -> np.ndarray:
        """States (words, n) -> (lanes, hubs) uint8."""
        return unpack(words[:, self.variable], 64 * len(words)).astype(np.uint8)


@dataclass(frozen=True, eq=False)
class ProposalLaw:
    """A law Q of the hubs of a problem."""

    hubs: Hubs
    trees: kernel.Trees
    shares: np.ndarray  # (trees,): of the mixture

    @classmethod
    def of(cls, hubs: Hubs, trees: Sequence[Tree], shares: Sequence[float]) -> ProposalLaw:
        return cls(hubs, mixture(trees, hubs.variable, hubs.clauses), np.array(shares))

    def log2(self, x: np.ndarray) -> np.ndarray:
        """(lanes,): the logarithm of Q of hubs x (lanes, hubs)."""
        mantissa = np.empty((len(x), self.trees.many))
        exponent = np.empty((len(x), self.trees.many), np.int64)
        kernel.score(self.trees, x, mantissa, exponent)
        with np.errstate(divide="ignore"):
            each = np.log2(mantissa) + exponent + np.log2(self.shares)
        return np.logaddexp2.reduce(each, axis=1)


@dataclass(frozen=True, eq=False)
class Region:
    """Values of some variables, and a law of the hubs of the formula that has them fixed."""

    literal: np.ndarray  # 2 v + s
    law: ProposalLaw

    def inside(self, words: np.ndarray) -> np.ndarray:
        """(words,) uint64: the lanes that are in the region."""
        right = words[:, self.literal >> 1] ^ ((self.literal & 1).astype(np.uint64) - np.uint64(1))
        return np.bitwise_and.reduce(right, axis=1)


def region_of(hubs: Hubs, words: np.ndarray, limits: MovesPolicy) -> Region | None:
    """The values that all states (words, n) share; None if the formula then still has many hubs."""
    problem, inner, literal = hubs.problem, hubs, np.zeros(0, np.int64)
    while True:
        x = inner.values(words)
        same = np.flatnonzero((x == x[0]).all(0))
        if not len(same):
            break
        names, values = inner.variable[same], x[0, same].astype(np.int64)
        literal = np.append(literal, 2 * names + values)
        signed = np.where(literal & 1, (literal >> 1) + 1, -(literal >> 1) - 1).tolist()
        problem = prepare(hubs.problem.formula, (*hubs.problem.evidence, *signed))
        hubs_or_reason = Hubs.of(problem, limits)
        if isinstance(hubs_or_reason, str):
            return None
        inner = hubs_or_reason
    for width in limits.region_widths:
        more = replace(limits, width=width, jump_work=3 * hubs.program.work // 2)
        wider = Hubs.of(problem, more)
        if isinstance(wider, Hubs) and len(wider.variable) < len(inner.variable):
            inner = wider
    return Region(literal, ProposalLaw.of(inner, [fitted(inner.values(words))], [1.0]))
