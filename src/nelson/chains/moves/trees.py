"""Trees of hubs, fitted to states: what jumps (`jumps.py`) propose.

The tree of Chow and Liu (IEEE Trans. Inf. Theory 14, 1968): of all laws in which each hub depends
on one other, the one that is nearest to the given states. Hubs that exclude or need each other are
neighbours in it. No chance is 0 or 1, so every value can be proposed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nelson.kernels.cpu import hubs as kernel

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
        many=n_trees,
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
