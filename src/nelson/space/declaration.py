"""The fields and rules of a space, and tables checked against them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from nelson.errors import FormulaError, printable
from nelson.formula import Formula
from nelson.policy import DEFAULT
from nelson.space.clauses.encode import Encoder
from nelson.space.language.evaluate import evaluate, has_measure, possible
from nelson.space.language.expressions import MAX_NODES, Derived, Rule, extent, leaves, refuse, rule
from nelson.space.language.fields import (
    FIELDS,
    Bins,
    BitField,
    Choice,
    Field,
    Flag,
    Flags,
    Integer,
    NumericChoice,
    choice,
    unknown,
)
from nelson.space.language.parse import parse
from nelson.space.language.text import text
from nelson.space.language.vectors import MAX_VECTOR, Bits, vector_of
from nelson.space.rows import number_ends, table_codes


@dataclass(frozen=True, slots=True)
class Requirement:
    """One rule of a space. `name` is the user's own, `source` and `line` say where it came from."""

    rule: Rule
    name: str | None = None
    source: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        shown = text(self.rule)
        shown = shown if len(shown) <= 300 else shown[:297] + "..."
        where = f" ({self.source}:{self.line})" if self.source is not None else ""
        return printable(f"{self.name}: {shown}{where}" if self.name else f"{shown}{where}")


