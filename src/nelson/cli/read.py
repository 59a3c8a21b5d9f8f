"""`nelson read FOLDER`: samples that `nelson sample --cluster` wrote, as text or in one file."""

from __future__ import annotations

from typing import Any

import typer

from nelson.cli.common import load_numba_without_scipy, say
from nelson.cli.sample import _count, _open

EXAMPLES = """\b
Examples:
  nelson read samples/ | head                  text: one sample a line, literals, ending in 0
  nelson read samples/ --from 1e6 -n 1000      rows 1,000,000 to 1,000,999
  nelson read samples/ -o all.npz              one file; .parquet and .txt work too
  nelson read samples/ --info                  what it is, and what it is worth
  nelson read samples/ --verify                compare every part with its checksum
"""


def read(
    folder: str = typer.Argument(..., metavar="FOLDER", help="Or a URI: s3://bucket/folder."),
    output: str = typer.Option(
        "-", "-o", "--output", metavar="PATH", help="out.txt, out.npz, out.parquet; - is stdout."
    ),
    first: str = typer.Option("0", "--from", metavar="N", help="The first row, from 0."),
    count: str = typer.Option("inf", "-n", "--count", metavar="N", help="Rows: 1000, 1e6, inf."),
    info: bool = typer.Option(False, "--info", help="Say what it is, and leave."),
    verify: bool = typer.Option(False, "--verify", help="Compare all parts with their checksums."),
    partial: bool = typer.Option(False, "--partial", help="Also if the job is not finished."),
) -> None:
    """Read back a folder of samples; what is missing or damaged is an error."""
    start, wanted = _count(first), _count(count)
    if start is None:
        raise typer.BadParameter("rows have numbers", param_hint="--from")
    load_numba_without_scipy()
    from nelson.cluster.read import read as opened

    source = opened(folder, partial=partial or info)
    if info:
        for line in described(source):
            typer.echo(line)
        return
    if verify:
        source.verify()
        say(f"{source.info['parts']:,} parts, {len(source):,} samples: all as they were written")
        return
    stop = len(source) if wanted is None else min(len(source), start + wanted)
    with _open(output) as out:
        from nelson.io.sample_files import format_of, make_writer

        kind = "text" if output == "-" else format_of(output)
        writer = make_writer(kind, out, source.variables)
        for block in source.blocks(start=start, stop=stop):
            writer.write(block.packed, len(block))
        writer.close(_told(source))


def _told(source: Any) -> dict[str, Any]:
    keys = ("method", "seed", "sweeps", "rounds", "resampled")
    return {"guarantee": source.guarantee, **{key: source.info[key] for key in keys}}


def described(source: Any) -> list[str]:
    job, info = source.job, source.info
    done = "" if source.complete else f" of {job['n']:,}: not finished"
    rows = {
        "samples": f"{len(source):,}{done}",
        "variables": f"{len(source.variables):,}",
        "guarantee": f"{source.guarantee} ({job['why']})",
        "method": job["method"] + (f" + {job['sweeps']} sweeps" if job["sweeps"] else ""),
        "seed": f"{job['seed']}, keyed by {job['keyed']}",
        "formula": job["formula"],
        "parts": f"{info['parts']:,} of up to {job['shard']:,} samples, {info['bytes']:,} bytes",
    }
    return [f"{key:<10} {value}" for key, value in rows.items()]
