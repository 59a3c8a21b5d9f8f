"""`nelson marginals FILE`: the share of each value of each field, or of each variable."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from nelson.cli import options as opt
from nelson.cli.common import check_name, left, put, say
from nelson.cli.inputs import law_arguments, read_formula, read_source, refuse, space_of
from nelson.io.progress import PhaseLine

if TYPE_CHECKING:
    from nelson.space import ValueShares

EXAMPLES = """\b
Examples:
  nelson marginals bus.toml                              the share of each value
  nelson marginals bus.toml --given burst=WRAP -o shares.csv
  nelson marginals bus.toml --weight burst.FIXED=60 --json
  nelson marginals car.cnf --given Engine=true           the share of solutions with each variable

The columns are field, value, share; the fields of a formula are its variables, and the value is
True. A field of more than 256 values is divided into 16 ranges. The line on stderr says whether the
shares are exact, or estimated from samples, and then how far off they may be.
Exit codes: 0 ok, 1 bad input, 2 wrong usage, 20 proved unsatisfiable.
"""


def marginals(
    file: opt.ProblemFile,
    given: opt.Given = [],  # noqa: B006 - Typer copies it
    weights: opt.Weights = None,
    weight: opt.Weight = [],  # noqa: B006
    share: opt.Share = [],  # noqa: B006
    first: opt.First = [],  # noqa: B006
    seed: opt.Seed = None,
    seconds: opt.Seconds = None,
    output: opt.TableOutput = "-",
    dialect: opt.Dialect = "auto",
    json: opt.Json = False,
    spreadsheet: opt.Spreadsheet = False,
    quiet: opt.Quiet = False,
) -> None:
    """Print the share of each value of a field (spaces), or of true (variables of a formula)."""
    check_name(output, spreadsheet)
    with PhaseLine(not quiet):
        if (source := read_source(file)) is not None:
            law = law_arguments(source, given, weights, weight, share, first)
            if source is space_of(source):
                law |= {"seed": seed, "seconds": left(seconds)}
            shares = source.marginals(**law)
            rows = list(value_rows(shares))
            guarantee, error = shares.guarantee, shares.error
        else:
            refuse({"--share": bool(share), "--first": bool(first)}, "for spaces (.toml) only")
            from nelson.sampling.marginals import marginals as marginals_of

            named = read_formula(file, dialect, quiet, seconds)
            theta = named.log_odds(weights, weight, given)
            means = marginals_of(named.formula, theta, seconds=left(seconds), seed=seed)
            rows = [(named.shown(v), True, float(p)) for v, p in enumerate(means.mean, start=1)]
            guarantee, error = means.guarantee, means.error
    put(("field", "value", "share"), rows, output, json, spreadsheet)
    if not quiet:
        say(guarantee if not error else f"{guarantee}: standard errors up to {error:.2g}")


def value_rows(shares_of: ValueShares) -> Iterator[tuple[str, Any, float]]:
    """(field, value, share); ranges of values as a..b."""
    for name, shares in shares_of.items():
        for value, share in shares.items():
            shown = f"{value[0]}..{value[-1]}" if isinstance(value, range) else value
            yield name, shown, share
