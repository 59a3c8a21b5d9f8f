"""`nelson judge FILE`: does a sampler, or a file of samples, follow the law it claims?"""

from __future__ import annotations

from pathlib import Path

import typer

from nelson.cli import options as opt
from nelson.cli.common import (
    echo,
    law_of_projection,
    left,
    parsed_count,
    print_json,
)
from nelson.cli.inputs import read_formula
from nelson.io.progress import StatusLine

EXAMPLES = """\b
Examples:
  nelson judge --method prs puzzle.cnf                     a registered sampler, or auto
  nelson judge --method cmsgen puzzle.cnf --seconds 20
  nelson judge --samples out.txt puzzle.cnf                 samples from anywhere
  nelson judge --samples out.npz puzzle.cnf --weights theta.npy
  nelson judge --method lovasz --sweeps 4 puzzle.cnf --test conditionals
  nelson judge --method unigen puzzle.cnf --test barbarik --epsilon 0.1 --eta 1.6 --delta 0.05
  nelson judge --method auto puzzle.cnf --json | jq .evidence.p_value

\b
Tests, in the order in which auto tries them (validity comes first, always):
  chi-square    against the enumerated structures: the whole law
  marginals     variables, pairs and the score against exact values: necessary, not sufficient
  conditionals  each variable given the others: needs no model count, can only reject
  barbarik      pairs of structures, by sampling from conditioned formulas; samplers only

Sample files: text (literals ending in 0, v lines, 0-1 strings), .npz, .npy, .parquet, .csv.
Exit codes: 0 accept, 1 reject, 2 wrong usage or bad input, 3 undecided, 20 proved unsatisfiable.
"""

_EXIT_CODES = {True: 0, False: 1, None: 3}  # accept, reject, undecided


def judge(
    file: opt.FormulaFile,
    method: str | None = typer.Option(
        None, "--method", metavar="NAME", help="Test this sampler: auto, lovasz, prs, ..."
    ),
    samples: str | None = typer.Option(
        None, "--samples", metavar="FILE", help="Test the samples in this file; - is stdin."
    ),
    weights: opt.Weights = None,
    test: str = typer.Option(
        "auto",
        metavar="NAME",
        help="auto, validity, chi-square, marginals, conditionals, barbarik.",
    ),
    count: str | None = typer.Option(
        None,
        "-n",
        "--count",
        metavar="N",
        help="Samples to draw: 1000, 1e6. [default: 20 per structure, 20,000 or more]",
    ),
    epsilon: float | None = typer.Option(
        None,
        metavar="X",
        help="Relative error that each probability may have. "
        "[default: the error that the sampler claims; 0.1 for barbarik]",
    ),
    eta: float = typer.Option(
        1.6, metavar="X", help="barbarik: L1 distance (up to 2) that is rejected."
    ),
    delta: float = typer.Option(0.01, metavar="X", help="Probability of a wrong rejection."),
    seed: int = typer.Option(0, metavar="N", help="Same seed, same verdict."),
    sweeps: opt.Sweeps = None,
    project_law: opt.ProjectLaw = None,
    seconds: float = typer.Option(
        60.0, "--seconds", metavar="SECONDS", help="Budget of the whole test."
    ),
    dialect: opt.Dialect = "auto",
    json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Test a sampler or a file of samples against the law it claims (--weights).

    Prints accept, reject or undecided with the evidence: which test, how many samples, the
    p-value, the worst variable or structure, and what the test does not show.
    """
    if (method is None) == (samples is None):
        raise typer.BadParameter("give one of --method NAME, --samples PATH")
    if file == samples == "-":
        raise typer.BadParameter("FILE and --samples cannot both be stdin")
    n = None if count is None else parsed_count(count, endless=False)
    with StatusLine(wanted=not quiet) as line:
        from nelson.judging import judge as judge_samples
        from nelson.sampling.registry import get

        if method is not None and method != "auto":
            get(method)  # a typing error must not be taken for the name of a file
        named = read_formula(file, dialect, quiet, seconds)
        formula, theta = named.formula, named.theta(weights)
        law = law_of_projection(project_law, None, formula, theta, quiet)
        verdict = judge_samples(
            formula,
            Path(samples) if samples is not None else method,
            theta,
            test=test,
            epsilon=epsilon,
            eta=eta,
            delta=delta,
            n=n,
            seed=seed,
            seconds=left(seconds),
            sweeps=sweeps,
            project_law=law,
            progress=line.show,
        )
    if json:
        print_json(verdict.to_dict())
    else:
        echo(str(verdict))
    raise typer.Exit(_EXIT_CODES[verdict.accept])
