"""What is watched of a chain: single variables, pairs of variables, and sums over many of them.

    bits    x_v, and x_u xor x_v for pairs that share a clause and for random pairs: popcounts
    sums    sum_v x_v, theta . x, random signs, the leading principal components, the direction in
            which the means of chains moved, or in which two groups of chains differ

A chain may be slow in a way that no single variable shows: the phase of a bipartite model is a sum
of many variables, and two clusters with equal means may differ in pairs only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nelson.chains.problem import Problem
from nelson.formula.flat import lengths_to_offsets
from nelson.kernels.core.bits import unpack

#: Pairs of variables: about this many that share a clause, and as many others.
_MAX_PAIRS = 2048
#: Variables in the sums. Of more variables every second, third, .. is taken.
_MAX_COLUMNS = 4096


@dataclass(frozen=True)
class Features:
    """The variables and pairs that are watched, counted from 0."""

    variables: np.ndarray  # all variables that sweeps move, auxiliary ones included
    pairs: np.ndarray  # (pairs, 2)
    neighbours: np.ndarray  # (k, 2): those of the pairs that share a clause or a product
    columns: np.ndarray  # the variables in the sums
    directions: np.ndarray  # (columns, k) float32: the sums that are known beforehand

    @classmethod
    def of(
        cls, problem: Problem, theta: np.ndarray, monomials: Sequence[Sequence[int]] = ()
    ) -> Features:
        """theta (n,): of the visible variables. monomials: products with weights."""
        weight = np.zeros(problem.formula.n_total)
        weight[: len(theta)] = theta
        swept = problem.program.name[problem.program.order]
        literals = np.concatenate([problem.rest.literals, *monomials]).astype(np.int64)
        sizes = [*np.diff(problem.rest.offsets), *map(len, monomials)]
        return cls.among(swept, literals, lengths_to_offsets(np.array(sizes, np.int64)), weight)

    @classmethod
    def among(
        cls,
        swept: np.ndarray,
        literals: np.ndarray,
        offsets: np.ndarray,
        weight: np.ndarray,
        signs: int = 8,
    ) -> Features:
        """literals, offsets: sets of variables that depend on each other (clauses, products).

        signs: sums with random signs.
        """
        variables = np.sort(swept.astype(np.int64))
        rng = np.random.default_rng(len(variables))
        moves = np.zeros(len(weight), bool)
        moves[variables] = True
        pairs = _neighbours(literals, offsets, rng)
        if len(variables) * (len(variables) - 1) <= 2 * _MAX_PAIRS:
            others = variables[np.stack(np.triu_indices(len(variables), 1), axis=1)]
        else:
            others = rng.choice(variables, (_MAX_PAIRS, 2))
        near, pairs = (
            np.unique(np.sort(p[moves[p].all(1) & (p[:, 0] != p[:, 1])], axis=1), axis=0)
            for p in (pairs, np.concatenate([pairs, others]))
        )
        columns = variables[:: max(1, -(-len(variables) // _MAX_COLUMNS))]
        sums = [
            np.ones((len(columns), 1)),
            2.0 * rng.integers(0, 2, (len(columns), signs)) - 1,
        ]
        if weight[columns].any():
            sums.append(weight[columns, None])
        directions = np.concatenate(sums, axis=1).astype(np.float32)
        return cls(variables, pairs, near, columns, directions)

    def bits(self, words: np.ndarray) -> np.ndarray:
        """States (words, n) -> (words, variables + pairs) uint64."""
        first, second = self.pairs.T
        together = words[:, first] ^ words[:, second]
        return np.concatenate([words[:, self.variables], together], axis=1)

    def rows(self, words: np.ndarray) -> np.ndarray:
        """States (words, n) -> (lanes, columns) float32 of 0 and 1."""
        return unpack(words[:, self.columns], 64 * len(words)).astype(np.float32)


def principal(
    x: np.ndarray, components: int = 3, power_steps: int = 5, most_lanes: int = 512
) -> np.ndarray:
    """(columns, k): the leading principal components of x (lanes, columns), by power iteration on
    at most `most_lanes` lanes.
    """
    x = x[:: max(1, -(-len(x) // most_lanes))]
    centred = x - x.mean(0)
    k = min(components, *x.shape)
    basis = np.random.default_rng(k).normal(size=(x.shape[1], k)).astype(np.float32)
    for _ in range(power_steps):
        basis, _ = np.linalg.qr(centred.T @ (centred @ basis))
    return basis


def _neighbours(literals: np.ndarray, offsets: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Random pairs of variables of one set; each set has about as many."""
    sizes = np.diff(offsets)
    several = np.flatnonzero(sizes > 1)
    if not len(several):
        return np.zeros((0, 2), np.int64)
    if len(several) > _MAX_PAIRS:
        several = rng.choice(several, _MAX_PAIRS, replace=False)
    several = np.repeat(several, _MAX_PAIRS // len(several))
    size = sizes[several]
    first = rng.integers(0, size)
    second = (first + rng.integers(1, size)) % size
    places = offsets[several][:, None] + np.stack([first, second], axis=1)
    return np.abs(literals[places]).astype(np.int64) - 1
