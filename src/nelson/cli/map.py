"""`nelson map FILE`: a most likely row of a space, or a most likely assignment of a formula."""

from __future__ import annotations

from typing import Any

import typer

from nelson.cli import options as opt
from nelson.cli.common import BUDGET, fail, is_space, load_numba_without_scipy, print_json, say
from nelson.cli.formulas import Named, read_named
from nelson.cli.spaces import explained, law_arguments, read_space, refuse
from nelson.cli.status_line import PhaseLine
from nelson.cli.tables import check_name, put
from nelson.errors import BudgetExceeded
from nelson.io.plain import plain

EXAMPLES = """\b
Examples:
  nelson map bus.toml --weight burst.WRAP=10 --weight 'len > 4=2'
  nelson map bus.toml --given write=true --json
  nelson map puzzle.cnf --weights theta.npy              literals, ending in 0
  nelson map car.cnf --weight Engine=3 -o best.csv       names in comments: one column for each

Without weights all rows are equally likely, and the result is one of them.
Exit codes: 0 ok, 1 bad input, 2 wrong usage, 3 the time was up, 20 proved unsatisfiable.
"""


def map_(
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
    quiet: opt.Quiet = False,
) -> None:
    """Print a row, or an assignment, of greatest likelihood under the weights."""
    check_name(output)
    load_numba_without_scipy()
    from nelson.exact.mode import most_likely

    named: Named | None = None
    with PhaseLine(not quiet):
        try:
            if is_space(file):
                space = read_space(file)
                arguments = law_arguments(space, given, weights, weight, share, first)
                with explained(space, arguments["given"]):
                    law = space.law(**arguments)
                    theta = law.theta
                    row = space.row(most_likely(law.formula, law.log_odds, seconds))
            else:
                refuse({"--share": bool(share), "--first": bool(first)}, "for spaces (.toml) only")
                named = read_named(file, dialect, quiet)
                theta = named.log_odds(weights, weight)
                wanted = named.log_odds(weights, weight, given)
                x = most_likely(named.formula, wanted, seconds).tolist()
                row = {named.shown(v): value for v, value in enumerate(x, start=1)}
        except BudgetExceeded as error:
            fail(f"budget reached: {error}", BUDGET)
    if not quiet and not theta.any():
        say("note: without weights all of them are equally likely; this is one")
    _print(row, named, output, json)


def _print(row: dict[str, Any], named: Named | None, output: str, json: bool) -> None:
    if output != "-":
        put(list(row), [list(row.values())], output, json)
    elif json:
        print_json(plain(row))
    elif named is not None and named.names is None:
        literals = (v if value else -v for v, value in enumerate(row.values(), start=1))
        typer.echo(" ".join([*map(str, literals), "0"]))
    else:
        put(("field" if named is None else "variable", "value"), list(row.items()), "-", False)
