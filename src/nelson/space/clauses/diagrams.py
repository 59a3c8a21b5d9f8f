"""Truth tables and lists of rows as decision diagrams over the literals of values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nelson.space.clauses.gates import FALSE, TRUE, Gates

Literals = list[list[int]]


def tabulated(gates: Gates, truth: np.ndarray, literals: Literals) -> int:
    """A literal for a truth table. Axis k of `truth` is the values of field k, whose literals are
    literals[k]; exactly one of them is true.
    """
    known: dict[bytes, int] = {}

    def node(truth: np.ndarray, depth: int) -> int:
        """node <-> the child of the value that the field has: two clauses for each value."""
        if truth.all():
            return TRUE
        if not truth.any():
            return FALSE
        mine = literals[depth]
        if truth.ndim == 1:
            inside, outside = np.flatnonzero(truth).tolist(), np.flatnonzero(~truth).tolist()
            if len(inside) <= len(outside):
                return gates.any(mine[k] for k in inside)
            return -gates.any(mine[k] for k in outside)
        key = truth.tobytes() + bytes([depth])
        if key not in known:
            children = [node(below, depth + 1) for below in truth]
            if len(set(children)) == 1:
                known[key] = children[0]
            elif len(children) == 2:
                known[key] = gates.mux(mine[1], children[1], children[0])
            else:
                known[key] = gates.select(mine, children)
        return known[key]

    return node(truth, 0)


def state(
    gates: Gates, truth: np.ndarray, literals: Literals, add: Callable[[list[int]], None]
) -> None:
    """Clauses for: the truth table holds."""
    for has, below in zip(literals[0], truth, strict=True):
        if truth.ndim == 1:
            add([-has, TRUE if below else FALSE])
        else:
            add([-has, tabulated(gates, below, literals[1:])])


def listed(gates: Gates, cells: list[dict[int, int]], rows: set[tuple[int, ...]]) -> int:
    """A literal for: the columns have one of these rows. cells: value -> literal, by column.

    Rows with the same first value are gathered, and equal remainders become one node.
    """
    known: dict[frozenset[tuple[int, ...]], int] = {}

    def node(rest: frozenset[tuple[int, ...]]) -> int:
        if not rest:
            return FALSE
        if rest == {()}:
            return TRUE
        if rest not in known:
            at = len(cells) - len(next(iter(rest)))
            by_value: dict[int, set[tuple[int, ...]]] = {}
            for row in rest:
                by_value.setdefault(row[0], set()).add(row[1:])
            by_child: dict[int, list[int]] = {}
            for value, below in sorted(by_value.items()):
                child = node(frozenset(below))
                by_child.setdefault(child, []).append(cells[at][value])
            known[rest] = gates.any(
                gates.all([gates.any(values), child]) for child, values in by_child.items()
            )
        return known[rest]

    return node(frozenset(rows))
