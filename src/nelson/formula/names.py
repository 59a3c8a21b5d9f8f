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


#: `c NUMBER NAME`, where NAME has a letter or an underscore.
_NAME = re.compile(rb"\nc[ \t]+(\d{1,9})[ \t]+([^\n]*[^\s\d+.*/=<>-][^\n]*)")


def names_in_comments(data: bytes, source: str, n: int) -> dict[int, str]:
    """The names that the comments of a DIMACS file, `c 1 Engine`, give to the variables 1..n."""
    variables: dict[int, str] = {}
    owner: dict[str, int] = {}
    data = b"\n" + data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    for match in _NAME.finditer(data):
        variable, name = int(match[1]), _text(match[2]).strip()
        if not 1 <= variable <= n:
            continue  # an ordinary comment that begins with a number
        if variables.get(variable, name) != name or owner.get(name, variable) != variable:
            line = data.count(b"\n", 0, match.start() + 1)
            twice = f"a second name {name!r} for variable {variable}"
            if name in owner:
                twice = (
                    f"the name {name!r} of variable {variable}, which variable {owner[name]} has"
                )
            raise FormulaError(
                twice,
                expected="one name for each variable; names=False ignores names in comments",
                source=source,
                line=line,
            )
        variables[variable], owner[name] = name, variable
    for name, variable in owner.items():
        number = re.fullmatch(r"x([1-9]\d*)", name)
        if number and int(number[1]) <= n and variables.get(int(number[1])) is None:
            raise FormulaError(
                f"the name {name!r} of variable {variable}, which variable {number[1]} would get",
                expected="another name; names=False ignores names in comments",
                source=source,
            )
    return variables


def _text(name: bytes) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError:
        return name.decode("latin-1")
