"""The commands of `nelson`, one file each, and those that other installed packages add.

A package names its commands in the entry-point group `nelson.commands`:

    [project.entry-points."nelson.commands"]
    bench = "nelson_paper.commands.bench:add"        def add(app: typer.Typer) -> None

`add` declares one command on the given app. Entry points are read for `nelson --help`, for shell
completion, and for a command that is not our own: `nelson sample` does not wait for them.
"""

from __future__ import annotations

from importlib import metadata
from typing import Any

import typer
from typer.core import TyperGroup

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
from nelson.cli.common import APP_SETTINGS, EXIT_CODES, ExitCode, fail, guarded
from nelson.cli.options import ClusterCommand

GROUP = "nelson.commands"
#: Commands of packages that may not be installed -> what to install.
KNOWN = {"bench": "nelson-paper", "demo": "nelson-paper"}
#: Former names of our own commands -> what to type.
RENAMED = {
    "generate": "nelson sample MODEL",
    "info": "nelson report",
    "map": "nelson mode",
    "test": "nelson judge",
}


class JoinedCommands(TyperGroup):
    """The commands of the library, then those of other packages in alphabetical order."""

    def list_commands(self, ctx: Any) -> list[str]:
        ours = super().list_commands(ctx)
        return ours + sorted({entry.name for entry in _entries()} - set(ours))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        ours = super().get_command(ctx, cmd_name)
        if ours is not None:
            return ours
        if cmd_name in RENAMED:
            fail(f"error: nelson {cmd_name} is now {RENAMED[cmd_name]}", ExitCode.WRONG_USAGE)
        for entry in _entries():
            if entry.name == cmd_name:
                return _loaded(entry)
        if cmd_name in KNOWN:
            fail(f"error: nelson {cmd_name} is in another package: pip install {KNOWN[cmd_name]}")
        return None


def _entries() -> metadata.EntryPoints:
    return metadata.entry_points(group=GROUP)


def _loaded(entry: metadata.EntryPoint) -> Any:
    app = typer.Typer(**APP_SETTINGS)
    entry.load()(app)
    command = typer.main.get_command(app)  # of an app with one command: that command
    command.name = entry.name
    return command


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
