"""The tables of docs/fifty.md: runs `auto` on its benchmark formulas. No figure is typed by hand.

    python -m tools.auto_page                  samples; about half an hour
    python -m tools.auto_page log-z            log Z; about as long

From the root of the repository. Replaces what stands between two marks in the page.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from benchmarks import auto, auto_truth, log_z_truth
from rich import box
from rich.console import Console
from rich.table import Table
from tests.structured import public_suite, suite

from nelson.experiments.machine import machine

PAGE = Path(__file__).parent.parent / "docs" / "fifty.md"
FIRST, LAST = "<!-- tables: tools/auto_page.py -->", "<!-- end of the tables -->"
FIRST_LOG_Z, LAST_LOG_Z = "<!-- log Z: tools/auto_page.py -->", "<!-- end of log Z -->"


def main() -> None:
    here = machine()
    if sys.argv[1:] == ["log-z"]:
        write_log_z(list(log_z_truth.lines()), here, PAGE)
        return
    fifty = list(auto.outcomes([*suite(), *public_suite()]))
    write(fifty, list(auto_truth.lines()), here, PAGE)


def write(
    fifty: Sequence[auto.Outcome],
    labels: Sequence[auto_truth.Line],
    here: dict[str, str],
    page: Path,
) -> None:
    parts = [
        dated(here),
        "## Before and after",
        f"Now: {auto.counts(list(fifty))}.",
        markdown(auto.table(list(fifty))),
        "## Are the labels true?",
        f"{len(labels)} formulas, of which {sum(one.lie for one in labels)} have a wrong label.",
        markdown(auto_truth.table(list(labels))),
    ]
    replace_between(page, FIRST, LAST, parts)


def write_log_z(found: Sequence[log_z_truth.Line], here: dict[str, str], page: Path) -> None:
    wrong, poor = sum(one.wrong for one in found), sum(one.poor for one in found)
    told = f"{log_z_truth.counts(list(found))}. {wrong} of all values are wrong, {poor} are poor."
    parts = [dated(here), told, markdown(log_z_truth.table(list(found)))]
    replace_between(page, FIRST_LOG_Z, LAST_LOG_Z, parts)


def dated(here: dict[str, str]) -> str:
    return (
        f"{date.today():%-d %B %Y}, on {here['cores']} cores of {here['processor']}; programs that "
        f"ran beside it at the start: {float(here['load'].split()[0]):.0f}."
    )


def replace_between(page: Path, first: str, last: str, parts: Sequence[str]) -> None:
    text = page.read_text()
    before, after = text.split(first)[0], text.split(last)[1]
    page.write_text(before + "\n\n".join([first, *parts, last]) + after)


def markdown(table: Table) -> str:
    table.box, table.title = box.MARKDOWN, None
    out = io.StringIO()
    Console(file=out, width=1000).print(table)
    return "\n".join(line.strip() for line in out.getvalue().strip().splitlines())


if __name__ == "__main__":
    main()
