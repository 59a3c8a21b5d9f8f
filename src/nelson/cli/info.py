"""`nelson info FILE`: what theory and a pilot run say of a formula."""

from __future__ import annotations

from typing import Any

import typer

from nelson.cli.common import read_formula, read_weights

EXAMPLES = """\b
Examples:
  nelson info puzzle.cnf
  nelson info puzzle.cnf.gz --json | jq .condition1
"""


def info(
    file: str = typer.Argument(..., metavar="FILE", help="DIMACS file (.gz, .xz); - is stdin."),
    weights: str | None = typer.Option(
        None, metavar="none|file|PATH", help="Weights, as in `nelson sample`."
    ),
    dialect: str = typer.Option("auto", help="How to read weight lines; auto: as they look."),
    json: bool = typer.Option(False, "--json", help="Print one JSON object instead of a table."),
) -> None:
    """Say what is known of a formula before sampling it.

    Size, Condition 1 (is plain resampling exact here?) with a witness pair of clauses if it fails,
    the local lemma's criteria, the expected work, and the method `auto` would take, and why.
    """
    formula = read_formula(file, dialect)
    theta = read_weights(weights, formula)
    from nelson import report

    result = report(formula, theta)
    if not json:
        typer.echo(str(result))
        return
    from json import dumps

    typer.echo(dumps(_plain(result.to_dict()), indent=2, allow_nan=False))


def _plain(value: Any) -> Any:
    """JSON has no infinity, NaN, tuple or numpy scalar: strings and plain numbers instead."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    return value
