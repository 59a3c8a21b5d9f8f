"""On which line of a TOML text each value begins, and limits on what a text may hold.

`tomllib` reads the values but keeps no lines, and some short texts cost it gigabytes (a key of
100,000 parts). So this scan runs first: one pass over the text, in time linear in its length. It
checks nothing else; `tomllib` refuses what is no TOML.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from nelson.errors import FormulaError

#: Most parts of one key: `weights.burst.FIXED` has three.
MAX_PARTS = 8
#: Deepest nesting of brackets. tomllib recurses.
MAX_DEPTH = 32
#: Most values of one list, and most keys of one table.
MAX_ITEMS = 100_000
#: Most characters of one number or bare word. 4096 bits are 1,234 digits.
MAX_WORD = 5_000

#: ("rules", 0) or ("fields", "addr"): where a value stands.
Path = tuple[str | int, ...]
#: The line of each value, from 1.
Lines = dict[Path, int]

_TOKEN = re.compile(
    r"""(?P<skip>[ \t\r]+|\#[^\n]*)
    |(?P<newline>\n)
    |(?P<word>[A-Za-z0-9_+\-:]+)
    |(?P<literal>'[^'\n]*')
    |(?P<basic>"(?:[^"\\\n]++|\\.)*+")
    |(?P<mark>[\[\]{},=.])""",
    re.VERBOSE,
)
#: What ends a multi-line string, or hides its end.
_ENDING = {'"""': re.compile(r'\\.|"{3,5}', re.DOTALL), "'''": re.compile(r"'{3,5}")}


def lines_of(text: str, source: str | None) -> Lines:
    """The lines of the values. Raises FormulaError if the text exceeds a limit."""
    scan = _Scan(source)
    for kind, shown, line in _tokens(text):
        scan.take(kind, shown, line)
    return scan.lines


def _tokens(text: str) -> Iterator[tuple[str, str, int]]:
    """(kind, text, line): words, strings, marks and newlines."""
    at, line = 0, 1
    while at < len(text):
        quotes = text[at : at + 3]
        if quotes in _ENDING:
            end = _end_of_string(text, at + 3, quotes)
            yield "string", '""', line
            line += text.count("\n", at, end)
            at = end
            continue
        match = _TOKEN.match(text, at)
        if match is None:  # no TOML: tomllib says what is wrong
            return
        at, kind = match.end(), match.lastgroup
        if kind == "newline":
            yield "newline", "\n", line
            line += 1
        elif kind in ("literal", "basic"):
            yield "string", match[0], line
        elif kind != "skip":
            yield str(kind), match[0], line


def _end_of_string(text: str, at: int, quotes: str) -> int:
    for match in _ENDING[quotes].finditer(text, at):
        if match[0][0] == quotes[0]:
            return match.end()
    return len(text)


@dataclass
class _Bracket:
    """An open list or inline table."""

    mark: str
    path: Path
    items: int = 0


class _Scan:
    """Follows headers, keys and brackets, one token after the other."""

    def __init__(self, source: str | None) -> None:
        self.lines: Lines = {}
        self._source = source
        self._state = self._in_key
        self._table: Path = ()  # of the last header
        self._key: list[str] = []  # parts of the key or header that is being read
        self._header = 0  # brackets at the beginning of a header
        self._open: list[_Bracket] = []
        self._path: Path = ()  # of the value behind the last `=`
        self._begun = False  # the parts of `1.5` or of a date are one value of a list
        self._counts: Counter[Path] = Counter()  # keys of each table, tables of each [[list]]

    def take(self, kind: str, shown: str, line: int) -> None:
        if kind == "word" and len(shown) > MAX_WORD:
            self._refuse(f"a number or word of {len(shown):,} characters", MAX_WORD, line)
        self._state(kind, shown, line)

    def _in_key(self, kind: str, shown: str, line: int) -> None:
        if kind in ("word", "string"):
            self._add_part(shown, line)
        elif shown == "[" and not self._open and not self._key:
            self._state, self._header = self._in_header, 1
        elif shown == "=":
            table = self._open[-1].path if self._open else self._table
            self._count(table, "keys in one table", line)
            self._path = (*table, *self._key)
            self._keep(self._path, line)
            self._key, self._begun, self._state = [], False, self._in_value
        elif shown == "}":
            self._close()
        elif kind == "newline":
            self._key = []

    def _in_header(self, kind: str, shown: str, line: int) -> None:
        if kind in ("word", "string"):
            self._add_part(shown, line)
        elif shown == "[":
            self._header += 1
        elif kind == "newline":
            path: Path = tuple(self._key)
            if self._header == 2:  # [[rules]]: one more entry of a list
                self._count(("[[", *path), "tables in one list", line)
                path = (*path, self._counts["[[", *path] - 1)
            self._table, self._key, self._state = path, [], self._in_key
            self._keep(path, line)

    def _in_value(self, kind: str, shown: str, line: int) -> None:
        if kind in ("word", "string") or shown in ("[", "{"):
            path = self._value(line)
            if kind == "mark":
                if len(self._open) >= MAX_DEPTH:
                    self._refuse("brackets that are nested too deeply", MAX_DEPTH, line)
                self._open.append(_Bracket(shown, path))
                self._begun = False
                self._state = self._in_value if shown == "[" else self._in_key
        elif shown in ("]", "}"):
            self._close()
        elif shown == ",":
            self._begun = False
            if self._open and self._open[-1].mark == "{":
                self._state = self._in_key
        elif kind == "newline" and not self._open:
            self._state = self._in_key

    def _value(self, line: int) -> Path:
        """The path of the value that begins here, or that has begun."""
        if not self._open or self._open[-1].mark == "{":
            return self._path
        bracket = self._open[-1]
        if not self._begun:
            self._begun = True
            bracket.items += 1
            if bracket.items > MAX_ITEMS:
                self._refuse("a list of too many values", MAX_ITEMS, line)
            self._keep((*bracket.path, bracket.items - 1), line)
        return (*bracket.path, bracket.items - 1)

    def _close(self) -> None:
        if self._open:
            self._open.pop()
        self._key, self._begun, self._state = [], True, self._in_value

    def _add_part(self, shown: str, line: int) -> None:
        if len(self._key) >= MAX_PARTS:
            self._refuse("a key of too many parts", MAX_PARTS, line)
        quoted = shown[0] in "\"'"
        self._key.append(_unquoted(shown) if quoted else shown)

    def _keep(self, path: Path, line: int) -> None:
        if len(path) <= 3:  # ("fields", "burst", "choice"): no error names the line of more
            self.lines.setdefault(path, line)

    def _count(self, path: Path, what: str, line: int) -> None:
        self._counts[path] += 1
        if self._counts[path] > MAX_ITEMS:
            self._refuse(f"too many {what}", MAX_ITEMS, line)

    def _refuse(self, what: str, most: int, line: int) -> NoReturn:
        raise FormulaError(what, expected=f"at most {most:,}", source=self._source, line=line)


def _unquoted(shown: str) -> str:
    try:
        return str(tomllib.loads(f"key = {shown}")["key"])
    except ValueError:
        return shown
