"""The tables of docs/density.md from a run of `nelson bench density`: no figure is typed by hand.

    python tools/density_page.py FOLDER                    the folder of a finished run
    python tools/density_page.py FOLDER --data DATA        run it first (about 12 minutes)

Replaces what stands between the two marks in the page.
"""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "density.md"
FIRST, LAST = "<!-- tables: tools/density_page.py -->", "<!-- end of the tables -->"
#: Titles of the tables that the page has.
SHOWN = (
    "Log-likelihood of held-out rows",
    "What was learned, and how long it took",
    "Sushi: rankings of ten items",
)


def main(folder: Path, data: str | None = None, page: Path = PAGE) -> None:
    if data is not None:
        command = ["bench", "density", "--data", data, "-o", str(folder)]
        subprocess.run([sys.executable, "-m", "nelson.cli", *command], check=True)
    text = page.read_text()
    before, after = text.split(FIRST)[0], text.split(LAST)[1]
    parts = [FIRST, _lead(folder), *_tables((folder / "table.md").read_text()), LAST]
    page.write_text(before + "\n\n".join(parts) + after)


def _tables(text: str) -> list[str]:
    """The tables with the titles in `SHOWN`, each with its title and note."""
    blocks = text.strip().split("\n\n")
    found = []
    for k, block in enumerate(blocks):
        if block.strip("*") in SHOWN:
            found += blocks[k : k + 3]  # title, table, note
    return found


def _lead(folder: Path) -> str:
    runs: list[dict] = []
    for line in (folder / "cells.jsonl").read_text().splitlines():
        entry = json.loads(line)
        if "run" in entry:
            runs.append(entry["run"])
        elif "end" in entry:
            runs[-1] |= entry["end"]
    first = runs[0]
    day, machine = datetime.fromisoformat(first["started"]), first["machine"]
    minutes = sum(run.get("seconds", 0.0) for run in runs) / 60
    return (
        f"`nelson bench density` computed these tables on {day.day} {day:%B %Y}, on "
        f"{machine['cores']} cores of {machine['processor']}, in {minutes:.0f} minutes. All "
        "log-likelihoods are in nats for one row."
    )


if __name__ == "__main__":
    given = sys.argv[1:]
    main(Path(given[0]), given[2] if given[1:2] == ["--data"] else None)
