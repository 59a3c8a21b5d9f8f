"""The variables of each field, and what they say about its value.

    two values                            one variable
    a choice of up to 64 values           one variable for each value, exactly one of them true
    an integer of up to 12 values         the same
    anything larger                       a binary number: the value itself in two's complement, or
                                          the position of the value

One variable for each value suits `distinct`, tables and single values; binary suits sums. Eight
transactions in order with lengths 1..15 compile in 8 s with binary lengths, and not in 40 s with
one-hot ones. Sudokus and months (9 and 12 values) stay one-hot.
"""

from __future__ import annotations

import itertools

from nelson.space.clauses import vectors
from nelson.space.clauses.gates import FALSE, TRUE, Gates
from nelson.space.clauses.vectors import Vector
from nelson.space.language.expressions import width
from nelson.space.language.fields import Field, Integer, NumericChoice

#: Values of the largest one-hot choice and of the largest one-hot integer.
ONE_HOT_CHOICE = 64
ONE_HOT_INTEGER = 12


class FieldBits:
    """Fields as variables, with the clauses that keep them in their domains."""

    def __init__(self) -> None:
        self.gates = Gates()
        self.of_field: dict[str, list[int]] = {}  # the variables of each field, in order

    def add_field(self, field: Field) -> None:
        made = [self.gates.field_variable() for _ in range(_variables(field))]
        self.of_field[field.name] = made
        if is_one_hot(field):
            self.gates.add(made)
            for a, b in itertools.combinations(made, 2):
                self.gates.add([-a, -b])
        elif isinstance(field, Integer) and field.size > 2:
            for vector, bound, flip in (
                (self.bits(field), field.high, False),
                (self.bits(field), field.low, True),
            ):
                other = vectors.constant(bound)
                pair = (other, vector) if flip else (vector, other)
                for breach in vectors.breaches(self.gates, *pair):
                    self.gates.add([-literal for literal in breach])
        elif field.size > 2:
            top = vectors.constant(field.size - 1)
            for breach in vectors.breaches(self.gates, [*made, FALSE], top):
                self.gates.add([-literal for literal in breach])

    def indicators(self, field: Field) -> list[int]:
        """The literal of each value of a one-hot or two-valued field, by its code."""
        made = self.of_field[field.name]
        if field.size == 1:
            return [TRUE]
        return [-made[0], made[0]] if field.size == 2 else made

    def has(self, field: Field, code: int) -> int:
        """A literal for: the field has the value of this code."""
        if field.size <= 2 or is_one_hot(field):
            return self.indicators(field)[code]
        return self.gates.all(self.evidence(field, code))

    def evidence(self, field: Field, code: int) -> list[int]:
        """Literals that together say: the field has the value of this code."""
        made = self.of_field[field.name]
        if field.size <= 2 or is_one_hot(field):
            return [literal for literal in [self.indicators(field)[code]] if literal != TRUE]
        stored = field.low + code if isinstance(field, Integer) else code
        return [x if stored >> k & 1 else -x for k, x in enumerate(made)]

    def range_evidence(self, field: Field, values: range) -> list[list[int]]:
        """Sets of literals, one of which holds if and only if an integer is in the range.

        The range is cut into blocks of 2^j values whose binary numbers differ in the lowest j bits
        only: at most two blocks for each j.
        """
        first, last = values[0], values[-1]
        if field.size <= 2 or is_one_hot(field) or not isinstance(field, Integer):
            return [self.evidence(field, field.code(v)) for v in values]
        made = self.of_field[field.name]
        found = []
        while first <= last:
            free = (first & -first).bit_length() - 1 if first else len(made)
            free = min(free, (last - first + 1).bit_length() - 1, len(made))
            found.append([x if first >> k & 1 else -x for k, x in enumerate(made) if k >= free])
            first += 1 << free
        return found

    def bits(self, field: Integer | NumericChoice) -> Vector:
        """The number that a field holds, as a vector."""
        made = self.of_field[field.name]
        if isinstance(field, Integer) and not is_one_hot(field) and field.size > 2:
            return [*made, FALSE] if field.low >= 0 else list(made)
        values = [field.value(k) for k in range(field.size)]
        literals = [self.has(field, k) for k in range(field.size)]
        return [
            self.gates.any(x for x, value in zip(literals, values, strict=True) if value >> j & 1)
            for j in range(width(field.low, field.high))
        ]


def is_one_hot(field: Field) -> bool:
    """Does the field have one variable for each of its values?"""
    most = ONE_HOT_INTEGER if isinstance(field, Integer) else ONE_HOT_CHOICE
    return 2 < field.size <= most


def _variables(field: Field) -> int:
    if field.size <= 2:
        return field.size - 1
    if is_one_hot(field):
        return field.size
    if isinstance(field, Integer):
        return width(field.low, field.high) - (field.low >= 0)
    return (field.size - 1).bit_length()
