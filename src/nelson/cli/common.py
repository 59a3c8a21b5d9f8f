"""What the commands share: exit codes, errors in one line, counts, projections, JSON, tables."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import typer

from nelson.cli.interrupt import interrupted_code, signals_raise
from nelson.errors import LINES, BudgetExceeded, NelsonError, Unsatisfiable, printable
from nelson.io.progress import listening

if TYPE_CHECKING:
    import numpy as np

    from nelson.formula import Formula


class ExitCode(IntEnum):
    BAD_INPUT = 1
    WRONG_USAGE = 2
    BUDGET = 3
    UNSATISFIABLE = 20
    BROKEN_PIPE = 141  # 128 + SIGPIPE


EXIT_CODES = (
    "Exit codes: 0 all samples drawn, 1 bad input, 2 wrong usage, 3 budget reached (fewer samples "
    "than asked for, all of them valid), 20 proved unsatisfiable, 130 interrupted (143 by SIGTERM)."
)

#: Of every `typer.Typer`.
APP_SETTINGS: dict[str, Any] = {
    "rich_markup_mode": None,  # plain help: rich costs 0.1 s
    "pretty_exceptions_enable": False,
    "context_settings": {
        "help_option_names": ["-h", "--help"],
        "max_content_width": 10_000,  # help is as wide as the terminal; Click stops at 80 columns
    },
}

#: When the command began that runs now.
_BEGAN: ContextVar[float] = ContextVar("began")

F = TypeVar("F", bound=Callable[..., Any])
Seconds = TypeVar("Seconds", float, float | None)


def say(message: str) -> None:
    """One line on stderr. Nothing but data ever goes to stdout."""
    print(f"nelson: {printable(message, keep=LINES)}", file=sys.stderr)


def echo(text: str) -> None:
    """A text with names of a file, for people, on stdout."""
    typer.echo(printable(text, keep=LINES))


def fail(message: str, code: int = ExitCode.BAD_INPUT) -> NoReturn:
    say(message)
    raise typer.Exit(code)


def guarded(command: F, bad_input: int = ExitCode.BAD_INPUT) -> F:
    """The command with errors as one line on stderr and an exit code, never a traceback.

    SIGTERM ends it as Ctrl-C does: child processes are stopped, unfinished files are removed.
    Set NELSON_DEBUG=1 to get the traceback as well.
    """

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> Any:
        code = bad_input
        _BEGAN.set(time.monotonic())
        _load_numba_without_scipy()
        try:
            with signals_raise(), listening(None):  # commands show phases in their own way
                return command(*args, **kwargs)
        except Unsatisfiable as error:
            code, text = ExitCode.UNSATISFIABLE, f"unsatisfiable: {error}"
        except BrokenPipeError:
            # The reader has left (`| head`). Python flushes stdout once more at exit, which must
            # not fail: send that to the null device.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(ExitCode.BROKEN_PIPE) from None
        except KeyboardInterrupt as error:
            say(f"interrupted{f': {error}' if str(error) else ''}")
            raise typer.Exit(interrupted_code()) from None
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            text = f"error: {where}{error.strerror or error}"
        except MemoryError as error:
            text = f"error: out of memory{f': {error}' if str(error) else ''}"
        except BudgetExceeded as error:
            code, text = ExitCode.BUDGET, f"budget reached: {error}"
        except (NelsonError, ValueError, ImportError) as error:
            text = f"error: {error}"
        if os.environ.get("NELSON_DEBUG"):
            import traceback

            traceback.print_exc()
        fail(text, code)

    return run  # type: ignore[return-value]


def left(seconds: Seconds) -> Seconds:
    """What is left of `--seconds` after the input was read: the limit is that of the command."""
    if seconds is None:
        return None
    read = time.monotonic() - _BEGAN.get(time.monotonic())
    return max(seconds - read, 0.05 * seconds)  # a command may be late by a tenth of its limit


def _load_numba_without_scipy() -> None:
    """If a kernel is compiled later, import Numba without SciPy, which saves 0.2 s.

    Numba loads `scipy.linalg` if it is installed, to offer BLAS inside compiled code. No kernel of
    nelson uses BLAS. Only the command line does this: a library must not decide it for its users.
    """
    from nelson.kernels.core import compile

    compile.hide_scipy = True


def whole_numbers(text: str | None, option: str) -> list[int] | None:
    """`"1,-5"` or `"1 -5"` -> [1, -5]."""
    if text is None:
        return None
    try:
        return [int(part) for part in text.replace(",", " ").split()]
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not a list of whole numbers such as 1,-5", param_hint=option
        ) from None


def parsed_count(text: str, option: str = "-n", endless: bool = True) -> int | None:
    """`1000`, `1_000`, `1e6`; None for `inf`, which is refused unless `endless`."""
    if text.lower() in ("inf", "infinity"):
        if not endless:
            raise typer.BadParameter(f"{text} is endless; give a number", param_hint=option)
        return None
    with contextlib.suppress(ValueError, OverflowError):
        value = float(text) if "e" in text.lower() else int(text)
        if value == int(value) and value >= 0:
            return int(value)
    raise typer.BadParameter(f"{text!r} is not a count such as 1000, 1e6 or inf", param_hint=option)


def counted(number: int, noun: str) -> str:
    """ "1 sample", "1,000 samples" """
    return f"{number:,} {noun}{'s' * (number != 1)}"


def projection(text: str | None, formula: Formula) -> list[int] | None:
    """`--project`, else the file's own (`c ind`, `c p show`), else None: every variable."""
    if text == "all":
        return None if formula.projection is None else list(range(1, formula.n_vars + 1))
    chosen = whole_numbers(text, "--project") if text else formula.projection
    return None if chosen is None else list(chosen)


