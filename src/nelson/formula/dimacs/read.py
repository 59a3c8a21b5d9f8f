"""Reading DIMACS files, in every dialect that is in use (docs/formats.md).

A file is a few *special* lines (header, comments, weights, XORs) among a long body of integers. One
regular expression finds the special lines, which are read one at a time. NumPy parses the body in
one call: a million clauses of 5 literals take about a second. The body keeps the line ends of the
file, so that an error can still name its line.
"""

from __future__ import annotations

import itertools
import logging
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any, NamedTuple, NoReturn

import numpy as np

from nelson.errors import FormulaError, shortened
from nelson.formula.checks import MAX_VARIABLE
from nelson.formula.dimacs.weights import DIALECTS, WeightLines, choose, to_theta
from nelson.formula.encode import Xor
from nelson.formula.flat import check_ahead
from nelson.io.streams import decompressed, load

log = logging.getLogger("nelson")

_SPECIAL = re.compile(rb"\n[ \t\v\f]*([^\s\d-][^\n]*)")
_FIRST = re.compile(rb"[ \t\v\f]*([^\s\d-][^\n]*)")
_TOKEN = re.compile(rb"[^ \t\n\v\f]+")
_INTEGER = re.compile(r"[+-]?\d{1,18}")
#: Of reading, which nothing ends once it has begun: 60 MB take about a second.
SECONDS_OF_A_BYTE = 1.5e-8


@dataclass(frozen=True)
class DimacsFile:
    """The content of a file, before it becomes a formula."""

    literals: np.ndarray  # int32
    offsets: np.ndarray  # int64
    n_vars: int
    theta: np.ndarray | None  # (n_vars,)
    projection: list[int] | None
    xors: list[Xor]
    source: str
    dialect: str | None  # how the weights were read; None if there are none
    notes: list[str]  # irregularities and decisions, in words for the user


def read(
    source: str | os.PathLike[str] | IO[Any] | bytes,
    *,
    dialect: str = "auto",
    name: str | None = None,
) -> DimacsFile:
    """Read a path, "-" (stdin), an open file (text or binary) or bytes; plain, gzip or xz.

    name: what error messages call the source. Whatever the input holds, the only error that is
    raised is FormulaError.
    """
    known, data = load(source)
    name = known if name is None else name
    if dialect not in DIALECTS:
        raise FormulaError(f"dialect {dialect!r}", expected=f"one of {', '.join(DIALECTS)}")
    text = decompressed(data, name)
    check_ahead(len(text), SECONDS_OF_A_BYTE)
    return _DimacsParser(text, name).content(dialect)


class Header(NamedTuple):
    """A `p` line. A file should have one, but some public files have two."""

    variables: int
    clauses: int
    line: int

    def __str__(self) -> str:
        return f"line {self.line} says {self.variables} variables, {self.clauses} clauses"


