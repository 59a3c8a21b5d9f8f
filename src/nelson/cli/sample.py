"""`nelson sample FILE`: draw valid structures and write them as they are drawn."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import typer

from nelson.cli import options as opt
from nelson.cli.common import law_of_projection, parsed_count, projection
from nelson.cli.formulas import NamedFormula, read_formula
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
from nelson.cli.sample_on_cluster import output_folder, sample_on_cluster
from nelson.cli.spaces import law_arguments, read_source, refuse, space_of
from nelson.errors import FormulaError

if TYPE_CHECKING:
    from nelson.space import Space
    from nelson.space.tables.model import TableModel

EXAMPLES = """\b
Examples:
  nelson sample puzzle.cnf -n 1000                    1000 samples as text on stdout
  nelson sample puzzle.cnf -n 1e6 -o out.npz          packed bits, numpy.load reads them
  nelson sample puzzle.cnf -n 10 --given 1,-5         x1 true, x5 false
  nelson sample puzzle.cnf -n 10 --weights theta.npy  weighted; theta_i = log-odds of x_i
  nelson sample puzzle.cnf --method prs -n 100        exact on any formula, within its budget
  zcat puzzle.cnf.gz | nelson sample - -n inf | head  endless, until the reader has enough
  nelson sample puzzle.cnf -n 1e9 --cluster -o many/  all cores, into a folder of Parquet parts
  nelson sample shown.cnf --project-law marginal      with c ind lines: the law of all solutions
  nelson sample car.cnf -n 10 --given Engine=true -o cars.csv   names in comments: c 1 Engine
  nelson sample bus.toml -n 1e6 -o rows.parquet       rows of a space; .csv, .arrow, .npz too
  nelson sample bus.toml -n 10 --given burst=WRAP --given 'len > 4'
  nelson sample bus.toml -n 1e5 --share burst.FIXED=0.6 --share burst.INCR=0.3 -o rows.csv
  nelson sample model -n 1000 -o new.csv              new structures of a fitted model

