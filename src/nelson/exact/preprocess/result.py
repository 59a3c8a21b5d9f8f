"""The result of preprocessing: independent components, free variables, and the way back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nelson.formula import Formula, components
from nelson.kernels.core.threads import spread
from nelson.kernels.reduce import rebuild as kernels

#: Rows of words to visit for each thread: starting one costs as much as 100,000 visits.
_MIN_THREADED_ROWS = 1_000_000


@dataclass(frozen=True, eq=False)
class WeightedComponent(components.Component):
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

    @cached_property
    def definitions(self) -> kernels.CodedDefinitions:
        """The arrays as the kernel takes them."""
        arrays = self.target.astype(np.int64), self.flip, self.first, self.start
        return kernels.CodedDefinitions(
            *arrays, (2 * np.abs(self.literals) - 2) + (self.literals > 0)
        )

    def __call__(self, words: np.ndarray, lanes: np.ndarray | None = None) -> np.ndarray:
        """words (W, n_total) uint64: bit k of word w is sample 64 w + k. The columns of components
        and of free variables are read, all others are written in place; returns `words`.

        lanes (W,) uint64: the bits that hold samples; other bits of written columns are cleared.
        O(W * literals of the definitions).
        """
        if lanes is None:
            lanes = np.full(len(words), ~np.uint64(0))
        every, out = np.arange(words.shape[1]), np.empty((len(words), len(self.target)), np.uint64)
        Completion(self, every, self.target, words.shape[1])(words, lanes, out)
        words[:, self.target] = out
        return words


class Completion:
    """Completes samples of components and free variables to checked samples of the formula."""

    def __init__(
        self,
        rebuild: Rebuild,
        variables: np.ndarray,
        columns: np.ndarray,
        n: int,
        clauses: tuple[np.ndarray, np.ndarray] = (np.zeros(1, np.int64), np.zeros(0, np.int32)),
        threads: int = 1,
    ) -> None:
        """variables  the variables that are given, from 0; columns: those to return.
        n          the number of variables.
        clauses    (pointers, literal codes) of the clauses to check.
        """
        self.definitions, self.clauses = rebuild.definitions, clauses
        self.variables, self.columns = variables.astype(np.int32), columns.astype(np.int32)
        self.n, self.threads = n, threads
        self._cost = len(self.definitions.codes) + len(clauses[1]) + n
        self._spaces: list[kernels.RebuildScratch] = []

    def __call__(self, held: np.ndarray, lanes: np.ndarray, out: np.ndarray) -> np.ndarray:
        """held (W, variables) and lanes (W,) in; out (W, columns) is written, 0 outside of the
        lanes. -> the lanes in which all clauses hold.
        """
        if not out.flags.c_contiguous:
            raise ValueError("`out` must be contiguous: it is written to in place")
        flat, sound = out.reshape(-1), np.empty_like(lanes)
        samples = kernels.SampleWords(
            len(lanes),
            np.ascontiguousarray(held).reshape(-1),
            self.variables,
            np.ascontiguousarray(lanes),
            self.columns,
            flat,
            sound,
        )
        tiles = -(-len(lanes) // kernels.WIDTH)
        threads = min(self.threads, tiles, max(1, tiles * self._cost // _MIN_THREADED_ROWS))
        while len(self._spaces) < max(1, threads):  # there may be no lane at all
            self._spaces.append(kernels.space(self.n))

        def some(thread: int, first: int, last: int) -> None:
            space = self._spaces[thread]
            kernels.complete(self.definitions, *self.clauses, samples, space, first, last)

        if threads <= 1:
            some(0, 0, tiles)
        elif spread(some, tiles, threads, np.zeros(1, np.int32)):
            raise KeyboardInterrupt
        return sound


@dataclass(frozen=True, eq=False)
class Preprocessed:
    """The same law over fewer variables and clauses:

    log Z = log_constant + sum over components of log Z_c + sum over free v of log(1 + e^theta_v)
    """

    changed: bool  # something besides units, components and free variables was found
    components: list[WeightedComponent]  # the largest first
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
) -> list[WeightedComponent]:
    """`formula.components.split`, with the columns of theta (contexts, n) for each component."""
    return [
        WeightedComponent(
            c.literals, c.offsets, c.variables, np.ascontiguousarray(theta[:, c.variables])
        )
        for c in components.split(literals, offsets, theta.shape[1], most)
    ]