def law_of_projection(
    law: str | None, project: str | None, formula: Formula, theta: np.ndarray | None, quiet: bool
) -> str:
    """`--project-law`. Else the projection that stands in a file means its projected solutions, as
    for other samplers of such files, and a line on stderr says so; `--project` chooses columns.
    """
    shown = formula.projection
    if law is not None or project is not None or shown is None or len(shown) == formula.n_vars:
        return law or "marginal"
    if not quiet:
        weighted = theta is not None and theta.any()
        say(
            f"{'weighted' if weighted else 'uniform'} over the projected solutions on the "
            f"{counted(len(shown), 'variable')} that the file shows (c ind, c p show); "
            "--project-law marginal: each counts once for every solution that extends it"
        )
    return "solutions"


def print_json(value: Any, indent: int | None = 2) -> None:
    """Print a value on stdout, with infinities and NaN, which JSON does not have, as strings."""
    from nelson.io.json_values import plain

    typer.echo(json.dumps(plain(value), indent=indent, allow_nan=False))


# --- small tables: aligned on the terminal, as CSV or JSON in a file ------------------------------


def check_name(output: str, spreadsheet: bool) -> None:
    """Refuse names that cannot be written, before any work is done."""
    if spreadsheet and not output.lower().endswith(".csv"):
        raise typer.BadParameter("for a .csv file only", param_hint="--spreadsheet")
    if output != "-" and not output.lower().endswith((".csv", ".json")):
        raise NelsonError(f"{output}: cannot write this table; use .csv or .json")


def put(
    header: Sequence[str],
    rows: Iterable[Sequence[Any]],
    output: str,
    as_json: bool,
    spreadsheet: bool = False,
) -> None:
    """Rows to stdout ("-") or to a file; as_json: on stdout as a list of objects.

    spreadsheet: in a CSV file, no text begins like a formula.
    """
    from nelson.io import atomic
    from nelson.io.json_values import plain
    from nelson.io.sample_files import as_text, csv_lines

    cells = [list(row) for row in rows]
    objects = [dict(zip(header, row, strict=True)) for row in cells]
    if output == "-":
        if as_json:
            print_json(objects)
        else:
            typer.echo(aligned([list(map(shown, row)) for row in [header, *cells]]))
    elif output.lower().endswith(".json"):
        atomic.write(output, (json.dumps(plain(objects), indent=2) + "\n").encode(), sync=False)
    else:
        lines = [list(header), *cells]
        if spreadsheet:
            lines = [list(map(as_text, line)) for line in lines]
        atomic.write(output, csv_lines(lines), sync=False)


def shown(cell: Any) -> str:
    """A cell on the terminal."""
    return f"{cell:.4g}" if isinstance(cell, float) else printable(str(cell))


def aligned(rows: list[list[str]]) -> str:
    """Columns of equal width; the last one is not padded."""
    if not rows or not rows[0]:
        return ""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def digits(number: int) -> str:
    """All digits of a number, also of more than Python prints by default."""
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        return str(number)
    finally:
        sys.set_int_max_str_digits(limit)
