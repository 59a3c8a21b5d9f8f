"""Self-contained HTML pages with tables, prose and pictures; and tables as Markdown.

    write_page("report.html", "Title", [Section("Heading", "Prose.", tables=[...], images=[...])])

Pictures are embedded in the page. The page has no script, refers to no other file, and forbids the
browser to fetch anything (Content-Security-Policy). It follows the reader's light or dark setting
and fits a phone. All text is escaped, so that HTML in a table is shown as text.

In prose a blank line ends a paragraph and `backquotes` mean code.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from pathlib import Path

from nelson.errors import NelsonError
from nelson.experiments.base import FAILED, NOT_INSTALLED, OUT_OF_MEMORY, TIMED_OUT, Table
from nelson.io import atomic

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
    style = resources.files("nelson.experiments").joinpath("page.css").read_text("utf-8")
    entries = [f'<a href="#s{k}">{escape(s.heading)}</a>' for k, s in enumerate(sections, 1)]
    contents = f'<nav aria-label="Contents">{" ".join(entries)}</nav>' if len(sections) > 2 else ""
    body = "\n".join(_section(f"s{k}", section) for k, section in enumerate(sections, 1))
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{escape(title)}</title>
<style>
{style}</style>
</head>
<body>
<header>
<h1>{escape(title)}</h1>
{_prose(lead, "lead")}
{contents}
</header>
<main>
{body}
</main>
</body>
</html>
"""


def _section(anchor: str, section: Section) -> str:
    parts = [f'<section id="{anchor}">', f"<h2>{escape(section.heading)}</h2>"]
    parts += [_prose(section.prose)]
    parts += [_table(table) for table in section.tables]
    parts += [_figure(image, section.heading) for image in section.images]
    for table in section.folded:
        told = f"{escape(table.title)} ({len(table.rows)})"
        inner = _table(Table("", table.columns, table.rows, table.note))
        parts += [f"<details><summary>{told}</summary>", inner, "</details>"]
    return "\n".join([part for part in parts if part] + ["</section>"])


def _prose(text: str, kind: str = "") -> str:
    mark = f' class="{kind}"' if kind else ""
    paragraphs = [" ".join(part.split()) for part in re.split(r"\n\s*\n", text) if part.strip()]
    return "\n".join(f"<p{mark}>{_inline(part)}</p>" for part in paragraphs)


def _inline(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _figure(image: Image | str | os.PathLike[str], heading: str) -> str:
    if not isinstance(image, Image):
        image = Image(image)
    alt = escape(image.alt or image.caption or heading)
    inner = f'<img src="{image.uri()}" alt="{alt}">'
    if image.dark is not None:
        query = "(prefers-color-scheme: dark)"
        inner = (
            f'<picture><source media="{query}" srcset="{image.uri(dark=True)}">{inner}</picture>'
        )
    caption = f"<figcaption>{_inline(image.caption)}</figcaption>" if image.caption else ""
    card = "" if image.dark is not None else ' class="card"'
    return f"<figure{card}>{inner}{caption}</figure>"


def _table(table: Table) -> str:
    right = numeric_columns(table)
    head = "".join(_cell("th", text, right[k]) for k, text in enumerate(table.columns))
    rows = [
        f"<tr{_kind(table, number)}>"
        + "".join(
            _cell("td", text, right[k], (number, k) in table.best) for k, text in enumerate(row)
        )
        + "</tr>"
        for number, row in enumerate(table.rows)
    ]
    title = f"<caption>{_inline(table.title)}</caption>" if table.title else ""
    note = f'<p class="note">{_inline(table.note)}</p>' if table.note else ""
    return (
        f'<div class="scroll" tabindex="0"><table>{title}<thead><tr>{head}</tr></thead>\n<tbody>'
        + "\n".join(rows)
        + f"</tbody></table></div>{note}"
    )


def _kind(table: Table, row: int) -> str:
    """The class of a row: the paper's figures are set apart from ours."""
    if table.paper_from is None or row < table.paper_from:
        return ""
    return ' class="paper first"' if row == table.paper_from else ' class="paper"'


def _cell(tag: str, text: str, right: bool, best: bool = False) -> str:
    text = filled(text)
    kinds = ["num"] * right + ([_status(text)] if tag == "td" else [])
    mark = " ".join(kind for kind in kinds if kind)
    scope = ' scope="col"' if tag == "th" else ""
    inner = f"<strong>{_inline(text)}</strong>" if best else _inline(text)
    return f"<{tag}{scope}{f' class={mark!r}' if mark else ''}>{inner}</{tag}>"


def _status(text: str) -> str:
    """The style of a cell that holds a status instead of a figure."""
    if text.startswith(TIMED_OUT):
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

    rule = [
        "-" * (w - 1) + ":" if flush else "-" * w for w, flush in zip(widths, right, strict=True)
    ]
    lines = [line(texts[0]), "| " + " | ".join(rule) + " |", *map(line, texts[1:])]
    return "\n".join(
        [f"**{table.title}**", ""] * bool(table.title) + lines + ["", table.note] * bool(table.note)
    )
