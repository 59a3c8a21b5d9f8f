"""The commands of `nelson`, one file each; other packages add theirs (`entry_points.py`)."""

from __future__ import annotations

import typer

from nelson.cli import (
    cache,
    compile,
    count,
    cover,
    evaluate,
    judge,
    learn,
    marginals,
    mode,
    read,
    report,
    sample,
    samplers,
    smt2,
)
from nelson.cli.common import APP_SETTINGS, EXIT_CODES, ExitCode, guarded
from nelson.cli.entry_points import JoinedCommands
from nelson.cli.options import ClusterCommand

app = typer.Typer(
    name="nelson",
    cls=JoinedCommands,
    help="Draw structures that are always valid, from a formula that says what valid means.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    **APP_SETTINGS,
)


def _version(wanted: bool) -> None:
    if wanted:
        from nelson._version import __version__

        typer.echo(f"nelson {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and leave."
    ),
) -> None:
    pass


app.command("sample", cls=ClusterCommand, epilog=sample.EXAMPLES)(guarded(sample.sample))
app.command("read", epilog=read.EXAMPLES)(guarded(read.read))
app.command("learn", epilog=learn.EXAMPLES)(guarded(learn.learn))
app.command("evaluate", epilog=evaluate.EXAMPLES)(guarded(evaluate.evaluate))
app.command("report", epilog=report.EXAMPLES)(guarded(report.report))
app.command("count", epilog=count.EXAMPLES)(guarded(count.count))
app.command("marginals", epilog=marginals.EXAMPLES)(guarded(marginals.marginals))
app.command("mode", epilog=mode.EXAMPLES)(guarded(mode.mode))
app.command("cover", epilog=cover.EXAMPLES)(guarded(cover.cover))
# Exit code 1 of `judge` is a rejection, so bad input has another.
app.command("judge", epilog=judge.EXAMPLES)(guarded(judge.judge, ExitCode.WRONG_USAGE))
app.command("samplers", epilog=samplers.EXAMPLES)(guarded(samplers.samplers))
app.command("smt2", epilog=smt2.EXAMPLES)(guarded(smt2.smt2))
app.command("compile", epilog=compile.EXAMPLES)(guarded(compile.compile_))
app.command("cache", epilog=cache.EXAMPLES)(guarded(cache.cache))
