"""`nelson demo`: learn one small case of each task, generate, judge, and draw the result."""

from __future__ import annotations

import time
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from nelson.cli.common import counted, guarded
from nelson.io.progress import StatusLine, listening

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from nelson.formula import Formula
    from nelson_paper.experiments.base import Table
    from nelson_paper.tasks.tour import Visit

EXAMPLES = """\b
Examples:
  nelson demo                                  all tasks, pictures and a page in ./nelson-demo
  nelson demo orientations routes              two of them
  nelson demo --seed 7 -o elsewhere
  nelson demo --also my_module:MyTask          and a task of your own
"""

COLUMNS = ("task", "variables", "law", "valid", "gap", "noise", "log-likelihood", "time")
_WIDTHS = (12, 9, 10, 5, 5, 5, 14, 6)  # of the columns on a terminal
_LEFT = (0, 2)  # columns that begin at the left
LEAD = (
    "nelson learns from examples of valid structures, and makes new ones that are always valid. "
    "Here it learns {tasks}, each from {n:,} examples."
)
NOTE = (
    "Each model was fitted to {n:,} examples and judged on {n:,} others. valid: share of the new "
    "structures that are valid. gap: Σ |frequency in the held-out examples − in the model| over "
    "all variables; noise: the gap that finite numbers of examples and samples alone would cause. "
    "log-likelihood: nats per held-out example; –: log Z could not be computed."
)
_BAR_WIDTH = 24  # characters


def add(app: typer.Typer) -> None:
    """Declare the command (`nelson.cli.commands`)."""
    app.command("demo", epilog=EXAMPLES)(guarded(demo))


def demo(
    names: list[str] = typer.Argument(None, metavar="[NAME...]", help="Tasks. [default: all]"),
    also: list[str] = typer.Option(
        [], metavar="NAME", help="One more task, of your own: module:Class. Repeatable."
    ),
    seed: int = typer.Option(0, metavar="N", help="Another seed: other problems, other examples."),
    output: Path = typer.Option(
        Path("nelson-demo"), "-o", "--output", metavar="FOLDER", help="For pictures and the page."
    ),
) -> None:
    """Learn one small case of each task, generate new structures, judge and draw them."""
    from rich.console import Console
    from rich.markup import escape

    from nelson.errors import NelsonError
    from nelson_paper import tasks
    from nelson_paper.tasks.tour import EXAMPLES, tour

    chosen = [*(names or tasks.names()), *also]
    classes = [tasks.get(name) for name in chosen]  # a wrong name is an error at once
    console = Console(highlight=False)
    visits: list[Visit] = []
    missed: dict[str, str] = {}
    started = time.monotonic()
    console.rule("[bold]Learn from examples; generate more, always valid")
    console.print(f"[dim]{_line(COLUMNS)}[/]")
    with StatusLine(patience=0.0) as line:
        for number, cls in enumerate(classes, 1):
            step = _Step(line, f"{number} of {len(chosen)}: {cls.name}")
            step.show("preparing")
            try:
                with listening(step.phase):  # the first run compiles kernels
                    visits.append(tour(cls.small(seed), output, seed=seed, say=step.show))
                row = _row(visits[-1])
            except (NelsonError, ImportError) as error:  # the other tasks are still run
                missed[cls.name] = str(error)
                row = _missing(cls.name)
            line.clear()
            console.print(_line(row))
    note = f"{NOTE.format(n=EXAMPLES)} {_verdict(visits)}".strip()
    console.print(f"\n[dim]{note}[/]")
    console.print(f"\n{counted(len(visits), 'task')} in {time.monotonic() - started:.0f} s.")
    for name, why in missed.items():
        console.print(f"[yellow]{name} was not run:[/] {escape(why)}", soft_wrap=True)
    tables = [_table(visits, missed, note)]
    with resources.as_file(resources.files("nelson_paper.tasks") / "data/ksat-1000.cnf") as path:
        if not names:
            tables.append(_large(console, str(path), seed))
        _write_page(console, visits, tables, output, seed)
        if not names:
            _next(console, str(path))
    if missed:
        raise typer.Exit(1)


class _Step:
    """What a task is doing, on the status line: its own words, or a phase of the library."""

    def __init__(self, line: StatusLine, where: str) -> None:
        self._line, self._where, self._text = line, where, ""

    def show(self, text: str) -> None:
        self._text = text
        self.phase("")

    def phase(self, text: str) -> None:
        self._line.show(f"{self._where}: {text or self._text}")


# --------------------------------------------------------------------------------------- the table


def _line(cells: Sequence[str]) -> str:
    """A row of the table on a terminal."""
    padded = (
        f"{cell:<{width}}" if k in _LEFT else f"{cell:>{width}}"
        for k, (cell, width) in enumerate(zip(cells, _WIDTHS, strict=True))
    )
    return "  ".join(padded).rstrip()


def _table(visits: Sequence[Visit], missed: dict[str, str], note: str) -> Table:
    from nelson_paper.experiments.base import Table

    rows = [_row(visit) for visit in visits] + [_missing(name) for name in missed]
    return Table("Learned, generated, judged", COLUMNS, rows, note)


def _verdict(visits: Sequence[Visit]) -> str:
    """Which models miss the held-out moments by more than noise explains."""
    far = [visit.task.name for visit in visits if not visit.within_noise]
    near = [visit.task.name for visit in visits if visit.within_noise]
    told = [f"the gap is within three standard deviations of noise for {', '.join(near)}"]
    parts = told * bool(near) + [f"above them for {', '.join(far)}"] * bool(far)
    return f"Verdict: {'; '.join(parts)}." if parts else ""


