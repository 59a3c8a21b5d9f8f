"""`nelson generate model`: new structures from a model folder, all of them valid."""

from __future__ import annotations

from typing import Any

import typer

from nelson.cli.common import integers, load_numba_without_scipy
from nelson.cli.sample import _blocks, _count, _finish, _open, _projection, _write

EXAMPLES = """\b
Examples:
  nelson generate model -n 1000                  text on stdout: literals, ending in 0
  nelson generate model -n 1e6 -o new.npz        packed bits; .parquet works too
  nelson generate model -n 10 --given 1,-5       x1 true, x5 false
  nelson generate model -n inf | head            endless, until the reader has enough

Exit codes: 0 ok, 1 bad input, 2 wrong usage, 3 budget reached, 20 proved unsatisfiable.
"""


def generate(
    model: str = typer.Argument(..., metavar="MODEL", help="A folder that nelson learn wrote."),
    count: str = typer.Option("1", "-n", "--count", metavar="N", help="Samples: 1000, 1e6, inf."),
    output: str = typer.Option(
        "-", "-o", "--output", metavar="PATH", help="out.txt, out.npz, out.parquet; - is stdout."
    ),
    seed: int | None = typer.Option(None, help="Same seed, same samples. [default: a fresh one]"),
    method: str = typer.Option("auto", help="auto, or a sampler's name."),
    given: str | None = typer.Option(None, metavar="LITS", help="Fix these literals, e.g. 1,-5."),
    project: str | None = typer.Option(
        None, metavar="VARS", help="Print these variables only, e.g. 1,2,7; or all."
    ),
    unique: bool = typer.Option(False, "--unique", help="Distinct samples only."),
    seconds: float | None = typer.Option(None, help="Stop after this long."),
    sweeps: int | None = typer.Option(
        None, help="Heat-bath sweeps inside the valid space. [default: the method's choice]"
    ),
    max_rounds: int = typer.Option(1000, help="Give a sample up after this many rounds."),
    threads: int | None = typer.Option(None, help="[default: all cores]"),
    quiet: bool = typer.Option(False, "-q", "--quiet", help="No progress bar, no summary."),
) -> None:
    """Draw new structures from a model; the same outputs as nelson sample."""
    n = _count(count)
    if unique and n is None:
        raise typer.BadParameter("distinct samples do run out: give a number", param_hint="-n")
    literals = integers(given, "--given")
    load_numba_without_scipy()
    from nelson.errors import FormulaError
    from nelson.learning.model import load

    with _open(output) as out:
        loaded = load(model)
        formula = loaded.formula
        options: dict[str, Any] = {
            "theta": loaded.theta_for(),
            "n": n,
            "method": method,
            "given": literals,
            "project": _projection(project, formula),
            "seed": seed,
            "threads": threads,
            "max_rounds": max_rounds,
            "seconds": seconds,
        }
        if sweeps is not None:
            options["sweeps"] = sweeps
        columns = options["project"] or range(1, formula.n_vars + 1)
        blocks = _blocks(formula, options, unique)
        if loaded.terms:
            if n is None or unique or literals or project or method != "auto":
                raise FormulaError(
                    "a model with terms is drawn by heat-bath sweeps",
                    expected="a number of samples, and no --method, --given, --project, --unique",
                )
            more = {"seed": seed, "sweeps": sweeps, "threads": threads, "max_rounds": max_rounds}
            blocks = iter([loaded.sample(n, **more, seconds=seconds)])
        total = _write(blocks, columns, n, out, output, quiet)
    _finish(total, n, quiet)
