"""`nelson samplers`: the registered samplers, their guarantees, and what to install for each."""

from __future__ import annotations

import typer

from nelson.cli import options as opt
from nelson.cli.common import aligned, print_json

EXAMPLES = """\b
Examples:
  nelson samplers                      one line per sampler
  nelson samplers --long               with a summary and a citation of each
  nelson samplers --json | jq '.[] | select(.weighted) | .name'
  nelson sample puzzle.cnf -n 100 --method cmsgen
"""


def samplers(
    long: bool = typer.Option(False, "--long", "-l", help="Add a summary and a citation of each."),
    json: opt.Json = False,
) -> None:
    """List the samplers: the names that `nelson sample --method` takes.

    For each: whether it takes weights, the guarantee of its samples, and which extra has to be
    installed for it. `auto`, the default of `nelson sample`, picks among them.
    """
    from nelson.sampling.registry import describe

    rows = describe()
    if json:
        print_json([row._asdict() for row in rows])
        return
    table = [["name", "weights", "guarantee", "needs"]]
    for row in rows:
        extra = f"nelson-mrf[{row.needs}]" if row.needs else ""
        missing = "" if row.installed else ", not installed"
        weights = "any" if row.weighted else "uniform"
        table.append([row.name, weights, row.guarantee, extra + missing])
    for k, line in enumerate(aligned(table).splitlines()):
        typer.echo(line)
        if long and k:
            typer.echo(f"    {rows[k - 1].summary}")
            typer.echo(f"    {rows[k - 1].citation}")
