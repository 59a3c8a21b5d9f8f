"""Small tables of commands: aligned on the terminal, as CSV or JSON in a file."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import typer

from nelson.cli.common import print_json
from nelson.errors import NelsonError, printable


def check_name(output: str, spreadsheet: bool) -> None:
    """Refuse names that cannot be written, before any work is done."""
    if spreadsheet and not output.lower().endswith(".csv"):
        raise typer.BadParameter("for a .csv file only", param_hint="--spreadsheet")
    if output != "-" and not output.lower().endswith((".csv", ".json")):
        raise NelsonError(f"{output}: cannot write this table; use .csv or .json")


def put(
    header: Sequence[str],
    rows: Iterable[Sequence[Any]],
    output: str,
    as_json: bool,
    spreadsheet: bool = False,
) -> None:
    """Rows to stdout ("-") or to a file; as_json: on stdout as a list of objects.

    spreadsheet: in a CSV file, no text begins like a formula.
    """
    from nelson.io import atomic
    from nelson.io.json_values import plain
    from nelson.io.sample_files import as_text, csv_lines

    cells = [list(row) for row in rows]
    objects = [dict(zip(header, row, strict=True)) for row in cells]
    if output == "-":
        if as_json:
            print_json(objects)
        else:
            typer.echo(aligned([list(map(shown, row)) for row in [header, *cells]]))
    elif output.lower().endswith(".json"):
        atomic.write(output, (json.dumps(plain(objects), indent=2) + "\n").encode(), sync=False)
    else:
        lines = [list(header), *cells]
        if spreadsheet:
            lines = [list(map(as_text, line)) for line in lines]
        atomic.write(output, csv_lines(lines), sync=False)


def shown(cell: Any) -> str:
    """A cell on the terminal."""
    return f"{cell:.4g}" if isinstance(cell, float) else printable(str(cell))


def aligned(rows: list[list[str]]) -> str:
    """Columns of equal width; the last one is not padded."""
    if not rows or not rows[0]:
        return ""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def digits(number: int) -> str:
    """All digits of a number, also of more than Python prints by default."""
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        return str(number)
    finally:
        sys.set_int_max_str_digits(limit)
