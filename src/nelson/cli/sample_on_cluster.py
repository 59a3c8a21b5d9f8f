"""`nelson sample --cluster`: the same samples, drawn by many processes into a folder of parts."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import typer

from nelson.cli.common import ExitCode, counted, fail, say
from nelson.cli.interrupt import interrupted_code
from nelson.cli.options import ray_address
from nelson.cli.output import method_words
from nelson.io.progress import Bar, PhaseLine

if TYPE_CHECKING:
    from nelson.cluster.read import Folder
    from nelson.formula import Formula


def output_folder(output: str) -> str:
    """The value of `-o`, which must be able to name a folder."""
    if output == "-" or output.endswith((".txt", ".npz", ".parquet")):
        raise typer.BadParameter(
            f"{output!r} is no folder: --cluster writes many parts, e.g. -o samples/",
            param_hint="-o",
        )
    return output


def sample_on_cluster(
    formula: Formula, options: dict[str, Any], cluster: str, output: str, quiet: bool
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

            address = ray_address(cluster)
            folder = sample(formula, out=output, address=address, progress=progress, **options)
    except (KeyboardInterrupt, SystemExit):  # Ray turns SIGTERM into the latter
        if not quiet:
            say(f"interrupted: {written:,} samples are in {output}; run the command again to go on")
        raise typer.Exit(interrupted_code()) from None
    if not quiet:
        say(_summary(folder))
    if folder.status != "ok":
        reason = folder.info["reason"]
        fail(
            f"budget reached, {len(folder):,} of {options['n']:,} samples: {reason}",
            ExitCode.BUDGET,
        )


def _summary(folder: Folder) -> str:
    info, job = folder.info, folder.job
    parts = f"{info['parts']:,} parts"
    if info.get("kept"):
        parts += f", {info['kept']:,} of them from before"
    words = [
        counted(len(folder), "sample"),
        f"{folder.guarantee} ({method_words(job['method'], job['sweeps'])})",
        f"{parts}, {info['bytes'] / 1e6:,.1f} MB in {folder.where}",
    ]
    if "workers" in info:
        words.append(f"{counted(info['workers'], 'worker')}, {info['seconds']:.3g} s")
    return " · ".join([*words, f"seed {job['seed']}"])
