"""`nelson generate MODEL`: new structures from a model folder, all of them valid."""

from __future__ import annotations

from typing import Any

from nelson.cli import options as opt
from nelson.cli.common import load_numba_without_scipy, parsed_count, projection
from nelson.cli.formulas import Named
from nelson.cli.output import (
    RowSink,
    SampleSink,
    drawn_blocks,
    drawn_rows,
    finish,
    open_output,
    open_row_output,
    shows_progress,
    write_blocks,
)
from nelson.cli.spaces import conditions, refuse
from nelson.errors import FormulaError

EXAMPLES = """\b
Examples:
  nelson generate model -n 1000                  text on stdout: literals, ending in 0
  nelson generate model -n 1e6 -o new.npz        packed bits; .parquet works too
  nelson generate model -n 1000 -o new.csv       0 and 1, under the names of the columns of the data
  nelson generate model -n 10 --given 1,-5       x1 true, x5 false; --given name=true works too
  nelson generate model -n inf | head            endless, until the reader has enough

A model of a table gives rows: .csv (also on stdout), .parquet, .arrow, .npz; --given name=value.
Exit codes: 0 ok, 1 bad input, 2 wrong usage, 3 budget reached, 20 proved unsatisfiable.
"""


def generate(
    model: opt.ModelFolder,
    count: opt.Count = "1",
    output: opt.Output = "-",
    seed: opt.Seed = None,
    method: opt.Method = "auto",
    given: opt.Given = [],  # noqa: B006 - Typer copies it
    project: opt.Project = None,
    unique: opt.Unique = False,
    seconds: opt.Seconds = None,
    sweeps: opt.Sweeps = None,
    max_rounds: opt.MaxRounds = 1000,
    threads: opt.Threads = None,
    quiet: opt.Quiet = False,
) -> None:
    """Draw new structures from a model; the same outputs as nelson sample.

    A model of a table, which Space.learn made, gives rows with the columns of the table.
    """
    load_numba_without_scipy()
    from nelson.formula.names import Names
    from nelson.space.load import load
    from nelson.space.tables.model import TableModel

    loaded = load(model)
    how: dict[str, Any] = {"method": method, "seed": seed, "seconds": seconds, "threads": threads}
    if isinstance(loaded, TableModel):
        used = {"--project": project is not None, "--sweeps": sweeps is not None}
        used["--max-rounds"] = max_rounds != 1000
        refuse(used, "not for a model of a table")
        how |= {
            "n": parsed_count(count),
            "unique": unique,
            "given": conditions(loaded.space, given),
        }
        with open_row_output(output) as writer_of:
            sink = RowSink(writer_of, loaded.space.no_rows())
            total = write_blocks(
                drawn_rows(loaded, how), sink, how["n"], shows_progress(output, quiet)
            )
        finish(total, how["n"], quiet, what="row")
        return
    n = parsed_count(count, endless=not unique)
    how |= {"n": n, "sweeps": sweeps, "max_rounds": max_rounds}
    names = Names(loaded.formula.n_vars, loaded.names) if loaded.names else None
    named = Named(loaded.formula, names)
    with open_output(output) as writer_of:
        literals = named.literals(given)
        chosen = projection(project, loaded.formula)
        if loaded.terms:
            if n is None or unique or literals or project or method != "auto":
                raise FormulaError(
                    "a model with terms is drawn by heat-bath sweeps",
                    expected="a number of samples, and no --method, --given, --project, --unique",
                )
            del how["method"]
            blocks = iter([loaded.sample(**how)])
        else:
            law = {"theta": loaded.theta_for(), "given": literals, "project": chosen}
            blocks = drawn_blocks(loaded.formula, {**law, **how}, unique)
        samples = SampleSink(writer_of, chosen or range(1, loaded.formula.n_vars + 1), named.titles)
        total = write_blocks(blocks, samples, n, shows_progress(output, quiet))
    finish(total, n, quiet)
