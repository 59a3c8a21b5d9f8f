"""Tables of `python -m lab prediction`: means over seeds, and paired tests."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

from lab.prediction.published import AUPRC
from nelson_paper.experiments.base import OK, Rows, Table

if TYPE_CHECKING:
    from nelson_paper.experiments.plots import Plot

#: The way to predict that others are compared with.
BASE = ("network", "mode")


def tables(rows: Rows) -> list[Table]:
    groups: dict[str, dict[tuple[str, str], list[Mapping[str, Any]]]] = {}
    for row in rows:
        if row["status"] == OK:
            ways = groups.setdefault(str(row["task"]), {})
            ways.setdefault((str(row["method"]), str(row["predictor"])), []).append(row)
    if not groups:
        return []
    return [_scores(task, ways) for task, ways in groups.items()]


def _scores(task: str, ways: Mapping[tuple[str, str], list[Mapping[str, Any]]]) -> Table:
    first = next(iter(ways.values()))[0]
    base = {row["seed"]: row for row in ways.get(BASE, [])}
    lines = []
    for (method, predictor), rows in ways.items():
        lines.append(
            [
                method,
                predictor,
                _spread(rows, "exact"),
                _paired(rows, base) if (method, predictor) != BASE else "",
                _spread(rows, "hamming", 2),
                _spread(rows, "jaccard"),
                _spread(rows, "auprc", 3),
                _spread(rows, "valid"),
                _spread(rows, "log_likelihood", 2),
                f"{mean(row['epoch_seconds'] for row in rows):.2f}",
                str(len(rows)),
            ]
        )
    exact = [mean(row["exact"] for row in rows) for rows in ways.values()]
    best = frozenset({(exact.index(max(exact)), 2)})
    note = (
        f"{first['labels']} outputs, {first['train']:,} training and {first['rows']:,} test rows, "
        f"{first['epochs']} epochs."
    )
    if task in AUPRC:
        note += f" Published: C-HMCNN's AU(PRC) {AUPRC[task]}."
    columns = (
        "loss",
        "prediction",
        "exact match, %",
        "against decoding alone",
        "Hamming, %",
        "Jaccard, %",
        "AU(PRC)",
        "valid, %",
        "log P, nats",
        "CPU s an epoch",
        "seeds",
    )
    return Table(task, columns, lines, note, best)


def _spread(rows: Sequence[Mapping[str, Any]], name: str, digits: int = 1) -> str:
    values = [float(row[name]) for row in rows if row.get(name) is not None]
    if not values:
        return ""
    half = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{mean(values):.{digits}f}{half}"


def _paired(rows: Sequence[Mapping[str, Any]], base: Mapping[Any, Mapping[str, Any]]) -> str:
    """The difference of exact match, and McNemar's test on the rows of all seeds together: on how
    many test rows only one of the two is right, in standard deviations of a fair coin.
    """
    pairs = [(row, base[row["seed"]]) for row in rows if row["seed"] in base]
    if not pairs:
        return ""
    won = lost = 0
    for ours, theirs in pairs:
        both = list(zip(ours["right"], theirs["right"], strict=True))
        won, lost = won + both.count(("1", "0")), lost + both.count(("0", "1"))
    gap = mean(ours["exact"] - theirs["exact"] for ours, theirs in pairs)
    z = (won - lost) / math.sqrt(won + lost) if won + lost else 0.0
    return f"{gap:+.1f} (z = {z:.1f})"


def plots(rows: Rows) -> dict[str, Plot]:
    return {}
