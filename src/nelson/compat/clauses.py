"""What both look-alikes share: clauses as they come, with the errors of the originals."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from typing import Any

from nelson.sampling.samples import Samples

#: The originals refuse larger variables.
LARGEST = (2**31 - 1) // 2


def literals(items: Any) -> list[int]:
    """The literals of a clause."""
    checked = []
    for literal in iterated(items):
        if not isinstance(literal, int):
            raise TypeError("integer expected !")
        if literal == 0:
            raise ValueError("non-zero integer expected")
        if abs(literal) > LARGEST:
            raise ValueError(f"integer {literal} is too small or too large")
        checked.append(int(literal))
    return checked


def iterated(items: Any) -> Iterator[Any]:
    if not isinstance(items, Iterable):
        raise TypeError("iterable object expected")
    return iter(items)


class Clauses:
    """Clauses that have been added, and the largest variable so far."""

    def __init__(self) -> None:
        self._clauses: list[list[int]] = []
        self._largest = 0
        self._has_warned = False

    def add_clause(self, clause: Iterable[int]) -> None:
        """Literals, of which one at least is true."""
        checked = literals(clause)
        self._clauses.append(checked)
        self._grow(checked)

    def _grow(self, clause: Iterable[int]) -> None:
        self._largest = max([self._largest, *map(abs, clause)])

    def _tell(self, samples: Samples) -> None:
        """Warn, once, if these samples are not exact."""
        if samples.guarantee != "exact" and not self._has_warned:
            self._has_warned = True
            warnings.warn(f"samples are {samples.guarantee}: {samples.why}", stacklevel=3)


def not_negative(value: float, name: str) -> None:
    if value < 0:
        raise ValueError(f"{name} must be at least 0")
