"""The result of preprocessing: independent components, free variables, and the way back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nelson.formula import Formula
from nelson.formula.canonical import lengths_to_offsets
from nelson.kernels.reduce.rebuild import rebuild


@dataclass(frozen=True, eq=False)
class Component:
    """Clauses over variables 1..k that share nothing with the other components."""

    literals: np.ndarray  # int32, over 1..k
    offsets: np.ndarray  # int64
    variables: np.ndarray  # (k,) int64: the original variable of each, from 0
    theta: np.ndarray  # (contexts, k)

    @property
    def n_vars(self) -> int:
        return len(self.variables)

    @property
    def n_clauses(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def formula(self) -> Formula:
        """The clauses as a formula."""
        return Formula.from_arrays(self.literals, self.offsets, n_vars=self.n_vars)


@dataclass(frozen=True, eq=False)
class Rebuild:
    """Fills in the eliminated variables. Arrays as in `nelson.kernels.reduce.rebuild`."""

    target: np.ndarray
    flip: np.ndarray
    first: np.ndarray
    start: np.ndarray
    literals: np.ndarray

    def __call__(self, words: np.ndarray, lanes: np.ndarray | None = None) -> np.ndarray:
        """words (W, n_total) uint64: bit k of word w is sample 64 w + k. The columns of components
        and of free variables are read, all others are written in place; returns `words`.

        lanes (W,) uint64: the bits that hold samples; other bits of written columns are cleared.
        O(W * literals of the definitions).
        """
        if lanes is None:
            lanes = np.full(len(words), ~np.uint64(0))
        if len(self.target):
            rows = np.ascontiguousarray(words)
            rebuild(self.target, self.flip, self.first, self.start, self.literals, rows, lanes)
            if rows is not words:
                words[...] = rows
        return words


@dataclass(frozen=True, eq=False)
class Preprocessed:
    """The same law over fewer variables and clauses:

    log Z = log_constant + sum over components of log Z_c + sum over free v of log(1 + e^theta_v)
    """

    changed: bool  # something besides units, components and free variables was found
    components: list[Component]  # the largest first
    free: np.ndarray  # (k,) int64: variables in no clause any more, from 0; independent
    free_theta: np.ndarray  # (contexts, k)
    fixed: np.ndarray  # int32: literals that hold in every solution
    log_constant: np.ndarray  # (contexts,)
    steps: list[str]  # the changes made, in words
    complete: bool  # False: the budget ended it before the fixpoint
    rebuild: Rebuild


def split(
    literals: np.ndarray, offsets: np.ndarray, theta: np.ndarray, most: int
) -> list[Component]:
    """Connected components, the largest first; beyond `most`, the smallest ones are left together
    in the last. theta (contexts, n). O(total literals) but for two sorts.
    """
    from nelson.kernels.reduce import graph

    n = theta.shape[1]
    if len(offsets) < 2:
        return []
    labels = np.arange(n, dtype=np.int32)
    count = graph.components(literals, offsets, labels)
    of_clause = labels[np.abs(literals[offsets[:-1]]) - 1]
    clauses = np.bincount(of_clause, minlength=count)
    sizes = np.bincount(labels, minlength=count)
    # The number of a component in the result: by size, those without clauses nowhere.
    ranked = np.lexsort((np.arange(count), -sizes, clauses == 0))
    used = int((clauses > 0).sum())
    number = np.empty(count, np.int64)
    number[ranked] = np.minimum(np.arange(count), most - 1)
    number[clauses == 0] = most
    by_clause = np.argsort(number[of_clause], kind="stable")
    by_variable = np.argsort(number[labels], kind="stable")
    parts = min(used, most)
    first = np.searchsorted(number[of_clause][by_clause], np.arange(parts + 1))
    start = np.searchsorted(number[labels][by_variable], np.arange(parts + 1))
    place = np.zeros(n, np.int32)
    lengths = np.diff(offsets)
    found = []
    for c in range(parts):
        own = by_variable[start[c] : start[c + 1]].astype(np.int64)
        place[own] = np.arange(1, len(own) + 1)
        chosen = by_clause[first[c] : first[c + 1]]
        ends = lengths_to_offsets(lengths[chosen])
        places = np.arange(ends[-1]) + np.repeat(offsets[chosen] - ends[:-1], lengths[chosen])
        mine = literals[places]
        mine = (np.sign(mine) * place[np.abs(mine) - 1]).astype(np.int32)
        found.append(Component(mine, ends, own, np.ascontiguousarray(theta[:, own])))
    return found
