"""`nelson cache`: compiled circuits and compiled kernels that are kept on disk."""

from __future__ import annotations

import functools
import io
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import typer

from nelson.cli import options as opt
from nelson.cli.common import counted, say

if TYPE_CHECKING:
    import numpy as np

    from nelson.formula import Formula

EXAMPLES = """\b
Examples:
  nelson cache                         where circuits and kernels are, and their size
  nelson cache --warm                  compile the kernels for this processor: one to three minutes
  nelson cache --clear                 remove the circuits
  nelson cache --clear-kernels         remove the kernels; --warm compiles them again
  NELSON_CACHE_BYTES=4e9 nelson sample large.cnf --method circuit
"""


def cache(
    warm: bool = typer.Option(
        False, "--warm", help="Compile the kernels of the common methods for this very processor."
    ),
    clear: bool = typer.Option(False, "--clear", help="Remove all compiled circuits."),
    clear_kernels: bool = typer.Option(
        False, "--clear-kernels", help="Remove all compiled kernels, of all versions."
    ),
    quiet: opt.Quiet = False,
) -> None:
    """Print the folders of compiled circuits and kernels, their number, and their size.

    A formula that was compiled once (nelson compile, or `--method circuit`) is not compiled again.
    The folder is NELSON_CACHE_DIR/circuits, or lies in the user's cache folder. It holds at most
    NELSON_CACHE_BYTES (1 GiB); the circuits that were not used for longest are removed first, and
    those of nelson compile last of all.

    Kernels are the machine code of nelson itself. A wheel brings them for two levels of x86-64.
    A call compiles those that it does not find, which takes 5 to 45 seconds, and keeps them in
    NUMBA_CACHE_DIR or in the user's cache folder. --warm compiles all of them for this very
    processor, which may have more instructions than its level; the samples are the same.
    """
    if clear_kernels:
        _clear_kernels()
    if clear:
        _clear_circuits()
    if warm:
        compile_kernels(quiet)
    if not (warm or clear or clear_kernels):
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
        typer.echo(f"kernels   of {level}, in {built_kernels.folder(level)}")
    if not any(place.current for place in kernels) and not built_kernels.built_levels():
        typer.echo("kernels   none of this version yet: nelson cache --warm compiles them")


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


def compile_kernels(quiet: bool) -> None:
    """Call every common method once as machine code; each step is named on stderr."""
    from nelson.kernels.core import kernel_cache
    from nelson.kernels.core.interpret import as_machine_code

    begun = time.monotonic()
    steps = list(_steps())
    with as_machine_code(), kernel_cache.for_this_processor():
        for number, (name, run) in enumerate(steps, 1):
            started = time.monotonic()
            if not quiet:
                say(f"{number} of {len(steps)}: {name} ...")
            run()
            if not quiet:
                say(f"{number} of {len(steps)}: {name}: {time.monotonic() - started:.1f} s")
    own_folder = kernel_cache.folder()
    place = next((place for place in kernel_cache.folders() if place.folder == own_folder), None)
    if place is None:
        raise OSError("the compiled kernels could not be kept: no cache folder is private")
    kernels = f"{counted(place.kernels, 'kernel')}, {place.bytes:,} bytes in {place.folder}"
    typer.echo(f"{kernels}, after {time.monotonic() - begun:.0f} s")


def _read_circuit() -> None:
    """A circuit of two variables in D4's format, x1 and (x2 or not x2): read, and its means."""
    import numpy as np

    from nelson.exact.circuit.decisions import decisions_of
    from nelson.exact.circuit.nnf import NnfCircuit

    text = b"o 1 0\nt 2 0\n1 2 1 2 0\n1 2 1 -2 0\n"
    circuit = decisions_of(NnfCircuit.parse(text), np.arange(2))
    assert circuit is not None
    circuit.solve(np.zeros((1, 2)), means=True)


def _moments(formula: Formula, theta: np.ndarray) -> None:
    """Sums over packed samples."""
    import nelson
    from nelson.kernels.cpu.packed_samples import dot, pair_counts

    samples = nelson.sample(formula, theta, 64, seed=0)
    pair_counts(samples.packed)
    dot(samples.packed, 64, theta)


def _steps() -> Iterator[tuple[str, Callable[[], object]]]:
    """(what is compiled, a function that calls it)"""
    import numpy as np

    import nelson
    from nelson.exact.preprocess import compile_kernels as compile_preprocessing
    from nelson.io.sample_files import TextWriter
    from nelson.kernels.core.bits import pack, unpack
    from nelson.kernels.cpu.rows import from_rows, to_rows
    from nelson.sampling import auto
    from nelson.sampling.auto.ladder import STEPS
    from nelson.sampling.methods import gibbs, lovasz
    from nelson.sampling.registry import missing_modules

    # Two fields of three values each, and a clause between them: all kinds of moves apply.
    fields = [[1, 2, 3], [-1, -2], [-1, -3], [-2, -3], [4, 5, 6], [-4, -5], [-4, -6], [-5, -6]]
    formula = nelson.Formula([*fields, [-1, -4]])
    theta, x = np.linspace(-0.5, 0.5, 6), np.zeros((3, 2), bool)
    counts = 1, 200, 2000  # they need tiles of one, four and sixteen words

    def draw(**how: object) -> None:
        for n in counts:
            nelson.sample(formula, theta, n, seed=0, **how)  # type: ignore[arg-type]

    yield "preprocessing", compile_preprocessing
    yield "packed samples", lambda: unpack(pack(x), len(x))
    yield "samples as text", lambda: TextWriter(io.BytesIO(), [1, 2]).write(pack(x), len(x))
    # The samplers of `auto`; moser-tardos and prs have the kernels of lovasz.
    for sampler in dict.fromkeys([*(s.sampler for s in STEPS if s.draws_whole), gibbs.SAMPLER]):
        if not missing_modules(sampler):
            yield sampler.name, functools.partial(draw, method=sampler.name)
    yield "circuits", _read_circuit
    yield "means and counts", lambda: _moments(formula, theta)
    yield "report", lambda: nelson.report(nelson.Formula([[1, 2], [-1, 3]]))
    yield "samples as columns", lambda: from_rows(to_rows(pack(x), len(x)), x.shape[1])
    yield "sweeps of fields", lambda: draw(method=lovasz.SAMPLER.name, moves="fields", sweeps=1)
    yield "joint moves", lambda: draw(method=lovasz.SAMPLER.name, moves="joint", sweeps=1)
    yield "auto", lambda: [auto.ready(n, None) for n in counts]
