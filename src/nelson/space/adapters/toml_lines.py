"""On which line of a TOML text each value begins, and limits on what a text may hold.

`tomllib` reads the values but keeps no lines, and some short texts cost it gigabytes (a key of
100,000 parts). So this scan runs first: one pass over the text, in time linear in its length. It
checks nothing else; `tomllib` refuses what is no TOML.
"""

from __future__ import annotations

import itertools
import re
import tomllib
from collections import Counter
from collections.abc import Iterator

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
    """The lines of headers, keys, and the values of their lists. (What stands in an inline table,
    or deeper, is on the line of what holds it, or near.) FormulaError if a limit is exceeded.
    """
    lines: Lines = {}
    counts: Counter[Path] = Counter()  # keys of each table, tables of each [[list]]
    table: Path = ()  # of the last header
    key: list[str] = []  # the parts of the key or header that is being read
    header = 0  # brackets at the beginning of a header
    path: Path | None = None  # of the value behind the last `=`
    brackets: list[tuple[str, int]] = []  # open ones, with the number of their items
    is_begun = False  # the parts of `1.5`, of a date, or of `key = value` are one item
    parts, last = 0, ""

    def check(number: int, most: int, what: str) -> None:
        if number > most:
            raise FormulaError(what, expected=f"at most {most:,}", source=source, line=line)

    for kind, shown, line in itertools.chain(_tokens(text), [("newline", "\n", 0)]):
        if is_part := kind in ("word", "string"):
            parts = parts + 1 if last == "." else 1
            check(parts, MAX_PARTS, "a key of too many parts")
            check(len(shown) * (kind == "word"), MAX_WORD, f"a word of {len(shown):,} characters")
        last = shown
        if path is None:  # a key or a header
            if is_part:
                key.append(_unquoted(shown) if shown[0] in "\"'" else shown)
            elif shown == "[":
                header += 1
            elif shown == "=":
                counts[table] += 1
                check(counts[table], MAX_ITEMS, "too many keys in one table")
                path = (*table, *key)
                lines.setdefault(path, line)
                is_begun = False
            elif kind == "newline":
                if header:
                    table = tuple(key)
                    if header == 2:  # [[rules]]: one more entry of a list
                        counts["[[", *table] += 1
                        check(counts["[[", *table], MAX_ITEMS, "too many tables in one list")
                        table = (*table, counts["[[", *table] - 1)
                    lines.setdefault(table, line)
                key, header = [], 0
        elif is_part or shown in ("[", "{"):
            if brackets and not is_begun:
                mark, items = brackets.pop()
                check(items + 1, MAX_ITEMS, "a list or table of too many values")
                if mark == "[" and not brackets:
                    lines.setdefault((*path, items), line)
                brackets.append((mark, items + 1))
            is_begun = is_part
            if not is_part:
                check(len(brackets) + 1, MAX_DEPTH, "brackets that are nested too deeply")
                brackets.append((shown, 0))
        elif shown in ("]", "}"):
            del brackets[-1:]
            is_begun = True
        elif shown == ",":
            is_begun = False
        elif kind == "newline" and not brackets:
            key, path = [], None
    return lines


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


def _unquoted(shown: str) -> str:
    try:
        return str(tomllib.loads(f"key = {shown}")["key"])
    except ValueError:
        return shown
