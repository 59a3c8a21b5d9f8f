"""A space in a TOML file.

    name = "bus"                                  # optional
    rules = [
      "addr + len <= 0xFFFF",
      'implies(burst == "WRAP", len in [2, 4, 8])',
    ]
    [fields]
    addr  = { integer = [0, 0xFFFF] }
    len   = { integer = [1, 15] }
    crc   = { bits = 8 }                    # or { signed_bits = 8 }
    burst = { choice = ["FIXED", "INCR", "WRAP"] }      # {} stands for None
    write = "flag"
    opts  = { flags = ["a", "b"] }
    [weights.burst]                               # optional; [shares.burst] likewise
    FIXED = 60

Rules with names: a table `[rules]` of `name = "text"`, or `[[rules]]` with the keys `name` and
`rule`.
Every error is a FormulaError with the file and the line.
"""

from __future__ import annotations

import json
import math
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from nelson.errors import FormulaError, shortened
from nelson.io import atomic
from nelson.io.streams import text_lines
from nelson.space.adapters.toml_lines import MAX_ITEMS, Lines, Path, lines_of
from nelson.space.declaration import by_priority
from nelson.space.language.expressions import Rule, refuse
from nelson.space.language.fields import (
    FIELDS,
    Bins,
    BitField,
    Choice,
    Field,
    Flag,
    Integer,
    unknown,
)
from nelson.space.language.text import text
from nelson.space.names import field_of, field_or_rule, terms

if TYPE_CHECKING:
    from nelson.space.space import Space

#: Largest file. Rules of 100,000 characters each are far below it.
MAX_CHARACTERS = 16 << 20

#: Widest number of a field, in bits.
MAX_BITS = 4096

_KEYS = ("name", "fields", "rules", "prefer", "weights", "shares")
_KINDS = ("integer", "bits", "signed_bits", "choice", "bins", "flags")
_BINS_KEYS = ("bins", "missing", "unit", "after")
_FORM = '"flag", { integer = [0, 15] }, { choice = ["a", "b"] } or { flags = ["a", "b"] }'
_RULES_FORM = 'a list of texts, a table of name = "text", or [[rules]] with name and rule'
_FORMATS = "a space in TOML, a feature model in UVL (*.uvl) or clauses in DIMACS (p cnf ...)"
_AT_LINE = re.compile(r" ?\(at (?:line (\d+), column \d+|end of document)\)$")
_RANGE = re.compile(r"\s*([-+]?\w+)\s*\.\.\s*([-+]?\w+)\s*")


# --- reading -------------------------------------------------------------------------------------


def read(path: str | os.PathLike[str]) -> str:
    """The text of a file, plain or compressed (.gz, .xz)."""
    name = os.fspath(path)
    try:
        with text_lines(name, errors="strict") as file:
            content = file.read(MAX_CHARACTERS + 1)
    except UnicodeDecodeError as error:
        raise FormulaError(
            f"bytes that are no text: {error.reason}", expected="UTF-8", source=name
        ) from None
    if len(content) > MAX_CHARACTERS:
        raise FormulaError(
            f"a file of more than {MAX_CHARACTERS:,} characters",
            expected="a smaller one",
            source=name,
        )
    return content


def fill(space: Space, content: str, source: str | None) -> None:
    """Add what a TOML text says to an empty space. source: what errors call the text."""
    if not isinstance(content, str):
        refuse(f"a TOML text of type {type(content).__name__}", "a string")
    lines = lines_of(content, source)  # limits first: some short texts cost tomllib gigabytes
    _SpaceReader(space, _parsed(content, source), lines, source).fill()


