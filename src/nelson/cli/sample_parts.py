"""`nelson sample -o samples/`: the same samples in a folder of parts, by this process, by one of
many (`--shard 3/100`), or by a Ray cluster (`--cluster`)."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import typer

from nelson.cli.common import ExitCode, counted, fail, say
from nelson.cli.interrupt import interrupted_code
from nelson.cli.output import method_words
from nelson.io.progress import Bar, PhaseLine

if TYPE_CHECKING:
    from nelson.cluster.read import Folder
    from nelson.formula import Formula
    from nelson.space.plan import SpacePlan
    from nelson.space.tables.model import TableModel


def sample_parts(
    source: Formula | SpacePlan | TableModel, options: dict[str, Any], output: str, quiet: bool
) -> None:
    """Draw, print the summary, and leave with the exit codes of `nelson sample`."""
    from nelson.cluster import sample

    written = 0
    show = not quiet and sys.stderr.isatty()
    try:
        phases = PhaseLine(show)
        with Bar("sampling", options["n"], show) as bar, phases:

            def progress(done: int) -> None:
                nonlocal written
                written = done
                phases.close()
                bar.update(done)

            folder = sample(source, out=output, progress=progress, **options)
    except (KeyboardInterrupt, SystemExit):  # Ray turns SIGTERM into the latter
        if not quiet:
            say(f"interrupted: {written:,} samples are in {output}; run the command again to go on")
        raise typer.Exit(interrupted_code()) from None
    if not quiet:
        say(_summary(folder))
    if folder.status != "ok":
        asked = folder.info["requested"]
        reason = folder.info["reason"]
        fail(f"budget reached, {len(folder):,} of {asked:,} samples: {reason}", ExitCode.BUDGET)


def _summary(folder: Folder) -> str:
    info, job = folder.info, folder.job
    parts = f"{info['parts']:,} parts"
    if info.get("kept"):
        parts += f", {info['kept']:,} of them from before"
    return " · ".join(
        [
            counted(len(folder), "sample"),
            f"{folder.guarantee} ({method_words(job['method'], job['sweeps'])})",
            f"{parts}, {info['bytes'] / 1e6:,.1f} MB in {folder.store}",
            f"{info['seconds']:.3g} s",
            f"seed {job['seed']}",
        ]
    )
