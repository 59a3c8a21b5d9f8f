"""`nelson info FILE`: what theory and a pilot run say about a formula."""

from __future__ import annotations

from typing import Any

import typer

from nelson.cli import options as opt
from nelson.cli.common import read_formula, read_weights

EXAMPLES = """\b
Examples:
  nelson info puzzle.cnf
  nelson info puzzle.cnf.gz --json | jq .condition1
"""


def info(
    file: opt.FormulaFile,
    weights: opt.Weights = None,
    dialect: opt.Dialect = "auto",
    json: opt.Json = False,
) -> None:
    """Print what is known about a formula before sampling it.

    Its size; Condition 1 (is plain resampling exact here?), and two clauses that break it if it
    fails; the criteria of the local lemma; the expected work; the method `auto` takes, and why.
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
    """For JSON: infinities and NaN as strings, tuples as lists, numpy scalars as numbers."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    return value
