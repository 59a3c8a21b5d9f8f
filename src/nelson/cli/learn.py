"""`nelson learn FILE DATA -o model`: fit theta to examples, and write a model folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from nelson.cli import options as opt
from nelson.cli.common import ExitCode, fail, left, say
from nelson.cli.inputs import is_space, read_formula, refuse
from nelson.cli.interrupt import interrupted_code
from nelson.cli.learn_table import is_table, learn_table
from nelson.errors import FormulaError

if TYPE_CHECKING:
    from nelson.learning.learn import Fit
    from nelson.learning.optimizers import Optimizer

EXAMPLES = """\b
Examples:
  nelson learn puzzle.cnf solutions.txt -o model         SAT-sampler text: literals, ending in 0
  nelson learn puzzle.cnf data.csv -o model --seed 1     zeros and ones; .npy, .npz, .parquet too
  nelson learn puzzle.cnf data.npz -o model --plot curve.png
  nelson learn puzzle.cnf data.npz -o model --preset paper
  nelson learn big.cnf data.npz -o model --checkpoint run    run again, it continues
  nelson learn table.cnf train.csv -o model --terms pairs --valid valid.csv
  nelson learn table.cnf train.csv -o model --terms "1*2, 2*3*5" --l1 0 --l2 0.001
  nelson learn rows.csv -o model                         a table of numbers, dates, texts, ...
  nelson learn rows.csv -o model --suggest rules.toml    and the rules that hold in it
  nelson learn rules.toml rows.csv -o model              with the rules of a file, or its fields

