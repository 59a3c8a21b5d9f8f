"""`nelson evaluate model DATA`: how well a model fits examples."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, cast

import typer

from nelson.cli import options as opt
from nelson.cli.common import echo, left, print_json
from nelson.cli.inputs import read_source
from nelson.errors import FormulaError

if TYPE_CHECKING:
    from nelson.space.tables.model import TableModel

EXAMPLES = """\b
Examples:
  nelson evaluate model held-out.csv
  nelson evaluate model held-out.npz --train data.npz    the likelihood of both
  nelson evaluate model held-out.npz --json | jq .log_likelihood
  nelson evaluate model held-out.csv --train rows.csv    a model of a table: new rows against real

Exit codes: 0 ok, 1 bad input, 2 wrong usage.
"""


def evaluate(
    model: opt.ModelFolder,
    data: opt.Data,
    train: str | None = typer.Option(
        None, metavar="FILE", help="The examples it was fitted to: prints their likelihood too."
    ),
    samples: int = typer.Option(10_000, metavar="N", help="Model samples for the moments."),
    seconds: float = typer.Option(
        60.0, "--seconds", metavar="SECONDS", help="Seconds that log Z may take."
    ),
    drop_invalid: opt.DropInvalid = False,
    seed: int = typer.Option(0, metavar="N", help="Same seed, same figures."),
    threads: opt.Threads = None,
    json: opt.Json = False,
) -> None:
    """Likelihood, moments, MAP@10 and validity of a model, given examples.

    Of a model of a table: rules kept, distances, correlations, detection; with --train also copies.
    """
    if (source := read_source(model)) is not None:
        if not hasattr(source, "evaluate"):
            raise FormulaError(f"{model}, which is a space", expected="the folder of a model")
        _evaluate_table(cast("TableModel", source), data, train, seed, json)
        return
    from nelson.learning.metrics import evaluate as judge
    from nelson.learning.model import load

    loaded = load(model)
    report = judge(
        loaded.formula,
        loaded.theta_for(),
        data,
        samples=samples,
        seed=seed,
        seconds=left(seconds),
        train=train,
        terms=loaded.terms,
        drop_invalid=drop_invalid,
        threads=threads,
    )
    if json:
        print_json(report, indent=None)
    else:
        echo("\n".join(_lines(report)))


def _evaluate_table(model: TableModel, data: str, train: str | None, seed: int, json: bool) -> None:
    """New rows, as many as the data has, against the data."""
    from nelson.space.tables.comparison import compare
    from nelson.space.tables.frames import read_table

    real = read_table(data)
    fit = model.evaluate(real, seed=seed)
    new = model.sample(len(real), seed=seed)
    seen = None if train is None else read_table(train)
    comparison = compare(real, new, seen, seed=seed)
    share_legal = float(model.space.satisfied(new).mean())
    if json:
        print_json({"rules_kept": share_legal, **asdict(fit), **asdict(comparison)}, indent=None)
        return
    echo(f"rows         {fit.rows:,}, of which {fit.valid:.2%} obey the rules of the model")
    echo(f"likelihood   {fit.log_likelihood:.4f} +- {fit.error:.4f}  nats a row (numbers: ranges)")
    echo(f"rules kept   {share_legal:.2%}  of {len(new):,} new rows")
    echo(str(comparison))


def _lines(report: dict[str, Any]) -> list[str]:
    """The report for people, one figure per line."""

    def bar(value: dict[str, float] | None) -> str:
        if value is None:
            return f"not known: {report.get('reason', '?')}"
        return f"{value['value']:.6g} ± {value['half_width']:.2g} nats per example"

    gap = report["moment_gap"]
    dropped = f" ({report['dropped']:,} invalid ones left out)" if report["dropped"] else ""
    out = [
        f"examples        {report['examples']:,}{dropped}",
        f"log-likelihood  {bar(report['log_likelihood'])}",
    ]
    if "train_log_likelihood" in report:
        out.append(f"  on train      {bar(report['train_log_likelihood'])}")
    if "log_z" in report:
        z = report["log_z"]
        how = z["method"]
        if z["guarantee"] == "heuristic":
            how += "; its chains did not mix: bounds that always hold, not a 95% interval"
        out.append(f"log Z           {z['value']:.8g} ± {z['half_width']:.2g} ({how})")
    out += [
        f"moment gap      L1 {gap['l1']:.4g}, largest {gap['max']:.4g} "
        f"({report['samples']:,} {report['guarantee']} samples)",
        f"MAP@10          {report['map_at_10']:.3f} against uniform valid structures",
        f"validity        {report['validity']:.4g}",
    ]
    return out
