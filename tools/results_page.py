"""docs/results.md from the folder of a run of `nelson bench all`: nothing in it is typed by hand.

python tools/results_page.py FOLDER
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from datetime import datetime
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"
#: Plots of the folder that the page shows: file there -> (file in docs, text).
PLOTS = {
    "table1-time.png": ("results-time.png", "time of a training iteration"),
    "bias-ours.png": ("results-bias.png", "bias over the density of clauses"),
}


def main(folder: Path) -> None:
    runs = []
    for line in (folder / "cells.jsonl").read_text().splitlines():
        entry = json.loads(line)
        if "run" in entry:
            runs.append(entry["run"])
        elif "end" in entry:
            runs[-1] |= entry["end"]
    body = (folder / "table.md").read_text().split("\n", 1)[1].strip()
    claims, rest = body, ""
    if "\n## " in body.partition("## What we claim")[2]:
        at = body.index("\n## ", body.index("## What we claim") + 1)
        claims, rest = body[:at].strip(), body[at:].strip()
    pictures = []
    for name, (target, text) in PLOTS.items():
        if not (folder / name).exists():
            continue
        shutil.copyfile(folder / name, DOCS / target)
        pictures.append(f"![{text}]({target})")
    parts = ["# Results", _lead(runs), claims, *pictures, rest]
    (DOCS / "results.md").write_text("\n\n".join(parts) + "\n")


def _lead(runs: list[dict]) -> str:
    first = runs[0]
    command = re.sub(r" (-o|--output)[ =]\S+", "", first["command"])
    day = datetime.fromisoformat(first["started"])
    minutes = sum(run.get("seconds", 0.0) for run in runs) / 60
    machine = first["machine"]
    load = max(float(run["machine"].get("load", "0").split()[0]) for run in runs)
    busy = (
        f" Other programs were running ({load:.0f} at the start), so all times are longer than on "
        "an idle machine, and cells may have timed out that would finish there."
    )
    return (
        f"`{command}` computed these tables on {day.day} {day:%B %Y}, on "
        f"{machine['cores']} cores of {machine['processor']}, in {minutes:.0f} minutes."
        f"{busy if load > 1 else ''} Each size "
        "has one formula (ten in Tables 1(c) and 3(c)), so a time can differ on another formula of "
        "the same size; `nelson bench all --full` uses 100 formulas, as the paper does. Whether a "
        "table measures the same as the paper's is in the last column of [the paper, item by "
        "item](paper.md#experiments). Values in bold are the best of their column; the *Monte "
        "Carlo floor* is the mean error of as many exact and independent samples. "
        "[Experiments](experiments.md) says how to run them."
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
