"""From a CSV file to new rows, and a picture of pair frequencies before and after.

    python examples/new_rows.py docs/tables.png

Left: new rows of a model without rules and pairs. Right: rules found in the table and pairs chosen
by held-out rows. Each point is a pair of values of two columns; on the line, the pair is as
frequent in new rows as in the table.
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


def write_csv(path: Path, n: int = 5000) -> None:
    """A table of subscriptions: basic plans have one seat, and pro plans are mostly yearly."""
    rng = np.random.default_rng(0)
    plan = rng.choice(["basic", "plus", "pro"], n, p=[0.6, 0.3, 0.1])
    country = rng.choice(["AT", "CH", "DE"], n, p=[0.2, 0.1, 0.7])
    currency = np.where(country == "CH", "CHF", "EUR")
    seats = np.where(plan == "basic", 1, rng.integers(1, 6, n))
    yearly = rng.random(n) < np.where(plan == "pro", 0.9, np.where(country == "CH", 0.6, 0.25))
    columns = {"plan": plan, "seats": seats, "yearly": yearly}
    pd.DataFrame({**columns, "country": country, "currency": currency}).to_csv(path, index=False)


def pair_frequencies(frame: pd.DataFrame, known: pd.DataFrame) -> np.ndarray:
    """The share of each pair of values of `known`, in the same order for all frames."""
    values = {name: known[name].unique() for name in known}
    found = []
    for a, b in itertools.combinations(known.columns, 2):
        for x, y in itertools.product(values[a], values[b]):
            found.append(((frame[a] == x) & (frame[b] == y)).mean())
    return np.array(found)


def main(picture: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_csv(Path(folder) / "plans.csv")
        frame = pd.read_csv(Path(folder) / "plans.csv")
    space = nelson.Space.from_frame(frame, rules=True)
    for requirement in space.rules:
        print(requirement.name)
    model = space.learn(frame, seed=0)
    plain = nelson.Space.from_frame(frame).learn(frame, pairs=None, seed=0)
    figure, axes = plt.subplots(1, 2, figsize=(9, 4.4), sharey=True, layout="constrained")
    before = pair_frequencies(frame, frame)
    titles = ("before: columns alone", "after: rules and pairs")
    for axis, law, title in zip(axes, (plain, model), titles, strict=True):
        after = pair_frequencies(law.sample(50_000, seed=1), frame)
        axis.plot([0, before.max()], [0, before.max()], color="#767676", lw=0.8)
        axis.plot(before, after, "o", ms=4, color="#0072b2")
        axis.set(xlabel="share of a pair of values in the table", title=title)
        print(f"{title}: largest difference {np.abs(before - after).max():.3f}")
    axes[0].set_ylabel("share in new rows")
    figure.savefig(picture, dpi=110)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "tables.png")