class _DimacsParser:
    """Collects the content of one file: special lines first, then the body."""

    def __init__(self, data: bytes, source: str) -> None:
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        self.source = source
        self.headers: list[Header] = []
        self.behind_clauses = False  # clauses stand before a further header
        self.weights = WeightLines()
        self.shows: dict[str, list[int]] = {}  # "c p show" / "c ind" -> variables
        self.xors: list[Xor] = []
        self.notes: list[str] = []
        # A typing error in a short file must not make us allocate gigabytes.
        self.limit = min(10_000_000 + 4 * len(data), MAX_VARIABLE)
        self.largest = 0
        # Not `join`: it first makes a list, and a file may have millions of comment lines.
        body = bytearray()
        for piece in self._split(data):
            body += piece
        self.body = bytes(body)

    def fail(self, what: str, *, expected: str, line: int | None) -> NoReturn:
        raise FormulaError(what, expected=expected, source=self.source, line=line)

    def _split(self, data: bytes) -> Iterator[memoryview | bytes]:
        """Read the special lines; yield everything else, line ends included."""
        view = memoryview(data)
        done = line = 0  # bytes handled so far, and line ends among them
        last = 0, 0  # where the last piece of the body lies that is not blank
        first = _FIRST.match(data)
        rest = _SPECIAL.finditer(data, first.end(1) if first else 0)
        for match in itertools.chain([first] if first else [], rest):
            start, end = match.span(1)
            line += data.count(b"\n", done, start)
            if _TOKEN.search(data, done, start):
                last = done, start
            yield view[done:start]
            done = end
            if data[start] == 37:  # '%' ends a SATLIB file; a lone 0 follows
                return
            if data[start] == 112 and self.headers:  # 'p'
                self._check_closed(data[slice(*last)], line + 1)
                last = 0, 0
            self._special(match[1].decode("latin-1"), line + 1)
        yield view[done:]

    # --- special lines ----------------------------------------------------------------------------

    def _special(self, text: str, line: int) -> None:
        kind = text[0]
        if kind == "c":
            self._comment(text.split(maxsplit=3), line)
        elif kind == "p":
            self._problem(text.split(), line)
        elif kind == "w":
            fields = text[1:].split()
            if len(fields) == 3 and fields[2] == "0":
                self.weights.closed = True
            elif len(fields) != 2:
                self.fail(
                    f"weight line {shortened(text)!r}", expected="`w LITERAL WEIGHT`", line=line
                )
            self.weights.w.append((line, self._literal(fields[0], line), fields[1]))
        elif kind == "x":
            literals = self._closed_list(text[1:].split(), line, "`x LITERALS 0`")
            self.xors.append(Xor.of(literals))
        elif text.startswith("vp"):  # MCC 2020's projection
            self._show("c p show", text[2:].split(), line)
        else:
            self.fail(
                f"unknown line {shortened(text)!r}",
                expected="a clause, or a line starting with c, p, w, x or %",
                line=line,
            )

    def _comment(self, fields: list[str], line: int) -> None:
        """Comments with a meaning: `c p ...`, `c ind ...`, `c weights ...`, `c t ...`.

        `c ind` and `c weights` need a number after them: plain comments may begin so too.
        """
        if fields[0] != "c" or len(fields) < 3:
            return
        form, rest = fields[1], " ".join(fields[2:]).split()
        if form == "p" and rest[0] == "weight":
            if len(rest) not in (3, 4) or (len(rest) == 4 and rest[3] != "0"):
                self.fail("weight", expected="`c p weight LITERAL WEIGHT 0`", line=line)
            self.weights.mcc.append((line, self._literal(rest[1], line), rest[2]))
        elif form == "p" and rest[0] == "show":
            self._show("c p show", rest[1:], line)
        elif form == "ind" and _INTEGER.fullmatch(rest[0]):
            self._show("c ind", rest, line)
        elif form == "weights" and rest[0][0] in "+-.0123456789":
            if len(rest) // 2 > self.limit:
                self.fail("weights", expected=f"at most {self.limit} variables", line=line)
            self.weights.minic2d.append((line, rest))
        elif form == "t" and rest[0] in ("wmc", "pwmc", "wpmc"):
            self.weights.asked = True

    def _check_closed(self, clauses: bytes, line: int) -> None:
        """A further header must not stand inside a clause: the rest would become part of it."""
        if clauses and clauses.rsplit(maxsplit=1)[-1].strip(b"-0"):
            expected = "0 at the end of the clause before it"
            self.fail("another `p` line inside a clause", expected=expected, line=line)
        self.behind_clauses |= bool(clauses)

    def _problem(self, fields: list[str], line: int) -> None:
        expected = "`p cnf VARIABLES CLAUSES`"
        if len(fields) == 5 and fields[:2] == ["p", "wcnf"]:
            self.fail("header of a MaxSAT file", expected=expected, line=line)
        kinds = ("cnf", "wcnf", "pcnf", "wpcnf")
        if len(fields) != 4 or fields[0] != "p" or fields[1] not in kinds:
            self.fail(f"header {shortened(' '.join(fields))!r}", expected=expected, line=line)
        variables, clauses = (self._integer(token, line, expected) for token in fields[2:])
        if variables < 0 or clauses < 0:
            self.fail("negative count in the header", expected=expected, line=line)
        if variables > self.limit:
            self._too_large(f"header with {variables} variables", line)
        self.headers.append(Header(variables, clauses, line))
        self.weights.wcnf |= "w" in fields[1]

    def _show(self, form: str, tokens: list[str], line: int) -> None:
        if not tokens or tokens[-1] != "0":
            tokens = [*tokens, "0"]  # some writers leave the 0 out
        variables = self._closed_list(tokens, line, f"`{form} VARIABLES 0`")
        if variables and min(variables) < 0:
            self.fail("negative variable", expected=f"`{form} VARIABLES 0`", line=line)
        self.shows.setdefault(form, []).extend(variables)

    def _closed_list(self, tokens: list[str], line: int, expected: str) -> list[int]:
        """Literals before a closing 0."""
        if not tokens or tokens[-1] != "0" or "0" in tokens[:-1]:
            self.fail("list of literals", expected=f"{expected}, closed by one 0", line=line)
        return [self._literal(token, line) for token in tokens[:-1]]

    def _literal(self, token: str, line: int) -> int:
        literal = self._integer(token, line, "a literal")
        if literal == 0:
            self.fail("literal 0", expected="a non-zero literal", line=line)
        if abs(literal) > self.limit:
            self._too_large(f"variable {token.lstrip('+-')[:40]}", line)
        self.largest = max(self.largest, abs(literal))
        return literal

    def _integer(self, token: str, line: int, expected: str) -> int:
        if _INTEGER.fullmatch(token) is None:
            self.fail(f"{shortened(token)!r}", expected=expected, line=line)
        return int(token)

    def _too_large(self, what: str, line: int) -> NoReturn:
        self.fail(what, expected=f"at most {self.limit} for a file of this size", line=line)

    # --- the body ---------------------------------------------------------------------------------

    def _numbers(self) -> np.ndarray:
        """The integers of the body, zeros included; int64."""
        body = self.body
        if body.translate(None, b"-0123456789 \t\n\v\f"):
            self._bad_token(re.compile(rb"[^-0-9 \t\n\v\f]"))
        at = np.frombuffer(body, dtype=np.uint8)
        minus = np.flatnonzero(at == ord("-"))
        if len(minus):
            before = at[np.maximum(minus - 1, 0)]
            after = at[np.minimum(minus + 1, len(at) - 1)]
            spaced = (before <= 32) | (minus == 0)
            if not (spaced & (after >= ord("0"))).all():
                self._bad_token(re.compile(rb"-(?!\d)|(?<=[-\d])-"))
        if not body or body.isspace():
            return np.zeros(0, dtype=np.int64)
        return np.fromstring(body, dtype=np.int64, sep=" ")

    def _bad_token(self, pattern: re.Pattern[bytes]) -> NoReturn:
        match = pattern.search(self.body)
        position = match.start() if match else 0
        start = max(self.body.rfind(space, 0, position) for space in (b" ", b"\n", b"\t")) + 1
        token = _TOKEN.search(self.body, start)
        shown = shortened(token[0].decode("latin-1") if token else "")
        line = self.body.count(b"\n", 0, position) + 1
        self.fail(f"unexpected {shown!r} in a clause", expected="integers", line=line)

    def _token(self, index: int) -> tuple[str, int]:
        """A token of the body and its line. Slow: only for error messages."""
        token = next(itertools.islice(_TOKEN.finditer(self.body), index, None))
        return token[0].decode(), self.body.count(b"\n", 0, token.start()) + 1

    def _clauses(self) -> tuple[np.ndarray, np.ndarray]:
        numbers = self._numbers()
        if len(numbers):
            self.largest = max(self.largest, int(numbers.max()), -int(numbers.min()))
            if self.largest > self.limit:
                beyond = (numbers > self.limit) | (numbers < -self.limit)  # abs(-2^63) overflows
                token, line = self._token(int(np.flatnonzero(beyond)[0]))
                self._too_large(f"variable {token.lstrip('-')[:40]}", line)
            if numbers[-1] != 0:
                numbers = self._closed(numbers)
        ends = np.flatnonzero(numbers == 0)
        offsets = np.zeros(len(ends) + 1, dtype=np.int64)
        offsets[1:] = ends - np.arange(len(ends))
        literals = numbers[numbers != 0].astype(np.int32)
        return literals, offsets

    def _closed(self, numbers: np.ndarray) -> np.ndarray:
        """Close the last clause, unless the header says that clauses are missing after it."""
        n_clauses = int((numbers == 0).sum()) + 1 + len(self.xors)
        said = [header.clauses for header in self.headers]
        if n_clauses not in said and n_clauses < max(said, default=0):
            self.fail(
                f"the file ends inside clause {n_clauses} of {max(said)}",
                expected="0 at the end of each clause",
                line=self._token(len(numbers) - 1)[1],
            )
        self.notes.append("the last clause has no closing 0: it ends with the file")
        return np.append(numbers, 0)

    # --- everything together ----------------------------------------------------------------------

    def content(self, dialect: str) -> DimacsFile:
        literals, offsets = self._clauses()
        self.body = b""
        n_clauses = len(offsets) - 1 + len(self.xors)
        if not self.headers:
            if not n_clauses:
                self.fail("no header and no clauses", expected="a DIMACS file", line=None)
            self.notes.append("no `p cnf` header")
        taken, notes = choose(self.weights, dialect)
        n_vars = max(self.largest, self.weights.largest() if taken == "minic2d" else 0)
        if self.headers:
            n_vars, said = _variables_of(self.headers, n_vars, n_clauses)
            self.notes += said
            if self.behind_clauses:
                self.notes.append(
                    "clauses stand before a second `p` line: if the file holds two formulas, this "
                    "one is both of them together"
                )
        theta, more = to_theta(self.weights, taken, n_vars, self.fail)
        if self.weights.wcnf and not self.weights.w and not self.weights.mcc:
            notes.append("`p wcnf` without weights of literals: was it a MaxSAT file?")
        projection = self._projection()
        self.notes += notes + more
        for note in self.notes:
            log.info("%s: %s", self.source, note)
        return DimacsFile(
            literals, offsets, n_vars, theta, projection, self.xors, self.source, taken, self.notes
        )

    def _projection(self) -> list[int] | None:
        shown, independent = self.shows.get("c p show"), self.shows.get("c ind")
        if shown is None or independent is None:
            return shown if independent is None else independent
        if set(shown) != set(independent):
            self.notes.append("`c p show` and `c ind` differ: `c p show` is used")
        return shown


def _variables_of(headers: Sequence[Header], used: int, n_clauses: int) -> tuple[int, list[str]]:
    """The number of variables of a file that uses `used` and has `n_clauses` clauses, and notes
    about what is wrong. It is the largest number that a header says or that the file uses.
    """
    first, *more = headers
    variables = max(header.variables for header in headers)
    taken, notes = max(variables, used), []
    if other := next((header for header in more if header[:2] != first[:2]), None):
        notes.append(
            f"{len(headers)} `p` lines differ ({first}; {other}): {taken} variables, the larger "
            f"number, and all {n_clauses} clauses of the file are used"
        )
    elif more:
        notes.append(f"{len(headers)} `p` lines say the same; the first is used")
    if used > variables:
        notes.append(f"header says {variables} variables, the file uses {used}")
    if all(header.clauses != n_clauses for header in headers):
        notes.append(f"header says {first.clauses} clauses, the file has {n_clauses}")
    return taken, notes
