"""Tables of `python -m lab prediction`: means over seeds, and paired tests."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import mean, stdev
from typing import Any

import numpy as np

from lab.prediction import NAMES
from lab.prediction.published import AUPRC, exact
from lab.prediction.small import TEST_BY_SEED
from nelson_paper.experiments.base import Table

Rows = Sequence[Mapping[str, Any]]
#: Ways to predict, in the order of the tables, and their short names.
WAYS = {
    ("network", "threshold"): "threshold",
    ("network", "mode"): "decoding",
    ("max-constraint", "threshold"): "max-constraint",
    ("semantic loss", "threshold"): "semantic loss, threshold",
    ("semantic loss", "mode"): "semantic loss, decoding",
    ("contrastive", "mode"): "contrastive",
    ("likelihood", "mode"): "likelihood",
    ("mixture", "mode"): "mixture",
}
#: The way to predict that others are compared with.
BASE = ("network", "mode")


def tables(rows: Rows) -> list[Table]:
    """All tasks in one table, and one table for each task."""
    found: dict[str, dict[tuple[str, str], list[Mapping[str, Any]]]] = {}
    for row in rows:
        if row["kind"] == "final":
            ways = found.setdefault(row["task"], {})
            ways.setdefault((row["method"], row["predictor"]), []).append(row)
    times = {(row["task"], row["method"]): row for row in rows if row["kind"] == "timed"}
    tasks = [name for name in NAMES if name in found]
    if not tasks:
        return []
    return [_exact(tasks, found), *(_scores(name, found[name], times) for name in tasks)]


def _exact(tasks: Sequence[str], found: Mapping[str, Mapping[Any, Rows]]) -> Table:
    lines, best = [], set()
    for line, name in enumerate(tasks):
        published = "; ".join(f"{who} {value:g}" for who, value in exact(name).items())
        values = [_spread(found[name].get(way, []), "exact") for way in WAYS]
        means = [_mean(found[name].get(way, [])) for way in WAYS]
        best.add((line, 1 + means.index(max(means))))
        lines.append([name, *values, published])
    columns = ("task", *WAYS.values(), "published")
    return Table("Exact match, %", columns, lines, best=frozenset(best))


def _mean(rows: Rows) -> float:
    return mean(row["exact"] for row in rows) if rows else -1.0


def _scores(task: str, ways: Mapping[tuple[str, str], Rows], times: Mapping[Any, Any]) -> Table:
    base, lines, shown = ways.get(BASE, []), [], [way for way in WAYS if way in ways]
    for way in shown:
        rows, timed = ways[way], times.get((task, way[0]))
        lines.append(
            [
                WAYS[way],
                _spread(rows, "exact"),
                _paired(rows, base) if way != BASE else "",
                _spread(rows, "hamming", 2),
                _spread(rows, "jaccard"),
                _spread(rows, "auprc", 3),
                _spread(rows, "valid"),
                _spread(rows, "log_likelihood", 2),
                f"{1e3 * timed['epoch_seconds']:.0f}" if timed else "",
                _setting(rows[0]),
                str(len(rows)),
            ]
        )
    means = [_mean(ways[way]) for way in shown]
    note = "; ".join(f"{who} {value:g}% exact match" for who, value in exact(task).items())
    if task in AUPRC:
        note += f"; C-HMCNN's repository: AU(PRC) {AUPRC[task]}"
    columns = (
        "way to predict", "exact match, %", "against decoding", "Hamming, %", "Jaccard, %",
        "AU(PRC)", "valid, %", "log P, nats", "ms an epoch", "chosen", "seeds",
    )  # fmt: skip
    rows = len(ways[shown[0]][0]["right"])
    lead = f"{rows:,} test rows." + (f" Published: {note}." if note else "")
    return Table(task, columns, lines, lead=lead, best=frozenset({(means.index(max(means)), 1)}))


def _setting(row: Mapping[str, Any]) -> str:
    setting = row["setting"]
    told = [setting["trunk"], f"rate {setting['rate']:g}"]
    if setting["dropout"] is not None:
        told.append(f"dropout {setting['dropout']:g}")
    if setting["components"] > 1:
        told.append(f"K = {setting['components']}")
    if row["method"] == "semantic loss":
        told.append(f"weight {setting['semantic']:g}")
    return ", ".join([*told, f"{row['epochs']} epochs"])


def _spread(rows: Rows, name: str, digits: int = 1) -> str:
    values = [float(row[name]) for row in rows if row.get(name) is not None]
    if not values:
        return ""
    half = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{mean(values):.{digits}f}{half}"


def _paired(rows: Rows, base: Rows) -> str:
    """The difference of exact match, and how many standard errors it is.

    The units are test rows where all seeds share them: each has the mean over seeds of (right -
    right of decoding). Else the units are seeds.
    """
    theirs = {row["seed"]: row for row in base}
    pairs = [(row, theirs[row["seed"]]) for row in rows if row["seed"] in theirs]
    if len(pairs) < 2:
        return ""
    gaps = np.array([[_right(a) - _right(b)] for a, b in pairs])[:, 0]  # (seeds, rows)
    units = gaps.mean(1) if rows[0]["task"] in TEST_BY_SEED else gaps.mean(0)
    error = float(units.std(ddof=1)) / math.sqrt(len(units))
    gap = 100 * float(gaps.mean())
    return f"{gap:+.1f} (z = {float(gaps.mean()) / error:.1f})" if error else f"{gap:+.1f}"


def _right(row: Mapping[str, Any]) -> np.ndarray:
    return np.frombuffer(row["right"].encode(), np.uint8).astype(float) - ord("0")
