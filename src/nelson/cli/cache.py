"""`nelson cache`: compiled circuits and compiled kernels that are kept on disk."""

from __future__ import annotations

import typer

from nelson.cli.common import counted

EXAMPLES = """\b
Examples:
  nelson cache
  nelson cache --clear                 remove the circuits
  nelson cache --clear-kernels         remove the kernels; nelson warm compiles them again
  NELSON_CACHE_BYTES=4e9 nelson sample large.cnf --method circuit
"""


def cache(
    clear: bool = typer.Option(False, "--clear", help="Remove all compiled circuits."),
    clear_kernels: bool = typer.Option(
        False, "--clear-kernels", help="Remove all compiled kernels, of all versions."
    ),
) -> None:
    """Print the folders of compiled circuits and kernels, their number, and their size.

    A formula that was compiled once (nelson compile, or `--method circuit`) is not compiled again.
    The folder is NELSON_CACHE_DIR/circuits, or lies in the user's cache folder. It holds at most
    NELSON_CACHE_BYTES (1 GiB); the circuits that were not used for longest are removed first, and
    those of nelson compile last of all.

    Kernels are the machine code of nelson itself (nelson warm). They lie in NUMBA_CACHE_DIR, or in
    the user's cache folder.
    """
    from nelson.exact.circuit import disk_cache
    from nelson.kernels.core import kernel_cache

    kernels = kernel_cache.folders()
    if clear_kernels:
        kernel_cache.clear()
        number, bytes = sum(kept.kernels for kept in kernels), sum(kept.bytes for kept in kernels)
        typer.echo(f"removed {counted(number, 'kernel')}, {bytes:,} bytes")
        if not clear:
            return
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
    for kept in kernels or ():
        whose = "" if kept.current else ", of another version"
        typer.echo(f"kernels   {kept.kernels:,}, {kept.bytes:,} bytes, in {kept.folder}{whose}")
    if not any(kept.current for kept in kernels):
        typer.echo("kernels   none of this version yet: nelson warm compiles them")
