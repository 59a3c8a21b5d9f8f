"""Spaces, and models of tables, on the command line; options in the words of the user."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

import typer

from nelson.errors import FormulaError

if TYPE_CHECKING:
    from nelson.space import Space
    from nelson.space.tables.model import TableModel

#: `name=value`; a rule such as `a <= 3` or `a == 3` is none.
_ASSIGNMENT = re.compile(r"([^=<>!]+)=(?!=)(.*)", re.DOTALL)


def is_space(file: str) -> bool:
    """Is this the name of a space (TOML, SMT-LIB2) or a feature model (UVL)? Else it is DIMACS."""
    kinds = (".toml", ".uvl", ".smt2")
    return file.lower().removesuffix(".gz").removesuffix(".xz").endswith(kinds)


def read_space(file: str) -> Space:
    """The space in a TOML file, of a feature model in UVL, or of a DIMACS file with names."""
    from nelson.space import Space

    return Space.load(file) if is_space(file) else Space.from_dimacs(file)


def read_source(file: str) -> Space | TableModel | None:
    """What gives rows with fields: a space, or the model of a table. None: FILE is a formula, or
    the model of one (`nelson.cli.formulas`).
    """
    if is_space(file):
        return read_space(file)
    if not os.path.isdir(file):
        return None
    from nelson.space.load import load
    from nelson.space.tables.model import TableModel

    model = load(file)
    return model if isinstance(model, TableModel) else None


def space_of(source: Space | TableModel) -> Space:
    return source.space if hasattr(source, "space") else source


def refuse(used: dict[str, bool], what: str) -> None:
    """Refuse options that make no sense for this kind of file."""
    for name, is_used in used.items():
        if is_used:
            raise typer.BadParameter(what, param_hint=name)


def conditions(space: Space, given: list[str]) -> Any:
    """`--given burst=WRAP --given "len > 4"` as `given` of `Space.sample`."""
    from nelson.space.adapters.toml import value_of
    from nelson.space.names import field_of, has

    pairs: list[tuple[str, Any]] = []
    rules = []
    for text in given:
        if (match := _ASSIGNMENT.fullmatch(text)) is None:
            rules.append(space.rule(text))
            continue
        field = field_of(space, match[1].strip())
        value = value_of(field, match[2].strip())
        pairs.append((field.name, value))
    by_value = not rules and not any(isinstance(value, range) for _, value in pairs)
    if by_value and len({name for name, _ in pairs}) == len(pairs):
        return dict(pairs) or None
    return rules + [has(space.fields[name], value) for name, value in pairs]


def numbers(space: Space, texts: list[str], of_file: dict[Any, Any], option: str) -> Any:
    """`--weight burst.FIXED=60` as `weights` (or `shares`) of `Space.sample`.

    Fields that are named here take nothing from the file; the others keep what the file says.
    """
    chosen: dict[Any, Any] = {}
    for text in texts:
        key, _, number = text.rpartition("=")
        try:
            value = float(number)
        except ValueError:
            raise typer.BadParameter(
                f"{text!r}: expected name.value=number, such as burst.FIXED=60", param_hint=option
            ) from None
        of, of_value = _named(space, key.strip())
        if of_value is None:
            chosen[of] = value
        elif not isinstance(chosen.setdefault(of, {}), dict):
            raise FormulaError(f"{option} {text}: {of} has a number already", expected="one kind")
        else:
            chosen[of][of_value] = value
    return {**of_file, **chosen} or None


def _named(space: Space, key: str) -> tuple[Any, Any]:
    """(field, value) of `burst.FIXED`, (flag, None) of `write`, (rule, None) of `len > 4`."""
    from nelson.space.adapters.toml import key_of, value_of

    if key in space:
        return key, None
    for at in (k for k in range(len(key) - 1, 0, -1) if key[k] == "."):
        if key[:at] in space.fields:
            return key[:at], value_of(space.fields[key[:at]], key[at + 1 :])
    return key_of(space, key), None


def law_arguments(
    source: Space | TableModel,
    given: list[str],
    weights: str | None,
    weight: list[str],
    share: list[str],
    first: list[str],
) -> dict[str, Any]:
    """given, weights, shares and first of `Space.sample`, from the options and the file.

    The law of a model is learned: it takes conditions only.
    """
    space = space_of(source)
    if space is not source:
        used = {"--weights": weights is not None, "--weight": bool(weight)}
        refuse(
            used | {"--share": bool(share), "--first": bool(first)}, "not for a model of a table"
        )
        return {"given": conditions(space, given)}
    if weights not in (None, "none", "file"):
        raise typer.BadParameter(
            "expected none or file for a space; give numbers with --weight name.value=3",
            param_hint="--weights",
        )
    of_file = weights != "none"
    return {
        "given": conditions(space, given),
        "weights": numbers(space, weight, space.weights if of_file else {}, "--weight"),
        "shares": numbers(space, share, space.shares if of_file else {}, "--share"),
        "first": first or None,
    }
