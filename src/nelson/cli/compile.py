"""`nelson compile FILE`: a circuit, compiled once and kept on disk: later samples are exact."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

import typer

from nelson.cli import options as opt
from nelson.cli.common import ExitCode, digits, fail, left, print_json
from nelson.cli.inputs import read_formula, read_source, space_of
from nelson.errors import BudgetExceeded
from nelson.io.progress import PhaseLine

EXAMPLES = """\b
Examples:
  nelson compile car.cnf                        until it is done, or Ctrl-C
  nelson compile car.cnf --seconds 600          give up after ten minutes
  nelson compile car.cnf --memory 16            the compiler may take 16 GiB
  nelson compile car.cnf && nelson sample car.cnf -n 1e6 -o cars.npz

Exit codes: 0 ok, 1 bad input, or no compiler is installed, 2 wrong usage, 3 the time or the memory
was not enough, 20 proved unsatisfiable, 130 interrupted: nothing is circuit.
"""


def compile_(
    file: opt.ProblemFile,
    seconds: float | None = typer.Option(
        None,
        "--seconds",
        min=0.0,
        metavar="SECONDS",
        help="Give up after this many seconds. [default: no limit]",
    ),
    memory: float = typer.Option(
        4.0, min=0.1, metavar="X", help="GiB of memory that the compiler may take."
    ),
    compiler: str = typer.Option(
        "auto", metavar="NAME", help="auto, d4 or frontier (docs/circuits.md)."
    ),
    dialect: opt.Dialect = "auto",
    json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Compile a formula, or a space, to a circuit, and keep it on disk.

    Later calls of nelson sample FILE find the circuit, and their samples are exact, for any
    --weights and --given. Use it if nelson sample says that its samples are heuristic. Compiling
    may take seconds or hours, and does not succeed on every formula. See also nelson cache.
    """
    from nelson.budget import Budget
    from nelson.exact.circuit import disk_cache, solutions
    from nelson.exact.compiled import keep_on_disk
    from nelson.io.progress import phase

    with PhaseLine(not quiet):
        if (source := read_source(file)) is not None:
            formula = space_of(source).formula
        else:
            formula = read_formula(file, dialect, quiet, seconds).formula
        try:
            budget = replace(Budget.of(left(seconds)), memory=int(memory * 2**30))
            circuit = keep_on_disk(formula, budget, compiler)
        except BudgetExceeded as error:
            fail(
                f"budget reached: {error}; more --seconds or more --memory may help",
                ExitCode.BUDGET,
            )
        with phase("counting the solutions"):
            number = solutions.count(circuit.circuit)
    path = disk_cache.path_of(disk_cache.kept_name(formula))
    facts: dict[str, Any] = {
        "decisions": circuit.circuit.decisions,
        "edges": circuit.edges,
        "bytes": path.stat().st_size,
        "seconds": circuit.built.seconds,
        "cached": circuit.built.cached,
        "solutions": number if number < 10**4000 else digits(number),
        "path": str(path),
    }
    if json:
        print_json(facts)
        return
    size = f"{facts['decisions']:,} decisions, {facts['edges']:,} edges, {facts['bytes']:,} bytes"
    took = "found in the cache" if circuit.built.cached else f"{circuit.built.seconds:.3g} s"
    typer.echo(f"circuit    {size}")
    typer.echo(f"compiled   {took}")
    typer.echo(f"solutions  {_number(number)}")
    typer.echo(f"kept in    {path}")
    name = "FILE" if file == "-" else shlex.quote(file)
    typer.echo(f"next       nelson sample {name} -n 1000    exact samples, for any weights")


def _number(number: int, most_digits: int = 40) -> str:
    """All digits of a number that has few; else "about 1.23e+456"."""
    text = digits(number)
    return text if len(text) <= most_digits else f"about {text[0]}.{text[1:3]}e+{len(text) - 1}"
