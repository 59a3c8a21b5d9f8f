"""`nelson learn rows.csv` and `nelson learn space.toml rows.csv`: the model of a table."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

from nelson.cli.common import echo, say
from nelson.errors import FormulaError

if TYPE_CHECKING:
    from nelson.space import Space
    from nelson.space.tables.model import TableModel

#: Ends of the names of files that hold rows.
TABLES = (".csv", ".tsv", ".parquet", ".arrow", ".feather")
#: What a file may say about the columns of a table, if it declares no fields.
_KEYS = ("rules", "columns", "bins", "suggested")


def is_table(file: str) -> bool:
    return file.lower().removesuffix(".gz").removesuffix(".xz").endswith(TABLES)


def learn_table(
    file: str,
    data: str | None,
    output: str,
    *,
    suggest: str | None,
    quiet: bool,
    **options: Any,
) -> TableModel:
    """FILE alone is the table; else FILE is a space, or rules and columns for the table DATA."""
    from nelson.space.tables.frames import read_table

    frame = read_table(file if data is None else data)
    space = described(None if data is None else file, frame, suggest is not None)
    if suggest is not None:
        write_suggestions(space, suggest)
    if not quiet and space.columns is not None:
        echo(str(space.columns))
    model = space.learn(frame, **options)
    model.save(output)
    if not quiet:
        say(summary(model, output))
    return model


def described(file: str | None, frame: Any, suggest: bool) -> Space:
    """The space of a file with fields; else fields from the frame, with what the file says."""
    from nelson.space import Space
    from nelson.space.adapters import toml
    from nelson.space.tables.rules import suggestions

    said: dict[str, Any] = {}
    if file is not None:
        if not file.lower().endswith((".toml", ".toml.gz", ".toml.xz")):
            return Space.load(file)
        try:
            said = tomllib.loads(toml.read(file))
        except tomllib.TOMLDecodeError:
            said = {"fields": {}}  # `Space.load` says where it is no TOML
        if "fields" in said:
            return Space.load(file)
    for key in said:
        if key not in _KEYS:
            raise FormulaError(
                f"the key {key!r}", expected=f"one of {_KEYS}, or fields", source=file
            )
    space = Space.from_frame(
        frame,
        columns=said.get("columns"),
        rules=said.get("rules", ()),
        bins=said.get("bins"),
    )
    if suggest:
        space.suggestions = tuple(suggestions(space, frame))
    return space


def write_suggestions(space: Space, path: str) -> None:
    """A file for `nelson learn FILE DATA`: rules that hold, and those that are only suggested."""
    import json

    from nelson.io import atomic
    from nelson.space.language.text import text

    rules = [requirement.rule for requirement in space.rules if requirement.name is None]
    lines = ["# Rules that hold in every new row.", "rules = ["]
    lines += [f"  {json.dumps(text(rule))}," for rule in rules]
    lines += ["]", "", "# What each column was taken for; name another kind to change it."]
    lines += [f"# {line}" for line in str(space.columns).splitlines()]
    lines += ["[columns]", ""]
    lines += [
        "# These hold in the table, and chance does not explain it. None is applied: move the"
    ]
    lines += ["# rules that you believe to `rules`."]
    for suggestion in space.suggestions:
        lines += ["", "[[suggested]]", f"rule = {json.dumps(suggestion.rule)}"]
        lines += [f"support = {suggestion.support}", f"log_p = {suggestion.log_p:.4g}"]
        lines += [f"may_fail = {suggestion.upper:.3g}"]
    atomic.write(path, ("\n".join(lines) + "\n").encode())


def summary(model: TableModel, output: str) -> str:
    facts = model.facts
    parts = [
        f"{facts.examples:,} rows" + f" ({facts.dropped:,} dropped)" * (facts.dropped > 0),
        f"{len(model.space.fields)} fields",
        f"{len(model.space.rules)} rules, {len(model.pairs)} pairs",
    ]
    if facts.held_out is not None:
        parts.append(f"held-out log-likelihood {facts.held_out[0]:.4f} +- {facts.held_out[1]:.4f}")
    parts += [f"{facts.seconds:.3g} s", f"seed {facts.seed}", f"model in {output}"]
    return " · ".join(parts)
