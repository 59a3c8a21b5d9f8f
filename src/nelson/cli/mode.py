"""`nelson mode FILE`: a most likely row of a space, or a most likely assignment of a formula."""

from __future__ import annotations

from typing import Any

import typer

from nelson.cli import options as opt
from nelson.cli.common import check_name, left, print_json, put, say
from nelson.cli.inputs import (
    NamedFormula,
    law_arguments,
    read_formula,
    read_source,
    refuse,
    space_of,
)
from nelson.io.progress import PhaseLine

EXAMPLES = """\b
Examples:
  nelson mode bus.toml --weight burst.WRAP=10 --weight 'len > 4=2'
  nelson mode bus.toml --given write=true --json
  nelson mode puzzle.cnf --weights theta.npy              literals, ending in 0
  nelson mode car.cnf --weight Engine=3 -o best.csv       names in comments: one column for each

Without weights all rows are equally likely, and the result is one of them.
Exit codes: 0 ok, 1 bad input, 2 wrong usage, 3 the time was up, 20 proved unsatisfiable.
"""


def mode(
    file: opt.ProblemFile,
    given: opt.Given = [],  # noqa: B006 - Typer copies it
    weights: opt.Weights = None,
    weight: opt.Weight = [],  # noqa: B006
    share: opt.Share = [],  # noqa: B006
    first: opt.First = [],  # noqa: B006
    seconds: float = typer.Option(
        60.0, "--seconds", metavar="SECONDS", help="Give up after this many seconds."
    ),
    output: opt.TableOutput = "-",
    dialect: opt.Dialect = "auto",
    json: opt.Json = False,
    spreadsheet: opt.Spreadsheet = False,
    quiet: opt.Quiet = False,
) -> None:
    """Print a row, or an assignment, of greatest likelihood under the weights."""
    check_name(output, spreadsheet)
    from nelson.exact.queries import mode as mode_of

    named: NamedFormula | None = None
    with PhaseLine(not quiet):
        if (source := read_source(file)) is not None:
            law = law_arguments(source, given, weights, weight, share, first)
            is_model = source is not space_of(source)
            weighted = is_model or any(law[k] for k in ("weights", "shares", "first"))
            row = source.mode(**(law if is_model else law | {"seconds": left(seconds)}))
        else:
            refuse({"--share": bool(share), "--first": bool(first)}, "for spaces (.toml) only")
            named = read_formula(file, dialect, quiet, seconds)
            weighted = bool(named.log_odds(weights, weight).any())
            wanted = named.log_odds(weights, weight, given)
            x = mode_of(named.formula, wanted, seconds=left(seconds)).tolist()
            row = {named.shown(v): value for v, value in enumerate(x, start=1)}
    if not quiet and not weighted:
        say("note: without weights all of them are equally likely; this is one")
    _print(row, named, output, json, spreadsheet)


def _print(
    row: dict[str, Any],
    named: NamedFormula | None,
    output: str,
    json: bool,
    spreadsheet: bool,
) -> None:
    if output != "-":
        put(list(row), [list(row.values())], output, json, spreadsheet)
    elif json:
        print_json(row)
    elif named is not None and named.names is None:
        literals = (v if value else -v for v, value in enumerate(row.values(), start=1))
        typer.echo(" ".join([*map(str, literals), "0"]))
    else:
        put(("field" if named is None else "variable", "value"), list(row.items()), "-", False)
