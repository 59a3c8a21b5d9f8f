"""Groups of literals of which at most one, or exactly one, is true in every solution.

Literals a and b exclude each other if there is a clause (-a or -b). A group is a clique of that
graph:

    1  clauses whose literals all exclude each other: exactly one of them is true. Larger ones first
    2  greedy cliques among the other variables: literals that exclude many others come first

No variable is in two groups. Cost: about O(sum of clause lengths + edges times group sizes),
limited by counted steps; the result is a function of the clauses alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nelson.formula.flat import lengths_to_offsets
from nelson.formula.memo import Slot

if TYPE_CHECKING:
    from nelson.formula.formula import Formula


_GROUPS: Slot[Groups] = Slot("groups of which at most one is true")


class Groups(NamedTuple):
    """Group g has the literals literals[offsets[g]:offsets[g + 1]]; two or more."""

    literals: np.ndarray  # int32, DIMACS numbers
    offsets: np.ndarray  # int64
    exactly: np.ndarray  # (groups,) bool: is exactly one true?


def groups_of(formula: Formula) -> Groups:
    """The groups of a formula; kept with it."""
    return formula.memo.once(_GROUPS, lambda: _groups(formula))


def _groups(formula: Formula) -> Groups:
    # Steps of each of the two searches, about 10 ns each.
    steps = 1 << 27
    from nelson.kernels.reduce import binary_clauses as kernel

    n, literals, offsets = formula.n_total, formula.literals, formula.offsets
    lengths = np.diff(offsets)
    first = offsets[:-1][lengths == 2]
    pairs = -np.stack([literals[first], literals[first + 1]], axis=1)
    codes = 2 * (np.abs(pairs) - 1) + (pairs < 0)  # as in `flat.py`
    both = np.concatenate([codes, codes[:, ::-1]]).astype(np.int64)
    both = both[np.lexsort((both[:, 1], both[:, 0]))]
    degree = np.bincount(both[:, 0], minlength=2 * n)
    at, near = lengths_to_offsets(degree), both[:, 1].astype(np.int32)

    is_exact = np.zeros(len(lengths), np.uint8)
    kernel.exactly_one(literals, offsets, at, near, steps, is_exact)
    used, taken = np.zeros(n, np.uint8), []
    chosen = np.flatnonzero(is_exact)
    for j in chosen[np.argsort(-lengths[chosen], kind="stable")].tolist():
        clause = literals[offsets[j] : offsets[j + 1]]
        if not used[np.abs(clause) - 1].any():
            used[np.abs(clause) - 1] = 1
            taken.append(clause)
    exact = len(taken)
    seeds = np.flatnonzero(degree)
    seeds = seeds[np.argsort(-degree[seeds], kind="stable")].astype(np.int32)
    some = np.empty(max(1, int(degree.max(initial=0))), np.int32)
    out, ends = np.empty(max(1, n), np.int32), np.zeros(max(1, n), np.int64)
    count = kernel.cliques(seeds, at, near, used, steps, some, out, ends)
    found_codes = out[: ends[count - 1] if count else 0]
    others = ((found_codes >> 1) + 1) * np.where(found_codes & 1, -1, 1)
    sizes = [len(clause) for clause in taken] + np.diff(ends[:count], prepend=0).tolist()
    return Groups(
        np.concatenate([*taken, others]).astype(np.int32),
        lengths_to_offsets(np.array(sizes, np.int64)),
        np.arange(len(sizes)) < exact,
    )
