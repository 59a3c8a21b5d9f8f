"""Self-contained HTML pages with tables, prose and pictures; and tables as LaTeX and Markdown.

    write_page("report.html", "Title", [Section("Heading", "Prose.", tables=[...], images=[...])])

Pictures are embedded in the page. The page has no script, refers to no other file, and forbids the
browser to fetch anything (Content-Security-Policy). It follows the reader's light or dark setting
and fits a phone. All text is escaped, so that HTML in a table is shown as text.

In prose a blank line ends a paragraph and `backquotes` mean code. The texts are in `templates/`.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
from markupsafe import Markup, escape

from nelson.errors import NelsonError
from nelson.io import atomic
from nelson_paper.experiments.base import (
    FAILED,
    LIMITED,
    NOT_INSTALLED,
    OUT_OF_MEMORY,
    TIMED_OUT,
    TOO_LARGE,
    Table,
)

DASH = "–"
_TYPES = {
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".webp": "image/webp",
}
#: A figure, perhaps with an error bar or a unit: 1.2e-3, 0.5 ± 0.1, 99%, 3 min 20 s, 2 of 5.
_NUMBER = re.compile(r"[<>~≈≤≥+\-−±]?\s*[\d.∞](?:[\d.,∞+\-−±×/^%()\[\]\s]|\b[a-zµ]{1,3}\b|e)*")
_SIGNATURES = {
    ".png": b"\x89PNG\r\n\x1a\n",
    ".jpg": b"\xff\xd8",
    ".jpeg": b"\xff\xd8",
    ".webp": b"RIFF",
}


@dataclass(frozen=True)
class Image:
    """A picture: a file (PNG, SVG, JPEG, WebP), or bytes with their `suffix`."""

    source: str | os.PathLike[str] | bytes
    caption: str = ""
    alt: str = ""  # text for readers who cannot see it; default: the caption
    suffix: str = ""  # of bytes: ".svg", ".png", ...
    dark: bytes | None = None  # the same picture for a dark page, same kind

    def uri(self, dark: bool = False) -> str:
        """The picture as a data: URI. Raises NelsonError if the data is not of that type."""
        suffix = self.suffix
        if isinstance(self.source, bytes):
            data, name = self.source, "a picture"
        else:
            path = Path(self.source)
            suffix, name = suffix or path.suffix.lower(), str(path)
            data = path.read_bytes()
        if dark and self.dark is not None:
            data = self.dark
        sound = (
            b"<svg" in data if suffix == ".svg" else data.startswith(_SIGNATURES.get(suffix, b""))
        )
        if suffix not in _TYPES or not data or not sound:
            kind = suffix or "no suffix"
            raise NelsonError(f"{name} ({kind}): not a picture; expected " + ", ".join(_TYPES))
        return f"data:{_TYPES[suffix]};base64,{base64.b64encode(data).decode()}"


@dataclass(frozen=True)
class Section:
    """A section of the page: heading, paragraphs, tables, pictures, folded tables."""

    heading: str
    prose: str = ""
    tables: Sequence[Table] = ()
    images: Sequence[Image | str | os.PathLike[str]] = ()
    folded: Sequence[Table] = ()  # tables that open at a click


def write_page(
    path: str | os.PathLike[str], title: str, sections: Sequence[Section], *, lead: str = ""
) -> Path:
    """Write the page, completely or not at all. `lead`: prose under the title."""
    path = Path(path)
    atomic.write(path, page(title, sections, lead=lead).encode())
    return path


def page(title: str, sections: Sequence[Section], *, lead: str = "") -> str:
    """The page as text."""
    return _PAGES.get_template("report.html").render(title=title, sections=sections, lead=lead)


def latex(tables: Iterable[Table]) -> str:
    """The tables one after the other, each a float in the style of the package booktabs.

    The best value of a column is bold; a rule sets the paper's figures apart.
    """
    return _TEX.get_template("tables.tex").render(tables=list(tables))


# --------------------------------------------------------------------- what the templates call


class _Cell(NamedTuple):
    text: str
    kinds: str = ""  # classes of the style sheet
    best: bool = False


class _Line(NamedTuple):
    cells: list[_Cell]
    kind: str = ""  # class of a row of the paper's figures
    first: bool = False  # the first of them


class _Arranged(NamedTuple):
    head: list[_Cell]
    rows: list[_Line]
    columns: str  # "l" or "r" for each column


def _arranged(table: Table) -> _Arranged:
    """A table cell by cell: blanks are dashes, numbers are aligned right."""
    right = numeric_columns(table)

    def line(number: int, row: Sequence[str]) -> _Line:
        cells = []
        for k, text in enumerate(map(filled, row)):
            kinds = " ".join(kind for kind in ("num" * right[k], _status(text)) if kind)
            cells.append(_Cell(text, kinds, (number, k) in table.best))
        first = number == table.paper_from
        paper = table.paper_from is not None and number >= table.paper_from
        return _Line(cells, "paper first" if first else "paper" * paper, first)

    head = [_Cell(filled(text), "num" * right[k]) for k, text in enumerate(table.columns)]
    rows = [line(number, row) for number, row in enumerate(table.rows)]
    return _Arranged(head, rows, "".join("r" if flush else "l" for flush in right))


def _paragraphs(text: str) -> list[str]:
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n", text) if part.strip()]


def _code(text: str) -> Markup:
    """Escaped text; `backquotes` become code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _image(image: Image | str | os.PathLike[str]) -> Image:
    return image if isinstance(image, Image) else Image(image)


