"""A program for test_signals.py: Ctrl-C arrives while Python runs `exec` of text."""

import signal
import sys

from nelson.cli.interrupt import signals_raise

TEXT = f"import signal\nsignal.raise_signal({signal.SIGINT:d})\nfor _ in range(1000): pass"
PLAIN = "plain" in sys.argv  # without the handlers of the command line

try:
    if PLAIN:
        exec(TEXT)
    else:
        with signals_raise():
            exec(TEXT)
except KeyboardInterrupt:
    sys.exit(130)
