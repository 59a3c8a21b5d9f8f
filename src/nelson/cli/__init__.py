"""The command line: one file per command, each of which parses options and calls the library.

Other code imports `app` and `main` only. `nelson --help` must be fast: modules of commands load
typer at the top; numpy, numba, rich and most of the library are imported inside the functions that
use them. This module loads nothing before `main` has set the handlers of signals.
"""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING, Any

from nelson.cli.interrupt import interruption_waits_for_no_thread, leave_on_signals

if TYPE_CHECKING:
    from nelson.cli.commands import app

__all__ = ["app", "main"]


def __getattr__(name: str) -> Any:
    if name == "app":
        from nelson.cli.commands import app

        return app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def main() -> None:
    """Entry point of the `nelson` command."""
    leave_on_signals()
    if sys.argv[1:] in (["smt2", "--mode", "verilator"], ["smt2", "--mode=verilator"]):
        from nelson.verilator import serve  # answers before typer is loaded

        serve()
        return
    # Importing Numba makes many objects and no garbage: collecting it would cost 0.1 s.
    gc.set_threshold(200_000)
    from nelson.cli.commands import app

    with interruption_waits_for_no_thread():
        app()
