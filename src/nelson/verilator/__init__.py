"""Verilator: a solver process whose random values are uniform, `nelson smt2 --mode verilator`.

It lives as long as the simulation. Verilator begins with (check-sat) of nothing and waits for the
answer, which comes before anything heavy is imported: this module loads only what Python has loaded
anyway.
"""

from __future__ import annotations

import os
import re

#: What the runtime of Verilator writes first.
_GREETING = re.compile(rb"\s*\(set-logic [A-Z_]+\)\s*\(check-sat\)\s*\(reset\)\s*")


def serve() -> None:
    """Read commands from stdin and write replies to stdout, until stdin ends."""
    first = _read()
    if greeting := _GREETING.match(first):
        _write(b"sat\n")
        first = first[greeting.end() :]
    from nelson.verilator.conversation import Conversation

    conversation = Conversation()
    try:
        _write(conversation.reply(first))
        while not conversation.is_over and (piece := _read()):
            _write(conversation.reply(piece))
        _write(conversation.finish())
    except (BrokenPipeError, ConnectionResetError):
        pass  # the simulation is gone
    finally:
        if summary := conversation.summary():
            os.write(2, summary.encode())


def _read() -> bytes:
    return os.read(0, 1 << 18)


def _write(replies: bytes) -> None:
    while replies:
        replies = replies[os.write(1, replies) :]
