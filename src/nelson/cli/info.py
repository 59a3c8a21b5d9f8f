"""`nelson info FILE`: what theory and a pilot run say about a formula."""

from __future__ import annotations

import typer

from nelson.cli import options as opt
from nelson.cli.common import print_json, read_formula, read_weights

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
    if json:
        print_json(result.to_dict())
    else:
        typer.echo(str(result))
