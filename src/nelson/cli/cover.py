"""`nelson cover FILE.toml`: a small table of legal rows with every legal combination of values."""

from __future__ import annotations

import typer

from nelson.cli import options as opt
from nelson.cli.common import BUDGET, counted, fail, is_space, say
from nelson.cli.output import open_row_output
from nelson.cli.spaces import conditions, read_space
from nelson.cli.status_line import PhaseLine
from nelson.errors import NelsonError

EXAMPLES = """\b
Examples:
  nelson cover bus.toml -o tests.csv                     every legal pair of values occurs
  nelson cover bus.toml -t 3 -o tests.parquet            every legal triple
  nelson cover bus.toml --given write=true               among rows with write only

Exit codes: 0 ok, 1 bad input, 2 wrong usage, 3 the time was up (the rows so far are written),
20 proved unsatisfiable.
"""


def cover(
    file: str = typer.Argument(metavar="FILE", help="A space: FILE.toml."),
    t: int = typer.Option(2, "-t", "--tuples", help="Cover combinations of so many fields."),
    output: str = typer.Option(
        "-", "-o", "--output", metavar="PATH", help="out.csv, .parquet, .arrow, .npz; - is stdout."
    ),
    given: opt.Given = [],  # noqa: B006 - Typer copies it
    seed: opt.Seed = None,
    seconds: opt.Seconds = None,
    quiet: opt.Quiet = False,
) -> None:
    """Write a small table of legal rows in which every legal combination of values occurs."""
    if not is_space(file):
        raise NelsonError(f"{file}: expected a space, FILE.toml")
    with open_row_output(output) as writer_of:
        space = read_space(file)
        if not hasattr(space, "cover"):
            raise NelsonError("this version cannot cover combinations of values yet")
        with PhaseLine(not quiet):
            rows = space.cover(t, given=conditions(space, given), seed=seed, seconds=seconds)
        writer = writer_of(rows)
        writer.write(rows)
        writer.close({"rows": len(rows), "t": t})
    if not quiet:
        say(f"{counted(len(rows), 'row')} with every legal combination of {t} values")
    if rows.status != "ok":
        fail(f"budget reached: {rows.info.get('reason', 'the time was up')}", BUDGET)
