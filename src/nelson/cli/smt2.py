"""`nelson smt2 [FILE]`: the replies to a script of SMT-LIB2, or to commands as they come."""

from __future__ import annotations

import codecs
import os
import sys
from typing import Literal

import typer

EXAMPLES = """\b
Examples:
  nelson smt2 problem.smt2
  nelson smt2 < problem.smt2
  VERILATOR_SOLVER="nelson smt2 --mode verilator" ./obj_dir/Vtop

QF_BV, and arrays of bit vectors. `nelson sample problem.smt2` draws from a script's assertions.
What is wrong gets an (error "...") as reply, and the next command is read.
"""


def smt2(
    file: str = typer.Argument("-", help="A script; - or nothing reads stdin as it comes."),
    mode: Literal["truth", "verilator"] = typer.Option(
        "truth",
        "--mode",
        metavar="NAME",
        help="verilator: answer the queries by which Verilator's runtime wants its values spread "
        "with fresh uniform draws; see the page on constrained-random verification.",
    ),
) -> None:
    """Answer the commands of SMT-LIB2: check-sat, get-value, push, pop, get-unsat-core, ..."""
    if mode == "verilator":
        from nelson.verilator import serve

        serve()
        return
    from nelson.space.smt.session import Session

    # Terms may be nested deeply; what they need lies on the heap.
    sys.setrecursionlimit(1_000_000)
    session = Session()
    if file != "-":
        from nelson.io.streams import decompressed, load

        name, data = load(file)
        _write(session.reply(decompressed(data, name).decode(errors="replace")))
    else:
        text = codecs.getincrementaldecoder("utf-8")("replace")
        while not session.is_over and (piece := os.read(0, 1 << 16)):
            _write(session.reply(text.decode(piece)))
    _write(session.finish())


def _write(replies: str) -> None:
    if replies:
        sys.stdout.write(replies)
        sys.stdout.flush()
