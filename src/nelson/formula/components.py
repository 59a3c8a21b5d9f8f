"""Components: groups of variables that no clause connects. P_theta(. | C) is a product over them.

`components` labels the variables, `by_component` sorts variables and clauses by component, and
`split` cuts a formula into its components, each with variables renumbered from 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nelson.formula.flat import check_ahead, take
from nelson.formula.memo import Slot
from nelson.kernels.core.deadline import check_time

if TYPE_CHECKING:
    from nelson.formula.formula import Formula

_COMPONENTS: Slot[np.ndarray] = Slot("component of each variable")


class Grouped(NamedTuple):
    """Clauses and variables sorted by component; component c owns
    `clauses[first[c]:first[c + 1]]` and `variables[start[c]:start[c + 1]]`, both from 0.
    """

    clauses: np.ndarray
    first: np.ndarray
    variables: np.ndarray
    start: np.ndarray


@dataclass(frozen=True, eq=False)
class Component:
    """Clauses over variables 1..k that share no variable with any other component."""

    literals: np.ndarray  # int32, over 1..k
    offsets: np.ndarray  # int64
    variables: np.ndarray  # (k,) int64, ascending: the original number of each variable, from 0

    @property
    def n_vars(self) -> int:
        return len(self.variables)

    @property
    def n_clauses(self) -> int:
        return len(self.offsets) - 1


def components(f: Formula) -> np.ndarray:
    """Component of each variable, int32 (n_total,), numbered from 0 by their first variable."""
    return f.memo.once(_COMPONENTS, lambda: _labels(f.literals, f.offsets, f.n_total))


def clause_components(f: Formula) -> np.ndarray:
    """Component of each clause, int32 (n_clauses,). There must be no empty clause."""
    return components(f)[np.abs(f.literals[f.offsets[:-1]]) - 1]


def by_component(f: Formula) -> Grouped:
    """Clauses and variables by component. Empty clauses belong to none and are left out."""
    labels = components(f)
    count = int(labels.max()) + 1 if labels.size else 0
    nonempty = np.flatnonzero(np.diff(f.offsets))
    order, first = _sorted(labels[np.abs(f.literals[f.offsets[nonempty]]) - 1], count)
    return Grouped(nonempty[order], first, *_sorted(labels, count))


def split(
    literals: np.ndarray, offsets: np.ndarray, n: int, most: int | None = None
) -> list[Component]:
    """The components of nonempty clauses over variables 1..n that have a clause, largest first.

    Components of equal size stand in the order of their first variable; clauses keep their order.
    `most`: no more components than this; the last one then holds all of the smallest together.
    O(total literals), plus two sorts.
    """
    if len(offsets) < 2:
        return []
    labels = _labels(literals, offsets, n)
    of_clause = labels[np.abs(literals[offsets[:-1]]) - 1]
    sizes = np.bincount(labels)
    has_clause = np.bincount(of_clause, minlength=len(sizes)) > 0
    used = int(has_clause.sum())
    count = used if most is None else min(used, most)
    ranked = np.lexsort((np.arange(len(sizes)), -sizes, ~has_clause))
    position = np.empty(len(sizes), np.int64)  # of each component in the result
    position[ranked] = np.minimum(np.arange(len(sizes)), count - 1)
    position[~has_clause] = count
    clauses, first = _sorted(position[of_clause], count)
    check_time()
    variables, start = _sorted(position[labels], count)
    renumbered = np.zeros(n, np.int32)
    parts = []
    for c in range(count):
        members = variables[start[c] : start[c + 1]]
        renumbered[members] = np.arange(1, len(members) + 1)
        if count > 1:
            old, ends = take(literals, offsets, clauses[first[c] : first[c + 1]])
        else:
            old, ends = literals, offsets.copy()
        check_time()
        new = np.sign(old) * renumbered[np.abs(old) - 1]
        parts.append(Component(new.astype(np.int32), ends, members))
    return parts


def _labels(literals: np.ndarray, offsets: np.ndarray, n: int) -> np.ndarray:
    from nelson.kernels.reduce import graph

    check_ahead(len(literals))
    labels = np.arange(n, dtype=np.int32)
    graph.components(_read_only(literals), _read_only(offsets), labels)
    labels.setflags(write=False)
    return labels


def _read_only(array: np.ndarray) -> np.ndarray:
    """A read-only view. Numba compiles once for it, and again for an array that can be written."""
    view = array.view()
    view.setflags(write=False)
    return view


def _sorted(numbers: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices in the order of their numbers 0..count-1, and where each number begins."""
    order = np.argsort(numbers, kind="stable")
    return order, np.searchsorted(numbers[order], np.arange(count + 1))
