"""Values of several variables of a clause that no chain takes, though each variable varies.

A clause C may be a union of a group S of literals and of others, and S alone satisfies it in
(nearly) every chain: "S, or a key is right". If the literals of S vary as if they were free,

    P(all of S false) < 1/8 prod_{l in S} P(l false)

then a region in which the other literals take over may be behind a barrier. A solution in which all
of S is false leads there at once. Of a plain random clause no such group is a proper part: if k - 1
of k literals are false, the last one is true, about as often as it would be by chance.
"""

from __future__ import annotations

import numpy as np

#: A pattern is rare if it is this many times as rare as it would be by chance,
_TIMES_RARER = 8
#: and if chance would show it in this many lanes at least.
_EXPECTED = 16
#: Clauses that are looked at in one call, a random part of all. Looking at 512 clauses of 8
#: literals in 4,096 lanes takes 0.1 s.
_MOST_CLAUSES = 512
#: Literals of a clause: two have no group that is not a single literal; the work grows as k^2.
_SIZES = range(3, 33)


def rare_patterns(
    words: np.ndarray, literals: np.ndarray, offsets: np.ndarray, random: np.random.Generator
) -> list[tuple[int, ...]]:
    """Literals that hold together in almost no chain (states (words, n)), though each often does.

    literals, offsets: the clauses. Each answer is the negation of a part of a clause.
    """
    sizes = np.diff(offsets)
    chosen = np.flatnonzero((sizes >= _SIZES.start) & (sizes < _SIZES.stop))
    chosen = random.permutation(chosen)[:_MOST_CLAUSES]
    answers: dict[tuple[int, ...], None] = {}
    for size in np.unique(sizes[chosen]).tolist():
        first = offsets[chosen[sizes[chosen] == size]]
        group = literals[first[:, None] + np.arange(size)].astype(np.int64)
        for row, in_part in zip(group, _parts(words, group), strict=True):
            if in_part.any():
                answers[tuple(sorted((-row[in_part]).tolist()))] = None
    return list(answers)


def _parts(words: np.ndarray, clauses: np.ndarray) -> np.ndarray:
    """Clauses (c, k) -> (c, k) bool: the literals of a smallest part that satisfies the clause in
    almost every lane, found by leaving out one literal after the other; none, if there is no part.
    """
    everything, lanes = ~np.uint64(0), 64.0 * len(words)
    flip = np.where(clauses > 0, everything, np.uint64(0))
    false = words[:, np.abs(clauses) - 1] ^ flip  # (words, c, k)
    share = np.bitwise_count(false).sum(axis=0) / lanes
    in_part = np.ones(clauses.shape, bool)
    going = np.ones(len(clauses), bool)
    rows = np.arange(len(clauses))
    for _ in range(clauses.shape[1] - 2):
        held = np.where(in_part, false, everything)
        before = np.full(held.shape, everything)
        after = before.copy()
        np.bitwise_and.accumulate(held[:, :, :-1], axis=2, out=before[:, :, 1:])
        np.bitwise_and.accumulate(held[:, :, :0:-1], axis=2, out=after[:, :, -2::-1])
        seen = np.bitwise_count(before & after).sum(axis=0, dtype=np.int64)
        chance = np.where(in_part, share, 1.0).prod(axis=1, keepdims=True) / np.maximum(share, 1e-9)
        expected = chance * lanes
        # The least surprising part of those that are rare: its chance is the largest.
        rare = in_part & (seen * _TIMES_RARER < expected)
        best = np.where(rare, expected - seen * _TIMES_RARER, -1.0).argmax(axis=1)
        going &= rare[rows, best]
        in_part[rows[going], best[going]] = False
    expected = np.where(in_part, share, 1.0).prod(axis=1) * lanes
    return in_part & ~in_part.all(axis=1, keepdims=True) & (expected >= _EXPECTED)[:, None]
