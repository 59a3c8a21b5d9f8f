"""`nelson generate MODEL`: new structures from a model folder, all of them valid."""

from __future__ import annotations

from typing import Any

from nelson.cli import options as opt
from nelson.cli.common import load_numba_without_scipy, parsed_count, projection
from nelson.cli.formulas import Named
from nelson.cli.output import (
    SampleSink,
    drawn_blocks,
    finish,
    open_output,
    shows_progress,
    write_blocks,
)

EXAMPLES = """\b
Examples:
  nelson generate model -n 1000                  text on stdout: literals, ending in 0
  nelson generate model -n 1e6 -o new.npz        packed bits; .parquet works too
  nelson generate model -n 1000 -o new.csv       0 and 1, under the names of the columns of the data
  nelson generate model -n 10 --given 1,-5       x1 true, x5 false; --given name=true works too
  nelson generate model -n inf | head            endless, until the reader has enough

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
    """Draw new structures from a model; the same outputs as nelson sample."""
    n = parsed_count(count, endless=not unique)
    load_numba_without_scipy()
    from nelson.errors import FormulaError
    from nelson.formula.names import Names
    from nelson.learning.model import load

    budget: dict[str, Any] = {"seconds": seconds, "max_rounds": max_rounds, "threads": threads}
    with open_output(output) as writer_of:
        loaded = load(model)
        n_vars = loaded.formula.n_vars
        named = Named(loaded.formula, Names(n_vars, loaded.names) if loaded.names else None)
        literals = named.literals(given)
        chosen = projection(project, loaded.formula)
        if loaded.terms:
            if n is None or unique or literals or project or method != "auto":
                raise FormulaError(
                    "a model with terms is drawn by heat-bath sweeps",
                    expected="a number of samples, and no --method, --given, --project, --unique",
                )
            blocks = iter([loaded.sample(n, seed=seed, sweeps=sweeps, **budget)])
        else:
            law = {"theta": loaded.theta_for(), "given": literals, "project": chosen}
            how = {"n": n, "method": method, "sweeps": sweeps, "seed": seed}
            blocks = drawn_blocks(loaded.formula, {**law, **how, **budget}, unique)
        sink = SampleSink(writer_of, chosen or range(1, n_vars + 1), named.titles)
        total = write_blocks(blocks, sink, n, shows_progress(output, quiet))
    finish(total, n, quiet)
