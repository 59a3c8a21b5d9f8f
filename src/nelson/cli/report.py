"""`nelson report FILE`: what theory and a pilot run say about a formula; what a space holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from nelson.cli import options as opt
from nelson.cli.common import aligned, digits, echo, left, print_json, shown
from nelson.cli.inputs import conditions, read_formula, read_source, refuse, space_of
from nelson.cli.marginals import value_rows
from nelson.errors import BudgetExceeded, Unsatisfiable
from nelson.io.progress import PhaseLine

if TYPE_CHECKING:
    from nelson.budget import Budget
    from nelson.space import Space
    from nelson.space.tables.model import TableModel

EXAMPLES = """\b
Examples:
  nelson report puzzle.cnf
  nelson report puzzle.cnf.gz --json | jq .extremal
  nelson report bus.toml                     fields, rules, number of legal rows, shares of values
  nelson report bus.toml --given burst=WRAP
"""


def report(
    file: opt.ProblemFile,
    weights: opt.Weights = None,
    given: opt.Given = [],  # noqa: B006 - Typer copies it
    dialect: opt.Dialect = "auto",
    seconds: opt.Seconds = None,
    json: opt.Json = False,
) -> None:
    """Print what is known about a formula before sampling it, or what a space holds.

    A formula: its size; Condition 1 (is plain resampling exact here?), and two clauses that break
    it if it fails; the criteria of the local lemma; the expected work; the method `auto` takes, and
    why. A space: its fields and rules, how many rows are legal, and the share of each value among
    them; or the rules that contradict each other.
    """
    if (source := read_source(file)) is not None:
        refuse({"--weights": weights is not None}, "for DIMACS files only; see nelson marginals")
        _describe(source, given, left(seconds), json)
        return
    refuse({"--given": bool(given)}, "for spaces (.toml) only")
    named = read_formula(file, dialect, seconds=seconds)
    from nelson.sampling.report import report as report_on

    result = report_on(named.formula, named.theta(weights), seconds=left(seconds))
    if json:
        print_json(result.to_dict())
    else:
        echo(str(result))


def _describe(
    source: Space | TableModel, given: list[str], seconds: float | None, json: bool
) -> None:
    """What a space holds; the shares are those of the model, where `source` is one."""
    from nelson.budget import Budget

    space = space_of(source)
    with PhaseLine():
        wanted = conditions(space, given)
        budget = Budget.of(seconds)
        legal, why = _legal_rows(space, wanted, budget.share(0.5))
        limit: dict[str, Any] = {"seconds": budget.seconds_left} if source is space else {}
        shares = source.marginals(wanted, **limit) if legal != 0 else None
    rows = [] if shares is None else list(value_rows(shares))
    if json:
        print_json(
            {
                "name": space.name,
                "fields": {name: field.domain for name, field in space.fields.items()},
                "rules": [str(requirement) for requirement in space.rules],
                "legal_rows": legal if legal is None or legal < 10**4000 else digits(legal),
                "variables": space.formula.n_vars,
                "clauses": len(space.formula),
                "shares": [{"field": f, "value": v, "share": s} for f, v, s in rows],
                "guarantee": None if shares is None else shares.guarantee,
            }
        )
    else:
        echo(str(space))
        typer.echo()
        typer.echo(f"legal rows  {why if legal is None else digits(legal)}")
        size = f"{space.formula.n_vars:,} variables, {len(space.formula):,} clauses"
        typer.echo(f"formula     {size}")
        if shares is not None:
            typer.echo(f"\nshare of each value among the legal rows ({shares.guarantee})")
            echo(aligned([["  " + name, *map(shown, rest)] for name, *rest in rows]))
    if legal == 0:
        raise Unsatisfiable(space.contradiction(wanted) or "no row is legal")


def _legal_rows(space: Space, given: Any, budget: Budget) -> tuple[int | None, str]:
    """(the number of legal rows, "") or (None, why it is not known)."""
    try:
        return space.count(given, 60.0 if budget.counted else budget.left), ""
    except BudgetExceeded as error:
        return None, f"not counted: {error}"
