"""`nelson count FILE`: how many solutions a formula has, or how many legal rows a space."""

from __future__ import annotations

import typer

from nelson.cli import options as opt
from nelson.cli.common import digits, fail, left, say
from nelson.cli.inputs import conditions, read_formula, read_source, refuse, space_of
from nelson.io.progress import PhaseLine

EXAMPLES = """\b
Examples:
  nelson count puzzle.cnf
  nelson count car.cnf --given Engine=true --given 7=false
  nelson count shown.cnf --projected            solutions on the variables of c ind lines
  nelson count bus.toml --given burst=WRAP --given 'len > 4'
  nelson count bus.toml --json

The number is exact, and the only thing on stdout; 0 is an answer like any other.
Exit codes: 0 ok, 1 bad input, 2 wrong usage, 3 the time was up before all were counted.
"""


def count(
    file: opt.ProblemFile,
    given: opt.Given = [],  # noqa: B006 - Typer copies it
    projected: bool = typer.Option(
        False,
        "--projected",
        help="Count assignments of the variables in c ind lines that some solution extends.",
    ),
    seconds: float = typer.Option(
        60.0, "--seconds", metavar="SECONDS", help="Give up after this many seconds."
    ),
    dialect: opt.Dialect = "auto",
    json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Count the solutions of a formula, or the legal rows of a space, exactly."""
    from nelson.exact.queries import count as count_solutions

    with PhaseLine(not quiet):
        if (source := read_source(file)) is not None:
            refuse({"--projected": projected}, "for DIMACS files only; FILE is a space")
            space = space_of(source)
            number = space.count(conditions(space, given), left(seconds))
        else:
            named = read_formula(file, dialect, quiet, seconds)
            formula, literals = named.formula, named.literals(given) or ()
            shown = formula.projection
            if projected and shown is None:
                fail(f"--projected: {file} has no c ind or c p show line")
            number = count_solutions(formula, literals, left(seconds), shown if projected else None)
            if shown is not None and not projected and not quiet:
                say(
                    "note: all variables count, not only the projection of the file; "
                    "--projected counts its projected solutions"
                )
    if json:
        typer.echo(f'{{"count": {digits(number)}}}')
    else:
        typer.echo(digits(number))
