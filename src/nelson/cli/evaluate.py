"""`nelson evaluate model DATA`: how well a model fits examples."""

from __future__ import annotations

from typing import Any

import typer

EXAMPLES = """\b
Examples:
  nelson evaluate model held-out.csv
  nelson evaluate model held-out.npz --train data.npz    both likelihoods, one log Z
  nelson evaluate model held-out.npz --json | jq .log_likelihood

Exit codes: 0 ok, 1 bad input, 2 wrong usage.
"""


def evaluate(
    model: str = typer.Argument(..., metavar="MODEL", help="A folder that nelson learn wrote."),
    data: str = typer.Argument(
        ..., metavar="DATA", help="Examples: .npy, .npz, .parquet, .csv, or SAT-sampler text."
    ),
    train: str | None = typer.Option(
        None, metavar="DATA", help="What it was fitted to: its likelihood is printed beside."
    ),
    samples: int = typer.Option(10_000, help="Samples of the model that moments are taken from."),
    seconds: float = typer.Option(60.0, help="Budget of log Z."),
    drop_invalid: bool = typer.Option(False, "--drop-invalid", help="Leave invalid rows out."),
    seed: int = typer.Option(0, help="Same seed, same figures."),
    threads: int | None = typer.Option(None, help="[default: all cores]"),
    as_json: bool = typer.Option(False, "--json", help="One JSON object on stdout."),
) -> None:
    """Likelihood, moments, MAP@10 and validity of a model, given examples."""
    from nelson.learning.metrics import evaluate as judge
    from nelson.learning.model import load

    loaded = load(model)
    report = judge(
        loaded.formula,
        loaded.theta_for(),
        data,
        samples=samples,
        seed=seed,
        seconds=seconds,
        train=train,
        terms=loaded.terms,
        drop_invalid=drop_invalid,
        threads=threads,
    )
    if as_json:
        import json

        typer.echo(json.dumps(report))
        return
    for line in lines(report):
        typer.echo(line)


def lines(report: dict[str, Any]) -> list[str]:
    """The report for people, one line a figure."""

    def bar(value: dict[str, float] | None) -> str:
        if value is None:
            return f"not known: {report.get('reason', '?')}"
        return f"{value['value']:.6g} ± {value['half_width']:.2g} nats an example"

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
        out.append(f"log Z           {z['value']:.8g} ± {z['half_width']:.2g} ({z['method']})")
    out += [
        f"moment gap      L1 {gap['l1']:.4g}, largest {gap['max']:.4g} "
        f"({report['samples']:,} {report['guarantee']} samples)",
        f"MAP@10          {report['map_at_10']:.3f} against uniform valid structures",
        f"validity        {report['validity']:.4g}",
    ]
    return out
