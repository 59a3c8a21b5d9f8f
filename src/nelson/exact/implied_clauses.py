"""Clauses that small groups of clauses imply, so that functions can be read in any direction.

An S-box computes four bits from four bits. Its clauses say so for the outputs only, but the inputs
are functions of the outputs, too; no single clause of the file says that. Clauses that share two
variables belong to one group. The *prime implicates* of a group of few variables are the shortest
clauses that it implies. Among them are all definitions of all of its variables.
"""

from __future__ import annotations

import itertools

import numpy as np

from nelson.formula import Formula
from nelson.formula.components import components
from nelson.formula.flat import lists, take
from nelson.kernels.core.deadline import check_time

#: Variables of a group. One gate has fewer, and its clauses say all. Larger groups are left out.
FEWEST, MOST = 5, 8
#: Literals of the implicates that are returned. A single literal is no function of others.
SHORTEST, LONGEST = 2, 5
#: Entries of all different tables together, at most, and most groups: about a second in all.
_ENTRIES, _GROUPS = 1 << 21, 4096


def implied(formula: Formula) -> list[tuple[int, ...]]:
    """Clauses of SHORTEST to LONGEST literals that the formula implies and does not have."""
    implied_clauses: set[tuple[int, ...]] = set()
    known: dict[bytes, list[tuple[np.ndarray, np.ndarray]]] = {}
    left = _ENTRIES
    for group in _groups(formula)[:_GROUPS]:
        check_time()
        clauses = lists(*take(formula.literals, formula.offsets, group))
        variables = sorted({abs(literal) for clause in clauses for literal in clause})
        table = _solutions(clauses, variables)
        if table.tobytes() not in known:
            left -= 3 ** len(variables)
            if left < 0:
                break
            known[table.tobytes()] = _implicates(table)
        given_clauses = {tuple(sorted(clause)) for clause in clauses}
        names = np.array(variables)
        for places, signs in known[table.tobytes()]:
            implied_clauses.add(tuple(sorted((names[places] * signs).tolist())))
        implied_clauses -= given_clauses
    return sorted(implied_clauses)


def _groups(formula: Formula) -> list[np.ndarray]:
    """Clauses by group, for groups of FEWEST to MOST variables."""
    sizes, n = np.diff(formula.offsets), np.int64(formula.n_total)
    variables = np.abs(formula.literals).astype(np.int64) - 1
    some = np.flatnonzero((sizes > 1) & (sizes <= MOST))
    pairs = []
    for size in np.unique(sizes[some]).tolist():
        clauses = some[sizes[some] == size]
        rows = np.sort(variables[formula.offsets[clauses][:, None] + np.arange(size)], axis=1)
        for i, j in itertools.combinations(range(size), 2):
            pairs.append((clauses, rows[:, i] * n + rows[:, j]))
    if not pairs:
        return []
    owner = np.concatenate([clauses for clauses, _ in pairs])
    _, pair = np.unique(np.concatenate([keys for _, keys in pairs]), return_inverse=True)
    order = np.argsort(owner, kind="stable")
    owner, pair = owner[order], pair[order]
    first = np.flatnonzero(np.diff(owner, prepend=-1))
    offsets = np.append(first, len(owner)).astype(np.int64)
    linked = Formula.from_arrays(pair.astype(np.int32) + 1, offsets, n_vars=int(pair.max()) + 1)
    label = components(linked)[pair[first]]  # of each clause owner[first]
    members, ends = take(variables, formula.offsets, owner[first])
    held = np.unique(np.repeat(label.astype(np.int64), np.diff(ends)) * n + members)
    count = np.bincount(held // n, minlength=int(label.max()) + 1)
    good = (count >= FEWEST) & (count <= MOST)
    by_label = np.argsort(label, kind="stable")
    by_label = by_label[good[label[by_label]]]
    cuts = np.flatnonzero(np.diff(label[by_label])) + 1
    return [group for group in np.split(owner[first][by_label], cuts) if len(group)]


def _solutions(clauses: list[list[int]], variables: list[int]) -> np.ndarray:
    """(2, .., 2) bool, an axis for each variable: which assignments satisfy the clauses?"""
    place = {variable: k for k, variable in enumerate(variables)}
    table = np.ones((2,) * len(variables), bool)
    for clause in clauses:
        at: list[slice | int] = [slice(None)] * len(variables)
        for literal in clause:
            at[place[abs(literal)]] = int(literal < 0)
        table[tuple(at)] = False
    return table


def _implicates(table: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """The prime implicates of a table: (axes, signs of their literals)."""
    possible = table  # (3, .., 3): is there a solution with these values? Value 2: any.
    for axis in range(table.ndim):
        possible = np.concatenate([possible, possible.any(axis, keepdims=True)], axis)
    prime = ~possible
    for axis in range(table.ndim):  # a shorter one would do if it had no literal of this axis
        given = (slice(None),) * axis + (slice(0, 2),)
        prime[given] &= np.take(possible, [2], axis)
    out = []
    for values in np.argwhere(prime):
        axes = np.flatnonzero(values < 2)
        if SHORTEST <= len(axes) <= LONGEST:
            out.append((axes, np.where(values[axes] == 1, -1, 1)))
    return out