_TEX_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{c: "\\" + c for c in "&%$#_{}"},
    "±": r"$\pm$",
    "µ": r"$\mu$",
    "×": r"$\times$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "–": "--",
    "·": r"$\cdot$",
    "<": r"$<$",
    ">": r"$>$",
    "|": r"$|$",
}


def tex(text: str) -> str:
    """Plain text as LaTeX; `backquotes` become typewriter letters."""
    parts = re.split(r"`([^`]+)`", text)
    plain = ["".join(_TEX_SPECIAL.get(c, c) for c in part) for part in parts]
    return "".join(rf"\texttt{{{part}}}" if k % 2 else part for k, part in enumerate(plain))


def _environment(**options: Any) -> jinja2.Environment:
    loader = jinja2.PackageLoader("nelson_paper.experiments")
    made = jinja2.Environment(loader=loader, undefined=jinja2.StrictUndefined, **options)
    made.filters.update(
        arranged=_arranged, code=_code, image=_image, paragraphs=_paragraphs, tex=tex
    )
    return made


_PAGES = _environment(autoescape=True)
_TEX = _environment(
    autoescape=False,
    variable_start_string="<<",
    variable_end_string=">>",
    trim_blocks=True,
    keep_trailing_newline=True,
)


def _status(text: str) -> str:
    """The style of a cell that holds a status instead of a figure."""
    if text.startswith((TIMED_OUT, TOO_LARGE, LIMITED)):
        return "timeout"
    if text.startswith((OUT_OF_MEMORY, FAILED.rstrip(": "))):
        return "failed"
    return "muted" if text == DASH or text.startswith(NOT_INSTALLED) else ""


def filled(text: str) -> str:
    """The text, or a dash if it is blank."""
    return " ".join(str(text).split()) or DASH


def numeric_columns(table: Table) -> list[bool]:
    """For each column: does it hold numbers? Those are aligned right."""
    columns = [[filled(row[k]) for row in table.rows] for k in range(len(table.columns))]
    kept = [[text for text in column if not _status(text)] for column in columns]
    return [
        all(_NUMBER.fullmatch(text) for text in texts) and bool(column)
        for texts, column in zip(kept, columns, strict=True)
    ]


def _markdown_text(text: str) -> str:
    """Escape what would split a column or act as HTML."""
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", filled(text).replace("|", "\\|"))


def markdown(table: Table) -> str:
    """The table as Markdown, with padded columns so that it also reads well as plain text.

    The best value of a column is bold. A row of dots sets the paper's figures apart.
    """
    right = numeric_columns(table)
    body = [
        [f"**{text}**" if (number, k) in table.best else text for k, text in enumerate(row)]
        for number, row in enumerate([[_markdown_text(t) for t in row] for row in table.rows])
    ]
    if table.paper_from is not None:
        body.insert(table.paper_from, ["···"] * len(table.columns))
    texts = [[_markdown_text(text) for text in table.columns], *body]
    widths = [max(3, *(len(row[k]) for row in texts)) for k in range(len(table.columns))]

    def line(row: Sequence[str]) -> str:
        padded = [
            text.rjust(width) if flush else text.ljust(width)
            for text, width, flush in zip(row, widths, right, strict=True)
        ]
        return "| " + " | ".join(padded) + " |"

    note = f"<details><summary>Notes</summary>\n\n{table.note}\n\n</details>"
    rule = [
        "-" * (w - 1) + ":" if flush else "-" * w for w, flush in zip(widths, right, strict=True)
    ]
    lines = [line(texts[0]), "| " + " | ".join(rule) + " |", *map(line, texts[1:])]
    head = [f"**{table.title}**", ""] * bool(table.title) + [table.lead, ""] * bool(table.lead)
    return "\n".join(head + lines + ["", note] * bool(table.note))
