"""Functions of rules and numbers: counting, choosing, tables.

They build the nodes of `expressions`, and are public as names of `nelson.space`.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from nelson.space.language.expressions import (
    Category,
    Computed,
    Derived,
    Expression,
    Number,
    Rule,
    any_of_rules,
    if_else,
    items,
    number,
    refuse,
    rule,
    whole_number,
)


def count(*rules: Any) -> Number:
    """How many of the rules hold: count(a, b, c), or count of one list."""
    terms = tuple(rule(r) for r in flattened(rules))
    return Computed("count", terms, 0, len(terms))


def at_most(k: int, *rules: Any) -> Rule:
    """At most k of the rules hold."""
    return count(*rules) <= k


def at_least(k: int, *rules: Any) -> Rule:
    """At least k of the rules hold."""
    return count(*rules) >= k


def exactly(k: int, *rules: Any) -> Rule:
    """Exactly k of the rules hold."""
    return count(*rules) == k


def distinct(*terms: Any) -> Rule:
    """No two are equal: all numbers, or all choices."""
    listed = tuple(flattened(terms))
    if not all(isinstance(t, Category) for t in listed):
        listed = tuple(number(t) for t in listed)
    return Derived("distinct", listed)


def minimum(*numbers: Any) -> Number:
    """The smallest of some numbers."""
    return _fold(operator.le, numbers)


def maximum(*numbers: Any) -> Number:
    """The largest of some numbers."""
    return _fold(operator.ge, numbers)


def _fold(better: Any, numbers: Iterable[Any]) -> Number:
    return balanced(
        lambda a, b: if_else(better(a, b), a, b), [number(item) for item in flattened(numbers)]
    )


def all_of(rules: Iterable[Any]) -> Rule:
    """All of the rules hold; true if there are none."""
    listed = tuple(rule(r) for r in rules)
    return Derived("and", listed) if len(listed) > 1 else listed[0] if listed else rule(True)


def any_of(rules: Iterable[Any]) -> Rule:
    """One or more of the rules hold; false if there are none."""
    return any_of_rules([rule(r) for r in rules])


def parity(*rules: Any) -> Rule:
    """An odd number of the rules hold."""
    return balanced(operator.xor, [rule(r) for r in flattened(rules)])


def balanced(join: Callable[[Any, Any], Any], operands: list[Any]) -> Any:
    """join of all operands, as a tree of depth log n.

    A chain would be n deep; and where `join` uses an operand twice, as the smaller of two numbers
    does, its text would double with each item.
    """
    while len(operands) > 1:
        pairs = [join(a, b) for a, b in zip(operands[::2], operands[1::2], strict=False)]
        operands = pairs + operands[2 * len(pairs) :]
    return operands[0]


def element(numbers: Iterable[Any], index: Any) -> Number:
    """numbers[index]; the index must stay within the list."""
    terms, at = [number(item) for item in items(numbers, "element")], number(index)
    if at.low < 0 or at.high >= len(terms):
        refuse(
            f"element {index!r}, between {at.low} and {at.high}, of a list of {len(terms)}",
            f"an index between 0 and {len(terms) - 1}",
        )
    value = terms[at.high]
    for k in range(at.high - 1, at.low - 1, -1):
        value = if_else(at == k, terms[k], value)
    return value


def table(fields: Iterable[Any], rows: Iterable[Iterable[Any]]) -> Rule:
    """The fields together have one of these rows: table([a, b], [(1, 2), (3, 4)])."""
    columns = tuple(
        f if isinstance(f, (Category, Rule)) else number(f)
        for f in items(fields, "the fields of a table")
    )
    allowed = set()
    if isinstance(rows, str) or not hasattr(rows, "__iter__"):
        refuse(f"the rows {rows!r} of a table", "a list of rows")
    for row in rows:
        if not hasattr(row, "__iter__") or isinstance(row, Expression):
            refuse(f"the row {row!r} of a table", f"a list of values: {columns!r}")
        values = tuple(itertools.islice(row, len(columns) + 1))
        if len(values) != len(columns):
            refuse(f"the row {values!r} of a table", f"{len(columns)} values: {columns!r}")
        allowed.add(tuple(_cell(c, v) for c, v in zip(columns, values, strict=True)))
    return Derived("table", (columns, tuple(sorted(allowed))))


def forbidden(fields: Iterable[Any], rows: Iterable[Iterable[Any]]) -> Rule:
    """The fields together have none of these rows."""
    return ~table(fields, rows)


def _cell(column: Expression, value: Any) -> int:
    """A value of a table as a whole number: the position of a category, 0 or 1 for a rule."""
    if isinstance(column, Category):
        return column.code(value)
    if isinstance(column, Rule) and isinstance(value, (bool, np.bool_)):
        return int(value)
    return whole_number(value, " in a table of ", column)


def flattened(terms: Iterable[Any]) -> list[Any]:
    """The items of f(a, b, c) or of f([a, b, c])."""
    given = list(terms)
    if len(given) == 1 and hasattr(given[0], "__iter__") and not isinstance(given[0], str):
        given = items(given[0], "a list")
    if not given:
        refuse("a list of no rules or numbers", "one or more")
    return given
