"""`nelson sample FILE`: draw valid assignments and write them as they are drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from nelson.cli import options as opt
from nelson.cli.common import parsed_count, projection, read_formula, read_weights, whole_numbers
from nelson.cli.output import drawn_blocks, finish, open_output, shows_progress, write_blocks
from nelson.cli.sample_on_cluster import output_folder, sample_on_cluster

if TYPE_CHECKING:
    from nelson.formula import Formula

EXAMPLES = """\b
Examples:
  nelson sample puzzle.cnf -n 1000                    1000 samples as text on stdout
  nelson sample puzzle.cnf -n 1e6 -o out.npz          packed bits, numpy.load reads them
  nelson sample puzzle.cnf -n 10 --given 1,-5         x1 true, x5 false
  nelson sample puzzle.cnf -n 10 --weights theta.npy  weighted; theta_i = log-odds of x_i
  nelson sample puzzle.cnf --method prs -n 100        exact on any formula, within its budget
  zcat puzzle.cnf.gz | nelson sample - -n inf | head  endless, until the reader has enough
  nelson sample puzzle.cnf -n 1e9 --cluster -o many/  all cores, into a folder of Parquet parts

Text output is the SAT samplers' convention: one sample per line, literals, ending in 0.
Exit codes: 0 ok, 1 bad input, 2 wrong usage, 3 budget reached, 20 proved unsatisfiable.
"""


def sample(
    file: opt.FormulaFile,
    count: opt.Count = "1",
    output: opt.Output = "-",
    weights: opt.Weights = None,
    seed: opt.Seed = None,
    method: opt.Method = "auto",
    given: opt.Given = None,
    project: opt.Project = None,
    unique: opt.Unique = False,
    seconds: opt.Seconds = None,
    sweeps: opt.Sweeps = None,
    max_rounds: opt.MaxRounds = 1000,
    threads: opt.Threads = None,
    device: str = typer.Option("cpu", help="cpu, cuda or cuda:N: the same samples on each."),
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
        None, min=1, help="With --cluster: processes. [default: all cores]"
    ),
    shard: str | None = typer.Option(
        None, metavar="N", help="With --cluster: samples per part. [default: about 128 MB]"
    ),
    dialect: opt.Dialect = "auto",
    quiet: opt.Quiet = False,
) -> None:
    """Draw valid assignments of a formula.

    Every sample satisfies the formula, unless you say --no-check. The summary on stderr names the
    guarantee of the samples: exact, approximate, asymptotic or heuristic.
    """
    n = parsed_count(count, endless=not unique)
    options: dict[str, Any] = {
        "n": n,
        "method": method,
        "sweeps": sweeps,
        "given": whole_numbers(given, "--given"),
        "seed": seed,
        "max_rounds": max_rounds,
        "seconds": seconds,
        "check": not no_check,
    }
    if cluster is not None:
        _refuse({"--unique": unique, "--device": device != "cpu", "-n inf": n is None}, "with")
        folder = output_folder(output)
        part = None if shard is None else parsed_count(shard, "--shard", endless=False)
        options |= {"threads": threads or 1, "workers": workers, "shard": part}
        formula = read_formula(file, dialect, quiet)
        options |= _of_formula(formula, weights, project)
        sample_on_cluster(formula, options, cluster, folder, quiet)
        return
    _refuse({"--workers": workers is not None, "--shard": shard is not None}, "without")
    with open_output(output) as writer_of:
        formula = read_formula(file, dialect, quiet)
        options |= {"threads": threads, "device": device, **_of_formula(formula, weights, project)}
        blocks = drawn_blocks(formula, options, unique)
        columns = options["project"] or range(1, formula.n_vars + 1)
        total = write_blocks(blocks, columns, n, writer_of, shows_progress(output, quiet))
    finish(total, n, quiet, checked=not no_check)


def _of_formula(formula: Formula, weights: str | None, project: str | None) -> dict[str, Any]:
    """The options whose defaults may stand in the formula's file."""
    return {"theta": read_weights(weights, formula), "project": projection(project, formula)}


def _refuse(used: dict[str, bool], how: str) -> None:
    """Refuse options that make no sense with (or without) --cluster."""
    for name, is_used in used.items():
        if is_used:
            raise typer.BadParameter(f"not {how} --cluster", param_hint=name)
