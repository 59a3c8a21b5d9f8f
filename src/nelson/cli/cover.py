"""`nelson cover FILE`: a small table of legal rows with every legal combination of values."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from nelson.cli import options as opt
from nelson.cli.common import ExitCode, counted, fail, left, say
from nelson.cli.inputs import conditions, read_space
from nelson.cli.output import open_row_output
from nelson.io.progress import PhaseLine

EXAMPLES = """\b
Examples:
  nelson cover bus.toml -o tests.csv                     every legal pair of values occurs
  nelson cover bus.toml -t 3 -o tests.parquet            every legal triple
  nelson cover bus.toml --bins addr=16                   also 16 ranges of addr
  nelson cover bus.toml --field burst --field len        these fields only
  nelson cover bus.toml --given write=true               among rows with write only
  nelson cover car.cnf -o configurations.csv             a feature model: .cnf with names, or .uvl

Exit codes: 0 ok, 1 bad input, 2 wrong usage, 3 the time was up (the rows so far are written),
20 proved unsatisfiable.
"""

Bins = Annotated[
    list[str],
    typer.Option(
        metavar="NAME=N",
        help="Also cover N ranges of a field of more than 64 values. Repeatable.",
    ),
]


def cover(
    file: opt.ProblemFile,
    t: Annotated[
        int, typer.Option("-t", "--tuples", metavar="N", help="How many values a combination has.")
    ] = 2,
    output: Annotated[
        str,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="out.csv, .parquet, .arrow, .npz; - is stdout.",
        ),
    ] = "-",
    field: Annotated[
        list[str], typer.Option(metavar="NAME", help="Cover this field. Repeatable. [default: all]")
    ] = [],  # noqa: B006 - Typer copies it
    bins: Bins = [],  # noqa: B006
    given: opt.Given = [],  # noqa: B006
    seed: opt.Seed = None,
    seconds: opt.Seconds = None,
    spreadsheet: opt.Spreadsheet = False,
    quiet: opt.Quiet = False,
) -> None:
    """Write a small table of legal rows in which every legal combination of values occurs."""
    fields = _fields(field, bins)
    with open_row_output(output, spreadsheet) as writer_of:
        space = read_space(file)
        wanted = conditions(space, given)
        with PhaseLine(not quiet):
            rows = space.cover(t, fields, seed=seed, given=wanted, seconds=left(seconds))
        writer = writer_of(rows)
        writer.write(rows)
        writer.close({"rows": len(rows), "t": t, "status": rows.status})
    if not quiet:
        for name in rows.info["left_out"] if not field else ():
            say(f"note: {name} has too many values and is left out; --bins {name}=16 includes it")
        legal = counted(rows.info["legal"], "legal combination")
        say(f"{counted(len(rows), 'row')} · {legal} of {t} values")
    if rows.status != "ok":
        fail(f"budget reached: {rows.info['reason']}", ExitCode.BUDGET)


def _fields(names: list[str], bins: list[str]) -> Any:
    """`fields` of `Space.cover`."""
    if names and bins:
        raise typer.BadParameter("not with --field", param_hint="--bins")
    bins_of: dict[str, int] = {}
    for text in bins:
        name, _, number = text.rpartition("=")
        if not name or not number.isdecimal() or len(number) > 9:
            raise typer.BadParameter(f"{text!r}: expected NAME=16", param_hint="--bins")
        bins_of[name] = int(number)
    return names or bins_of or None
