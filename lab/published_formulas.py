"""The authors' 100 formulas in a table: from the folders of the runs on docs/experiments.md.

python -m lab page formulas FOLDER     every results.parquet below FOLDER
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nelson_paper.experiments import show
from nelson_paper.experiments.base import Row, Table
from nelson_paper.experiments.published import TABLE_2A

#: The number of the formula that the authors' scripts name, counted from 0.
NAMED = 65


def rows_below(folder: Path) -> list[Row]:
    import pyarrow.parquet as pq

    return [
        row for path in sorted(folder.rglob("*.parquet")) for row in pq.read_table(path).to_pylist()
    ]


def sampling(rows: Sequence[Row]) -> Table:
    """Times are medians over the formulas, validities means."""
    uniform, weighted = (
        show.pick(rows, experiment="uniform"),
        show.pick(rows, experiment="weighted"),
    )

    def time(here: Any) -> str:
        seconds = [row["seconds"] for row in here]
        named = [row["seconds"] for row in show.pick(here, seed=NAMED)]
        return show.measured_time(statistics.median(seconds)) + (
            f" ({show.measured_time(named[0])})" if named else ""
        )

    def share(here: Any, field: str) -> str:
        values = [row[field] for row in here if row.get(field) is not None]
        if not values:
            return ""
        low, high = 100 * min(values), 100 * max(values)
        told = f"{100 * statistics.mean(values):.4g}%"
        return told if low == high else f"{told} ({low:.3g} to {high:.3g})"

    body = []
    for name in show.samplers(uniform):
        here = show.good(show.pick(uniform, sampler=name))
        thousand = show.good(show.pick(weighted, sampler=name, count=1000))
        hundred = show.good(show.pick(weighted, sampler=name, count=100))
        body.append(
            [
                show.label(name),
                ", ".join(sorted({row["guarantee"] for row in here})),
                time(here),
                share(here, "validity"),
                time(thousand) if thousand else "draws uniformly only",
                time(hundred) if hundred else "draws uniformly only",
            ]
        )
        if any(row.get("misnumbered") is not None for row in here):
            body.append(
                [
                    f"{name}, columns as in the authors' script",
                    "",
                    "",
                    share(here, "misnumbered"),
                    "",
                    "",
                ]
            )
    columns = [
        "sampler",
        "label",
        "1,000 uniform samples",
        "valid",
        "1,000 weighted",
        "100 weighted",
    ]
    return Table("Samples of the authors' formulas", columns, body)


def learning(rows: Sequence[Row]) -> Table:
    """Minus the mean potential after ten steps of the authors' loop, and MAP@10."""
    here = show.pick(rows, experiment="table2", data="authors' loop")
    named = {"lovasz": "NELSON", "gibbs-published": "Gibbs", "cmsgen-published": "CMSGen"}
    body = []
    for name in show.samplers(here):
        finished = show.good(show.pick(here, sampler=name))
        own = list({row["seed"]: row for row in finished}.values())  # a file may have run twice
        values = [row["published_likelihood"] for row in own]
        first = show.pick(own, seed=NAMED)
        paper = TABLE_2A.figures[named[name]][500] if name in named else ""
        body.append(
            [
                show.label(name),
                f"{first[0]['published_likelihood']:.1f}" if first else "",
                f"{statistics.mean(values):.1f} ± {statistics.stdev(values):.1f}",
                f"{len(values)}",
                f"{paper}",
                f"{100 * statistics.mean([row['published_map'] for row in own]):.0f}%",
            ]
        )
    columns = ["sampler", "file 0066", "mean ± s.d.", "files", "the paper", "MAP@10, mean"]
    return Table("The authors' learning loop on their formulas", columns, body)
