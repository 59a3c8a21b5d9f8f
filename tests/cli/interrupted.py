"""A program for test_signals.py: `MOMENT NUMBER [plain]`, a signal at a moment that is hard to hit.

plain: without the handlers of the command line.
"""

import signal
import sys
import time
from contextlib import nullcontext

from nelson.cli import main
from nelson.cli.interrupt import interrupted_code, leave_on_signals, signals_raise

MOMENT, NUMBER, PLAIN = sys.argv[1], int(sys.argv[2]), sys.argv[3:] == ["plain"]


def text() -> None:
    exec(f"import signal\nsignal.raise_signal({NUMBER})\nfor _ in range(1000): pass")


class Dying:
    def __del__(self) -> None:
        signal.raise_signal(NUMBER)


def callback() -> None:
    Dying()
    for _ in range(100):  # the signal comes again
        time.sleep(0.01)


class Importing:
    """`nelson` begins: it imports its commands."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "typer":
            signal.raise_signal(NUMBER)


def start() -> None:
    sys.meta_path.insert(0, Importing)
    sys.argv[1:] = ["--version"]
    if PLAIN:
        from nelson.cli.commands import app

        app()
    main()


class AtExit:
    def __del__(self) -> None:  # among the last things that Python does
        signal.raise_signal(NUMBER)


def after() -> None:
    if not PLAIN:
        leave_on_signals()
    with signals_raise():
        pass
    signal.raise_signal(NUMBER)


def last() -> None:
    if not PLAIN:
        leave_on_signals()
    sys.modules["a module that is taken apart last"] = AtExit()  # type: ignore[assignment]


if MOMENT in ("text", "callback"):
    try:
        with nullcontext() if PLAIN else signals_raise():
            {"text": text, "callback": callback}[MOMENT]()
    except KeyboardInterrupt:
        sys.exit(interrupted_code())
else:
    {"start": start, "after": after, "last": last}[MOMENT]()