Text output is the SAT samplers' convention: one sample per line, literals, ending in 0. Rows of a
space, or of a model of a table, go to stdout as CSV.
Exit codes: 0 ok, 1 bad input, 2 wrong usage, 3 budget reached, 20 proved unsatisfiable.
"""


def sample(
    file: opt.ProblemFile,
    count: opt.Count = "1",
    output: opt.Output = "-",
    weights: opt.Weights = None,
    seed: opt.Seed = None,
    method: opt.Method = "auto",
    given: opt.Given = [],  # noqa: B006 - Typer copies it
    weight: opt.Weight = [],  # noqa: B006
    share: opt.Share = [],  # noqa: B006
    first: opt.First = [],  # noqa: B006
    project: opt.Project = None,
    project_law: opt.ProjectLaw = None,
    unique: opt.Unique = False,
    seconds: opt.Seconds = None,
    sweeps: opt.Sweeps = None,
    moves: opt.Moves = "single",
    max_rounds: opt.MaxRounds = 1000,
    threads: opt.Threads = None,
    device: str = typer.Option(
        "cpu", metavar="NAME", help="cpu, cuda or cuda:1: the same samples on each."
    ),
    no_check: bool = typer.Option(
        False, "--no-check", help="Also write samples that violate the formula (gibbs, ...)."
    ),
    cluster: str | None = typer.Option(
        None,
        metavar="[ADDRESS]",
        help="Draw on the Ray cluster at ADDRESS into the folder -o; without ADDRESS: on all cores "
        "of this machine. Run again, it continues where it was stopped.",
    ),
    workers: int | None = typer.Option(
        None, min=1, metavar="N", help="With --cluster: processes. [default: all cores]"
    ),
    shard: str | None = typer.Option(
        None, metavar="N", help="With --cluster: samples per part. [default: about 128 MB]"
    ),
    dialect: opt.Dialect = "auto",
    spreadsheet: opt.Spreadsheet = False,
    quiet: opt.Quiet = False,
) -> None:
    """Draw valid assignments of a formula, legal rows of a space, or structures of a model.

    FILE may be a folder that nelson learn, or Space.learn, wrote: samples follow its theta. Every
    sample satisfies the formula, unless you say --no-check. The summary on stderr names the
    guarantee of the samples: exact, approximate, diagnosed or heuristic.
    """
    options: dict[str, Any] = {"method": method, "seed": seed, "seconds": seconds}
    if (source := read_source(file)) is not None:
        refuse(
            {
                "--project": project is not None,
                "--project-law": project_law is not None,
                "--sweeps": sweeps is not None,
                "--moves": moves != "single",
                "--max-rounds": max_rounds != 1000,
                "--device": device != "cpu",
                "--no-check": no_check,
                "--cluster": cluster is not None,
                "--workers": workers is not None,
                "--shard": shard is not None,
                "--dialect": dialect != "auto",
            },
            "for DIMACS files only; FILE is a space, or a model of a table",
        )
        options |= {"n": parsed_count(count), "unique": unique, "threads": threads}
        options |= law_arguments(source, given, weights, weight, share, first)
        _sample_rows(source, output, options, spreadsheet, quiet)
        return
    refuse({"--share": bool(share), "--first": bool(first)}, "for spaces (.toml) only")
    n = parsed_count(count, endless=not unique)
    options |= {"n": n, "sweeps": sweeps, "max_rounds": max_rounds, "check": not no_check}
    if cluster is not None:
        used = {"--unique": unique, "--device": device != "cpu", "-n inf": n is None}
        used |= {"--moves": moves != "single", "--spreadsheet": spreadsheet}
        refuse(used, "not with --cluster")
        folder = output_folder(output)
        part = None if shard is None else parsed_count(shard, "--shard", endless=False)
        options |= {"threads": threads or 1, "workers": workers, "shard": part}
    else:
        used = {"--workers": workers is not None, "--shard": shard is not None}
        refuse(used, "not without --cluster")
        options |= {"threads": threads, "device": device, "moves": moves}

    def read() -> NamedFormula:
        """The formula, and the options whose defaults may stand in its file."""
        named = read_formula(file, dialect, quiet)
        options["given"] = named.literals(given)
        options["theta"] = named.theta(weights, weight)
        options["project"] = projection(project, named.formula)
        if os.path.isdir(file):  # theta of a model is over all variables
            options["project_law"] = project_law or "marginal"
        else:
            options["project_law"] = law_of_projection(
                project_law, project, named.formula, options["theta"], quiet
            )
        return named

    if cluster is not None:
        named = read()
        if named.terms:
            raise FormulaError("a model with terms", expected="one without, for --cluster")
        sample_on_cluster(named.formula, options, cluster, folder, quiet)
        return
    with open_output(output, spreadsheet) as writer_of:
        named = read()
        columns = options["project"] or range(1, named.formula.n_vars + 1)
        if named.terms:
            if n is None:
                raise FormulaError("a model with terms and -n inf", expected="a number of samples")
            options |= {"terms": named.terms, "device": None if device == "cpu" else device}
        blocks = drawn_blocks(named.formula, options, unique)
        sink = SampleSink(writer_of, columns, named.titles)
        total = write_blocks(blocks, sink, n, shows_progress(output, quiet))
    finish(total, n, quiet, checked=not no_check)


def _sample_rows(
    source: Space | TableModel,
    output: str,
    options: dict[str, Any],
    spreadsheet: bool,
    quiet: bool,
) -> None:
    from nelson.space import Rows

    with open_row_output(output, spreadsheet) as writer_of:
        sink = RowSink(writer_of, Rows.empty(space_of(source).fields))
        blocks = drawn_rows(source, options)
        total = write_blocks(blocks, sink, options["n"], shows_progress(output, quiet))
    finish(total, options["n"], quiet, what="row")
