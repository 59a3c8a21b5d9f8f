"""`nelson sample FILE`: draw valid structures and write them as they are drawn."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import typer

from nelson.cli import options as opt
from nelson.cli.common import (
    ExitCode,
    counted,
    fail,
    law_of_projection,
    left,
    parsed_count,
    projection,
    say,
)
from nelson.cli.inputs import (
    NamedFormula,
    law_arguments,
    read_formula,
    read_source,
    refuse,
    space_of,
)
from nelson.cli.interrupt import interrupted_code
from nelson.cli.output import (
    RowSink,
    SampleSink,
    drawn_blocks,
    drawn_rows,
    finish,
    method_words,
    open_output,
    open_row_output,
    shows_progress,
    write_blocks,
)
from nelson.errors import FormulaError
from nelson.io.progress import Bar, PhaseLine

if TYPE_CHECKING:
    from nelson.cluster.read import Folder
    from nelson.formula import Formula
    from nelson.space import Space
    from nelson.space.plan import SpacePlan
    from nelson.space.tables.model import TableModel

EXAMPLES = """\b
Examples:
  nelson sample puzzle.cnf -n 1000                    1000 samples as text on stdout
  nelson sample puzzle.cnf -n 1e6 -o out.npz          packed bits, numpy.load reads them
  nelson sample puzzle.cnf -n 10 --given 1,-5         x1 true, x5 false
  nelson sample puzzle.cnf -n 10 --weights theta.npy  weighted; theta_i = log-odds of x_i
  nelson sample puzzle.cnf --method prs -n 100        exact on any formula, within its budget
  zcat puzzle.cnf.gz | nelson sample - -n inf | head  endless, until the reader has enough
  nelson sample puzzle.cnf -n 1e9 -o many/            a folder of Parquet parts
  nelson sample puzzle.cnf -n 1e9 -o many/ --shard 3/100     one of 100 processes, anywhere
  nelson sample puzzle.cnf -n 1e9 -o s3://bucket/many --cluster head:6379       on a Ray cluster
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
    shard: str | None = typer.Option(
        None,
        metavar="K/N",
        help="Draw the K-th of N shares of the parts of a folder; other processes draw the others.",
    ),
    cluster: str | None = typer.Option(
        None,
        metavar="[ADDRESS]",
        help="Draw the parts of a folder on the Ray cluster at ADDRESS; default: the one that runs "
        "on this machine.",
    ),
    workers: int | None = typer.Option(
        None, min=1, metavar="N", help="With --cluster: processes. [default: all cores]"
    ),
    part_rows: str | None = typer.Option(
        None, metavar="N", help="For a folder: samples per part. [default: about 128 MB]"
    ),
    columns: bool = typer.Option(
        False, "--columns", help="For a folder: a Boolean column for each variable, no packed bits."
    ),
    no_verify: bool = typer.Option(
        False, "--no-verify", help="For a folder: trust the parts that are there already."
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
    of_folder = {
        "--shard": shard is not None,
        "--cluster": cluster is not None,
        "--part-rows": part_rows is not None,
        "--columns": columns,
        "--no-verify": no_verify,
    }
    folder = output.endswith("/") or "://" in output or os.path.isdir(output)
    if not folder:
        refuse(of_folder, "only with a folder: -o samples/")
    refuse({"--workers": workers is not None and cluster is None}, "not without --cluster")
    rows = None if part_rows is None else parsed_count(part_rows, "--part-rows", endless=False)
    parts: dict[str, Any] = {"shard": shard, "part_rows": rows, "verify": not no_verify}
    parts |= {"threads": threads, "address": cluster, "workers": workers}
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
                "--columns": columns,
                "--dialect": dialect != "auto",
            },
            "for DIMACS files only; FILE is a space, or a model of a table",
        )
        options |= {"n": parsed_count(count), "threads": threads}
        law = law_arguments(source, given, weights, weight, share, first)
        options["seconds"] = left(seconds)
        if folder:
            used = {
                "--unique": unique,
                "-n inf": options["n"] is None,
                "--spreadsheet": spreadsheet,
            }
            refuse(used, "not into a folder")
            if hasattr(source, "plan"):
                plan = source.plan(seed=seed, method=method, threads=threads, **law)
                _sample_parts(plan, options | parts, output, quiet)
            else:
                _sample_parts(source, options | parts | law, output, quiet)
            return
        options |= {"unique": unique} | law
        _sample_rows(source, output, options, spreadsheet, quiet)
        return
    refuse({"--share": bool(share), "--first": bool(first)}, "for spaces (.toml) only")
    n = parsed_count(count, endless=not unique)
    options |= {"n": n, "sweeps": sweeps, "max_rounds": max_rounds, "check": not no_check}
    if folder:
        used = {"--unique": unique, "--device": device != "cpu", "-n inf": n is None}
        used |= {"--moves": moves != "single", "--spreadsheet": spreadsheet}
        refuse(used, "not into a folder")
        options |= parts | {"columns": columns}
    else:
        options |= {"threads": threads, "device": device, "moves": moves}

    def read() -> NamedFormula:
        """The formula, and the options whose defaults may stand in its file."""
        named = read_formula(file, dialect, quiet, seconds)
        options["seconds"] = left(seconds)
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

    if folder:
        named = read()
        names = named.titles(range(1, named.formula.n_vars + 1))
        more = {"names": names, "terms": named.terms or None}
        _sample_parts(named.formula, options | more, output, quiet)
        return
    with open_output(output, spreadsheet) as writer_of:
        named = read()
        shown = options["project"] or range(1, named.formula.n_vars + 1)
        if named.terms:
            if n is None:
                raise FormulaError("a model with terms and -n inf", expected="a number of samples")
            options |= {"terms": named.terms, "device": None if device == "cpu" else device}
        blocks = drawn_blocks(named.formula, options, unique)
        sink = SampleSink(writer_of, shown, named.titles)
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


# --- a folder of parts ----------------------------------------------------------------------------


def _sample_parts(
    source: Formula | SpacePlan | TableModel, options: dict[str, Any], output: str, quiet: bool
) -> None:
    """The same samples, by this process, one of many (`--shard 3/100`) or a Ray cluster."""
    from nelson.cluster import sample

    written = 0
    show = not quiet and sys.stderr.isatty()
    try:
        phases = PhaseLine(show)
        with Bar("sampling", options["n"], show) as bar, phases:

            def progress(done: int) -> None:
                nonlocal written
                written = done
                phases.close()
                bar.update(done)

            folder = sample(source, out=output, progress=progress, **options)
    except (KeyboardInterrupt, SystemExit):  # Ray turns SIGTERM into the latter
        if not quiet:
            say(f"interrupted: {written:,} samples are in {output}; run the command again to go on")
        raise typer.Exit(interrupted_code()) from None
    if not quiet:
        say(_folder_summary(folder))
    if folder.status != "ok":
        asked = folder.info["requested"]
        reason = folder.info["reason"]
        fail(f"budget reached, {len(folder):,} of {asked:,} samples: {reason}", ExitCode.BUDGET)


def _folder_summary(folder: Folder) -> str:
    info, job = folder.info, folder.job
    parts = f"{info['parts']:,} parts"
    if info.get("kept"):
        parts += f", {info['kept']:,} of them from before"
    return " · ".join(
        [
            counted(len(folder), "sample"),
            f"{folder.guarantee} ({method_words(job['method'], job['sweeps'])})",
            f"{parts}, {info['bytes'] / 1e6:,.1f} MB in {folder.store}",
            f"{info['seconds']:.3g} s",
            f"seed {job['seed']}",
        ]
    )
