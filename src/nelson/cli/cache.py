"""`nelson cache`: compiled circuits that are kept on disk."""

from __future__ import annotations

import typer

EXAMPLES = """\b
Examples:
  nelson cache
  nelson cache --clear
  NELSON_CACHE_BYTES=4e9 nelson sample large.cnf --method circuit
"""


def cache(
    clear: bool = typer.Option(False, "--clear", help="Remove all compiled circuits."),
) -> None:
    """Say where compiled circuits lie, how many there are, and how large they are.

    A formula that was compiled once (`--method circuit`) is not compiled again. The folder is
    NELSON_CACHE_DIR/circuits, or lies in the user's cache folder; it holds at most
    NELSON_CACHE_BYTES (1 GiB), and what was not used for longest goes first.
    """
    from nelson.exact.circuit import disk_cache

    found = disk_cache.entries()
    size = sum(entry.bytes for entry in found)
    if clear:
        removed = disk_cache.clear()
        typer.echo(f"removed {removed:,} circuit{'s' * (removed != 1)}, {size:,} bytes")
        left = len(found) - removed
        if left:
            raise OSError(f"{left} circuits in {disk_cache.folder()} could not be removed")
        return
    typer.echo(f"path      {disk_cache.folder()}")
    typer.echo(f"circuits  {len(found):,}")
    typer.echo(f"bytes     {size:,} of at most {disk_cache.bound():,}")
