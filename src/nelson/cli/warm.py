"""`nelson warm`: compile the kernels of the common methods now, so that no later call waits."""

from __future__ import annotations

import functools
import io
import time
from collections.abc import Callable, Iterator

import typer

from nelson.cli import options as opt
from nelson.cli.common import counted, load_numba_without_scipy, say

EXAMPLES = """\b
Examples:
  nelson warm                          once, after the installation: one to three minutes
  nelson cache                         where the compiled kernels are, and their size
"""
#: Numbers of samples that need tiles of one, four and sixteen words.
_COUNTS = (1, 200, 2000)
#: moser-tardos and prs have the kernels of lovasz.
_METHODS = ("lovasz", "gibbs", "cftp", "rejection", "enumerate", "circuit")


def warm(quiet: opt.Quiet = False) -> None:
    """Compile the kernels of the common methods, and keep them on disk.

    Without it, a call compiles what it needs and does not find, which takes 5 to 45 seconds. Small
    draws never wait: they run in the interpreter, with the same samples. After an update of nelson
    or of Numba, kernels must be compiled again.
    """
    load_numba_without_scipy()
    from nelson.kernels.core import kernel_cache
    from nelson.kernels.core.interpret import as_machine_code

    begun = time.monotonic()
    steps = list(_steps())
    with as_machine_code():
        for number, (name, run) in enumerate(steps, 1):
            started = time.monotonic()
            if not quiet:
                say(f"{number} of {len(steps)}: {name} ...")
            run()
            if not quiet:
                say(f"{number} of {len(steps)}: {name}: {time.monotonic() - started:.1f} s")
    place = kernel_cache.folder()
    kept = next((one for one in kernel_cache.folders() if one.folder == place), None)
    if kept is None:
        raise OSError("the compiled kernels could not be kept: no cache folder is private")
    told = f"{counted(kept.kernels, 'kernel')}, {kept.bytes:,} bytes in {kept.folder}"
    typer.echo(f"{told}, after {time.monotonic() - begun:.0f} s")


def _steps() -> Iterator[tuple[str, Callable[[], object]]]:
    """(what is compiled, a function that calls it)"""
    import numpy as np

    import nelson
    from nelson.exact.preprocess import compile_kernels
    from nelson.io.sample_files import TextWriter
    from nelson.kernels.core.bits import pack, unpack
    from nelson.sampling import auto
    from nelson.sampling.registry import get, missing_modules

    # Two fields of three values each, and a clause between them: all kinds of moves apply.
    fields = [[1, 2, 3], [-1, -2], [-1, -3], [-2, -3], [4, 5, 6], [-4, -5], [-4, -6], [-5, -6]]
    formula = nelson.Formula([*fields, [-1, -4]])
    theta, x = np.linspace(-0.5, 0.5, 6), np.zeros((3, 2), bool)

    def draw(**how: object) -> None:
        for n in _COUNTS:
            nelson.sample(formula, theta, n, seed=0, **how)  # type: ignore[arg-type]

    yield "preprocessing", compile_kernels
    yield "packed samples", lambda: unpack(pack(x), len(x))
    yield "samples as text", lambda: TextWriter(io.BytesIO(), [1, 2]).write(pack(x), len(x))
    for name in _METHODS:
        if not missing_modules(get(name)):
            yield name, functools.partial(draw, method=name)
    yield "sweeps of fields", lambda: draw(method="lovasz", moves="fields", sweeps=1)
    yield "joint moves", lambda: draw(method="lovasz", moves="joint", sweeps=1)
    yield "auto", lambda: [auto.ready(n, None) for n in _COUNTS]
