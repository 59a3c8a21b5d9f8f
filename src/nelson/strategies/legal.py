"""The strategy itself: choices of Hypothesis that walk along the fields of a space.

The value of a field is one choice: the integer c, the code of the value, so that Hypothesis shrinks
it, keeps it and replays it as any integer of its own; its weights are the exact shares of the
values that are left. If c is no value that is left (Hypothesis also tries integers of its own
accord, and the values before may have changed), the next value that is left is taken.

Where there are too many values for weights, choices before c go down a tree of ranges by exact
shares, and c has the weights of the values of the last range. They steer c when it is drawn, and
the row does not depend on them: a shrinker may set them all to zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis.internal.conjecture.data import ConjectureData
from hypothesis.strategies import SearchStrategy

from nelson.space.walk import Walk

#: Hypothesis wants weights that leave something to all integers between the bounds.
REST = 2.0**-20


class LegalRows(SearchStrategy[Any]):
    """Rows of `walk()`, each made into a value by `made`."""

    def __init__(self, walk: Callable[[], Walk], made: Callable[..., Any], shown: str) -> None:
        super().__init__()
        self._compile, self._made, self._shown = walk, made, shown
        self._walk: Walk | None = None

    def __repr__(self) -> str:
        return self._shown

    def do_validate(self) -> None:
        """Compile the space before the first example, which has a time limit."""
        if self._walk is None:
            self._walk = self._compile()

    def do_draw(self, data: ConjectureData) -> Any:
        self.do_validate()
        walk = self._walk
        assert walk is not None
        row: tuple[int, ...] = ()
        while len(row) < len(walk.fields):
            row += (_code(walk, row, data),)
        return self._made(**walk.row(row))


def _code(walk: Walk, prefix: tuple[int, ...], data: ConjectureData) -> int:
    """The code of the next field."""
    codes = walk.domain(prefix)
    parts = list(shares := walk.shares(prefix, codes))
    if _are_values(parts):
        codes = range(parts[0][0], parts[-1][0] + 1)
    while not _are_values(parts):
        steered = _integer(data, 0, len(parts) - 1, dict(enumerate(shares.values())))
        parts = list(shares := walk.shares(prefix, parts[steered]))
    values = {part[0]: share for part, share in shares.items()}
    code = _integer(data, codes[0], codes[-1], values)
    return code if code in values else walk.nearest(prefix, code)


def _are_values(parts: list[range]) -> bool:
    return all(len(part) == 1 for part in parts)


def _integer(data: ConjectureData, low: int, high: int, shares: dict[int, float]) -> int:
    """A choice in low..high that follows the shares."""
    total = sum(shares.values()) * (1 + REST)
    weights = {value: share / total for value, share in shares.items()}
    rare = min(weights.values()) <= 0 or len(shares) == 1 == high - low + 1
    return data.draw_integer(low, high, weights=None if rare else weights)
