"""The hubs of a formula, laws of their values, and regions: what the jumps of `jumps.py` need.

*Hubs* are variables that leave a narrow formula if they are held. Their number is small on
configurations, where a menu has hundreds of options below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nelson.kernels.core.bits import unpack
from nelson.kernels.cpu import hubs as kernel
from nelson.kernels.cpu.cutset import Cutset, cutset
from nelson.sampling.factor_graph import FactorGraph, factor_graph
from nelson.sampling.problem import Problem, prepare
from nelson.sampling.trees import Tree, fitted, mixture

#: Width of what is left if the hubs are held; and widths that are tried in a region, if moves in it
#: cost at most one and a half times as much as jumps.
WIDTH, _WIDER = 8, (10, 12)
#: Formulas with more hubs, or a larger share of them, have no jumps.
_MOST_HUBS, _MOST_SHARE = 1024, 0.15
#: Nor have those whose jumps cost more for each lane (`Cutset.work`).
_MOST_WORK = 1 << 21
#: Steps of the search for hubs, about 2 ns each.
_STEPS = 1 << 30


@dataclass(frozen=True, eq=False)
class Hubs:
    """The hubs of a problem."""

    problem: Problem
    graph: FactorGraph
    program: Cutset  # holds the hubs
    variable: np.ndarray  # (hubs,) sorted
    clauses: list[np.ndarray]  # those with all literals among the hubs: 2 h + s

    @classmethod
    def of(cls, problem: Problem, width: int = WIDTH, most: int = _MOST_WORK) -> Hubs | str:
        """The hubs of a problem, or why there are no jumps."""
        graph = factor_graph(problem)
        factor = np.where(graph.moving, 1.0, -1.0)
        factor[graph.helpers.variable] *= 1e-6  # a jump cannot propose values of helpers
        program = cutset(graph.units, graph.factors, width, factor, _STEPS)
        if program is None:
            return "the search for hubs takes too long"
        variable = np.setdiff1d(np.flatnonzero(graph.moving), program.variable)
        share = len(variable) / max(1, int(graph.moving.sum()))
        if len(variable) > _MOST_HUBS or share > _MOST_SHARE:
            return f"the formula stays too wide unless {len(variable):,} variables are held"
        if np.isin(variable, graph.helpers.variable).any() or program.work > most:
            return "jumps would cost too much"
        number = np.full(problem.formula.n_total, -1)
        number[variable] = np.arange(len(variable))
        clauses = []
        for clause in problem.rest.clauses():
            own = number[np.abs(clause) - 1]
            if (own >= 0).all():
                clauses.append(2 * own + (np.array(clause) > 0))
        return cls(problem, graph, program, variable, clauses)

    def values(self, words: np.ndarray) -> np.ndarray:
        """States (words, n) -> (lanes, hubs) uint8."""
        return unpack(words[:, self.variable], 64 * len(words)).astype(np.uint8)


@dataclass(frozen=True, eq=False)
class Law:
    """A law Q of the hubs of a problem."""

    hubs: Hubs
    trees: kernel.Trees
    shares: np.ndarray  # (trees,): of the mixture

    @classmethod
    def of(cls, hubs: Hubs, trees: Sequence[Tree], shares: Sequence[float]) -> Law:
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
    law: Law

    def inside(self, words: np.ndarray) -> np.ndarray:
        """(words,) uint64: the lanes that are in the region."""
        right = words[:, self.literal >> 1] ^ ((self.literal & 1).astype(np.uint64) - np.uint64(1))
        return np.bitwise_and.reduce(right, axis=1)


def region_of(hubs: Hubs, words: np.ndarray) -> Region | None:
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
        found = Hubs.of(problem)
        if isinstance(found, str):
            return None
        inner = found
    for width in _WIDER:
        wider = Hubs.of(problem, width, 3 * hubs.program.work // 2)
        if isinstance(wider, Hubs) and len(wider.variable) < len(inner.variable):
            inner = wider
    return Region(literal, Law.of(inner, [fitted(inner.values(words))], [1.0]))
