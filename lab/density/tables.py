"""Tables and the plot of `nelson bench density`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from statistics import stdev
from typing import TYPE_CHECKING, Any

from lab.density.published import NOT_FOUND, PUBLISHED, TOLD_RULES
from nelson_paper.experiments.base import OK, Rows, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: What each model is.
WORDS = {
    "fields": "values of fields; no rules but the groups",
    "rules": "values of fields, over rows that obey the rules",
    "tree": "besides, the pairs of a Chow-Liu tree",
    "pairs": "besides, pairs chosen by validation rows",
    "all pairs": "all pairs of fields, stopped by validation rows",
    "game": "uniform over the positions that the game allows",
    "game + cells": "besides, a weight for each stone on each cell",
    "game + pairs": "besides, a weight for each pair of stones",
}


def tables(rows: Rows) -> list[Table]:
    models = over_seeds([row for row in rows if row.get("row", "model") == "model"])
    found = [_scores(models), _details(models), _rankings(models), _best(models), _rules(rows)]
    return [table for table in found if table.rows]


def over_seeds(models: Rows) -> list[dict[str, Any]]:
    """One row for each model of each set: means over the seeds that ended well.

    seeds    how many
    spread   half the difference between the best and the worst score
    noise    the standard error of the mean over seeds
    The other values are those of the first seed.
    """
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in models:
        groups.setdefault((str(row["set"]), str(row["model"])), []).append(row)
    found = []
    for group in groups.values():
        good = [row for row in group if row["status"] == OK]
        one: dict[str, Any] = dict(good[0] if good else group[0])
        if good:
            scores = [float(row["score"]) for row in good]
            for name in ("score", "error", "seconds_taken", "log_z_error", "numbers"):
                one[name] = sum(float(row[name]) for row in good) / len(good)
            one["numbers"] = round(one["numbers"])
            one["spread"] = (max(scores) - min(scores)) / 2
            one["noise"] = stdev(scores) / math.sqrt(len(scores)) if len(scores) > 1 else 0.0
            one["valid"] = min(float(row["valid"]) for row in good)
        found.append({**one, "seeds": len(good)})
    return found


def _ranked(row: Mapping[str, Any]) -> bool:
    return row.get("set") == "sushi"


def _score(row: Mapping[str, Any]) -> str:
    if row["status"] != OK:
        return str(row["status"])
    return f"{row['score']:.2f} ± {row['error']:.2f}"


def _seeds(row: Mapping[str, Any]) -> str:
    if row["status"] != OK:
        return ""
    return f"{row['seeds']}, ± {row['spread']:.2f}" if row["seeds"] > 1 else "1"


def verdict(name: str, row: Mapping[str, Any]) -> str:
    """ "wins by 0.62", "loses by 0.05" or "level" against the first published figure, the best one.

    Level: within two standard errors of the score. Published figures have errors too, which are
    not known. No win: of a model that was told rules, and of one that is scored on the rows which
    chose its pairs.
    """
    if name not in PUBLISHED or row["status"] != OK or not math.isfinite(row["score"]):
        return ""
    who, figure = PUBLISHED[name][0]
    if str(row.get("model", "")).startswith(TOLD_RULES):
        return "not compared: it was told rules"
    gap = row["score"] - figure
    noise = 2 * math.hypot(row["error"], row.get("noise", 0.0)) + row["log_z_error"]
    if abs(gap) <= noise:
        return f"level with {who} ({gap:+.2f})"
    if gap > 0 and row.get("part", "test") != "test":
        return "not compared: the rows that score it chose it"
    return f"{'wins' if gap > 0 else 'loses'} by {abs(gap):.2f} against {who}"


def _scores(models: Rows) -> Table:
    lines = []
    for row in models:
        if _ranked(row):
            continue
        name = str(row["set"])
        figures = PUBLISHED.get(name, [])
        told = ", ".join(f"{figure:g} ({who})" for who, figure in figures) or NOT_FOUND
        part = "" if row.get("part") == "test" else f" ({row.get('part', '?')} rows)"
        line = [name + part, str(row["model"]), _score(row), _seeds(row)]
        lines.append([*line, told, verdict(name, row)])
    columns = ("set", "model", "log-likelihood, nats", "seeds", "published", "verdict")
    models_told = "; ".join(f"`{name}`: {words}" for name, words in WORDS.items())
    note = (
        "Mean over the test rows with its standard error. Seeds: how many, and half the difference "
        "between the best and the worst; models that do not depend on a seed have one. A set "
        "without a test part is scored on its validation rows, which also chose the pairs: that "
        "figure flatters. A verdict is about "
        f"the first published figure; level: within two standard errors. {models_told}."
    )
    return Table("Log-likelihood of held-out rows", columns, lines, note)


def _details(models: Rows) -> Table:
    lines = []
    for row in models:
        if _ranked(row) or row["status"] != OK:
            continue
        exact = row["guarantee"] == "exact" and not row["log_z_error"]
        log_z = "exact" if exact else f"± {row['log_z_error']:.3f}"
        lines.append(
            [
                str(row["set"]),
                str(row["model"]),
                "" if row.get("fields") is None else f"{row['fields']}",
                "" if row.get("rules") is None else f"{row['rules']}",
                f"{row['numbers']:,}",
                log_z,
                f"{row['valid']:.0%}",
                f"{row['broken']} of {row['rows']:,}",
                f"{row['slack']:.2%}",
                f"{row['seconds_taken']:.0f} s",
            ]
        )
    columns = (
        "set", "model", "fields", "rules", "numbers learned", "log Z", "drawn rows that are valid",
        "held-out rows that break a rule", "slack", "time",
    )  # fmt: skip
    note = (
        "Held-out rows that break a rule are scored by the rule-free part of a mixture, whose "
        "share is the slack; rows are drawn from the part with rules."
    )
    return Table("What was learned, and how long it took", columns, lines, note)


def _rankings(models: Rows) -> Table:
    lines = [
        [
            str(row["model"]),
            _score(row),
            _seeds(row),
            f"{row['numbers']}",
            f"{row['seconds_taken']:.1f} s",
        ]
        for row in models
        if _ranked(row) and row["status"] == OK
    ]
    columns = ("law", "log-likelihood of held-out rankings", "seeds", "numbers learned", "time")
    note = (
        "70% of the rankings to train, 20% to test, the same for all laws; each seed is another "
        "split. log Z is exact: a pass "
        "over a circuit, which is the dynamic programme over sets of items."
    )
    return Table("Sushi: rankings of ten items", columns, lines, note)


def _best(models: Rows) -> Table:
    lines = [[str(row["model"]), row["best"]] for row in models if row.get("best")]
    note = (
        "Names as in the file. They seem to be shifted: its numbers fit those of the original data "
        "(Kamishima), which count from 0, if 10 stands for 0. Then the first item is fatty tuna, "
        "the last one cucumber roll."
    )
    return Table("The most likely ranking", ("law", "ranking"), lines, note)


def _rules(rows: Rows) -> Table:
    lines = [[str(row["set"]), str(row["rule"])] for row in rows if row.get("row") == "rule"]
    note = (
        "The first five groups and the five rules with the strongest evidence. "
        "All: `python -m lab density-rules`"
    )
    return Table("Rules that were found", ("set", "rule"), lines, note)


def plots(rows: Rows) -> dict[str, Callable[[Axes], None]]:
    scored = [
        row for row in over_seeds([row for row in rows if row.get("row") == "model"])
        if row["status"] == OK and row["set"] in PUBLISHED
        and math.isfinite(row["score"])
    ]  # fmt: skip
    return {"scores": lambda ax: _plot(ax, scored)} if scored else {}


def _plot(ax: Axes, rows: Rows) -> None:
    """For each model, its distance from the first published figure."""
    sets = list(dict.fromkeys(row["set"] for row in rows))
    for row in rows:
        gap = row["score"] - PUBLISHED[row["set"]][0][1]
        ax.errorbar(gap, sets.index(row["set"]), xerr=2 * row["error"], fmt="o", color="#0072b2")
        ax.annotate(
            str(row["model"]), (gap, sets.index(row["set"])), (0, 6),
            textcoords="offset points", fontsize=7, rotation=35,
        )  # fmt: skip
    ax.axvline(0.0, color="#767676", lw=1)
    ax.set_yticks(range(len(sets)), sets)
    ax.set_ylim(-0.5, len(sets) - 0.2)
    ax.set_xscale("symlog", linthresh=0.5)
    ax.set(
        xlabel="nats above the published figure (right is better)",
        title="Held-out log-likelihood against published figures",
    )
