"""Commands that other installed packages add to `nelson`.

A package names them in the entry-point group `nelson.commands`:

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

from nelson.cli.common import APP_SETTINGS, ExitCode, fail

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
