"""The normal form of flat clauses, which SAT users take for granted.

A repeated literal counts once, a clause with v and -v is dropped, and of clauses that are equal as
sets the first stays. The order of clauses, and of literals in a clause, is kept otherwise.

O(total literals) plus one sort of short keys. Blocks of about a million literals keep temporary
arrays near 30 MB, however large the formula is.
"""

from __future__ import annotations

import numpy as np

from nelson.formula.flat import blocks, lengths_to_offsets, owners, select
from nelson.kernels.core.deadline import check_time

BLOCK = 1 << 20  # literals per block


def normalise(literals: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(int32, int64) arrays in normal form; always fresh copies."""
    check_time()
    odd = _with_repeated_variables(literals, offsets)
    if len(odd):
        literals, offsets = _repaired(literals, offsets, odd)
    check_time()
    keep = _first_of_equals(literals, offsets)
    if not keep.all():
        return select(literals, offsets, keep)
    return literals.astype(np.int32), offsets.astype(np.int64)


def _with_repeated_variables(literals: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Indices of clauses that mention some variable twice: repeated literals or tautologies.

    Sorting the keys (clause, variable) of a block puts repetitions side by side.
    """
    odd = []
    for a, b in blocks(offsets, BLOCK):
        check_time()
        part = np.abs(literals[offsets[a] : offsets[b]]).astype(np.int64)
        if len(part) == 0:
            continue
        width = int(part.max()) + 1
        part += np.repeat(np.arange(b - a, dtype=np.int64) * width, np.diff(offsets[a : b + 1]))
        part.sort()
        twice = part[1:][part[1:] == part[:-1]]
        if len(twice):
            odd.append(np.unique(twice // width) + a)
    return np.concatenate(odd) if odd else np.zeros(0, dtype=np.int64)


def _repaired(
    literals: np.ndarray, offsets: np.ndarray, odd: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Drop repeated literals in the odd clauses, and those clauses that are tautologies.

    Sorted by clause, variable and position, the occurrences of a variable are neighbours: of equal
    signs the later one goes, and unequal signs make a tautology.
    """
    lengths = np.diff(offsets)
    is_odd = np.zeros(len(lengths), dtype=bool)
    is_odd[odd] = True
    clause = owners(offsets)
    position = np.flatnonzero(is_odd[clause])
    variable = np.abs(literals[position])
    order = position[np.lexsort((position, variable, clause[position]))]
    before, after = order[:-1], order[1:]
    same = (clause[before] == clause[after]) & (np.abs(literals[before]) == np.abs(literals[after]))
    before, after = before[same], after[same]
    opposite = literals[before] != literals[after]
    keep = np.ones(len(lengths), dtype=bool)
    keep[clause[after[opposite]]] = False
    keep_literal = keep[clause]
    keep_literal[after] = False
    lengths_left = np.bincount(clause[keep_literal], minlength=len(lengths))
    return literals[keep_literal], lengths_to_offsets(lengths_left[keep])


def _first_of_equals(literals: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """bool (n_clauses,): false for a clause equal, as a set, to an earlier one.

    Each clause gets a 64-bit sum of hashed literals, which does not depend on their order. Only
    clauses with equal sums are compared as sets, so a collision costs time and nothing else.
    """
    sums = _clause_hashes(literals, offsets)
    keep = np.ones(len(sums), dtype=bool)
    check_time()
    order = np.argsort(sums, kind="stable")
    check_time()
    ranked = sums[order]
    same = np.zeros(len(sums) + 1, dtype=bool)  # same[i]: ranked[i] == ranked[i - 1]
    same[1:-1] = ranked[1:] == ranked[:-1]
    suspects = order[same[:-1] | same[1:]] if same.any() else order[:0]
    seen: dict[int, set[frozenset[int]]] = {}
    for number, j in enumerate(np.sort(suspects).tolist()):
        if number % 1024 == 0:
            check_time()
        clause = frozenset(literals[offsets[j] : offsets[j + 1]].tolist())
        group = seen.setdefault(int(sums[j]), set())
        keep[j] = clause not in group
        group.add(clause)
    return keep


def _clause_hashes(literals: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    sums = np.zeros(len(offsets) - 1, dtype=np.uint64)
    for a, b in blocks(offsets, BLOCK):
        check_time()
        mixed = literals[offsets[a] : offsets[b]].astype(np.int64).view(np.uint64)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):  # splitmix64
            mixed += np.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> np.uint64(shift)
            mixed *= np.uint64(factor)
        mixed ^= mixed >> np.uint64(31)
        # Prefix sums (mod 2^64) rather than reduceat, which misreads empty clauses.
        prefix = np.zeros(len(mixed) + 1, dtype=np.uint64)
        np.cumsum(mixed, out=prefix[1:])
        local = offsets[a : b + 1] - offsets[a]
        sums[a:b] = prefix[local[1:]] - prefix[local[:-1]]
    return sums
