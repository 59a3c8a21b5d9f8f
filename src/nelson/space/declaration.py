"""The fields and rules of a space, the formula that they make, and tables checked against them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nelson.errors import FormulaError
from nelson.exact.conflict import conflict
from nelson.formula import Formula
from nelson.formula.memo import Recent
from nelson.space.clauses.encode import Encoder
from nelson.space.clauses.gates import TRUE, renumbered
from nelson.space.language.evaluate import evaluate
from nelson.space.language.expressions import Rule, leaves, rule
from nelson.space.language.fields import (
    FIELDS,
    Bins,
    Choice,
    Field,
    Flag,
    Flags,
    Integer,
    NumericChoice,
    choice,
    unknown,
)
from nelson.space.language.functions import any_of
from nelson.space.language.parse import parse
from nelson.space.language.text import text
from nelson.space.rows import Rows, codes_of

#: Formulas kept for weights, shares and conditions that the rules themselves do not need.
_KEPT = 16


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
        where = f" ({self.source}:{self.line})" if self.line is not None else ""
        return f"{self.name}: {shown}{where}" if self.name else f"{shown}{where}"


class Declaration:
    """Named fields, and the rules that legal rows obey."""

    def __init__(self, name: str | None = None) -> None:
        self.name = name
        self.fields: dict[str, Field] = {}
        self.sets: dict[str, Flags] = {}
        self.rules: list[Requirement] = []
        #: Weights and shares that came with a file, or with a model of another tool. `sample` does
        #: not use them by itself: space.sample(n, weights=space.weights). The command line does.
        self.weights: dict[Any, Any] = {}
        self.shares: dict[Any, Any] = {}
        self._encoder = Encoder()
        self._formula: Formula | None = None
        self._extended: Recent[tuple[str, ...], tuple[Formula, list[int]]] = Recent(_KEPT)

    # --- fields -----------------------------------------------------------------------------------

    def flag(self, name: str) -> Flag:
        """A field that is true or false."""
        return self._add(Flag(self._new_name(name)))

    def integer(self, name: str, low: int, high: int) -> Integer:
        """A whole number from low to high, both included; of any size."""
        self._new_name(name)
        ends = []
        for end in (low, high):
            if isinstance(end, (bool, np.bool_)) or not (
                isinstance(end, (int, np.integer)) or (isinstance(end, float) and end.is_integer())
            ):
                raise FormulaError(f"the end {end!r} of {name}", expected="a whole number")
            ends.append(int(end))
        if ends[0] > ends[1]:
            raise FormulaError(
                f"the integer {name} from {low} to {high}, which has no values",
                expected="low <= high",
            )
        return self._add(Integer(name, *ends))

    def choice(self, name: str, values: Iterable[Any]) -> Choice | NumericChoice:
        """One of some values: strings, whole numbers, or anything that can be hashed."""
        return self._add(choice(self._new_name(name), values))

    def bins(self, name: str, edges: Iterable[float]) -> Bins:
        """A number, known only by the range that it falls in: the values are texts as "[18, 65)".

        edges: numbers in rising order; -inf and inf may be the first and the last. This is for
        continuous columns of a table: `codes` finds the range of each number.
        """
        listed = tuple(float(edge) for edge in edges)
        rising = all(a < b for a, b in itertools.pairwise(listed))  # also refuses NaN
        if len(listed) < 2 or not rising:
            raise FormulaError(f"the bins {listed} of {name}", expected="two edges or more, rising")
        return self._add(Bins(self._new_name(name), listed))

    def flags(self, name: str, members: Iterable[str]) -> Flags:
        """A set of flags. Its members are the fields `name.member`."""
        self._new_name(name)
        listed = [members] if isinstance(members, str) else list(members)
        if not listed:
            raise FormulaError(f"the set of flags {name} without members", expected="one or more")
        if len(set(listed)) < len(listed):
            raise FormulaError(f"a member of {name} twice", expected="distinct ones")
        made = {member: self.flag(f"{name}.{member}") for member in listed}
        self.sets[name] = Flags(name, made)
        return self.sets[name]

    def _new_name(self, name: str) -> str:
        if not isinstance(name, str) or not name:
            raise FormulaError(f"the name {name!r} of a field", expected="a string")
        if name in self.fields or name in self.sets:
            raise FormulaError(f"a second field {name!r}", expected="another name")
        return name

    def _add(self, field: Any) -> Any:
        self.fields[field.name] = field
        self._encoder.add_field(field)
        self._changed()
        return field

    def _changed(self) -> None:
        self._extended = Recent(_KEPT)
        self._formula = None

    def __getitem__(self, name: str) -> Any:
        """The field, or the set of flags, of this name."""
        if name in self.fields:
            return self.fields[name]
        if name in self.sets:
            return self.sets[name]
        raise unknown(f"no field is called {name!r}", name, [*self.fields, *self.sets])

    def __contains__(self, name: object) -> bool:
        return name in self.fields or name in self.sets

    # --- rules ------------------------------------------------------------------------------------

    def rule(self, given: Rule | str | bool) -> Rule:
        """A rule from its text, with the names of this space: space.rule("len in [2, 4, 8]")."""
        found = parse(given, self.__getitem__) if isinstance(given, str) else rule(given)
        for leaf in leaves(found):
            if isinstance(leaf, FIELDS) and self.fields.get(leaf.name) is not leaf:
                raise FormulaError(
                    f"the field {leaf.name!r} of another space in {found!r}",
                    expected="fields of this space",
                )
        return found

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
                found = self.rule(given)
                self._encoder.require(found)
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
            self.rules.append(Requirement(found, name, source, line))
            self._changed()

    def require_clauses(self, clauses: Iterable[Iterable[int]]) -> None:
        """Legal rows satisfy these clauses over flags: 3 stands for the third field, -3 for its
        negation. Each clause becomes a rule, as by `require`, but some 60,000 in a second.
        """
        fields = list(self.fields.values())
        sides: dict[int, Rule] = {}
        variables: dict[int, int] = {}
        for k, field in enumerate(fields, 1):
            if not isinstance(field, Flag):
                raise FormulaError(f"clauses over the field {field.name!r}", expected="flags only")
            sides[k], sides[-k] = field, ~field
            [variable] = self._encoder.of_field[field.name]
            variables[k], variables[-k] = variable, -variable
        for clause in clauses:
            literals = list(dict.fromkeys(clause))
            if any(-x in literals for x in literals):
                continue
            try:
                shown = tuple(sides[x] for x in literals)
            except KeyError as error:
                raise FormulaError(
                    f"the literal {error.args[0]} in a clause", expected=f"1 to {len(fields)}, or -"
                ) from None
            found = any_of(shown)
            self._encoder.require_clause(found, [variables[x] for x in literals])
            self.rules.append(Requirement(found))
        self._changed()

    @property
    def formula(self) -> Formula:
        """The clauses. The projection is the variables of the fields, which determine the rest."""
        if self._formula is None:
            self._formula = self._build([])[0]
        return self._formula

    def extended(self, rules: list[Rule]) -> tuple[Formula, list[int]]:
        """A formula in which each of these rules has a literal. TRUE and -TRUE are constants.

        It is the formula of the space if that has such literals already.
        """
        if not rules:
            return self.formula, []
        return self._extended.once(tuple(text(r) for r in rules), lambda: self._build(rules))

    def _build(self, rules: list[Rule]) -> tuple[Formula, list[int]]:
        if not self.fields:
            raise FormulaError("a space without fields", expected="space.integer(...), ...")
        encoder = self._encoder.fork() if rules else self._encoder
        literals = [encoder.literal(r) for r in rules]
        stated = [clause for group in encoder.groups for clause in group]
        clauses, n, number = encoder.gates.numbered(stated, literals)
        literals = [renumbered(x, number) for x in literals]
        if rules and n == self.formula.n_vars:
            return self.formula, literals
        shown = [v for name in self.fields for v in encoder.of_field[name]]
        return Formula(clauses, n, projection=shown), literals

    # --- what arguments name ----------------------------------------------------------------------

    def find(self, key: Any) -> Any:
        """The field or rule that a key of weights or shares names."""
        if isinstance(key, str):
            return self[key]
        return self.rule(key) if isinstance(key, Rule) else self.field(key)

    def field(self, key: Any) -> Any:
        """A field, by its name or itself."""
        found = self.fields.get(key if isinstance(key, str) else getattr(key, "name", ""))
        if found is None or not (isinstance(key, str) or found is key):
            raise unknown(f"no field is called {key!r}", key, self.fields)
        return found

    def _conditions(self, given: Any) -> tuple[list[Rule], list[int]]:
        """(rules, literals) that `given` asks for: {field: value}, a rule, its text, or a list."""
        if given is None:
            return [], []
        if isinstance(given, (str, Rule)):
            return [self.rule(given)], []
        if not isinstance(given, Mapping):
            rules = [self.rule(item) for item in given]
            return rules, []
        evidence: list[int] = []
        for key, value in given.items():
            field = self.field(key)
            evidence += self._encoder.evidence(field, field.code(value))
        return [], evidence

    def cubes(self, field: Field, key: Any) -> list[list[int]]:
        """A value, or a range of values, as sets of literals of which exactly one holds then.

        The literals are variables of the field: no gate is needed. A range of a binary number is
        divided into ranges that fix some of its highest bits: at most two for each bit.
        """
        if not isinstance(key, range):
            return [self._encoder.evidence(field, field.code(key))]
        return self._encoder.range_evidence(field, key)

    # --- contradictions ---------------------------------------------------------------------------

    def contradiction(self, given: Any = None) -> str | None:
        """Why no row is legal: a smallest set of rules that cannot hold together; None if one is.

        No rule of the set can be left out.
        """
        conditions, _ = self._conditions(given)
        encoder = self._encoder.fork()
        names = [str(requirement) for requirement in self.rules]
        groups = list(encoder.groups)
        for condition in conditions:
            groups.append([[encoder.literal(condition)]])
            names.append(f"given: {text(condition)}")
        if isinstance(given, Mapping):
            for key, value in given.items():
                field = self.field(key)
                groups.append([[x] for x in encoder.evidence(field, field.code(value))])
                names.append(f"given: {field.name} == {value!r}")
        groups = [[[x for x in c if x != -TRUE] for c in g if TRUE not in c] for g in groups]
        literals = [x for group in groups for clause in group for x in clause]
        hard, _, number = encoder.gates.numbered([], literals)
        found = conflict(
            hard, [[[renumbered(x, number) for x in c] for c in group] for group in groups]
        )
        if found is None:
            return None
        lines = [f"  {names[k]}" for k in found.groups]
        what = "this rule cannot hold" if len(lines) == 1 else "these rules cannot hold together"
        return "no row is legal: " + "\n".join([what, *lines])

    # --- tables -----------------------------------------------------------------------------------

    def codes(self, table: Any) -> dict[str, np.ndarray]:
        """Codes of the columns of a table (DataFrame, Arrow table, Rows, records, dict of columns).

        -1 stands for a value that is not in the domain of its field. Columns that are no field
        are ignored; a missing one is an error.
        """
        if isinstance(table, Rows) and self._owns(table):
            return table.codes
        out = {}
        for name, field in self.fields.items():
            try:
                column = table[name]
            except (KeyError, ValueError, IndexError):
                raise FormulaError(
                    f"a table without the column {name!r}", expected=f"columns {list(self.fields)}"
                ) from None
            out[name] = codes_of(field, column)
        return out

    def _owns(self, rows: Rows) -> bool:
        """Are these rows of this space?"""
        return len(rows.fields) == len(self.fields) and all(
            rows.fields.get(name) is field for name, field in self.fields.items()
        )

    def violations(self, table: Any) -> dict[str, np.ndarray]:
        """Which rows of a table break what: {rule or field: positions}, for those with a breach."""
        codes = self.codes(table)
        n = len(next(iter(codes.values())))
        found: dict[str, np.ndarray] = {}
        bad = np.zeros(n, bool)
        for name, column in codes.items():
            outside = np.asarray(column == -1, bool)
            if outside.any():
                bad |= outside
                domain = self.fields[name].domain
                found[f"{name} is not in {domain}"] = np.flatnonzero(outside)
        safe = {name: np.where(bad, 0, column) for name, column in codes.items()}
        for requirement in self.rules:
            holds = np.broadcast_to(evaluate(requirement.rule, safe), n)
            if not (holds | bad).all():
                found[str(requirement)] = np.flatnonzero(~holds & ~bad)
        return found

    def satisfied(self, table: Any) -> np.ndarray:
        """(rows,) bool: which rows of a table are legal."""
        codes = self.codes(table)
        legal = np.ones(len(next(iter(codes.values()))), bool)
        for positions in self.violations(table).values():
            legal[positions] = False
        return legal

    def __repr__(self) -> str:
        lines = [f"Space {self.name}" if self.name else "Space"]
        wide = max((len(name) for name in self.fields), default=0)
        lines += [f"  {name.ljust(wide)}  {f.domain}" for name, f in self.fields.items()]
        lines += [f"  {requirement}" for requirement in self.rules]
        return "\n".join(lines)
