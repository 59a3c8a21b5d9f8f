"""The hubs of a formula, laws of their values, and regions: what the jumps of `jumps.py` need.

*Hubs* are variables that leave a narrow formula if they are held. Their number is small on
configurations, where a menu has hundreds of options below it.

A law of hubs is a mixture of trees of Chow and Liu (IEEE Trans. Inf. Theory 14, 1968): of all laws
in which each hub depends on one other, the one that is nearest to the given states. Hubs that
exclude or need each other are neighbours in it. No chance is 0 or 1: every value can be proposed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from nelson.chains.moves.factor_graph import FactorGraph, factor_graph
from nelson.chains.problem import Problem, prepare
from nelson.formula.flat import check_ahead
from nelson.kernels.core.bits import unpack
from nelson.kernels.cpu import hubs as kernel
from nelson.kernels.cpu.cutset import Cutset, cutset
from nelson.policy import DEFAULT, MovesPolicy

#: States that are added to the given ones, spread evenly over all values of two hubs.
_ADDED = 2.0


@dataclass(frozen=True, eq=False)
class Tree:
    order: np.ndarray  # (n,) hubs: each after its parent
    parent: np.ndarray  # (n,) -1: none
    chance: np.ndarray  # (n, 2) of the value 1, given the value of the parent


def fitted(x: np.ndarray, past: np.ndarray | None = None, share: float = 0.0) -> Tree:
    """The tree of states x (states, hubs) of 0 and 1, and of past ones with that share in all."""
    n_rows, n = x.shape
    if not n:
        return Tree(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 2)))
    y = x.astype(np.float64)
    counts, both = y.sum(0), y.T @ y
    if past is not None and len(past):
        z = past.astype(np.float64)
        counts = (1 - share) * counts + share * n_rows * z.mean(0)
        both = (1 - share) * both + share * n_rows * (z.T @ z / len(z))
    total = n_rows + _ADDED
    cells = np.empty((2, 2, n, n))  # cells[a, b, u, v]: share of states in which u = a and v = b
    cells[1, 1], cells[1, 0], cells[0, 1] = both, counts[:, None] - both, counts[None, :] - both
    cells[0, 0] = n_rows - cells[1, 1] - cells[1, 0] - cells[0, 1]
    cells = (cells + _ADDED / 4) / total
    first, second = cells.sum(1)[:, None], cells.sum(0)[None, :]
    information = (cells * np.log(cells / (first * second))).sum((0, 1))
    order, parent = spanning(information)
    chance = np.repeat(cells[1].sum(0).diagonal()[:, None], 2, axis=1)
    children = np.flatnonzero(parent >= 0)
    for a in (0, 1):
        pair = cells[a, :, parent[children], children]
        chance[children, a] = pair[:, 1] / pair.sum(1)
    root = order[0]
    chance[root] = (counts[root] + _ADDED / 2) / total
    return Tree(order, parent, chance)


def spanning(weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The spanning tree of largest weight: nodes in an order of growth, and their parents."""
    n = len(weight)
    taken, best = np.zeros(n, bool), np.full(n, -np.inf)
    order, parent = np.empty(n, np.int64), np.full(n, -1)
    node = int(weight.sum(0).argmax())
    for place in range(n):
        taken[node], order[place] = True, node
        nearer = (weight[node] > best) & ~taken
        best[nearer], parent[nearer] = weight[node][nearer], node
        node = int(np.where(taken, -np.inf, best).argmax())
    return order, parent


def mixture(
    trees: Sequence[Tree], variable: np.ndarray, clauses: Sequence[np.ndarray]
) -> kernel.Trees:
    """The trees as the kernel takes them. clauses: literals 2 h + s over the hubs 0, 1, ..."""
    n, n_trees = len(variable), len(trees)
    literals = sum(len(clause) - 1 for clause in clauses)
    made = kernel.Trees(
        n_trees=n_trees,
        n=n,
        variable=variable.astype(np.int64),
        order=np.stack([tree.order for tree in trees]).astype(np.int32),
        parent=np.stack([tree.parent for tree in trees]).astype(np.int32),
        chance=np.stack([tree.chance for tree in trees]),
        clause_at=np.zeros((n_trees, n + 1), np.int64),
        sign=np.zeros((n_trees, len(clauses)), np.uint8),
        literal_at=np.zeros((n_trees, len(clauses) + 1), np.int64),
        literal=np.zeros((n_trees, literals), np.int32),
    )
    for k, tree in enumerate(trees):
        place = np.empty(n, np.int64)
        place[tree.order] = np.arange(n)
        last = [clause[place[clause >> 1].argmax()] for clause in clauses]
        hub = np.array(last, np.int64) >> 1
        order = np.argsort(hub, kind="stable")
        made.clause_at[k] = np.concatenate([[0], np.cumsum(np.bincount(hub, minlength=n))])
        others = [clauses[c][clauses[c] != last[c]] for c in order]
        made.sign[k] = [last[c] & 1 for c in order]
        made.literal_at[k] = np.concatenate([[0], np.cumsum([len(o) for o in others])])
        made.literal[k] = np.concatenate([np.zeros(0, np.int64), *others])
    return made


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
        check_ahead(len(graph.factors.unit), 2.5e-6)
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
        mantissa = np.empty((len(x), self.trees.n_trees))
        exponent = np.empty((len(x), self.trees.n_trees), np.int64)
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
