"""Rows of the constraints of one set of fields, from the bits of PyVSC's random state.

Law. Let L1, ..., Lk be the layers of `solve_order`; fields without an order are in Lk. A row is
drawn layer by layer, given the values of the layers before:

    P(values of a layer) ~ product of W(x) over its fields with `dist`,
                           for values that some row has; the other fields uniform given these

W(v) is the weight of v: `:=` gives it to each value of a range, `:/` divides it by their number.
Without `dist` and `solve_order` a row is uniform over all legal rows.

A row is a function of the constraints, the state and the seed alone: the same random state gives
the same row, whatever was drawn before.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from nelson.errors import NelsonError
from nelson.pyvsc.translation import Untranslatable
from nelson.verilator.problems import Instance

#: Values with weights are drawn until a row has them, at most this often.
MOST_DRAWS = 2000
#: Values that no row has are remembered, at most so many.
MOST_REMEMBERED = 1 << 16

Entry = tuple[int, int, float]  # lowest and highest value, weight of the whole range


@dataclass(frozen=True)
class Layer:
    """Fields that are solved together, by name."""

    weighted: dict[str, list[Entry]]
    others: tuple[str, ...]  # () in the last layer


class FieldRows:
    """Rows of one text: all that is needed for the next one."""

    def __init__(self, instance: Instance, widths: dict[str, int]) -> None:
        self._instance, self._widths = instance, widths
        self._impossible: set[tuple[tuple[str, int], ...]] = set()
        self._places: list[tuple[str, int, int]] = []  # (name, lowest bit, mask)
        begin = 0
        for name, field in instance.constraints.space.fields.items():
            width = max(field.size - 1, 1).bit_length()
            if name in widths:
                self._places.append((name, begin, (1 << width) - 1))
            begin += width
        rows = instance.constraints.rows if widths else None
        if rows is not None:
            self._rows = rows
            self._evidence = instance.constraints.evidence(instance.values)
            self.is_possible = rows.row(self._evidence, 0) is not None
        else:
            self.is_possible = instance.satisfiable
        if widths and self.is_possible and rows is None:
            raise Untranslatable("circuit", "no circuit within the effort of one call")

    def draw(self, layers: Sequence[Layer], seed: int) -> dict[str, int]:
        """The bit pattern of each field in one row."""
        if not layers:
            return self._values(self._row({}, seed))
        chosen, fixed = random.Random(seed), dict[str, int]()
        for layer in layers:
            if layer.weighted:
                fixed |= self._weighted(layer.weighted, fixed, chosen)
            if layer.others:
                fixed |= self._layer(layer.others, fixed, chosen.getrandbits(64))
        return self._values(self._row(fixed, chosen.getrandbits(64)))

    def _row(self, fixed: dict[str, int], seed: int) -> int | None:
        if not fixed:
            return self._rows.row(self._evidence, seed)
        more = self._instance.constraints.evidence(fixed)
        return self._rows.row([*self._evidence, *more], seed)

    def _values(self, bits: int | None) -> dict[str, int]:
        if bits is None:
            raise Untranslatable("circuit", "the circuit has no row, and a solver finds one")
        return {name: bits >> begin & mask for name, begin, mask in self._places}

    def _weighted(
        self, entries: dict[str, list[Entry]], fixed: dict[str, int], chosen: random.Random
    ) -> dict[str, int]:
        """Values by their weights alone, until some row has them: the law among those it has."""
        totals = {name: sum(weight for *_, weight in each) for name, each in entries.items()}
        if not all(totals.values()):
            raise Untranslatable("dist", "a dist whose weights are all 0")
        for _ in range(MOST_DRAWS):
            values = {}
            for name, ranges in entries.items():
                (low, high, _), *_ = chosen.choices(ranges, [weight for *_, weight in ranges])
                values[name] = chosen.randint(low, high) % (1 << self._widths[name])
            together = tuple(sorted((fixed | values).items()))
            if together in self._impossible:
                continue
            if self._row(fixed | values, 0) is not None:
                return values
            if len(self._impossible) >= MOST_REMEMBERED:
                self._impossible.clear()
            self._impossible.add(together)
        raise Untranslatable("dist", f"{MOST_DRAWS:,} values drawn by their weights are not legal")

    def _layer(self, names: tuple[str, ...], fixed: dict[str, int], seed: int) -> dict[str, int]:
        """Values of some fields, uniform over those that they can have together."""
        asked = f"(get-value ({' '.join(names)}))".encode()
        try:
            codes = self._instance.question(asked, tuple(fixed.items())).codes(1, seed)
        except NelsonError as error:
            raise Untranslatable("solve-order", str(error)) from None
        if codes is None:
            raise Untranslatable("solve-order", "no values for a layer")
        return {name: int(codes[name][0]) for name in names}
