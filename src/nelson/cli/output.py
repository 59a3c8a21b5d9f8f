"""Samples on their way out of a command: to stdout or a file, then a summary and an exit code."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import typer

from nelson.cli.common import BUDGET, counted, fail, load_numba_without_scipy, say
from nelson.cli.interrupt import Interruptible
from nelson.cli.status_line import PhaseLine
from nelson.io.progress import Bar
from nelson.sampling.guarantee import weakest

if TYPE_CHECKING:
    from nelson.formula import Formula
    from nelson.io.sample_files import Writer
    from nelson.sampling.samples import Samples

#: A block takes at most 256 MB, whatever the number of variables.
_BLOCK_BITS = 2**31
_BLOCK_SAMPLES = 65536


@contextlib.contextmanager
def open_output(output: str) -> Iterator[Callable[[Sequence[int]], Writer]]:
    """A function that makes the writer for `output` ("-": text on stdout), given the variables.

    A file appears under its name when the block ends without an error. Names that cannot be
    written are refused here, before any work is done.
    """
    if output.endswith("/"):
        raise typer.BadParameter("only --cluster writes to a folder", param_hint="-o")
    from nelson.io.atomic import writing
    from nelson.io.sample_files import format_of, make_writer

    if output == "-":
        yield lambda variables: make_writer("text", sys.stdout.buffer, variables)
        sys.stdout.buffer.flush()
        return
    kind = format_of(output)
    with writing(output) as file:
        yield lambda variables: make_writer(kind, file, variables)


def drawn_blocks(formula: Formula, options: dict[str, Any], unique: bool) -> Iterator[Samples]:
    """Blocks of samples, each of a bounded number of bits. options: those of `nelson.stream`."""
    load_numba_without_scipy()
    from nelson import sample, stream
    from nelson.sampling.device.samples import DeviceSamples

    if unique:  # all samples must be in memory, to tell repeats
        yield sample(formula, unique=True, **options)
        return
    fits = _BLOCK_BITS // max(1, formula.n_vars) // 512 * 512
    for block in stream(formula, block=min(_BLOCK_SAMPLES, max(512, fits)), **options):
        yield block.host() if isinstance(block, DeviceSamples) else block


def write_blocks(
    blocks: Iterator[Samples],
    columns: Sequence[int],
    n: int | None,
    writer_of: Callable[[Sequence[int]], Writer],
    show_progress: bool,
) -> dict[str, Any]:
    """Write blocks as they are drawn; returns what is known about the whole run.

    columns are the variables of a file that gets no samples.
    """
    writer: Writer | None = None
    total: dict[str, Any] = {"samples": 0, "guarantee": "exact", "rounds": 0, "resampled": 0}
    total["seconds"] = 0.0  # spent drawing; start-up and writing do not count
    source = Interruptible(blocks)
    phases = PhaseLine(show_progress)  # until the first block: what `auto` is doing
    with Bar("sampling", n, show_progress) as progress, phases, source:
        for block in source:
            phases.close()
            writer = writer or writer_of(block.variables)
            writer.write(block.packed, len(block))
            _add(total, block)
            progress.update(total["samples"])
        if writer is None:
            if source.signal:  # interrupted before the first block: no sample to keep
                raise KeyboardInterrupt
            writer = writer_of(columns)
        writer.close(total)
    return {**total, "signal": source.signal}


def shows_progress(output: str, quiet: bool) -> bool:
    """A progress bar needs a terminal on stderr that does not show the samples themselves."""
    return sys.stderr.isatty() and not quiet and not (output == "-" and sys.stdout.isatty())


def _add(total: dict[str, Any], block: Samples) -> None:
    """Add one block to what is known about the run."""
    info = block.info
    total["samples"] += len(block)
    total["rounds"] = max(total["rounds"], int(info.get("rounds") or 0))
    total["resampled"] += int(info.get("resampled") or 0)
    total["invalid"] = total.get("invalid", 0) + int(info.get("invalid") or 0)
    total["seconds"] += float(info.get("seconds") or 0.0)
    total["guarantee"] = weakest([total["guarantee"], block.guarantee])
    for key in ("method", "sweeps", "seed", "reason", "law"):
        if info.get(key) is not None:
            total[key] = info[key] if isinstance(info[key], str) else int(info[key])


def finish(total: dict[str, Any], n: int | None, quiet: bool, checked: bool = True) -> None:
    """Print the summary line, and leave with an exit code unless all n samples were written."""
    if not quiet and (total["samples"] or n == 0):  # without samples the error line says it all
        say(_summary(total, checked))
    if total["signal"]:
        if not quiet:
            say("interrupted: all finished samples are written, and the file is complete")
        raise typer.Exit(128 + total["signal"])
    wanted = 1 if n is None else n  # -n inf: as many as the budget allows
    if total["samples"] < wanted:
        asked = "endless" if n is None else f"{n:,}"
        reason = total.get("reason", "the time was up")
        fail(f"budget reached, {total['samples']:,} of {asked} samples: {reason}", BUDGET)


def _summary(total: dict[str, Any], checked: bool) -> str:
    words = [
        counted(total["samples"], "sample"),
        f"{total['guarantee']} ({method_words(total.get('method', '?'), total.get('sweeps'))})",
    ]
    if "law" in total:  # --unique; the file holds the whole sentence
        words.append("distinct, one draw after the other")
    if total["rounds"]:  # not every sampler has rounds
        words.append(counted(total["rounds"], "round"))
    if total.get("invalid"):
        words.append(f"{total['invalid']:,} invalid {'dropped' if checked else 'among them'}")
    words += [
        f"drawn in {total['seconds']:.3g} s",
        f"{total['samples'] / max(total['seconds'], 1e-9):,.0f} samples/s",
    ]
    if "seed" in total:
        words.append(f"seed {total['seed']}")
    return " · ".join(words)


def method_words(method: str, sweeps: int | None) -> str:
    """ "lovasz + 6 sweeps" """
    return method + (f" + {sweeps} sweeps" if sweeps else "")