def _parsed(content: str, source: str | None) -> dict[str, Any]:
    try:
        return tomllib.loads(content)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        at = _AT_LINE.search(message)
        last = content.count("\n") + 1
        line = None if at is None else int(at[1]) if at[1] else last
        what = _AT_LINE.sub("", message)
        raise FormulaError(
            f"this is no TOML: {what}", expected=_FORMATS, source=source, line=line
        ) from None
    except (ValueError, RecursionError, OverflowError) as error:
        raise FormulaError(f"this is no TOML: {error}", expected=_FORMATS, source=source) from None


class _SpaceReader:
    def __init__(
        self, space: Space, content: dict[str, Any], lines: Lines, source: str | None
    ) -> None:
        self.space, self.content, self.lines, self.source = space, content, lines, source

    def fill(self) -> None:
        self._check_keys(self.content, _KEYS)
        with self._at("name"):
            name = self.content.get("name")
            if name is not None and not isinstance(name, str):
                refuse(f"name = {_short(name)}", "a string")
            self.space.name = name
        with self._at("fields"):
            fields = self.content.get("fields")
            if not isinstance(fields, dict) or not fields:
                refuse("a space without fields", "a table [fields] with one field or more")
        for field, given in fields.items():
            with self._at("fields", field):
                self._field(field, given)
        for path, rule_name, rule in self._rules():
            self._rule(path, rule_name, rule)
        with self._at("prefer"):
            preferred = self.content.get("prefer", [])
            if not isinstance(preferred, list):
                refuse(f"prefer = {_short(preferred)}", "a list of texts")
        for k, rule in enumerate(preferred):
            self._rule(("prefer", k), None, rule, prefer=True)
        self.space.weights = self._numbers("weights", self.content.get("weights", {}))
        self.space.shares = self._numbers("shares", self.content.get("shares", {}))

    # --- errors ----------------------------------------------------------------------------------

    def _line(self, path: Path) -> int | None:
        """The line of a value, or of the nearest one around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path)

    @contextmanager
    def _at(self, *path: str | int) -> Iterator[None]:
        """An error inside, if it does not say its line yet, gets that of this value."""
        try:
            yield
        except FormulaError as error:
            line = error.line or self._line(path)
            raise FormulaError(
                error.what, expected=error.expected, source=self.source, line=line
            ) from None

    def _check_keys(
        self, table: dict[str, Any], known: tuple[str, ...], of: str = "", *path: str | int
    ) -> None:
        for key in table:
            with self._at(*path, key):
                if key not in known:
                    raise unknown(f"the key {_short(key)}{of}", key, known)

    # --- fields ----------------------------------------------------------------------------------

    def _field(self, name: str, given: Any) -> None:
        if given == "flag":
            self.space.flag(name)
            return
        if isinstance(given, dict) and "bins" in given:
            self._bins(name, given)
            return
        if not isinstance(given, dict) or len(given) != 1:
            refuse(f"the field {_short(name)} = {_short(given)}", _FORM)
        ((kind, values),) = given.items()
        if kind not in _KINDS:
            raise unknown(f"the field {_short(name)} of kind {_short(kind)}", kind, _KINDS)
        if kind in ("bits", "signed_bits"):
            self.space.bits(name, values, kind == "signed_bits")
            return
        if not isinstance(values, list):
            refuse(f"{kind} = {_short(values)} of {_short(name)}", "a list")
        if kind == "integer":
            self.space.integer(name, *_ends(name, values))
        elif kind == "choice":
            listed = [None if value == {} else value for value in values]
            for value in listed:
                _check_value(name, value)
            self.space.choice(name, listed)
        else:
            for member in values:
                if not isinstance(member, str) or not member:
                    refuse(f"the member {_short(member)} of {_short(name)}", "a string")
            self.space.flag(name, values)

    def _bins(self, name: str, given: dict[str, Any]) -> None:
        self._check_keys(given, _BINS_KEYS, " of bins", "fields", name)
        edges = given["bins"]
        if not isinstance(edges, list):
            refuse(f"bins = {_short(edges)} of {_short(name)}", "a list")
        for edge in edges:
            if isinstance(edge, bool) or not isinstance(edge, (int, float)):
                refuse(f"the edge {_short(edge)} of {_short(name)}", "a number")
            _check_width(name, edge, 1000)  # a float holds it
        missing = given.get("missing", False)
        if not isinstance(missing, bool):
            refuse(f"missing = {_short(missing)}", "true or false")
        after = given.get("after")
        if after is not None and not isinstance(after, str):
            refuse(f"after = {_short(after)}", "the name of a field")
        unit = given.get("unit", "")
        self.space.bins(name, edges, missing=missing, unit=unit, after=after)

    # --- rules -----------------------------------------------------------------------------------

    def _rules(self) -> Iterator[tuple[Path, str | None, Any]]:
        """(place, name, text) of each rule."""
        given = self.content.get("rules", [])
        if isinstance(given, dict):
            for name, rule in given.items():
                yield ("rules", name), name, rule
            return
        with self._at("rules"):
            if not isinstance(given, list):
                refuse(f"rules = {_short(given)}", _RULES_FORM)
        for k, entry in enumerate(given):
            if not isinstance(entry, dict):
                yield ("rules", k), None, entry
                continue
            self._check_keys(entry, ("name", "rule"), " of a rule", "rules", k)
            name = entry.get("name")
            with self._at("rules", k, "name"):
                if name is not None and not isinstance(name, str):
                    refuse(f"the name {_short(name)}", "a string")
            with self._at("rules", k):
                if "rule" not in entry:
                    refuse("a rule without text", 'rule = "..."')
            yield ("rules", k, "rule"), name, entry["rule"]

    def _rule(self, path: Path, name: str | None, rule: Any, prefer: bool = False) -> None:
        with self._at(*path):
            if not isinstance(rule, str):
                refuse(f"the rule {_short(rule)}", "a string")
            rule = " ".join(rule.splitlines())  # a rule may go over several lines
            try:
                if prefer:
                    self.space.prefer(rule)
                else:
                    self.space.require(rule, name=name, source=self.source, line=self._line(path))
            except FormulaError as error:
                what = f"{error.what} (rule {_short(name)})" if name else error.what
                raise FormulaError(what, expected=error.expected) from None

    # --- weights and shares ----------------------------------------------------------------------

    def _numbers(self, what: str, given: Any) -> dict[Any, Any]:
        """{field or rule: number, or {value: number}}, as `space.sample` takes it."""
        with self._at(what):
            if not isinstance(given, dict):
                refuse(f"{what} = {_short(given)}", f"a table [{what}.field]")
        by_key: dict[Any, Any] = {}
        for key, numbers in given.items():
            with self._at(what, key):
                of = key_of(self.space, key)
                if isinstance(numbers, dict):
                    if not isinstance(of, str):
                        refuse(f"{what} by value of a rule", "one number")
                    numbers = self._by_value(what, of, numbers)
                terms({of: numbers}, self._named, what)  # checks numbers and values
                by_key[of] = numbers
        return by_key

    def _named(self, key: Any) -> Any:
        return field_or_rule(self.space, key)

    def _by_value(self, what: str, name: str, numbers: dict[str, Any]) -> dict[Any, Any]:
        field = field_of(self.space, name)
        by_value: dict[Any, Any] = {}
        for shown, number in numbers.items():
            with self._at(what, name, shown):
                value = value_of(field, shown)
                terms({name: {value: number}}, self._named, what)
                if value in by_value:
                    refuse(f"{what} of {name} = {shown} twice", "one number")
                by_value[value] = number
        return by_value


def _ends(name: str, values: list[Any]) -> list[int]:
    whole = all(type(v) is int for v in values)
    if len(values) != 2 or not whole:
        refuse(f"integer = {_short(values)} of {_short(name)}", "[lowest, highest]")
    if max(v.bit_length() for v in values) > MAX_BITS:
        refuse(
            f"an end of the integer {_short(name)} of more than {MAX_BITS} bits", "a smaller number"
        )
    return values


def _check_value(name: str, value: Any) -> None:
    good = isinstance(value, (str, bool, int, type(None))) or (
        isinstance(value, float) and math.isfinite(value)
    )
    if not good:
        refuse(
            f"the value {_short(value)} of {_short(name)}",
            "strings, finite numbers, true, false, or {} for None",
        )
    _check_width(name, value)


def _check_width(name: str, value: Any, most: int = MAX_BITS) -> None:
    if type(value) is int and value.bit_length() > most:
        refuse(f"a value of {_short(name)} of more than {most} bits", "a smaller number")


def _short(value: Any) -> str:
    """A value of a file in an error message, which may be huge."""
    if isinstance(value, (dict, list)):
        kind = "a table" if isinstance(value, dict) else "a list"
        if len(value) > 8 or any(isinstance(v, (dict, list)) for v in value):
            return kind
    if type(value) is int and value.bit_length() > MAX_BITS:
        return f"a number of {value.bit_length():,} bits"
    try:
        shown = repr(value)
    except ValueError:  # a list with a number that is too long to print
        return f"a {type(value).__name__}"
    return shortened(shown, 60)


# --- names and values in texts -------------------------------------------------------------------


def key_of(space: Space, key: str) -> Any:
    """What a key of weights or shares names: the name of a field, or else the rule it states."""
    return key if key in space else space.rule(key)


def value_of(field: Field, shown: str) -> Any:
    """A value of a field from its text: "true" of a flag, "0x1F" or "0..255" of an integer.

    A choice is found by the text of its value.
    """
    if isinstance(field, Flag):
        value = {"true": True, "false": False, "1": True, "0": False}.get(shown.strip().lower())
        if value is None:
            refuse(f"{field.name} = {_short(shown)}", "true or false")
        return value
    if isinstance(field, Choice):
        if shown in field.values:
            return shown
        values = [v for v in field.values if not isinstance(v, str) and _same(v, shown)]
        if len(values) == 1:
            return values[0]
        raise unknown(f"{field.name} has no value {_short(shown)}", shown, field.values)
    if (ends := _RANGE.fullmatch(shown)) is not None:
        low, high = (_whole(field, end) for end in ends.groups())
        return range(low, high + 1)
    return _whole(field, shown)


def _same(value: Any, shown: str) -> bool:
    if isinstance(value, bool):
        return shown.strip().lower() == str(value).lower()
    return str(value) == shown.strip()


def _whole(field: Field, shown: str) -> int:
    try:
        if len(shown) > MAX_BITS:
            raise ValueError
        return int(shown.strip(), 0)
    except ValueError:
        raise FormulaError(
            f"{field.name} = {_short(shown)}", expected=f"a whole number of {field.domain}"
        ) from None


# --- writing -------------------------------------------------------------------------------------


def save(space: Space, path: str | os.PathLike[str]) -> None:
    """Write the file of a space."""
    name = os.fspath(path)
    try:
        content = to_toml(space).encode()
    except UnicodeEncodeError:
        raise FormulaError(
            "a name or a value with half of a character pair (a lone surrogate)",
            expected="text that UTF-8 can hold",
            source=name,
        ) from None
    atomic.write(name, content)


def to_toml(space: Space) -> str:
    """The text of a space; `fill` reads it back."""
    if not space.fields:
        refuse("a space without fields", "space.integer(...), ...")
    lines = [f"name = {_string(space.name)}"] if space.name is not None else []
    named = any(requirement.name is not None for requirement in space.rules)
    if space.rules and not named:
        lines += ["rules = [", *(f"  {_rule_string(space, r.rule)}," for r in space.rules), "]"]
    if space.preferences:
        shown = [f"  {_rule_string(space, rule)}," for rule in by_priority(space)[::-1]]
        lines += ["prefer = [", *shown, "]"]
    lines += ["", "[fields]"] if lines else ["[fields]"]
    lines += [f"{_key(name)} = {form}" for name, form in _forms(space)]
    for requirement in space.rules if named else []:
        lines += ["", "[[rules]]"]
        if requirement.name is not None:
            lines.append(f"name = {_string(requirement.name)}")
        lines.append(f"rule = {_rule_string(space, requirement.rule)}")
    lines += _numbers_lines("weights", space.weights)
    lines += _numbers_lines("shares", space.shares)
    return "\n".join([*lines, ""])


def _forms(space: Space) -> Iterator[tuple[str, str]]:
    """(name, TOML) of each field and each set of flags, in order."""
    set_of = {member.name: flags for flags in space.sets.values() for member in flags}
    for name, field in space.fields.items():
        flags = set_of.get(name)
        if flags is None:
            yield name, _form(field)
        elif next(iter(flags)).name == name:  # the set stands where its first member does
            yield flags.name, f"{{ flags = [{', '.join(map(_string, flags.members))}] }}"


def _form(field: Field) -> str:
    if isinstance(field, Flag):
        return '"flag"'
    if isinstance(field, BitField):
        return f"{{ {'signed_bits' if field.is_signed else 'bits'} = {field.width} }}"
    if isinstance(field, Integer):
        return f"{{ integer = [{field.low}, {field.high}] }}"
    if isinstance(field, Bins):
        more = ", missing = true" * field.missing
        more += f", unit = {_string(field.unit)}" * bool(field.unit)
        more += "" if field.after is None else f", after = {_string(field.after.name)}"
        return f"{{ bins = [{', '.join(map(repr, field.edges))}]{more} }}"
    if field.size > MAX_ITEMS:
        refuse(
            f"the choice {field.name} of {field.size:,} values in a file", f"at most {MAX_ITEMS:,}"
        )
    return f"{{ choice = [{', '.join(_value(field.name, v) for v in field.values)}] }}"


def _value(name: str, value: Any) -> str:
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "{}"
    if type(value) is int or (type(value) is float and math.isfinite(value)):
        return repr(value)
    return refuse(
        f"the value {_short(value)} of {name} in a file",
        "strings, finite numbers, True, False or None",
    )


def _numbers_lines(what: str, numbers: Mapping[Any, Any]) -> list[str]:
    """[weights] with one number for each rule, then [weights.field] for each field."""
    whole, tables = ["", f"[{what}]"], []
    for key, of in numbers.items():
        shown = text(key) if isinstance(key, Rule) and not isinstance(key, FIELDS) else key
        shown = shown if isinstance(shown, str) else shown.name
        if isinstance(of, Mapping):
            tables += ["", f"[{what}.{_key(shown)}]"]
            tables += [f"{_key(_value_text(value))} = {number!r}" for value, number in of.items()]
        else:
            whole.append(f"{_key(shown)} = {of!r}")
    return (whole if len(whole) > 2 else []) + tables


def _value_text(value: Any) -> str:
    """The text that `value_of` reads."""
    if isinstance(value, range):
        return f"{value[0]}..{value[-1]}"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _rule_string(space: Space, rule: Rule) -> str:
    shown = text(rule)
    try:
        space.rule(shown)
    except FormulaError as error:  # too long or nested too deeply: the file could not be read back
        raise FormulaError(
            f"a rule that a file cannot hold: {error.what}", expected="several smaller rules"
        ) from None
    return f"'{shown}'" if '"' in shown and _is_plain(shown) else _string(shown)


def _is_plain(shown: str) -> bool:
    """Can it stand in a literal string, which has no escapes?"""
    return "'" not in shown and shown.isprintable()


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _string(name)


def _string(shown: str) -> str:
    """A basic string. JSON has the same escapes, and leaves DEL as it is, which TOML refuses."""
    return json.dumps(shown, ensure_ascii=False).replace("\x7f", "\\u007f")
