"""From a CSV file to new rows, and a picture of pair frequencies before and after.

    python examples/new_rows.py docs/tables.svg

Left: new rows of a model without rules and pairs. Right: rules suggested by the table and pairs
chosen by held-out rows. Each point is a pair of values of two columns; on the line, the pair is as
frequent in new rows as in the table. The band holds 19 of 20 pairs if only the finite numbers of
rows make a difference; the pair that is furthest outside has its name.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd

import nelson

matplotlib.use("Agg")
from matplotlib import pyplot as plt

ROWS, NEW_ROWS = 5_000, 50_000


def write_csv(path: Path, n: int = ROWS) -> None:
    """A table of subscriptions: basic plans have one seat, and pro plans are mostly yearly."""
    rng = np.random.default_rng(0)
    plan = rng.choice(["basic", "plus", "pro"], n, p=[0.6, 0.3, 0.1])
    country = rng.choice(["AT", "CH", "DE"], n, p=[0.2, 0.1, 0.7])
    currency = np.where(country == "CH", "CHF", "EUR")
    seats = np.where(plan == "basic", 1, rng.integers(1, 6, n))
    yearly = rng.random(n) < np.where(plan == "pro", 0.9, np.where(country == "CH", 0.6, 0.25))
    columns = {"plan": plan, "seats": seats, "yearly": yearly}
    pd.DataFrame({**columns, "country": country, "currency": currency}).to_csv(path, index=False)


def pair_frequencies(frame: pd.DataFrame, known: pd.DataFrame) -> tuple[np.ndarray, list[str]]:
    """The share of each pair of values of `known`, in one order for all frames; their names."""
    values = {name: known[name].unique() for name in known}
    found, names = [], []
    for a, b in itertools.combinations(known.columns, 2):
        for x, y in itertools.product(values[a], values[b]):
            found.append(((frame[a] == x) & (frame[b] == y)).mean())
            names.append(f"{a} = {x}, {b} = {y}")
    return np.array(found), names


def noise(share: np.ndarray, rows: int, new_rows: int) -> np.ndarray:
    """Standard deviation of the difference of two shares of one law."""
    return np.sqrt(np.maximum(share * (1 - share), 1 / rows) * (1 / rows + 1 / new_rows))


def draw(axis: plt.Axes, before: np.ndarray, after: np.ndarray, names: list[str]) -> None:
    line = np.linspace(0, 1.05 * before.max(), 200)
    band = 2 * noise(line, ROWS, NEW_ROWS)
    axis.fill_between(line, line - band, line + band, color="#d9d9d9", lw=0, label="noise, ±2σ")
    axis.plot(line, line, color="#767676", lw=0.8)
    axis.plot(before, after, "o", ms=4, color="#0072b2")
    far = int(np.argmax(np.abs(after - before) / noise(before, ROWS, NEW_ROWS)))
    if abs(after[far] - before[far]) > 3 * noise(before, ROWS, NEW_ROWS)[far]:
        place = before[far], after[far]
        style = {"arrowstyle": "-", "color": "#d55e00"}
        axis.plot(*place, "o", ms=5, color="#d55e00")
        axis.annotate(
            names[far], place, (0.98, 0.06), textcoords="axes fraction", ha="right",
            color="#d55e00", arrowprops=style,
        )  # fmt: skip
    axis.legend(frameon=False, loc="upper left")
    axis.spines[["top", "right"]].set_visible(False)


def main(picture: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_csv(Path(folder) / "plans.csv")
        frame = pd.read_csv(Path(folder) / "plans.csv")
    found = nelson.Space.from_frame(frame, rules=True).suggestions
    space = nelson.Space.from_frame(frame, rules=[suggestion.rule for suggestion in found])
    for requirement in space.rules:
        print(requirement)
    model = space.learn(frame, seed=0)
    plain = nelson.Space.from_frame(frame).learn(frame, pairs=None, seed=0)
    figure, axes = plt.subplots(1, 2, figsize=(9, 4.4), sharey=True, layout="constrained")
    before, names = pair_frequencies(frame, frame)
    titles = ("before: columns alone", "after: rules and pairs")
    for axis, law, title in zip(axes, (plain, model), titles, strict=True):
        after, _ = pair_frequencies(law.sample(NEW_ROWS, seed=1), frame)
        draw(axis, before, after, names)
        axis.set(xlabel="share of a pair of values in the table", title=title)
        print(f"{title}: largest difference {np.abs(before - after).max():.3f}")
    axes[0].set_ylabel("share in new rows")
    figure.savefig(picture, dpi=110)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "tables.svg")
