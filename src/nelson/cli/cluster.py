"""`nelson sample --cluster`: the same samples, drawn by many processes into a folder of parts."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from typer.core import TyperCommand

from nelson.cli.common import BUDGET, INTERRUPTED, fail, load_numba_without_scipy, say
from nelson.io.progress import Bar

if TYPE_CHECKING:
    from nelson.cluster.read import Folder
    from nelson.formula import Formula

LOCAL = "local"  # what a bare --cluster means


class Command(TyperCommand):
    """Lets `--cluster` stand alone: what follows is its value only if it looks like an address."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        for at, word in enumerate(args):
            if word == "--":
                break
            if word == "--cluster" and not _is_address(args[at + 1 : at + 2]):
                args = [*args[:at], f"--cluster={LOCAL}", *args[at + 1 :]]
        return super().parse_args(ctx, args)


def _is_address(following: list[str]) -> bool:
    """ "auto", "local", "host:6379", "ray://host:10001" """
    if not following or following[0].startswith("-"):
        return False
    word = following[0]
    return word in ("auto", LOCAL) or "://" in word or word.rpartition(":")[2].isdigit()


def folder_of(output: str) -> str:
    """`-o`, which must be a folder."""
    if output == "-" or output.endswith((".txt", ".npz", ".parquet")):
        raise typer.BadParameter(
            f"{output!r} is no folder: --cluster writes many parts, e.g. -o samples/",
            param_hint="-o",
        )
    return output


def run(formula: Formula, options: dict[str, Any], address: str, output: str, quiet: bool) -> None:
    """Draw, tell, and leave with the exit code of `nelson sample`."""
    load_numba_without_scipy()
    from nelson.cluster import sample

    safe = 0
    before = signal.signal(signal.SIGTERM, _terminated)
    try:
        with Bar("sampling", options["n"], not quiet and sys.stderr.isatty()) as bar:

            def progress(done: int) -> None:
                nonlocal safe
                safe = done
                bar.update(done)

            where = None if address == LOCAL else address
            folder = sample(formula, out=output, address=where, progress=progress, **options)
    except (KeyboardInterrupt, SystemExit):  # Ray turns SIGTERM into the latter
        _interrupted(safe, output, quiet)
    finally:
        signal.signal(signal.SIGTERM, before)
    if not quiet:
        say(summary(folder))
    if folder.status != "ok":
        reason = folder.info["reason"]
        fail(f"budget reached, {len(folder):,} of {options['n']:,} samples: {reason}", BUDGET)


def _terminated(number: int, frame: Any) -> NoReturn:
    raise KeyboardInterrupt


def _interrupted(safe: int, output: str, quiet: bool) -> NoReturn:
    if not quiet:
        say(f"interrupted: {safe:,} samples are in {output}; the same command goes on from there")
    raise typer.Exit(INTERRUPTED)


def summary(folder: Folder) -> str:
    """One line."""
    info, job = folder.info, folder.job
    how = job["method"] + (f" + {job['sweeps']} sweeps" if job["sweeps"] else "")
    parts = f"{info['parts']:,} parts"
    if info.get("kept"):
        parts += f", {info['kept']:,} of them from before"
    told = [
        f"{len(folder):,} sample{'s' * (len(folder) != 1)}",
        f"{folder.guarantee} ({how})",
        f"{parts}, {info['bytes'] / 1e6:,.1f} MB in {folder.where}",
    ]
    if "workers" in info:
        drawn = info["seconds"]
        told.append(f"{info['workers']} worker{'s' * (info['workers'] != 1)}, {drawn:.3g} s")
    return " · ".join([*told, f"seed {job['seed']}"])
