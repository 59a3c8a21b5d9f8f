"""Samples on their way out of a command: to stdout or a file, then a summary and an exit code."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn

import typer

from nelson.chains.guarantee import weakest
from nelson.cli.common import ExitCode, counted, fail, say
from nelson.cli.inputs import space_of
from nelson.cli.interrupt import Interruptible, arrived, interrupted_code
from nelson.errors import printable
from nelson.io.progress import Bar, PhaseLine

if TYPE_CHECKING:
    from nelson.formula import Formula
    from nelson.io.row_files import RowWriter
    from nelson.io.sample_files import Writer
    from nelson.sampling.samples import Samples
    from nelson.space import Rows, Space
    from nelson.space.tables.model import TableModel


def _block_of(formula: Formula, most: int = 65536, most_bits: int = 2**31) -> int:
    """Samples in a block: a multiple of 512, and at most 256 MB unless 512 samples take more."""
    return min(most, max(512, most_bits // max(1, formula.n_vars) // 512 * 512))


@contextlib.contextmanager
def open_output(output: str, spreadsheet: bool = False) -> Iterator[Callable[..., Writer]]:
    """A function that makes the writer for `output` ("-": text on stdout), given the variables and
    their names, if they have any.

    A file appears under its name when the block ends without an error. Names that cannot be
    written are refused here, before any work is done. spreadsheet: no name begins like a formula.
    """
    from nelson.io.sample_files import as_text, format_of, make_writer

    kind = "text" if output == "-" else format_of(output)
    _check_spreadsheet(kind, spreadsheet)

    def writer(variables: Sequence[int], names: Sequence[str] | None = None) -> Writer:
        if spreadsheet and names is not None:
            names = [as_text(name) for name in names]
        return make_writer(kind, file, variables, names)

    with _opened(output) as file:
        yield writer


@contextlib.contextmanager
def open_row_output(
    output: str, spreadsheet: bool = False
) -> Iterator[Callable[[Rows], RowWriter]]:
    """The same for rows of a space ("-": CSV on stdout): a writer, given rows with its columns.

    On a terminal, characters that steer it are escaped.
    """
    from nelson.io.row_files import format_of_rows, make_row_writer
    from nelson.io.sample_files import as_text

    kind = "csv" if output == "-" else format_of_rows(output)
    _check_spreadsheet(kind, spreadsheet)
    on_terminal = output == "-" and sys.stdout.isatty()

    def cell(value: Any) -> Any:
        value = as_text(value) if spreadsheet else value
        return printable(value) if on_terminal and isinstance(value, str) else value

    with _opened(output) as file:
        changed = cell if on_terminal or spreadsheet else None
        yield lambda first: make_row_writer(kind, file, first, changed)


def _check_spreadsheet(kind: str, spreadsheet: bool) -> None:
    if spreadsheet and kind != "csv":
        raise typer.BadParameter("for CSV only", param_hint="--spreadsheet")


@contextlib.contextmanager
def _opened(output: str) -> Iterator[BinaryIO]:
    if output.endswith("/"):
        raise typer.BadParameter("this command writes one file, no folder", param_hint="-o")
    from nelson.io.atomic import writing

    if output == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with writing(output) as file:
        yield file


class RowSink:
    """Blocks of rows on their way to a writer, which is made when the first block is there.

    nothing: rows with the columns of a file that gets no rows.
    """

    what = "row"

    def __init__(self, writer_of: Callable[[Any], Any], nothing: Any) -> None:
        self._writer_of, self._nothing = writer_of, nothing
        self._writer: Any = None

    def _open(self, block: Any) -> Any:
        self._writer = self._writer or self._writer_of(block)
        return self._writer

    def write(self, block: Any) -> None:
        self._open(block).write(block)

    def close(self, info: dict[str, Any]) -> None:
        self._open(self._nothing).close(info)


class SampleSink(RowSink):
    """The same for samples. columns: the variables of a file that gets none; titles: names."""

    what = "sample"

    def __init__(
        self,
        writer_of: Callable[..., Writer],
        columns: Sequence[int],
        titles: Callable[[Sequence[int]], list[str] | None],
    ) -> None:
        super().__init__(lambda variables: writer_of(variables, titles(variables)), columns)

    def write(self, block: Samples) -> None:
        self._open(block.variables).write(block.packed, len(block))


def drawn_blocks(formula: Formula, options: dict[str, Any], unique: bool) -> Iterator[Samples]:
    """Blocks of samples, each of a bounded number of bits. options: those of `nelson.stream`."""
    from nelson import sample, stream
    from nelson.sampling.device.samples import DeviceSamples

    if unique or "terms" in options:  # all at once: repeats are told apart; terms have no stream
        yield sample(formula, unique=unique, **options)
        return
    for block in stream(formula, block=_block_of(formula), **options):
        yield block.host() if isinstance(block, DeviceSamples) else block


def drawn_rows(source: Space | TableModel, options: dict[str, Any]) -> Iterator[Any]:
    """Blocks of rows, each of a bounded number of bits. options: those of `Space.stream`.

    Of the model of a table: with the columns and the types of that table.
    """
    space = space_of(source)
    if getattr(source, "columns", None) is not None and space is not source:
        from nelson.space.tables.frames import FrameRows

        given = {name: options[name] for name in ("n", "given", "seed")}
        used = {"unique": False, "method": "auto", "threads": None, "seconds": None}
        more = {name: options[name] for name, value in used.items() if options.get(name) != value}
        if options.get("threads") is not None:
            more["threads"] = options["threads"]
        yield from map(FrameRows, source.frames(**given, **more))  # type: ignore[union-attr]
        return
    yield from source.stream(block=_block_of(space.formula), **options)


def write_blocks(
    blocks: Iterator[Any],
    sink: RowSink,
    n: int | None,
    show_progress: bool,
) -> dict[str, Any]:
    """Write blocks of samples or rows as they are drawn; returns what is known about the run.

    Without any, although n is not 0, nothing is written: a file of that name stays as it was.
    """
    total: dict[str, Any] = {"samples": 0, "guarantee": "exact", "rounds": 0, "resampled": 0}
    total["seconds"] = 0.0  # spent drawing; start-up and writing do not count
    source = Interruptible(blocks)
    phases = PhaseLine(show_progress)  # until the first block: what `auto` is doing
    with Bar("sampling", n, show_progress) as progress, phases, source:
        for block in source:
            phases.close()
            if not len(block) and not total["samples"]:
                _add(total, block)
                continue
            sink.write(block)
            _add(total, block)
            progress.update(total["samples"])
        if not total["samples"] and n != 0:
            if arrived():
                raise KeyboardInterrupt(f"before the first {sink.what}; nothing is written")
            _budget_reached(total, n, sink.what)
        sink.close(total)
    return {**total, "interrupted": bool(arrived())}


def shows_progress(output: str, quiet: bool) -> bool:
    """A progress bar needs a terminal on stderr that does not show the samples themselves."""
    return sys.stderr.isatty() and not quiet and not (output == "-" and sys.stdout.isatty())


def _add(total: dict[str, Any], block: Any) -> None:
    """Add one block to what is known about the run."""
    info = block.info
    total["samples"] += len(block)
    total["rounds"] = max(total["rounds"], int(info.get("rounds") or 0))
    total["resampled"] += int(info.get("resampled") or 0)
    total["invalid"] = total.get("invalid", 0) + int(info.get("invalid") or 0)
    total["seconds"] += float(info.get("seconds") or 0.0)
    total["guarantee"] = weakest([total["guarantee"], block.guarantee])
    total["tv_bound"] = max(total.get("tv_bound", 0.0), info.get("tv_bound", 0.0))
    for key in ("method", "sweeps", "seed", "reason", "law", "project_law", "projection"):
        if info.get(key) is not None:
            total[key] = info[key] if isinstance(info[key], str) else int(info[key])
    if "advice" in info:
        total["advice"] = info["advice"]
    if "shares" in info:
        total["shares"] = info["shares"]
        total["shares_missed"] = bool(info.get("shares_missed"))


def finish(
    total: dict[str, Any],
    n: int | None,
    quiet: bool,
    checked: bool = True,
    what: str = "sample",
) -> None:
    """Print the summary line, and leave with an exit code unless all n samples were written.

    what: "sample" or "row".
    """
    if not quiet and (total["samples"] or n == 0):  # without samples the error line says it all
        say(_summary(total, checked, what))
        for advice in total.get("advice", {}).values():
            say(f"would help: {advice}")
    if total["interrupted"]:
        if not quiet:
            say(f"interrupted: all finished {what}s are written, and the file is complete")
        raise typer.Exit(interrupted_code())
    if n is not None and total["samples"] < n:  # -n inf: as many as the budget allows
        _budget_reached(total, n, what)


def _budget_reached(total: dict[str, Any], n: int | None, what: str) -> NoReturn:
    asked = "endless" if n is None else f"{n:,}"
    reason = total.get("reason", "the time was up")
    fail(f"budget reached, {total['samples']:,} of {asked} {what}s: {reason}", ExitCode.BUDGET)


def _summary(total: dict[str, Any], checked: bool, what: str) -> str:
    words = [
        counted(total["samples"], what),
        f"{total['guarantee']} ({method_words(total.get('method', '?'), total.get('sweeps'))})",
    ]
    if total["guarantee"] == "exact":
        words.append(f"within {total.get('tv_bound', 0.0):.1g} of P")
    if "law" in total:  # --unique; the file holds the whole sentence
        words.append("distinct, one draw after the other")
    if "projection" in total:
        words.append(f"projected solutions ({total['projection']})")
    if total["rounds"]:  # not every sampler has rounds
        words.append(counted(total["rounds"], "round"))
    if "shares" in total:
        shares = ", ".join(f"{rule}: {share:.4g}" for rule, share in total["shares"].items())
        words.append(f"shares {'not reached' if total['shares_missed'] else 'reached'} ({shares})")
    if total.get("invalid"):
        words.append(f"{total['invalid']:,} invalid {'dropped' if checked else 'among them'}")
    words += [
        f"drawn in {total['seconds']:.3g} s",
        f"{total['samples'] / max(total['seconds'], 1e-9):,.0f} {what}s/s",
    ]
    if "seed" in total:
        words.append(f"seed {total['seed']}")
    return " · ".join(words)


def method_words(method: str, sweeps: int | None) -> str:
    """ "lovasz + 6 sweeps" """
    return method + (f" + {sweeps} sweeps" if sweeps else "")
