"""The picture of docs/prediction.md: exact match of each way, beside constrained decoding."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from lab.prediction import NAMES
from lab.prediction.published import exact
from nelson.io import atomic
from nelson_paper import style

#: (method, colour, mark), from the top of a row to its bottom.
WAYS = (
    ("max-constraint", style.GREY, "s"), ("semantic loss", style.RED, "v"),
    ("contrastive", "#2E93C9", "^"), ("likelihood", style.BLUE, "o"), ("mixture", "#00855F", "D"),
)  # fmt: skip
_PREDICTOR = {"max-constraint": "threshold"}


def draw(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """rows: those of `python -m lab prediction`."""
    scores: dict[tuple[str, str, str], list[float]] = {}
    for row in rows:
        if row["kind"] == "final":
            key = row["task"], row["method"], row["predictor"]
            scores.setdefault(key, []).append(row["exact"])
    import matplotlib.pyplot as plt

    with style.style():
        figure, axes = plt.subplots(figsize=(7.5, 6.5), layout="constrained")
        for place, task in enumerate(NAMES):
            base = mean(scores[task, "network", "mode"])
            for k, (method, colour, mark) in enumerate(WAYS):
                values = scores.get((task, method, _PREDICTOR.get(method, "mode")))
                if values:
                    axes.errorbar(
                        mean(values) - base, place + (k - 2) * 0.14, xerr=stdev(values), fmt=mark,
                        color=colour, ms=4, lw=1, label=method if place == 0 else None,
                    )  # fmt: skip
            if (spl := exact(task).get("SPL")) is not None:
                axes.plot(
                    spl - base, place, "k|", ms=14, mew=1.5,
                    label="SPL, as published" if place == 0 else None,
                )  # fmt: skip
        axes.axvline(0, color=style.GREY, lw=0.8)
        axes.set_yticks(range(len(NAMES)), NAMES)
        axes.invert_yaxis()
        axes.set_xlabel("exact match, % points above the same network with constrained decoding")
        axes.grid(axis="x", alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, loc="upper right")
        with atomic.writing(path) as out:
            figure.savefig(out, format="svg", metadata={"Date": None})
        plt.close(figure)
