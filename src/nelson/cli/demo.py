"""`nelson demo`: one short run that shows the thing working, with a picture."""

from __future__ import annotations

import time
from importlib import resources
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    import numpy as np
    from rich.console import Console

    from nelson.formula import Formula

EXAMPLES = """\b
Examples:
  nelson demo
  nelson demo --seed 7 --png town.png
"""

_DRAWS = 1_000_000
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def demo(
    seed: int = typer.Option(0, help="Another seed, other samples, the same law."),
    png: str = typer.Option("nelson-demo.png", help="Picture to write if matplotlib is there."),
) -> None:
    """Show the thing working: exact draws on a small town, fast draws on a large formula."""
    from rich.console import Console

    console = Console(highlight=False)
    data = resources.files("nelson") / "data"
    with resources.as_file(data / "streets.cnf") as path:
        _town(console, str(path), seed, png)
    with resources.as_file(data / "ksat-1000.cnf") as path:
        _large(console, str(path), seed)
        _next(console, str(path))


def _load(path: str) -> Formula:
    from nelson.formula import Formula

    return Formula.from_dimacs(path)


# ------------------------------------------------------------------------------------ small, exact


def _town(console: Console, path: str, seed: int, png: str) -> None:
    import numpy as np

    from nelson import sample
    from nelson.cli import streets

    f = _load(path)
    assert f.theta is not None
    console.rule("[bold]1. One-way streets: exact draws")
    console.print(
        "Six crossings, seven streets. Each street gets a direction, and no crossing may be a dead "
        "end.\nThe upper road would rather run right (2 : 1), the middle street up (3 : 2).\n"
    )
    s = sample(f, f.theta, _DRAWS, seed=seed)
    x = s.to_numpy()
    console.print(f"{len(s):,} samples. The first four that differ:\n")
    _, first = np.unique(x[:1000], axis=0, return_index=True)
    console.print(streets.side_by_side(x[np.sort(first)[:4]]), style="cyan")

    plans, exact = streets.law(f, f.theta)
    counts = streets.tally(x, plans)
    console.print(
        f"\nOf {2**f.n_vars} ways to direct the streets {len(plans)} have no dead end. How often "
        "each was drawn,\nagainst its exact probability, by enumeration "
        "(upper road, side streets, lower road):\n"
    )
    console.print(_table(plans, exact, counts))
    expected = exact * len(s)
    chi2, dof = float(np.sum((counts - expected) ** 2 / expected)), len(plans) - 1
    invalid = len(s) - int(counts.sum())
    console.print(
        f"\nχ² = {chi2:.1f}; a perfect sampler gives {dof} ± {np.sqrt(2 * dof):.1f}. "
        f"Invalid samples: {invalid}. Guarantee: [bold green]{s.guarantee}[/] ({s.info['method']})."
    )
    if png and find_spec("matplotlib"):
        streets.save_png(png, plans, exact, counts)
        console.print(f"Picture: {png}")
    console.print()


def _table(plans: np.ndarray, exact: np.ndarray, counts: np.ndarray) -> Any:
    from rich.table import Table

    from nelson.cli import streets

    table = Table(box=None, padding=(0, 1), header_style="dim")
    for name, side in (
        ("plan", "left"),
        ("exact", "right"),
        ("drawn", "right"),
        ("off by", "right"),
    ):
        table.add_column(name, justify=side)  # type: ignore[arg-type]
    table.add_column("")
    m = counts.sum()
    for plan, p, count in zip(plans, exact, counts, strict=True):
        off = (count / m - p) / (p * (1 - p) / m) ** 0.5
        bar = f"[cyan]{_bar(count / m / exact[0], 32)}"
        table.add_row(streets.short(plan), f"{p:.3%}", f"{count / m:.3%}", f"{off:+.1f} σ", bar)
    return table


def _bar(share: float, width: int) -> str:
    """A bar of eighths of a character; `share` 1 is the full width."""
    eighths = max(0, round(min(share, 1.05) * width * 8))
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


# ------------------------------------------------------------------------------------- large, fast


def _large(console: Console, path: str, seed: int) -> None:
    from nelson import sample

    f = _load(path)
    console.rule("[bold]2. Random 5-SAT: many draws, quickly")
    console.print(f"{f.n_vars:,} variables, {f.n_clauses:,} clauses of five literals, uniform.\n")
    for _ in range(2):  # the first run loads the kernels, or compiles them
        started = time.perf_counter()
        s = sample(f, None, 262_144, seed=seed, threads=1)
        ours = len(s) / (time.perf_counter() - started)
    rates = {f"nelson, {s.info['method']}, one thread": ours}
    if find_spec("pycmsgen"):
        rates["pycmsgen, same file"] = _pycmsgen_rate(f)
    width = max(map(len, rates))
    for name, rate in rates.items():
        shown = _bar(rate / max(rates.values()), 24) or "▏"
        console.print(f"  {name:<{width}}  [cyan]{shown:<25}[/]{rate:>12,.0f} samples/s")
    valid = int(f.satisfied(s.to_numpy()[:65_536]).sum())
    console.print(
        f"\nRechecked here, clause by clause: {valid:,} of 65,536 valid. "
        f"Guarantee: [bold yellow]{s.guarantee}[/].\n{s.info.get('why', '')}\n"
    )


def _pycmsgen_rate(f: Formula) -> float:
    """Samples a second of the CDCL-based sampler, for about half a second."""
    import pycmsgen

    solver = pycmsgen.Solver(seed=1)
    solver.add_clauses([list(clause) for clause in f.clauses()])
    solver.solve()
    count, started = 0, time.perf_counter()
    while time.perf_counter() - started < 0.5:
        solver.solve()
        count += 1
    return count / (time.perf_counter() - started)


def _next(console: Console, path: str) -> None:
    import os

    shown = min(path, os.path.relpath(path), key=len)
    town = os.path.join(os.path.dirname(shown), "streets.cnf")
    lines = (
        (f"nelson sample {town} -n 5", "five plans, as literals"),
        (f"nelson sample {town} -n 5 --given 4", "the middle street runs down"),
        (f"nelson info {shown}", "what theory says of it"),
        (f"nelson sample {shown} -n 1e5 -o out.npz", "packed bits, for numpy"),
    )
    width = max(len(command) for command, _ in lines)
    console.rule("[bold]What to try next")
    console.print(
        "\n".join(f"  {command:<{width}}  [dim]# {why}[/]" for command, why in lines),
        soft_wrap=True,
    )
