"""`nelson sample FILE`: draw valid assignments and write them as they come."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

import typer

from nelson.cli import cluster as on_cluster
from nelson.cli.common import (
    BUDGET,
    fail,
    integers,
    load_numba_without_scipy,
    read_formula,
    read_weights,
    say,
)
from nelson.cli.interrupt import Interruptible
from nelson.io.progress import Bar
from nelson.sampling.guarantee import weakest

if TYPE_CHECKING:
    from nelson.formula import Formula
    from nelson.sampling.samples import Samples

EXAMPLES = """\b
Examples:
  nelson sample puzzle.cnf -n 1000                    1000 samples as text on stdout
  nelson sample puzzle.cnf -n 1e6 -o out.npz          packed bits, numpy.load reads them
  nelson sample puzzle.cnf -n 10 --given 1,-5         x1 true, x5 false
  nelson sample puzzle.cnf -n 10 --weights theta.npy  weighted; theta_i = log-odds of x_i
  nelson sample puzzle.cnf --method prs -n 100        exact on any formula, or says it cannot
  zcat puzzle.cnf.gz | nelson sample - -n inf | head  endless, until the reader has enough
  nelson sample puzzle.cnf -n 1e9 --cluster -o many/  all cores, into a folder of Parquet parts

Text output is the SAT samplers' convention: one sample a line, literals, ending in 0.
Exit codes: 0 ok, 1 bad input, 2 wrong usage, 3 budget reached, 20 proved unsatisfiable.
"""

_BLOCK_BITS = 2**31  # a block of at most 256 MB, whatever the number of variables
#: The whole run is as good as its weakest block.


def sample(
    file: str = typer.Argument(..., metavar="FILE", help="DIMACS file (.gz, .xz); - is stdin."),
    count: str = typer.Option("1", "-n", "--count", metavar="N", help="Samples: 1000, 1e6, inf."),
    output: str = typer.Option(
        "-", "-o", "--output", metavar="PATH", help="out.txt, out.npz, out.parquet; - is stdout."
    ),
    weights: str | None = typer.Option(
        None,
        metavar="none|file|PATH",
        help="none: uniform. file: as the formula's file says (default if it does). "
        "PATH: theta, .npy or text.",
    ),
    seed: int | None = typer.Option(None, help="Same seed, same samples. [default: a fresh one]"),
    method: str = typer.Option("auto", help="auto, or a name that `nelson samplers` lists."),
    given: str | None = typer.Option(None, metavar="LITS", help="Fix these literals, e.g. 1,-5."),
    project: str | None = typer.Option(
        None,
        metavar="VARS",
        help="Print these variables only, e.g. 1,2,7; or all. "
        "[default: as the file says, else all]",
    ),
    unique: bool = typer.Option(False, "--unique", help="Distinct samples only."),
    seconds: float | None = typer.Option(None, help="Stop after this long."),
    sweeps: int | None = typer.Option(
        None, help="Heat-bath sweeps inside the valid space. [default: the method's choice]"
    ),
    max_rounds: int = typer.Option(1000, help="Give a sample up after this many rounds."),
    threads: int | None = typer.Option(None, help="[default: all cores]"),
    device: str = typer.Option("cpu", help="cpu, cuda or cuda:N: the same samples on each."),
    no_check: bool = typer.Option(
        False, "--no-check", help="Print what violates the formula too (gibbs, quicksampler)."
    ),
    cluster: str | None = typer.Option(
        None,
        metavar="[ADDRESS]",
        help="Draw on a Ray cluster into the folder -o; alone: on one of its own, on this machine. "
        "Goes on where it was stopped.",
    ),
    workers: int | None = typer.Option(
        None, min=1, help="With --cluster: processes. [default: all cores]"
    ),
    shard: str | None = typer.Option(
        None, metavar="N", help="With --cluster: samples a part. [default: about 128 MB]"
    ),
    dialect: str = typer.Option("auto", help="How to read weight lines; auto: as they look."),
    quiet: bool = typer.Option(False, "-q", "--quiet", help="No progress bar, no summary."),
) -> None:
    """Draw valid assignments of a formula.

    Every line printed satisfies the formula, unless you say --no-check. The summary on stderr says
    what distribution the samples come from: exact, approximate, asymptotic or heuristic.
    """
    n = _count(count)
    if unique and n is None:
        raise typer.BadParameter("distinct samples do run out: give a number", param_hint="-n")
    literals = integers(given, "--given")
    options: dict[str, Any]
    if cluster is not None:
        _refuse({"--unique": unique, "--device": device != "cpu", "-n inf": n is None})
        folder = on_cluster.folder_of(output)
        formula = read_formula(file, dialect, quiet)
        options = {
            "theta": read_weights(weights, formula),
            "n": n,
            "method": method,
            "sweeps": sweeps,
            "given": literals,
            "project": _projection(project, formula),
            "seed": seed,
            "threads": threads or 1,
            "max_rounds": max_rounds,
            "seconds": seconds,
            "check": not no_check,
            "workers": workers,
            "shard": None if shard is None else _count(shard),
        }
        on_cluster.run(formula, options, cluster, folder, quiet)
        return
    _refuse({"--workers": workers is not None, "--shard": shard is not None}, "without")
    with _open(output) as out:
        formula = read_formula(file, dialect, quiet)
        options = {
            "theta": read_weights(weights, formula),
            "n": n,
            "method": method,
            "given": literals,
            "project": _projection(project, formula),
            "seed": seed,
            "threads": threads,
            "max_rounds": max_rounds,
            "seconds": seconds,
            "device": device,
            "check": not no_check,
        }
        if sweeps is not None:
            options["sweeps"] = sweeps
        blocks = _blocks(formula, options, unique)
        columns = options["project"] or range(1, formula.n_vars + 1)
        total = _write(blocks, columns, n, out, output, quiet)
    total["checked"] = not no_check
    _finish(total, n, quiet)


def _refuse(options: dict[str, bool], how: str = "with") -> None:
    """Options that make no sense with (or without) --cluster."""
    for name, used in options.items():
        if used:
            raise typer.BadParameter(f"not {how} --cluster", param_hint=name)


def _blocks(formula: Formula, options: dict[str, Any], unique: bool) -> Iterator[Samples]:
    """The samples, a bounded number of bits at a time."""
    load_numba_without_scipy()
    from nelson import sample as draw
    from nelson import stream
    from nelson.sampling.device.samples import DeviceSamples

    if unique:  # needs all of them at once, to tell them apart
        yield draw(formula, unique=True, **options)
        return
    fits = _BLOCK_BITS // max(1, formula.n_vars) // 512 * 512
    for block in stream(formula, block=min(65536, max(512, fits)), **options):
        yield block.host() if isinstance(block, DeviceSamples) else block


def _write(
    blocks: Iterator[Samples],
    columns: Sequence[int],
    n: int | None,
    out: BinaryIO,
    output: str,
    quiet: bool,
) -> dict[str, Any]:
    """Blocks into the writer as they come; returns what is known of the whole run.

    `columns` are the variables of a file without samples.
    """
    from nelson.io.sample_files import Writer, format_of, make_writer

    kind = "text" if output == "-" else format_of(output)
    bar = not quiet and not (output == "-" and sys.stdout.isatty())
    writer: Writer | None = None
    total: dict[str, Any] = {"samples": 0, "guarantee": "exact", "rounds": 0, "resampled": 0}
    total["seconds"] = 0.0  # of drawing; not of start-up, nor of writing
    source = Interruptible(blocks)
    with Bar("sampling", n, bar and sys.stderr.isatty()) as progress, source:
        for block in source:
            writer = writer or make_writer(kind, out, block.variables)
            writer.write(block.packed, len(block))
            _account(total, block)
            progress.update(total["samples"])
        if writer is None:
            if source.signal:  # before anything was drawn: there is nothing to keep
                raise KeyboardInterrupt
            writer = make_writer(kind, out, columns)
        writer.close(total)
    return {**total, "signal": source.signal}


def _account(total: dict[str, Any], block: Samples) -> None:
    info = block.info
    total["samples"] += len(block)
    total["rounds"] = max(total["rounds"], int(info.get("rounds") or 0))
    total["resampled"] += int(info.get("resampled") or 0)
    total["invalid"] = total.get("invalid", 0) + int(info.get("invalid") or 0)
    total["seconds"] += float(info.get("seconds") or 0.0)
    total["guarantee"] = weakest([total["guarantee"], block.guarantee])
    for key in ("method", "sweeps", "seed", "reason"):
        if info.get(key) is not None:
            total[key] = info[key] if isinstance(info[key], str) else int(info[key])


def _finish(total: dict[str, Any], n: int | None, quiet: bool) -> None:
    """The summary line, and the exit code."""
    if not quiet and (total["samples"] or n == 0):  # else the reason is all there is to say
        how = total.get("method", "?")
        if total.get("sweeps"):
            how += f" + {total['sweeps']} sweeps"
        parts = [
            f"{total['samples']:,} sample{'s' * (total['samples'] != 1)}",
            f"{total['guarantee']} ({how})",
        ]
        if rounds := total["rounds"]:  # not every sampler has them
            parts.append(f"{rounds:,} round{'s' * (rounds != 1)}")
        if total.get("invalid"):
            where = "dropped" if total.get("checked", True) else "among them"
            parts.append(f"{total['invalid']:,} invalid {where}")
        parts += [
            f"drawn in {total['seconds']:.3g} s",
            f"{total['samples'] / max(total['seconds'], 1e-9):,.0f} samples/s",
        ]
        if "seed" in total:
            parts.append(f"seed {total['seed']}")
        say(" · ".join(parts))
    if total["signal"]:
        if not quiet:
            say("interrupted: what was finished is written, complete and valid")
        raise typer.Exit(128 + total["signal"])
    wanted = 1 if n is None else n  # who asked for no end got as many as the budget allows
    if total["samples"] < wanted:
        asked = "endless" if n is None else f"{n:,}"
        reason = total.get("reason", "the time was up")
        fail(f"budget reached, {total['samples']:,} of {asked} samples: {reason}", BUDGET)


@contextlib.contextmanager
def _open(output: str) -> Iterator[BinaryIO]:
    if output == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    from nelson.io.atomic import writing
    from nelson.io.sample_files import format_of

    if output.endswith("/"):
        raise typer.BadParameter("a folder is what --cluster writes", param_hint="-o")
    format_of(output)  # a name that cannot be written is refused before any work is done
    with writing(output) as out:
        yield out


def _count(text: str) -> int | None:
    """`1000`, `1_000`, `1e6`; None for `inf`."""
    if text.lower() in ("inf", "infinity"):
        return None
    with contextlib.suppress(ValueError, OverflowError):
        value = float(text) if "e" in text.lower() else int(text)
        if value == int(value) and value >= 0:
            return int(value)
    raise typer.BadParameter(f"{text!r} is not a count such as 1000, 1e6 or inf", param_hint="-n")


def _projection(text: str | None, formula: Formula) -> list[int] | None:
    """`--project`, else the file's own (`c ind`, `c p show`), else None: every variable."""
    if text == "all":
        return None if formula.projection is None else list(range(1, formula.n_vars + 1))
    chosen: Iterable[int] | None = integers(text, "--project") if text else formula.projection
    return None if chosen is None else list(chosen)
