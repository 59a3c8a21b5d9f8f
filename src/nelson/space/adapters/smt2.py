"""Scripts of SMT-LIB2 as spaces: constants are fields, the assertions that hold at the end rules.

(declare-const x (_ BitVec 8))      space.bits("x", 8)
(declare-const b Bool)              space.flag("b")
(assert (! (bvult x #x05) :named r))    space.require("x < 5", name="r")
(select a #x00000003)               a field of this name, for each index that appears
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from nelson.errors import FormulaError
from nelson.io.streams import decompressed, load
from nelson.space.smt.reader import Misread, read
from nelson.space.smt.session import Session

if TYPE_CHECKING:
    from nelson.space.space import Space

#: Commands that ask and change nothing: they are passed over.
_QUESTIONS = ("check-", "get-", "echo", "set-", "minimize", "maximize")


def fill(space: Space, source: str | os.PathLike[str]) -> None:
    """Add what a script declares and asserts. source: a path, or the text of a script."""
    text, known = _text(source)
    session = Session()
    for command in read(text):
        if isinstance(command, Misread):
            raise FormulaError(command, expected="commands of SMT-LIB2", source=known)
        name = command[0] if command and isinstance(command[0], str) else ""
        if name == "exit":
            break
        if name.startswith(_QUESTIONS):
            continue
        reply = session.execute(command)
        if reply is not None:
            raise FormulaError(reply, expected="QF_BV, or arrays of vectors", source=known)
    script = session.script
    if script.hidden:
        raise FormulaError(
            f"{len(script.hidden)} elements of arrays whose index is a term, and wide",
            expected="numbers as indices, or indices of at most 6 bits",
            source=known,
        )
    declared = script.space
    space.fields, space.vectors, space.sets = declared.fields, declared.vectors, declared.sets
    space.encoding = declared.encoding
    for rule, named in script.asserted:
        space.require(rule, name=named)


def _text(source: str | os.PathLike[str]) -> tuple[str, str | None]:
    """The text, and the name of its file."""
    if isinstance(source, str) and source.lstrip()[:1] in ("(", ";"):
        return source, None
    known, data = load(source)
    try:
        return decompressed(data, known).decode(), known
    except UnicodeDecodeError as error:
        raise FormulaError(
            f"bytes that are no text: {error.reason}", expected="UTF-8", source=known
        ) from None
