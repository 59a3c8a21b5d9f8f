"""The tables of docs/fifty.md: runs `auto` on its benchmark formulas. No figure is typed by hand.

    python -m tools.auto_page                  from the root of the repository; about half an hour

Replaces what stands between the two marks in the page.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from benchmarks import auto, auto_truth
from rich import box
from rich.console import Console
from rich.table import Table
from tests.structured import public_suite, suite

from nelson.experiments.machine import machine

PAGE = Path(__file__).parent.parent / "docs" / "fifty.md"
FIRST, LAST = "<!-- tables: tools/auto_page.py -->", "<!-- end of the tables -->"


def main() -> None:
    here = machine()
    fifty = list(auto.outcomes([*suite(), *public_suite()]))
    write(fifty, list(auto_truth.lines()), here, PAGE)


def write(
    fifty: Sequence[auto.Outcome],
    labels: Sequence[auto_truth.Line],
    here: dict[str, str],
    page: Path,
) -> None:
    text = page.read_text()
    before, after = text.split(FIRST)[0], text.split(LAST)[1]
    parts = [
        FIRST,
        f"{date.today():%-d %B %Y}, on {here['cores']} cores of {here['processor']}; programs that "
        f"ran beside it at the start: {float(here['load'].split()[0]):.0f}.",
        "## Before and after",
        f"Now: {auto.counts(list(fifty))}.",
        markdown(auto.table(list(fifty))),
        "## Are the labels true?",
        f"{len(labels)} formulas, of which {sum(one.lie for one in labels)} have a wrong label.",
        markdown(auto_truth.table(list(labels))),
        LAST,
    ]
    page.write_text(before + "\n\n".join(parts) + after)


def markdown(table: Table) -> str:
    table.box, table.title = box.MARKDOWN, None
    out = io.StringIO()
    Console(file=out, width=1000).print(table)
    return "\n".join(line.strip() for line in out.getvalue().strip().splitlines())


if __name__ == "__main__":
    main()
