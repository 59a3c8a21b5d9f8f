"""`nelson cache`: compiled circuits that are kept on disk."""

from __future__ import annotations

import typer

from nelson.cli.common import counted

EXAMPLES = """\b
Examples:
  nelson cache
  nelson cache --clear
  NELSON_CACHE_BYTES=4e9 nelson sample large.cnf --method circuit
"""


def cache(
    clear: bool = typer.Option(False, "--clear", help="Remove all compiled circuits."),
) -> None:
    """Print the folder of compiled circuits, their number, and their size.

    A formula that was compiled once (nelson compile, or `--method circuit`) is not compiled again.
    The folder is NELSON_CACHE_DIR/circuits, or lies in the user's cache folder. It holds at most
    NELSON_CACHE_BYTES (1 GiB); the circuits that were not used for longest are removed first, and
    those of nelson compile last of all.
    """
    from nelson.exact.circuit import disk_cache

    circuits = disk_cache.entries()
    size = sum(circuit.bytes for circuit in circuits)
    if clear:
        removed = disk_cache.clear()
        typer.echo(f"removed {counted(removed, 'circuit')}, {size:,} bytes")
        if removed < len(circuits):
            raise OSError(
                f"{len(circuits) - removed} circuits in {disk_cache.folder()} could not be removed"
            )
        return
    typer.echo(f"path      {disk_cache.folder()}")
    typer.echo(f"circuits  {len(circuits):,}")
    typer.echo(f"bytes     {size:,} of at most {disk_cache.bound():,}")
