"""`nelson read FOLDER`: samples that `nelson sample -o FOLDER/` wrote, as text or in one file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from nelson.cli import options as opt
from nelson.cli.common import echo, parsed_count, say
from nelson.cli.output import method_words, open_output
from nelson.errors import printable

if TYPE_CHECKING:
    from nelson.cluster.read import Folder

EXAMPLES = """\b
Examples:
  nelson read samples/ | head                  text: one sample per line, literals, ending in 0
  nelson read samples/ --from 1e6 -n 1000      rows 1,000,000 to 1,000,999
  nelson read samples/ -o all.npz              one file; .parquet and .txt work too
  nelson read samples/ --info                  the job: samples, method, guarantee, seed, parts
  nelson read samples/ --mean                  how often each variable is true
  nelson read samples/ --verify                compare every part with its checksum
"""


def read(
    folder: str = typer.Argument(..., metavar="FOLDER", help="Or a URI: s3://bucket/folder."),
    output: opt.Output = "-",
    first: str = typer.Option("0", "--from", metavar="N", help="The first row, from 0."),
    count: opt.Count = "inf",
    info: bool = typer.Option(False, "--info", help="Print a description, and no samples."),
    mean: bool = typer.Option(False, "--mean", help="Print the share of each column that is true."),
    verify: bool = typer.Option(False, "--verify", help="Compare all parts with their checksums."),
    partial: bool = typer.Option(False, "--partial", help="Also if parts are missing: the others."),
) -> None:
    """Read back a folder of samples; missing or damaged parts are an error."""
    start, wanted = parsed_count(first, "--from", endless=False), parsed_count(count)
    assert start is not None
    from nelson.cluster.read import read as read_folder

    source = read_folder(folder, partial=partial or info)
    if info:
        echo(_description(source))
        return
    if verify:
        source.verify()
        say(f"{source.info['parts']:,} parts, {len(source):,} samples: all as they were written")
        return
    if mean:
        for name, share in zip(source.names, source.mean().tolist(), strict=True):
            echo(f"{printable(name)} {share:.6g}")
        return
    stop = len(source) if wanted is None else min(len(source), start + wanted)
    with open_output(output) as writer_of:
        writer = writer_of(source.variables)
        for block in source.blocks(start=start, stop=stop):
            writer.write(block.packed, len(block))
        writer.close(_info(source))


def _info(source: Folder) -> dict[str, Any]:
    """What a file of samples says about itself."""
    keys = ("method", "seed", "sweeps")
    return {"guarantee": source.guarantee, **{key: source.info[key] for key in keys}}


def _description(source: Folder) -> str:
    job, info = source.job, source.info
    unfinished = "" if source.complete else f" of {job['n']:,}: not finished"
    rows = {
        "samples": f"{len(source):,}{unfinished}",
        "columns": f"{len(source.names):,}",
        "guarantee": f"{source.guarantee} ({job['why']})",
        "method": method_words(job["method"], job["sweeps"]),
        "seed": f"{job['seed']}, keyed by {job['keyed']}",
        "formula": job["formula"],
        "begun": job["begun"],
        "parts": f"{info['parts']:,} of {job['part_rows']:,} samples, {info['bytes']:,} bytes",
    }
    return "\n".join(f"{key:<10} {value}" for key, value in rows.items())
