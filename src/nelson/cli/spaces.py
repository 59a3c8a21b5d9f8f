"""Spaces on the command line: TOML files, and options in the words of the user."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import typer

from nelson.cli.common import load_numba_without_scipy
from nelson.errors import FormulaError, Unsatisfiable

if TYPE_CHECKING:
    from nelson.space import Space

#: `name=value`; a rule such as `a <= 3` or `a == 3` is none.
_ASSIGNMENT = re.compile(r"([^=<>!]+)=(?!=)(.*)", re.DOTALL)


def read_space(file: str) -> Space:
    """The space in a TOML file, or of a feature model in UVL."""
    load_numba_without_scipy()
    from nelson.space import Space

    return Space.from_uvl(file) if file.lower().endswith(".uvl") else Space.load(file)


def refuse(used: dict[str, bool], what: str) -> None:
    """Refuse options that make no sense for this kind of file."""
    for name, is_used in used.items():
        if is_used:
            raise typer.BadParameter(what, param_hint=name)


def conditions(space: Space, given: list[str]) -> Any:
    """`--given burst=WRAP --given "len > 4"` as `given` of `Space.sample`."""
    from nelson.space.files.toml import value_of
    from nelson.space.terms import has

    pairs: list[tuple[str, Any]] = []
    rules = []
    for text in given:
        if (match := _ASSIGNMENT.fullmatch(text)) is None:
            rules.append(space.rule(text))
            continue
        field = space.field(match[1].strip())
        value = value_of(field, match[2].strip())
        pairs.append((field.name, value))
    plain = not rules and not any(isinstance(value, range) for _, value in pairs)
    if plain and len({name for name, _ in pairs}) == len(pairs):
        return dict(pairs) or None
    return rules + [has(space.fields[name], value) for name, value in pairs]


def numbers(space: Space, texts: list[str], of_file: dict[Any, Any], option: str) -> Any:
    """`--weight burst.FIXED=60` as `weights` (or `shares`) of `Space.sample`.

    Fields that are named here take nothing from the file; the others keep what the file says.
    """
    found: dict[Any, Any] = {}
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
            found[of] = value
        elif not isinstance(found.setdefault(of, {}), dict):
            raise FormulaError(f"{option} {text}: {of} has a number already", expected="one kind")
        else:
            found[of][of_value] = value
    return {**of_file, **found} or None


def _named(space: Space, key: str) -> tuple[Any, Any]:
    """(field, value) of `burst.FIXED`, (flag, None) of `write`, (rule, None) of `len > 4`."""
    from nelson.space.files.toml import key_of, value_of

    if key in space:
        return key, None
    for at in (k for k in range(len(key) - 1, 0, -1) if key[k] == "."):
        if key[:at] in space.fields:
            return key[:at], value_of(space.fields[key[:at]], key[at + 1 :])
    return key_of(space, key), None


def law_arguments(
    space: Space,
    given: list[str],
    weights: str | None,
    weight: list[str],
    share: list[str],
    first: list[str],
) -> dict[str, Any]:
    """given, weights, shares and first of `Space.law`, from the options and the file."""
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


@contextlib.contextmanager
def explained(space: Space, given: Any) -> Iterator[None]:
    """Name the rules that contradict each other, instead of "unsatisfiable"."""
    try:
        yield
    except Unsatisfiable:
        reason = space.contradiction(given)
        if reason is None:
            raise
        raise Unsatisfiable(reason) from None
