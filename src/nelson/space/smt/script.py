"""What an SMT-LIB2 script has declared and asserted so far, level by level.

A constant becomes a field: a flag, or a vector of bits. An element of an array becomes a vector of
its own, when its index appears; if the index is a term and no number, the value read is a field
that is *hidden*, tied to the other elements by

    i = j  ->  value read at i = value read at j
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from nelson.space.declaration import Declaration
from nelson.space.language import vectors
from nelson.space.language.expressions import Rule, if_else
from nelson.space.language.vectors import Bits
from nelson.space.smt.reader import Symbol, written
from nelson.space.smt.terms import (
    WHOLE_ARRAYS,
    ArrayTerm,
    Macro,
    Meaning,
    Sort,
    TermReader,
    read_sort,
    refuse,
    sort_of,
    unsupported,
)


@dataclass
class ScriptLevel:
    """What `push` opens and `pop` forgets."""

    names: list[str] = field(default_factory=list)
    aliases: list[str] = field(default_factory=list)
    asserted: list[tuple[Rule, str | None]] = field(default_factory=list)  # with their names


@dataclass
class Elements:
    """The values read from a declared array."""

    by_number: dict[int, Bits] = field(default_factory=dict)
    by_term: list[tuple[Bits, Bits]] = field(default_factory=list)  # (index, value)


class Script:
    """Declarations, definitions and assertions, as commands make them."""

    def __init__(self) -> None:
        self.space = Declaration()
        self.names: dict[str, Meaning] = {}
        self.aliases: dict[str, Sort] = {}
        self.levels = [ScriptLevel()]
        self.elements: dict[ArrayTerm, Elements] = {}
        self.hidden: list[str] = []  # fields that stand for elements whose index is a term
        self.ties: list[Rule] = []  # rules that tie these to others; they hold on every level
        self.reader = TermReader(self.names, self.aliases, self._element)

    # --- commands ---------------------------------------------------------------------------------

    def declare(self, name: Any, parameters: Any, sort: Any) -> None:
        if parameters:
            unsupported(f"the function {written(name)} with arguments: only constants")
        self._check_new(name)
        of = read_sort(sort, self.aliases)
        if not of.index:
            self._define(name, self._field(name, of))
            return
        array = ArrayTerm(of, "declared", (str(name),))
        self.elements[array] = Elements()
        self._define(name, array)

    def define(self, name: Any, parameters: Any, sort: Any, body: Any) -> None:
        self._check_new(name)
        of = read_sort(sort, self.aliases)
        if not isinstance(parameters, list) or not all(
            isinstance(p, list) and len(p) == 2 and isinstance(p[0], str) for p in parameters
        ):
            refuse(f"the parameters {written(parameters)}")
        if parameters:
            pairs = [(p[0], read_sort(p[1], self.aliases)) for p in parameters]
            self._define(name, Macro(tuple(pairs), of, body))
            return
        term = self.reader.read(body)
        if sort_of(term) != of:
            refuse(f"{written(name)} of sort {of} is a term of sort {sort_of(term)}")
        # A nameless function, so that the term is built once.
        self._define(name, Macro((), of, term))

    def define_sort(self, name: Any, parameters: Any, sort: Any) -> None:
        if parameters or not isinstance(name, str):
            unsupported("a sort with parameters")
        self.aliases[name] = read_sort(sort, self.aliases)
        self.levels[-1].aliases.append(name)

    def require(self, term: Any) -> None:
        self.reader.named = []
        stated = self.reader.rule(term)
        name = None
        if isinstance(term, list) and term[0] == "!" and self.reader.named:
            name = self.reader.named[-1][0]
        for each, meaning in self.reader.named:
            self._check_new(each)
            self._define(each, Macro((), sort_of(meaning), meaning))
        self.levels[-1].asserted.append((stated, name))

    def push(self, levels: int) -> None:
        if levels > 10_000:
            refuse(f"push of {levels} levels")
        self.levels += [ScriptLevel() for _ in range(levels)]

    def pop(self, levels: int) -> None:
        if levels >= len(self.levels):
            refuse(f"pop of {levels} levels: there are {len(self.levels) - 1}")
        for _ in range(levels):
            gone = self.levels.pop()
            for name in gone.names:
                del self.names[name]
            for name in gone.aliases:
                del self.aliases[name]

    @property
    def asserted(self) -> list[tuple[Rule, str | None]]:
        """All rules that hold now, with the names of those that have one."""
        return [pair for level in self.levels for pair in level.asserted]

    # --- names ------------------------------------------------------------------------------------

    def _check_new(self, name: Any) -> None:
        if not isinstance(name, str):
            refuse(f"the name {written(name)}")
        if name in self.names:
            refuse(f"{written(name)} is declared twice")

    def _define(self, name: str, meaning: Meaning) -> None:
        self.names[name] = meaning
        self.levels[-1].names.append(name)

    def _field(self, name: str, sort: Sort) -> Any:
        """A field; a name that `pop` has freed is taken again with a number."""
        given, k = str(name), 1
        while given in self.space:
            k += 1
            given = f"{name}#{k}"
        return self.space.bits(given, sort.width) if sort.width else self.space.flag(given)

    # --- elements of arrays -----------------------------------------------------------------------

    def _element(self, array: ArrayTerm, index: Bits) -> Bits:
        known, name = self.elements[array], array.args[0]
        if index.op == "bvconst":
            at = index.args[0]
            if at not in known.by_number:
                number = index_text(at, array.sort.index)
                made = self._field(
                    f"(select {written(Symbol(name))} {number})", Sort(array.sort.width)
                )
                known.by_number[at] = made
                for other, value in known.by_term:
                    self.ties.append((other == at).implies(value == made))
            return known.by_number[at]
        if array.sort.index <= WHOLE_ARRAYS:
            every = [
                self._element(array, vectors.constant(at, array.sort.index))
                for at in range(1 << array.sort.index)
            ]
            return _chosen(every, index)
        for other, value in known.by_term:
            if other is index:
                return value
        hidden = self._field(f"{name}[{len(self.hidden)}]", Sort(array.sort.width))
        self.hidden.append(hidden.name)
        self.ties += [
            (index == at).implies(hidden == value) for at, value in known.by_number.items()
        ]
        self.ties += [(index == other).implies(hidden == value) for other, value in known.by_term]
        known.by_term.append((index, hidden))
        return hidden


def index_text(number: int, width: int) -> str:
    """#x1F; #b101 where the width is no multiple of 4."""
    if width % 4 == 0:
        return f"#x{number:0{width // 4}x}"
    return f"#b{number:0{width}b}"


def _chosen(values: list[Bits], index: Bits) -> Bits:
    """values[index], bit by bit of the index, the highest first."""
    for k in range(index.width):
        values = [
            if_else(vectors.bit(index, k), high, low)
            for low, high in zip(values[::2], values[1::2], strict=True)
        ]
    return values[0]