class Declaration:
    """Named fields, and the rules that legal rows obey."""

    def __init__(self, name: str | None = None) -> None:
        self.name = name
        self.fields: dict[str, Field] = {}
        self.rules: list[Requirement] = []
        #: Weights and shares that came with a file, or with a model of another tool. `sample` does
        #: not use them by itself: space.sample(n, weights=space.weights). The command line does.
        self.weights: dict[Any, Any] = {}
        self.shares: dict[Any, Any] = {}
        #: What the columns of a table were taken for, if the fields were declared from one.
        self.columns: Any = None
        #: Rules that hold in that table and chance does not explain: none is applied.
        self.suggestions: tuple[Any, ...] = ()
        self.encoding = Encoder()
        self.sets: dict[str, Flags] = {}
        self.preferences: list[tuple[float, Rule]] = []  # (priority, rule): see `prefer`
        self.vectors: dict[str, Bits] = {}  # what rules see of the fields made by `bits`

    # --- fields -----------------------------------------------------------------------------------

    @overload
    def flag(self, name: str) -> Flag: ...
    @overload
    def flag(self, name: str, members: Iterable[str]) -> Flags: ...
    def flag(self, name: str, members: Iterable[str] | None = None) -> Flag | Flags:
        """A field that is true or false; with members, a set of such fields `name.member`."""
        self._new_name(name)
        if members is None:
            return self._add(Flag(name))
        listed = [members] if isinstance(members, str) else list(members)
        if not listed:
            refuse(f"the set of flags {name} without members", "one or more")
        if len(set(listed)) < len(listed):
            refuse(f"a member of {name} twice", "distinct ones")
        made = {member: self.flag(f"{name}.{member}") for member in listed}
        self.sets[name] = Flags(name, made)
        return self.sets[name]

    def integer(self, name: str, low: int, high: int) -> Integer:
        """A whole number from low to high, both included; of any size."""
        self._new_name(name)
        ends = []
        for end in (low, high):
            if isinstance(end, (bool, np.bool_)) or not (
                isinstance(end, (int, np.integer)) or (isinstance(end, float) and end.is_integer())
            ):
                refuse(f"the end {end!r} of {name}", "a whole number")
            ends.append(int(end))
        if ends[0] > ends[1]:
            refuse(f"the integer {name} from {low} to {high}, which has no values", "low <= high")
        return self._add(Integer(name, *ends))

    def bits(self, name: str, width: int, signed: bool = False) -> Bits:
        """A vector of `width` bits, which wraps around: +, *, <<, x[7:4], ... as in hardware."""
        self._new_name(name)
        wide = isinstance(width, (int, np.integer)) and not isinstance(width, bool)
        if not wide or not 1 <= width <= MAX_VECTOR:
            refuse(f"{name} of {width!r} bits", f"1 to {MAX_VECTOR:,} bits")
        self.vectors[name] = vector_of(self._add(BitField(name, int(width), bool(signed))))
        return self.vectors[name]

    def choice(self, name: str, values: Iterable[Any]) -> Choice | NumericChoice:
        """One of some values: strings, whole numbers, or anything that can be hashed."""
        return self._add(choice(self._new_name(name), values))

    def bins(
        self,
        name: str,
        edges: Iterable[float],
        *,
        missing: bool = False,
        unit: str = "",
        after: Any = None,
    ) -> Bins:
        """A number of a table, kept as the range that it falls in, such as "[18, 65)".

        edges: numbers in rising order; -inf and inf may be the first and the last. Rules on the
        number itself (`age >= 21`, `end - start <= 90`) hold in every row that a model of a table
        draws. missing: may there be no number? (`~age.missing`)
        unit: "date" (days since 1970-01-01) or "duration" (days).
        after: another such field; the ranges are those of the difference to it.
        """
        if unit not in ("", "date", "duration"):
            refuse(f"unit = {unit!r} of {name}", '"", "date" or "duration"')
        listed = tuple(float(edge) for edge in edges)
        rising = all(a < b for a, b in itertools.pairwise(listed))  # also refuses NaN
        if len(listed) < 2 or not rising:
            refuse(f"the bins {listed} of {name}", "two edges or more, rising")
        if after is not None:
            after = self[after] if isinstance(after, str) else after
            if not isinstance(after, Bins) or self.fields.get(after.name) is not after:
                refuse(f"{name} after {after!r}", "a field of bins")
        return self._add(Bins(self._new_name(name), listed, bool(missing), unit, after))

    def _new_name(self, name: str) -> str:
        if not isinstance(name, str) or not name:
            refuse(f"the name {name!r} of a field", "a string")
        if name in self.fields or name in self.sets:
            refuse(f"a second field {name!r}", "another name")
        return name

    def _add(self, field: Any) -> Any:
        self.fields[field.name] = field
        self.encoding.add_field(field)
        return field

    def __getitem__(self, name: str) -> Any:
        """The field, vector or set of flags of this name; `income.missing`: is it None?"""
        if name in self.vectors:
            return self.vectors[name]
        if name in self.fields:
            return self.fields[name]
        if name in self.sets:
            return self.sets[name]
        of, _, last = name.rpartition(".")
        field = self.fields.get(of) if last == "missing" else None
        if isinstance(field, Choice) and None in field.values:
            return field.isin([None])
        raise unknown(f"no field is called {name!r}", name, [*self.fields, *self.sets])

    def __contains__(self, name: object) -> bool:
        return name in self.fields or name in self.sets

    # --- rules ------------------------------------------------------------------------------------

    def rule(self, given: Rule | str | bool) -> Rule:
        """A rule from its text, with the names of this space: space.rule("len in [2, 4, 8]")."""
        stated = parse(given, self.__getitem__) if isinstance(given, str) else rule(given)
        nodes, depth = extent(stated)
        if nodes > MAX_NODES:
            refuse(f"a rule of {nodes:,} parts", f"at most {MAX_NODES:,}")
        try:
            if depth > 100:
                text(stated)
        except RecursionError:
            raise FormulaError(
                "a rule that is nested too deeply", expected="several smaller rules"
            ) from None
        for leaf in leaves(stated):
            if isinstance(leaf, FIELDS) and self.fields.get(leaf.name) is not leaf:
                refuse(
                    f"the field {leaf.name!r} of another space in {stated!r}",
                    "fields of this space",
                )
        return stated

    def require(
        self,
        *rules: Rule | str | bool,
        name: str | None = None,
        source: str | None = None,
        line: int | None = None,
    ) -> None:
        """Legal rows obey these rules: expressions, or their texts.

        name: what messages call the rule. source, line: the file that it came from.
        """
        for given in rules:
            try:
                rule = self.rule(given)
                self._encode(rule)
            except FormulaError as error:
                if source is None or error.source is not None:
                    raise
                raise FormulaError(
                    error.what, expected=error.expected, source=source, line=line
                ) from None
            except RecursionError:
                raise FormulaError(
                    "a rule that is nested too deeply", expected="several smaller rules"
                ) from None
            self.rules.append(Requirement(rule, name, source, line))

    def prefer(self, *rules: Rule | str | bool, priority: float = 0) -> None:
        """Rows obey these rules as far as they can: soft rules, as `soft` in SystemVerilog.

        The rule of highest priority is kept if some legal row (that agrees with `given`) obeys it,
        then the next one if some row obeys it and all that were kept, and so on. Of rules with the
        same priority the one stated last comes first. What was kept holds for every row that is
        drawn or counted; the other rules are ignored. `cover` and `violations` look at none.
        """
        for given in rules:
            self.preferences.append((float(priority), self.rule(given)))

    def _encode(self, rule: Rule) -> None:
        """Clauses of a rule. Of a rule on numbers in ranges: ranges whose numbers may obey it."""
        if not has_measure(rule):
            self.encoding.require(rule)
            return
        fields = [leaf for leaf in leaves(rule) if isinstance(leaf, FIELDS)]
        if math.prod(field.size for field in fields) <= DEFAULT.space.tabulated:
            self.encoding.require(Derived("possible", (rule,)))

    @property
    def formula(self) -> Formula:
        """The clauses. The projection is the variables of the fields, which determine the rest."""
        return self.encoding.formula

    # --- tables -----------------------------------------------------------------------------------

    def violations(self, table: Any) -> dict[str, np.ndarray]:
        """Which rows of a table break what: {rule or field: positions}, for those with a breach."""
        codes = table_codes(self.fields, table)
        n = len(next(iter(codes.values())))
        breaches: dict[str, np.ndarray] = {}
        bad = np.zeros(n, bool)
        for name, column in codes.items():
            outside = np.asarray(column == -1, bool)
            if outside.any():
                bad |= outside
                domain = self.fields[name].domain
                breaches[f"{name} is not in {domain}"] = np.flatnonzero(outside)
        safe = {name: np.where(bad, 0, column) for name, column in codes.items()}
        ends = number_ends(self.fields, table, safe)
        for requirement in self.rules:
            if has_measure(requirement.rule):
                holds = np.broadcast_to(possible(requirement.rule, safe, ends)[0], n)
            else:
                holds = np.broadcast_to(evaluate(requirement.rule, safe), n)
            if not (holds | bad).all():
                breaches[str(requirement)] = np.flatnonzero(~holds & ~bad)
        return breaches

    def satisfied(self, table: Any) -> np.ndarray:
        """(rows,) bool: which rows of a table are legal."""
        codes = table_codes(self.fields, table)
        legal = np.ones(len(next(iter(codes.values()))), bool)
        for positions in self.violations(table).values():
            legal[positions] = False
        return legal

    def __repr__(self) -> str:
        lines = [printable(f"Space {self.name}" if self.name else "Space")]
        fields = {printable(name): printable(f.domain) for name, f in self.fields.items()}
        wide = max(map(len, fields), default=0)
        lines += [f"  {name.ljust(wide)}  {domain}" for name, domain in fields.items()]
        lines += [f"  {requirement}" for requirement in self.rules]
        lines += [printable(f"  if possible: {text(rule)}") for rule in by_priority(self)]
        return "\n".join(lines)


def by_priority(space: Declaration) -> list[Rule]:
    """The preferred rules, the most important one first."""
    stated = space.preferences
    order = sorted(range(len(stated)), key=lambda k: (stated[k][0], k), reverse=True)
    return [stated[k][1] for k in order]
