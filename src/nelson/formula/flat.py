"""Helpers for clauses as flat arrays (see `nelson.formula.formula`): clause j is
`literals[offsets[j]:offsets[j + 1]]`.

The *code* of a literal is 2 (v - 1) for +v and 2 (v - 1) + 1 for -v, so that the two literals of a
variable are neighbours.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence

import numpy as np

from nelson.kernels.core.deadline import DEADLINE, check_time, seconds_compiling


def lengths_to_offsets(lengths: np.ndarray) -> np.ndarray:
    """Where each clause starts, int64, with the total length at the end."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def owners(offsets: np.ndarray) -> np.ndarray:
    """The clause of each literal."""
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def lists(literals: np.ndarray, offsets: np.ndarray) -> list[list[int]]:
    """The clauses as lists, for packages that take those."""
    # Clauses between two looks at the deadline: some hundredths of a second.
    piece = 1 << 17
    out: list[list[int]] = []
    for first in range(0, len(offsets) - 1, piece):
        check_time()
        ends = offsets[first : first + piece + 1]
        flat = literals[ends[0] : ends[-1]].tolist()
        out += [flat[a:b] for a, b in itertools.pairwise((ends - ends[0]).tolist())]
    return out


def select(
    literals: np.ndarray, offsets: np.ndarray, keep: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The clauses where `keep` (bool, n_clauses) is true, in order."""
    lengths = np.diff(offsets)
    return literals[np.repeat(keep, lengths)].astype(np.int32), lengths_to_offsets(lengths[keep])


def take(
    literals: np.ndarray, offsets: np.ndarray, clauses: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The clauses with these indices, in the order of the indices."""
    lengths = offsets[clauses + 1] - offsets[clauses]
    ends = lengths_to_offsets(lengths)
    return literals[np.arange(ends[-1]) + np.repeat(offsets[clauses] - ends[:-1], lengths)], ends


def join(
    parts: Sequence[tuple[np.ndarray, np.ndarray, int]],
) -> tuple[np.ndarray, np.ndarray]:
    """(literals, offsets, variables) of formulas without common variables, as one formula.

    The variables of each follow those of the one before.
    """
    first = np.cumsum([0] + [n for _, _, n in parts])
    literals = [
        part_literals + np.sign(part_literals) * np.int32(shift)
        for (part_literals, _, _), shift in zip(parts, first[:-1], strict=True)
    ]
    lengths = np.concatenate([np.diff(offsets) for _, offsets, _ in parts])
    return np.concatenate(literals).astype(np.int32), lengths_to_offsets(lengths)


def blocks(offsets: np.ndarray, size: int) -> Iterator[tuple[int, int]]:
    """Ranges [a, b) of clauses with at most `size` literals each, or a single longer clause."""
    n = len(offsets) - 1
    a = 0
    while a < n:
        b = int(np.searchsorted(offsets, offsets[a] + size, side="right")) - 1
        b = min(max(b, a + 1), n)
        yield a, b
        a = b


def check_ahead(steps: float, seconds: float = 6e-8) -> None:
    """`check_time` before work of `steps` steps that cannot be ended once it has begun.

    seconds: of a step. The default is what a literal takes where the formula does not fit into the
    cache and other programs run beside this one.
    """
    deadline, late = DEADLINE.get()
    if time.monotonic() + steps * seconds > deadline + seconds_compiling():
        raise late()


def occurrences(literals: np.ndarray, offsets: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The clauses of each literal code: `clauses[start[code]:start[code + 1]]`.

    start: int64 (2 n + 1,); clauses: int32, ascending for each code.
    """
    from nelson.kernels.reduce import graph

    check_ahead(len(literals))
    codes = 2 * (np.abs(literals) - 1) + (literals < 0)
    start = lengths_to_offsets(np.bincount(codes, minlength=2 * n))
    check_ahead(len(literals))
    clauses = np.empty(len(literals), np.int32)
    graph.occurrences(literals, offsets, start[:-1].copy(), clauses)
    return start, clauses
