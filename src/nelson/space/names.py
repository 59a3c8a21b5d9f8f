"""What the arguments of a question say: which fields, rules and values, with which numbers.

{burst: {"FIXED": 60, "INCR": 30}}     weights: (burst == "FIXED", 60), (burst == "INCR", 30)
{"addr": {range(0, 256): 5}}           (addr in range(0, 256), 5)
{write: 0.7}                           (write, 0.7): a flag or any rule
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from nelson.space.language.expressions import Rule, refuse
from nelson.space.language.fields import FIELDS, Field, Flag, Integer, unknown
from nelson.space.language.vectors import Bits

if TYPE_CHECKING:
    from nelson.space.declaration import Declaration

Terms = list[tuple[Rule, float]]
#: A key of the mapping -> the field or the rule that it names.
Find = Callable[[Any], Any]


def field_of(space: Declaration, key: Any) -> Any:
    """A field, by its name or itself."""
    if isinstance(key, Bits) and key.op == "bits":
        key = key.field
    field = space.fields.get(key if isinstance(key, str) else getattr(key, "name", ""))
    if field is None or not (isinstance(key, str) or field is key):
        raise unknown(f"no field is called {key!r}", key, space.fields)
    return field


def field_or_rule(space: Declaration, key: Any) -> Any:
    """The field or rule that a key of weights or shares names."""
    if isinstance(key, str):
        return space.fields[key] if key in space.fields else space[key]
    return space.rule(key) if isinstance(key, Rule) else field_of(space, key)


def conditions(space: Declaration, given: Any) -> tuple[list[Rule], list[int]]:
    """(rules, literals) that `given` asks for: {field: value}, a rule, its text, or a list."""
    rules, values = rules_and_values(space, given)
    return rules, [x for pair in values for x in space.encoding.evidence(*pair)]


def rules_and_values(space: Declaration, given: Any) -> tuple[list[Rule], list[tuple[Field, Any]]]:
    """The conditions of `given`; a rule that one field has one value is a value."""
    if given is None:
        return [], []
    if isinstance(given, Mapping):
        return [], [(field_of(space, key), value) for key, value in given.items()]
    rules = [space.rule(item) for item in ([given] if isinstance(given, (str, Rule)) else given)]
    pairs = [_value(rule) for rule in rules]
    rest = [rule for rule, pair in zip(rules, pairs, strict=True) if pair is None]
    return rest, [pair for pair in pairs if pair is not None]


def _value(rule: Rule) -> tuple[Field, Any] | None:
    """(field, value) if the rule is `flag`, `not flag`, `number == 7` or `choice == "a"`."""
    if isinstance(rule, Flag):
        return rule, True
    first = rule.args[0] if rule.args else None
    if rule.op == "not" and isinstance(first, Flag):
        return first, False
    if rule.op == "is" and isinstance(first, FIELDS) and len(rule.args[1]) == 1:
        return first, first.value(rule.args[1][0])
    if rule.op == "==" and isinstance(first, Integer) and rule.args[1].op == "const":
        number = rule.args[1].args[0]
        return (first, number) if first.low <= number <= first.high else None
    return None


# --- weights and shares ---------------------------------------------------------------------------


def terms(asked: Any, find: Find, what: str) -> Terms:
    """The rules and numbers of `asked`; what: "weights" or "shares", for errors."""
    if not isinstance(asked, Mapping):
        refuse(f"{what} of type {type(asked).__name__}", "{field: {value: number}}")
    pairs: Terms = []
    for key, numbers in asked.items():
        of = find(key)
        if isinstance(numbers, Mapping):
            if not isinstance(of, FIELDS):
                refuse(f"{what} of {of!r} by value", "one number for a rule")
            pairs += [(has(of, v), _number(f"{what} of {of.name}", x)) for v, x in numbers.items()]
        elif isinstance(of, Rule):
            pairs.append((of, _number(f"{what} of {of!r}", numbers)))
        else:
            refuse(f"{what} of {of!r} = {numbers!r}", "a number for each value, as a dict")
    return pairs


def share_terms(asked: Any, find: Find, tolerance: float = 1e-6) -> Terms:
    """The rules of `asked` with their shares, which must be possible by themselves.

    tolerance: shares of all values of a field add up to 1 within this.
    """
    asked_terms = terms(asked, find, "shares")
    for rule, share in asked_terms:
        if share > 1:
            refuse(f"the share {share:g} of {rule!r}", "at most 1")
    for key, numbers in asked.items():
        of = find(key)
        if not isinstance(numbers, Mapping):
            continue
        total = sum(numbers.values())
        covered = sum((v[-1] - v[0]) // v.step + 1 if isinstance(v, range) else 1 for v in numbers)
        if total > 1 + tolerance or (covered == of.size and abs(total - 1) > tolerance):
            rest = "1" if covered == of.size else "at most 1"
            refuse(f"the shares of {of.name} add up to {total:g}", rest)
    return asked_terms


def has(field: Field, value: Any) -> Rule:
    """The rule: the field has this value, or one of this range."""
    if isinstance(value, range) and not isinstance(field, Flag):
        if not value:  # no len: it may be > 2^63
            refuse(f"the values {value!r} of {field.name}", "a range of values")
        field.code(value[0])
        field.code(value[-1])
        return field.isin(value)
    code = field.code(value)  # raises if there is no such value
    if isinstance(field, Flag):
        return field if code else ~field
    return field == field.value(code)


def _number(what: str, value: Any) -> float:
    good = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not good or not math.isfinite(value) or value < 0:
        refuse(f"{what} = {value!r}", "a finite number, 0 or more")
    return float(value)