def _missing(name: str) -> list[str]:
    return [name, "–", "not run", *["–"] * (len(COLUMNS) - 3)]


def _row(visit: Visit) -> list[str]:
    report = visit.report
    return [
        visit.task.name,
        str(visit.task.n_vars),
        report["guarantee"],
        f"{report['validity']:.0%}" if report["validity"] == 1 else f"{report['validity']:.2%}",
        f"{report['moment_gap']['l1']:.2f}",
        f"{visit.noise:.2f}",
        _likelihood(report.get("log_likelihood")),
        f"{sum(visit.seconds.values()):.1f} s",
    ]


def _captions(visit: Visit) -> list[str]:
    """What the two pictures of a task show."""
    name, caption, report = visit.task.name, visit.task.caption, visit.report
    new = f"New structures: {report['guarantee']}, {report['validity']:.0%} valid."
    return [f"{name}: {caption}. {new}", f"{name}: one new structure."]


def _likelihood(value: Any) -> str:
    """A number, a number with its error bar, or a dash."""
    if value is None:
        return "–"
    if isinstance(value, dict):
        return f"{value['value']:.2f} ± {value['half_width']:.2f}"
    return f"{value:.2f}"


# --------------------------------------------------------------------------------- files and a page


def _write_page(
    console: Console, visits: Sequence[Visit], tables: Sequence[Table], output: Path, seed: int
) -> None:
    from nelson import __version__
    from nelson_paper.experiments.machine import machine
    from nelson_paper.experiments.report import Image, Section, write_page
    from nelson_paper.tasks.tour import EXAMPLES

    if not any(visit.pictures for visit in visits):
        console.print('No pictures: they need matplotlib, pip install "nelson-mrf\\[plots]".')
    sections = []
    for visit in visits:
        task, learned = visit.task, visit.learned
        sections.append(
            Section(
                task.heading,
                f"{_sentence(task.describe())}\n\nLearned in {len(learned.history)} iterations, "
                f"{learned.seconds:.1f} s. {_sentence(learned.why)}",
                images=[
                    Image(path, caption, caption)
                    for path, caption in zip(visit.pictures, _captions(visit), strict=False)
                ],
            )
        )
    sections.append(Section("How good, how fast", "", tables=list(tables)))
    output.mkdir(parents=True, exist_ok=True)
    here = machine()
    lead = LEAD.format(n=EXAMPLES, tasks=counted(len(visits), "small task"))
    page = write_page(
        output / "report.html",
        "nelson demo",
        sections,
        lead=f"{lead}\n\n`nelson demo --seed {seed}`, nelson {__version__}, on "
        f"{here['processor']} ({here['cores']} cores).",
    )
    pictures = sum(len(visit.pictures) for visit in visits)
    console.print(f"Written: {page} and {pictures} pictures beside it.\n")


def _sentence(text: str) -> str:
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if not text or text[-1] in ".!?" else ".")


# ------------------------------------------------------------------------------------- large, fast


def _large(console: Console, path: str, seed: int) -> Table:
    """Draw from a large formula, beside another sampler if it is installed; the rates."""
    from nelson import sample
    from nelson.formula import Formula
    from nelson_paper.experiments.base import Table

    f = Formula.from_dimacs(path)
    console.rule("[bold]And large ones, quickly")
    what = f"Random 5-SAT, {f.n_vars:,} variables, {f.n_clauses:,} clauses, uniform, one thread"
    console.print(f"{what}:\n")
    for _ in range(2):  # the first run loads the kernels, or compiles them
        started = time.perf_counter()
        s = sample(f, None, 262_144, seed=seed, threads=1)
        ours = len(s) / (time.perf_counter() - started)
    rates = {f"nelson, {s.info['method']}": ours}
    if find_spec("pycmsgen"):
        rates["pycmsgen, same file"] = _pycmsgen_rate(f)
    width = max(map(len, rates))
    for name, rate in rates.items():
        bar = "█" * round(_BAR_WIDTH * rate / max(rates.values())) or "▏"
        console.print(f"  {name:<{width}}  [cyan]{bar:<{_BAR_WIDTH}}[/]{rate:>13,.0f} samples/s")
    valid = int(f.satisfied(s.to_numpy()[:65_536]).sum())
    checked = f"Rechecked here, clause by clause: {valid:,} of 65,536 valid."
    if len(rates) == 1:
        checked += " With the extra `samplers`, CMSGen draws from the same file beside it."
    console.print(f"\n{checked} Guarantee: [bold yellow]{s.guarantee}[/].\n{s.info['why']}\n")
    told = {name: s.guarantee if k == 0 else "heuristic" for k, name in enumerate(rates)}
    rows = [[name, f"{rate:,.0f}", told[name]] for name, rate in rates.items()]
    return Table(what, ("sampler", "samples a second", "law"), rows, f"{checked} {s.info['why']}.")


def _pycmsgen_rate(f: Formula) -> float:
    """Samples per second of the CDCL-based sampler, measured for half a second."""
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
        (f"nelson sample {town} -n 5", "seven one-way streets, as literals"),
        (f"nelson sample {town} -n 5 --given 4", "the middle street runs down"),
        (f"nelson report {shown}", "what theory says about it"),
        ("nelson bench table1", "a table of the paper, run here"),
    )
    width = max(len(command) for command, _ in lines)
    console.rule("[bold]What to try next")
    console.print(
        "\n".join(f"  {command:<{width}}  [dim]# {why}[/]" for command, why in lines),
        soft_wrap=True,
    )
