"""Results that are computed once for a formula and kept with it.

A module that keeps a result declares a `Slot`, which carries the type of the result:

    _LABELS: Slot[np.ndarray] = Slot("component of each variable")
    labels = formula.memo.once(_LABELS, lambda: compute(formula))

    _LAWS: Slot[Recent[Evidence, Law]] = Slot("exact laws by evidence")
    law = formula.memo.recent(_LAWS, 16).once(evidence, lambda: compute(formula, evidence))

A memo is never part of a formula's content: it is not compared, hashed, pickled or copied.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """A mapping of bounded size: the least recently used entry is dropped first."""

    __slots__ = ("_values", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self._values: dict[K, V] = {}

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: K) -> V | None:
        """The value of a key, or None."""
        if key not in self._values:
            return None
        return self.put(key, self._values.pop(key))

    def put(self, key: K, value: V) -> V:
        """Keep a value, and return it."""
        if key not in self._values and len(self._values) >= self.size:
            self._values.pop(next(iter(self._values)))
        self._values[key] = value
        return value

    def forget(self, key: K) -> None:
        """Drop the value of a key, if there is one."""
        self._values.pop(key, None)

    def once(self, key: K, compute: Callable[[], V]) -> V:
        """The value of a key; computed and kept at the first call."""
        if key in self._values:
            return self.put(key, self._values.pop(key))
        return self.put(key, compute())


class Slot(Generic[T]):
    """One kind of result. Two slots are different even if their names are equal."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"Slot({self.name!r})"


class Memo:
    """The results kept with one formula, by slot."""

    __slots__ = ("_results",)

    def __init__(self) -> None:
        self._results: dict[Slot[Any], Any] = {}

    def get(self, slot: Slot[T]) -> T | None:
        """The result of a slot, or None."""
        return self._results.get(slot)

    def put(self, slot: Slot[T], value: T) -> T:
        """Keep a value, and return it."""
        self._results[slot] = value
        return value

    def recent(self, slot: Slot[Recent[K, V]], size: int) -> Recent[K, V]:
        """The results of a slot that are kept by key, `size` at most."""
        if slot not in self._results:
            self._results[slot] = Recent(size)
        known: Recent[K, V] = self._results[slot]
        return known

    def once(self, slot: Slot[T], compute: Callable[[], T]) -> T:
        """The result of a slot; computed and kept at the first call."""
        if slot not in self._results:
            self._results[slot] = compute()
        return self._results[slot]
