"""`nelson marginals FILE`: the share of each value of each field, or of each variable."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from nelson.cli import options as opt
from nelson.cli.common import is_space, load_numba_without_scipy, say
from nelson.cli.formulas import read_named
from nelson.cli.spaces import explained, law_arguments, read_space, refuse
from nelson.cli.status_line import PhaseLine
from nelson.cli.tables import check_name, put

if TYPE_CHECKING:
    from nelson.space import Marginals

EXAMPLES = """\b
Examples:
  nelson marginals bus.toml                              the share of each value
  nelson marginals bus.toml --given burst=WRAP -o shares.csv
  nelson marginals bus.toml --weight burst.FIXED=60 --json
  nelson marginals car.cnf --given Engine=true           the share of solutions with each variable

A field of more than 256 values is divided into 16 ranges. The line on stderr says whether the
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
    output: opt.TableOutput = "-",
    dialect: opt.Dialect = "auto",
    json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Print the share of each value (spaces), or of true (variables of a formula)."""
    check_name(output)
    load_numba_without_scipy()
    if is_space(file):
        from nelson.space.marginals import marginals as shares_of

        with PhaseLine(not quiet):
            space = read_space(file)
            law = law_arguments(space, given, weights, weight, share, first)
            with explained(space, law["given"]):
                found = shares_of(space, space.law(**law, seed=seed))
        put(("field", "value", "share"), value_rows(found), output, json)
        guarantee, error = found.guarantee, found.error
    else:
        refuse({"--share": bool(share), "--first": bool(first)}, "for spaces (.toml) only")
        from nelson.log_z.moments import means

        with PhaseLine(not quiet):
            named = read_named(file, dialect, quiet)
            theta = named.log_odds(weights, weight, given)
            mean, guarantee, error = means(named.formula, theta, seed)
        rows = ((named.shown(v), float(p)) for v, p in enumerate(mean, start=1))
        put(("variable", "share"), rows, output, json)
    if not quiet:
        say(guarantee if not error else f"{guarantee}: standard errors up to {error:.2g}")


def value_rows(found: Marginals) -> Iterator[tuple[str, Any, float]]:
    """(field, value, share); ranges of values as a..b."""
    for name, shares in found.items():
        for value, share in shares.items():
            shown = f"{value[0]}..{value[-1]}" if isinstance(value, range) else value
            yield name, shown, share
