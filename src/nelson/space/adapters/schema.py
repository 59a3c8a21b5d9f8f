"""Schemas of pandera and pydantic as rules on the columns of a table.

    Space.from_frame(frame, rules=schema)

Bounds of numbers and dates become rules (`age >= 18`). Lists of values (isin, Literal, Enum) are
checked on the table: new rows have no other values. So are types, gaps, uniqueness, multiples and
patterns of texts not needed as rules. Another check is refused by name, and never dropped.
"""

from __future__ import annotations

import datetime
import enum
import types
import typing
from collections.abc import Iterator
from typing import Any

from nelson.errors import FormulaError

#: (comparison, key of its constant) by pandera's name of a check.
_PANDERA = {
    "greater_than_or_equal_to": (">=", "min_value"),
    "greater_than": (">", "min_value"),
    "less_than_or_equal_to": ("<=", "max_value"),
    "less_than": ("<", "max_value"),
    "equal_to": ("==", "value"),
    "not_equal_to": ("!=", "value"),
    "isin": ("in", "allowed_values"),
    "notin": ("not in", "forbidden_values"),
}
#: (comparison, attribute) of pydantic's annotations.
_PYDANTIC = ((">=", "ge"), (">", "gt"), ("<=", "le"), ("<", "lt"))
#: What new rows keep because their values are those of the table, or on its grid.
_KEPT = {
    "str_matches", "str_contains", "str_startswith", "str_endswith", "str_length",
    "multiple_of", "min_length", "max_length", "pattern", "strict",
}  # fmt: skip
_ORDERS = (">=", ">", "<=", "<")


def is_schema(given: Any) -> bool:
    """A schema or model of pandera, or a model of pydantic?"""
    return (
        hasattr(given, "model_fields")
        or hasattr(given, "to_schema")
        or (hasattr(given, "columns") and hasattr(given, "checks"))
    )


def rules_of(schema: Any, frame: Any) -> list[str]:
    """The texts of the rules on the columns of a DataFrame."""
    checks = _of_pydantic(schema) if hasattr(schema, "model_fields") else _of_pandera(schema)
    rules = []
    for name, op, value in checks:
        if name not in frame.columns:
            continue
        if op in _ORDERS:
            if isinstance(value, (datetime.date, datetime.datetime)):
                value = value.isoformat()
            rules.append(f"{name} {op} {value!r}")
            continue
        values = list(value) if op in ("in", "not in") else [value]
        wrong = frame[name].isin(values).to_numpy() != (op in ("in", "=="))
        wrong &= frame[name].notna().to_numpy()
        if wrong.any():
            row = int(wrong.argmax())
            raise FormulaError(
                f"row {row} has {name} = {frame[name].iloc[row]!r}",
                expected=f"{name} {op} {value!r}, as the schema says",
            )
    return rules


def _of_pydantic(model: Any) -> Iterator[tuple[str, str, Any]]:
    for name, field in model.model_fields.items():
        kinds = [field.annotation]
        if typing.get_origin(field.annotation) in (typing.Union, types.UnionType):
            kinds = [k for k in typing.get_args(field.annotation) if k is not type(None)]
        metadata = list(field.metadata)
        for kind in kinds if len(kinds) == 1 else ():
            if typing.get_origin(kind) is typing.Annotated:  # inside of Optional
                kind, *more = typing.get_args(kind)
                for each in more:
                    metadata += getattr(each, "metadata", [each])
            if typing.get_origin(kind) is typing.Literal:
                yield name, "in", typing.get_args(kind)
            elif isinstance(kind, type) and issubclass(kind, enum.Enum):
                yield name, "in", [each.value for each in kind]
        for said in metadata:
            found = [(op, key) for op, key in _PYDANTIC if getattr(said, key, None) is not None]
            yield from ((name, op, getattr(said, key)) for op, key in found)
            if not found and not any(hasattr(said, key) for key in _KEPT):
                raise _unknown(name, said)


def _of_pandera(schema: Any) -> Iterator[tuple[str, str, Any]]:
    schema = schema.to_schema() if hasattr(schema, "to_schema") else schema
    for check in schema.checks or ():
        raise _unknown("the table", check)
    for name, column in schema.columns.items():
        for check in column.checks:
            has = check.statistics or {}
            if check.name == "in_range":
                yield name, ">=" if has.get("include_min", True) else ">", has["min_value"]
                yield name, "<=" if has.get("include_max", True) else "<", has["max_value"]
            elif check.name in _PANDERA:
                op, key = _PANDERA[check.name]
                yield name, op, has[key]
            elif check.name not in _KEPT:
                raise _unknown(name, check)


def _unknown(name: str, check: Any) -> FormulaError:
    return FormulaError(
        f"the check {getattr(check, 'name', None) or check!r} of {name} in a schema",
        expected="bounds and lists of values; other checks as rules, such as 'end >= start'",
    )
