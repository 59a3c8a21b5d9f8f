"""`nelson test FILE`: does a sampler, or a file of samples, follow the law it claims?"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import typer

from nelson.cli.common import (
    UNSATISFIABLE,
    fail,
    load_numba_without_scipy,
    read_formula,
    read_weights,
)
from nelson.cli.sample import _count
from nelson.errors import NelsonError, Unsatisfiable

EXAMPLES = """\b
Examples:
  nelson test --sampler prs puzzle.cnf                     a registered sampler, or auto
  nelson test --sampler cmsgen puzzle.cnf --seconds 20
  nelson test --samples out.txt puzzle.cnf                 samples of any origin
  nelson test --samples out.npz puzzle.cnf --weights theta.npy
  nelson test --sampler lovasz --sweeps 4 puzzle.cnf --test conditionals
  nelson test --sampler unigen puzzle.cnf --test barbarik --epsilon 0.1 --eta 1.6 --delta 0.05
  nelson test --sampler auto puzzle.cnf --json | jq .evidence.p_value

\b
Tests, in the order in which auto tries them (validity comes first, always):
  chi-square    against the list of all structures: the whole law
  marginals     variables, pairs and the score against exact values: necessary, not sufficient
  conditionals  each variable given the others: needs no count, can only reject
  barbarik      pairs of structures, by sampling from conditioned formulas; samplers only

Sample files: text (literals ending in 0, v lines, 0-1 strings), .npz, .npy, .parquet, .csv.
Exit codes: 0 accept, 1 reject, 2 wrong usage or bad input, 3 undecided, 20 proved unsatisfiable.
"""

ACCEPT, REJECT, BAD, UNDECIDED = 0, 1, 2, 3
_PATIENCE = 0.4  # seconds before a progress line appears


def check(
    file: str = typer.Argument(..., metavar="FILE", help="DIMACS file (.gz, .xz); - is stdin."),
    sampler: str | None = typer.Option(
        None, "--sampler", metavar="NAME", help="Test this sampler: auto, lovasz, prs, ..."
    ),
    samples: str | None = typer.Option(
        None, "--samples", metavar="PATH", help="Test the samples in this file; - is stdin."
    ),
    weights: str | None = typer.Option(
        None, metavar="none|file|PATH", help="The law claimed: weights, as in `nelson sample`."
    ),
    test: str = typer.Option(
        "auto", help="auto, validity, chi-square, marginals, conditionals, barbarik."
    ),
    count: str | None = typer.Option(
        None,
        "-n",
        "--count",
        metavar="N",
        help="Samples to draw: 1000, 1e6. [default: 20 a structure, 20,000 or more]",
    ),
    epsilon: float | None = typer.Option(
        None,
        help="Relative error that each probability may have. "
        "[default: what the sampler claims; 0.1 for barbarik]",
    ),
    eta: float = typer.Option(1.6, help="barbarik: L1 distance (up to 2) that is rejected."),
    delta: float = typer.Option(0.01, help="Probability of a wrong rejection."),
    seed: int = typer.Option(0, help="Same seed, same verdict."),
    sweeps: int | None = typer.Option(None, help="Of the sampler, as in `nelson sample`."),
    seconds: float = typer.Option(60.0, help="Budget for all of it."),
    dialect: str = typer.Option("auto", help="How to read weight lines; auto: as they look."),
    json: bool = typer.Option(False, "--json", help="One JSON object on stdout."),
    quiet: bool = typer.Option(False, "-q", "--quiet", help="No notes, no progress line."),
) -> None:
    """Test a sampler or a file of samples against the law it claims.

    Prints accept, reject or undecided with the evidence: which test, how many samples, the
    p-value, the worst variable or structure, and what the test does not show.
    """
    if (sampler is None) == (samples is None):
        raise typer.BadParameter("give one of --sampler NAME, --samples PATH")
    if file == samples == "-":
        raise typer.BadParameter("FILE and --samples cannot both be stdin")
    n = None if count is None else _count(count)
    if count is not None and n is None:
        raise typer.BadParameter("a test needs a number of samples", param_hint="-n")
    load_numba_without_scipy()
    line = Line(wanted=not quiet)
    try:
        from nelson.judging import judge
        from nelson.sampling.registry import get

        if sampler is not None and sampler != "auto":
            get(sampler)  # a typing error must not be taken for the name of a file
        formula = read_formula(file, dialect, quiet)
        verdict = judge(
            formula,
            Path(samples) if samples is not None else sampler,
            read_weights(weights, formula),
            test=test,
            epsilon=epsilon,
            eta=eta,
            delta=delta,
            n=n,
            seed=seed,
            seconds=seconds,
            sweeps=sweeps,
            progress=line.show,
        )
    except Unsatisfiable as error:
        line.clear()
        fail(f"unsatisfiable: {error}", UNSATISFIABLE)
    except OSError as error:
        line.clear()
        where = f"{error.filename}: " if error.filename else ""
        fail(f"error: {where}{error.strerror or error}", BAD)
    except (NelsonError, ValueError, ImportError) as error:
        # Exit code 1 is a rejection here, so that bad input must be another.
        line.clear()
        fail(f"error: {error}", BAD)
    line.clear()
    if json:
        from json import dumps

        typer.echo(dumps(verdict.to_dict(), indent=2, allow_nan=False))
    else:
        typer.echo(str(verdict))
    code = {True: ACCEPT, False: REJECT, None: UNDECIDED}[verdict.accept]
    if code:
        raise typer.Exit(code)


class Line:
    """One line on stderr that is written over and over; on a terminal only."""

    def __init__(self, wanted: bool = True) -> None:
        self._wanted = wanted and sys.stderr.isatty()
        self._started = time.perf_counter()
        self._shown = False

    def show(self, text: str) -> None:
        if self._wanted and time.perf_counter() - self._started > _PATIENCE:
            sys.stderr.write(f"\r\x1b[Knelson: {text[:100]}")
            sys.stderr.flush()
            self._shown = True

    def clear(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._shown = False
