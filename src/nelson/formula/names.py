"""Names for variables, so that a sample can be read back as edges, routes or features."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from nelson.errors import FormulaError


class Names:
    """One name for each of the variables 1..n, by default `x1`, `x2`, ...

    A name is any hashable except an integer: integers always mean DIMACS variables.
    """

    def __init__(
        self, n: int, names: Sequence[Hashable] | Mapping[int, Hashable] | None = None
    ) -> None:
        default: list[Hashable] = [f"x{i}" for i in range(1, n + 1)]
        if names is None:
            chosen = default
        elif isinstance(names, Mapping):
            chosen = default
            for variable, name in names.items():
                if not 1 <= variable <= n:
                    raise FormulaError(f"name of variable {variable}", expected=f"1..{n}")
                chosen[variable - 1] = name
        else:
            chosen = list(names)
        if len(chosen) != n:
            raise FormulaError(f"{len(chosen)} names", expected=f"{n}, one per variable")
        wrong = [name for name in chosen if isinstance(name, (int, np.integer))]
        if wrong:
            raise FormulaError(f"name {wrong[0]!r}", expected="no integer: integers mean variables")
        self._names = tuple(chosen)
        self._variable = {name: i for i, name in enumerate(chosen, start=1)}
        if len(self._variable) < n:
            twice = next(name for name in chosen if chosen.count(name) > 1)
            raise FormulaError(f"name {twice!r} twice", expected="distinct names")

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, variable: int) -> Hashable:
        """The name of DIMACS variable 1..n."""
        if not 1 <= variable <= len(self):
            raise IndexError(variable)
        return self._names[variable - 1]

    def __iter__(self) -> Any:
        return iter(self._names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Names) and self._names == other._names

    def __hash__(self) -> int:
        return hash(self._names)

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self._names[:4])) + (", ..." if len(self) > 4 else "")
        return f"Names({shown})"

    def variable(self, name: Any) -> int:
        """The DIMACS variable of a name; an integer is one already."""
        if isinstance(name, (int, np.integer)) and not isinstance(name, bool):
            return int(name)
        if name not in self._variable:
            raise FormulaError(f"no variable is named {name!r}", expected=repr(self))
        return self._variable[name]

    def literals(self, evidence: Mapping[Any, bool] | Iterable[Any]) -> list[int]:
        """Literals of {name or variable: value}, or of an iterable of literals and true names."""
        if isinstance(evidence, Mapping):
            return [
                self.variable(k) if value else -self.variable(k) for k, value in evidence.items()
            ]
        if isinstance(evidence, str):  # a single name, not its letters
            evidence = [evidence]
        return [self.variable(name) for name in evidence]

    def read(self, x: Any, values: bool = False) -> Any:
        """(..., n) 0/1 -> nested lists of the names that are true, or of dicts name -> bool."""
        x = np.asarray(x.detach().cpu() if hasattr(x, "detach") else x) != 0
        if x.ndim == 0 or x.shape[-1] != len(self):
            raise FormulaError(f"structures of shape {x.shape}", expected=f"(..., {len(self)})")
        if x.ndim > 1:
            return [self.read(row, values) for row in x]
        if values:
            return dict(zip(self._names, x.tolist(), strict=True))
        return [name for name, value in zip(self._names, x, strict=True) if value]


#: `c NUMBER NAME`, where NAME has a letter: how tools for feature models name variables.
_NAMED = re.compile(rb"^c[ \t]+([1-9]\d{0,8})[ \t]+([^\r\n]*[^\s\d+.*/=<>-][^\r\n]*)", re.MULTILINE)


def names_in_comments(data: bytes, n: int) -> dict[int, str]:
    """The names that the comments of a DIMACS file give to the variables 1..n.

    No names at all if two comments contradict each other: then they are ordinary comments.
    """
    found: dict[int, str] = {}
    for match in _NAMED.finditer(data):
        variable, name = int(match[1]), match[2].decode("utf-8", "replace").strip()
        if 1 <= variable <= n and found.setdefault(variable, name) != name:
            return {}
    taken = {f"x{v}" for v in range(1, n + 1) if v not in found} if found else set()
    distinct = len(set(found.values())) == len(found) and taken.isdisjoint(found.values())
    return found if distinct else {}
