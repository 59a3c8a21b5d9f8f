"""The result of preprocessing: independent components, free variables, and the way back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nelson.formula import Formula, components
from nelson.kernels.reduce.rebuild import rebuild


@dataclass(frozen=True, eq=False)
class Component(components.Component):
    """A component with its log-odds."""

    theta: np.ndarray  # (contexts, k)

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
    gates: int  # variables resolved away as gates
    steps: list[str]  # the changes made, in words
    complete: bool  # False: the budget ended it before the fixpoint
    rebuild: Rebuild


def split(
    literals: np.ndarray, offsets: np.ndarray, theta: np.ndarray, most: int
) -> list[Component]:
    """`formula.components.split`, with the columns of theta (contexts, n) for each component."""
    return [
        Component(c.literals, c.offsets, c.variables, np.ascontiguousarray(theta[:, c.variables]))
        for c in components.split(literals, offsets, theta.shape[1], most)
    ]
