"""SMT-LIB2 as s-expressions: an atom is a `str`, a list is a `list`.

Text arrives in pieces, as from a pipe. Nothing is recursive, so depth costs memory only, and each
character is looked at once. A quoted symbol |x y| is the atom `x y`; text in quotation marks is a
`Quoted`. What is no s-expression becomes a `Misread`, and reading goes on behind it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_TOKEN = re.compile(
    r'[\s\ufeff]+|;[^\n]*(?:\n|\Z)|[()]|"(?:[^"]|"")*"(?!")|\|[^|\\]*\||[^\s()";|\ufeff]+|(?P<rest>.)',
    re.DOTALL,
)
#: Most characters of one command.
MAX_COMMAND = 1 << 28


class Quoted(str):
    """The content of "..."."""

    __slots__ = ()


class Symbol(str):
    """A symbol that was written between bars: |set-logic| is no command."""

    __slots__ = ()


class Misread(str):
    """Why some text is no s-expression."""

    __slots__ = ()


class CommandReader:
    """Text in pieces -> complete s-expressions."""

    def __init__(self) -> None:
        self._text = ""
        self._open: list[list[Any]] = []  # lists that wait for their closing parenthesis
        self._size = 0
        self._in_garbage = False

    def feed(self, piece: str) -> Iterator[Any]:
        """The s-expressions, and `Misread`s, that this piece completes."""
        text, at = self._text + piece, 0
        self._text = ""
        try:
            while at < len(text):
                match = _TOKEN.match(text, at)
                assert match is not None
                token = match[0]
                unfinished = match["rest"] is not None
                if unfinished or (match.end() == len(text) and token[0] not in "() \t\r\n"):
                    self._text = text[at:]  # more may follow
                    self._check_size(len(self._text))
                    return
                at = match.end()
                self._size += len(token)
                yield from self._take(token)
        except GeneratorExit:
            self._text = text[at:]
            raise

    def finish(self) -> Iterator[Any]:
        """The end of the text."""
        yield from self.feed("\n")
        if self._open or self._text.strip():
            self._open.clear()
            self._text = ""
            yield Misread("the input ends within a command")

    def _check_size(self, waiting: int) -> None:
        if self._size + waiting > MAX_COMMAND:
            self._open.clear()
            self._text = ""
            raise MemoryError(f"a command of more than {MAX_COMMAND:,} characters")

    def _take(self, token: str) -> Iterator[Any]:
        first = token[0]
        if first in " \t\r\n;\ufeff" or token.isspace():
            return
        if first == "(":
            self._in_garbage = False
            self._open.append([])
            return
        if first == ")":
            if not self._open:
                yield from self._garbage("a closing parenthesis without an open one")
                return
            done: Any = self._open.pop()
        elif first == '"':
            done = Quoted(token[1:-1].replace('""', '"'))
        elif first == "|":
            done = Symbol(token[1:-1])
        else:
            done = token
        if self._open:
            self._open[-1].append(done)
            self._check_size(0)
        elif isinstance(done, list):
            self._size = 0
            yield done
        else:
            shown = token if len(token) <= 60 else token[:57] + "..."
            yield from self._garbage(f"{shown!r} is no command")

    def _garbage(self, why: str) -> Iterator[Any]:
        """One message for what stands between two commands."""
        self._size = 0
        if not self._in_garbage:
            self._in_garbage = True
            yield Misread(why)


def read(text: str) -> list[Any]:
    """All s-expressions of a text."""
    reader = CommandReader()
    return [*reader.feed(text), *reader.finish()]


_SIMPLE = re.compile(r"[A-Za-z~!@$%^&*_+=<>.?/\-#:0-9][A-Za-z0-9~!@$%^&*_+=<>.?/\-#:]*")


def written(expression: Any) -> str:
    """An s-expression as text."""
    out: list[str] = []
    stack = [expression]
    while stack:
        node = stack.pop()
        if isinstance(node, list):
            stack.append(_CLOSE)
            stack += reversed(node)
            out.append("(")
        elif node is _CLOSE:
            out.append(")")
        elif isinstance(node, Quoted):
            out.append('"' + node.replace('"', '""') + '"')
        else:
            out.append(node if _SIMPLE.fullmatch(node) else f"|{node}|")
    return " ".join(out).replace("( ", "(").replace(" )", ")") if len(out) > 1 else out[0]


_CLOSE = Symbol(")")
