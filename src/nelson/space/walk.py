"""Legal rows field by field: which values are left after a prefix, and the share of each.

    P(x_k = v | x_1, ..., x_(k-1)) = N(x_1, ..., x_(k-1), v) / N(x_1, ..., x_(k-1))

N counts legal rows that begin with these values (with weights: their total weight). The shares come
from the circuit of the space, one upward pass for each: a share is 0.0 if and only if no legal row
has the value, and is rounded in the last digits else.

A field of many values is cut into at most WIDTH ranges of equal size, each of these again, until a
range has at most WIDTH values: values are found in log(size) steps.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nelson.budget import Budget
from nelson.errors import BudgetExceeded
from nelson.exact.compiled import not_worth_a_try, why_not
from nelson.formula.memo import Recent
from nelson.space.answers import explained, law_of
from nelson.space.language.fields import Integer
from nelson.space.law import circuit_of, joint

if TYPE_CHECKING:
    from nelson.space.declaration import Declaration

#: Ranges that a field of many values is cut into.
WIDTH = 16
#: All values of a field stand side by side if they are at most this many (Hypothesis takes weights
#: of at most 255 values), and cost at most this many visits of decisions (about 10 ms).
MOST_VALUES, MOST_VISITS = 254, 200_000
#: Prefixes whose shares are kept.
KEPT = 4096

Prefix = tuple[int, ...]  # the codes of the first fields


class Walk:
    """The legal rows of a space under a condition."""

    def __init__(self, space: Declaration, given: Any = None, weights: Any = None) -> None:
        budget = Budget.of()
        self.space = space
        with explained(space, given, budget), budget.enforced():
            self._law = law_of(space, given, weights, budget=budget)
            formula = self._law.formula
            circuit = circuit_of(formula, budget)
            if circuit is None:
                why = not_worth_a_try(formula) or why_not(formula)
                raise BudgetExceeded(
                    f"no circuit of {formula!r}: {why}. Rows are chosen value by value "
                    "only where a space compiles: fix fields with given=, or take rows of "
                    "space.sample, which need no circuit"
                )
            self._circuit = circuit
            circuit.mean(self._law.log_odds[None, :])  # raises Unsatisfiable if no row is legal
        self.fields = tuple(space.fields.values())
        self._shares: Recent[tuple[Prefix, range], dict[range, float]] = Recent(KEPT)

    def shares(self, prefix: Prefix, codes: range) -> dict[range, float]:
        """The parts of a range of codes of the next field that legal rows have, in order, with
        their shares. A part of one code is a value.
        """
        return self._shares.once((prefix, codes), lambda: self._computed(prefix, codes))

    def _computed(self, prefix: Prefix, codes: range) -> dict[range, float]:
        encoding, field = self.space.encoding, self.fields[len(prefix)]
        given = [
            x
            for field_, code in zip(self.fields, prefix, strict=False)
            for x in encoding.code_literals(field_, code)
        ]
        law = replace(self._law, given=(*self._law.given, *given))
        step = 1
        while not self._fits(range(0, len(codes), step)):
            step *= WIDTH
        # Ranges begin at multiples of the step, so that each is few sets of literals.
        low = field.low if isinstance(field, Integer) else 0
        first = codes.start - (low + codes.start) % step
        starts = range(first, codes.stop, step)
        parts = [range(max(k, codes.start), min(k + step, codes.stop)) for k in starts]
        events = [
            encoding.cubes(field, range(low + part[0], low + part[-1] + 1))
            if isinstance(field, Integer)
            else [encoding.code_literals(field, code) for code in part]
            for part in parts
        ]
        cubes = [cube for event in events for cube in event]
        owner = np.repeat(np.arange(len(parts)), [len(event) for event in events])
        shares = np.bincount(owner, joint(law, self._circuit, cubes), len(parts))
        return {part: x for part, x in zip(parts, shares.tolist(), strict=True) if x > 0}

    def _fits(self, codes: range) -> bool:
        most = min(MOST_VALUES, MOST_VISITS // max(1, self._circuit.edges))
        return len(codes) <= max(WIDTH, most)

    def domain(self, prefix: Prefix) -> range:
        """The codes of the next field."""
        return range(self.fields[len(prefix)].size)

    def nearest(self, prefix: Prefix, code: int) -> int:
        """The next legal code at or after this one; the last one if there is none."""
        domain = self.domain(prefix)
        first = self._first(prefix, domain, code)
        return self._last(prefix, domain) if first is None else first

    def _first(self, prefix: Prefix, codes: range, least: int) -> int | None:
        """The first legal code of a range that is not below `least`."""
        for part in self.shares(prefix, codes):
            if part[-1] >= least:
                code = part[0] if len(part) == 1 else self._first(prefix, part, least)
                if code is not None:
                    return code
        return None

    def _last(self, prefix: Prefix, codes: range) -> int:
        part = list(self.shares(prefix, codes))[-1]
        return part[0] if len(part) == 1 else self._last(prefix, part)

    def least(self) -> Prefix:
        """The legal row whose first field is least, then its second field, and so on."""
        row: Prefix = ()
        while len(row) < len(self.fields):
            row += (self.nearest(row, 0),)
        return row

    def row(self, codes: Prefix) -> dict[str, Any]:
        return {f.name: f.value(code) for f, code in zip(self.fields, codes, strict=True)}
