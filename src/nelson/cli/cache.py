"""`nelson cache`: compiled circuits and compiled kernels that are kept on disk."""

from __future__ import annotations

import typer

from nelson.cli.common import counted

EXAMPLES = """\b
Examples:
  nelson cache                         where circuits and kernels are, and their size
  nelson cache --clear                 remove the circuits
  nelson cache --clear-kernels         remove the kernels that were compiled here
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

    Kernels are the machine code of nelson itself. A wheel brings them for two levels of x86-64.
    A call compiles those that it does not find, which takes 5 to 45 seconds, and keeps them in
    NUMBA_CACHE_DIR or in the user's cache folder.
    """
    if clear_kernels:
        _clear_kernels()
    if clear:
        _clear_circuits()
    if not (clear or clear_kernels):
        _describe()


def _describe() -> None:
    from nelson.exact.circuit import disk_cache
    from nelson.kernels.core import built_kernels, kernel_cache

    circuits, kernels = disk_cache.entries(), kernel_cache.folders()
    size = sum(circuit.bytes for circuit in circuits)
    typer.echo(f"path      {disk_cache.folder()}")
    typer.echo(f"circuits  {len(circuits):,}")
    typer.echo(f"bytes     {size:,} of at most {disk_cache.bound():,}")
    for place in kernels:
        version = "" if place.current else ", of another version"
        typer.echo(
            f"kernels   {place.kernels:,}, {place.bytes:,} bytes, in {place.folder}{version}"
        )
    for level in built_kernels.built_levels():
        typer.echo(f"kernels   of {level}, in {built_kernels.path(level)}")
    if not any(place.current for place in kernels) and not built_kernels.built_levels():
        typer.echo(
            "kernels   none of this version yet: the first call of each method compiles its own"
        )


def _clear_kernels() -> None:
    from nelson.kernels.core import kernel_cache

    kernels = kernel_cache.folders()
    kernel_cache.clear()
    number, size = sum(p.kernels for p in kernels), sum(p.bytes for p in kernels)
    typer.echo(f"removed {counted(number, 'kernel')}, {size:,} bytes")


def _clear_circuits() -> None:
    from nelson.exact.circuit import disk_cache

    circuits = disk_cache.entries()
    removed = disk_cache.clear()
    size = sum(circuit.bytes for circuit in circuits)
    typer.echo(f"removed {counted(removed, 'circuit')}, {size:,} bytes")
    if removed < len(circuits):
        raise OSError(
            f"{len(circuits) - removed} circuits in {disk_cache.folder()} could not be removed"
        )