The model is a folder: nelson sample model -n 1000, nelson evaluate model DATA.
Exit codes: 0 ok, 1 bad input, 2 wrong usage, 3 budget reached before the fit converged (the model
is written), 20 proved unsatisfiable, 130 interrupted (the model is written).
"""


def learn(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="DIMACS file (.gz, .xz; - is stdin); a table alone (.csv, .parquet, .arrow); a "
            "space (.toml), or rules and columns for the table after it.",
        ),
    ],
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE]",
            help="Examples: .npy, .npz, .parquet, .csv, or SAT-sampler text; of a space: a table.",
        ),
    ] = None,
    *,
    output: Annotated[str, typer.Option("-o", "--output", metavar="FOLDER", help="The model.")],
    preset: str = typer.Option("default", metavar="NAME", help="default, paper, adam."),
    sampler: str | None = typer.Option(
        None, metavar="NAME", help="auto, or a sampler's name. [default: preset's]"
    ),
    sweeps: int | None = typer.Option(
        None, metavar="N", help="Heat-bath sweeps of each sample. [default: measured; paper: 0]"
    ),
    m: int | None = typer.Option(
        None,
        "-m",
        "--samples",
        metavar="N",
        help="Model samples per iteration. [default: growing; paper: 200]",
    ),
    eta: float | None = typer.Option(None, metavar="X", help="Step size. [default: preset's]"),
    iterations: int | None = typer.Option(
        None, metavar="N", help="Iterations at most. [default: 200; paper: 1000]"
    ),
    batch: int | None = typer.Option(
        None, metavar="N", help="Examples per iteration. [default: all; paper: 200]"
    ),
    prior: float | None = typer.Option(
        None,
        metavar="X",
        help="Pseudo-examples, uniform over all valid structures. [default: 1; paper: 0]",
    ),
    terms: str | None = typer.Option(
        None,
        metavar="VALUE",
        help='Learn a coefficient for each product too: pairs for all pairs, or "1*2, 2*3*5".',
    ),
    l1: float | None = typer.Option(
        None,
        metavar="X",
        help="With --terms: penalty l1 |c|. [default: chosen by the validation rows]",
    ),
    l2: float | None = typer.Option(
        None, metavar="X", help="With --terms: penalty l2 c^2 / 2. [default: 0]"
    ),
    valid: str | None = typer.Option(
        None,
        metavar="FILE",
        help="With --terms: validation rows. [default for pairs: every fifth row of DATA]",
    ),
    suggest: str | None = typer.Option(
        None,
        metavar="FILE",
        help="Of a table: write the rules that it suggests as .toml; none is applied.",
    ),
    drop_invalid: opt.DropInvalid = False,
    seed: int | None = typer.Option(
        None, metavar="N", help="Same seed, same model. [default: a fresh one]"
    ),
    threads: opt.Threads = None,
    seconds: opt.Seconds = None,
    checkpoint: str | None = typer.Option(
        None, metavar="FOLDER", help="Save the run here; the same command continues from it."
    ),
    every: int = typer.Option(
        25, "--checkpoint-every", metavar="N", help="Iterations between checkpoints."
    ),
    fresh: bool = typer.Option(False, "--fresh", help="Start over, even if there is a checkpoint."),
    plot: str | None = typer.Option(
        None, metavar="FILE", help="The learning curve as a picture: .png, .svg or .pdf."
    ),
    history: str | None = typer.Option(
        None, metavar="FILE", help="Every iteration as .csv or .parquet."
    ),
    tensorboard: str | None = typer.Option(None, metavar="FOLDER", help="TensorBoard logs."),
    dialect: opt.Dialect = "auto",
    quiet: opt.Quiet = False,
) -> None:
    """Fit theta to examples of valid structures (NELSON-CD), or the law of a table to its rows."""
    from nelson.learning.learn import learn as fit_to
    from nelson.learning.model import writable
    from nelson.learning.run_options import Run

    writable(output)  # refused before any work is done
    if is_space(file) or (data is None and is_table(file)):
        if is_space(file) and data is None:
            raise typer.BadParameter("a space needs a table as well: FILE DATA")
        used = {"--preset": preset != "default", "--sampler": sampler is not None}
        used |= {"--terms": terms is not None, "--checkpoint": checkpoint is not None}
        used |= {"--iterations": iterations is not None, "--plot": plot is not None}
        refuse(used | {"--history": history is not None}, "not for a table")
        learn_table(
            file,
            data,
            output,
            suggest=suggest,
            quiet=quiet,
            prior=1.0 if prior is None else prior,
            validation=0.2 if valid is None else valid,
            drop_invalid=drop_invalid,
            seed=seed,
            seconds=seconds,
            progress=False if quiet else None,
        )
        return
    if data is None:
        raise typer.BadParameter("examples for the formula: FILE DATA", param_hint="FILE")
    refuse({"--suggest": suggest is not None}, "for a table only")
    chosen = None if terms is None else products(terms)
    formula = read_formula(file, dialect, quiet, seconds).formula
    changes: dict[str, Any] = {"sweeps": sweeps, "m": m, "rate": eta, "iterations": iterations}
    changes |= {"batch": batch, "prior": prior}
    if terms is not None:
        changes |= {"l1": l1, "l2": l2}
    elif l1 is not None or l2 is not None:
        raise FormulaError("--l1 or --l2 without --terms", expected="--terms as well")
    fit = fit_to(
        formula,
        data,
        optimizer=preset_of(preset, penalised(chosen, l1, l2, valid), changes),
        method=sampler or "auto",
        terms=chosen,
        valid=valid,
        drop_invalid=drop_invalid,
        seed=seed,
        threads=threads,
        seconds=left(seconds),
        run=Run(
            checkpoint=checkpoint,
            every=every,
            resume=not fresh,
            progress=False if quiet else None,
            tensorboard=tensorboard,
        ),
    )
    fit.save(output)
    write_extras(fit, plot, history)
    if not quiet:
        say(summary(fit, output))
    if fit.interrupted:
        raise typer.Exit(interrupted_code())
    if not fit.converged and fit.model.metadata["settings"]["stop"]:
        fail(f"budget reached: {fit.why}", ExitCode.BUDGET)


def penalised(terms: Any, l1: float | None, l2: float | None, valid: str | None) -> bool:
    """Do the options ask for `nelson.learning.Proximal`?"""
    return isinstance(terms, str) or (terms is not None and (l1, l2, valid) != (None,) * 3)


def preset_of(preset: str, penalised: bool, changes: dict[str, Any]) -> Optimizer:
    """The optimizer of `--preset`, with the options that change it."""
    from nelson.learning.optimizers import optimizer_of

    if preset not in ("default", "paper", "adam"):
        raise FormulaError(f"no preset {preset!r}", expected="one of default, paper, adam")
    name = None if preset == "default" else preset
    return optimizer_of(name, penalised=penalised, **changes)


def products(text: str) -> str | list[tuple[int, ...]]:
    """`--terms`: "pairs" as it is, "1*2, 2*3*5" as [(1, 2), (2, 3, 5)]."""
    if text.strip() == "pairs":
        return "pairs"
    try:
        return [tuple(int(v) for v in product.split("*")) for product in text.split(",")]
    except ValueError:
        raise FormulaError(
            f"--terms {text!r}", expected='"pairs", or products of variables: "1*2, 2*3*5"'
        ) from None


def write_extras(fit: Fit, plot: str | None, history: str | None) -> None:
    """The files of --plot and --history."""
    if plot is not None:
        fit.history.plot(plot)
    if history is not None:
        write: Any = fit.history.to_parquet if history.endswith(".parquet") else fit.history.to_csv
        write(history)


def summary(fit: Fit, output: str) -> str:
    """One line for people."""
    meta = fit.model.metadata
    parts = [
        f"{meta['examples']:,} examples"
        + (f" ({meta['dropped']:,} dropped)" * (meta["dropped"] > 0)),
        f"{len(fit.history)} iterations in {meta['seconds']:.3g} s",
        f"{fit.guarantee} samples ({meta['method']}, {meta['sweeps'] or 0} sweeps)",
        "converged" if fit.converged else "not converged",
        *([f"{len(fit.terms):,} products"] if fit.terms is not None else []),
        fit.why,
        f"seed {fit.seed}",
        f"model in {output}",
    ]
    return " · ".join(parts)
