"""Rows like those of a table, by the estimator that scikit-learn knows: fit, sample, score.

For people who work with tables. A rule that must hold is stated; all else is learned. The score
is the mean log-probability of rows that were not in the fit. A model without pairs of columns has
a lower one.

    python examples/subscriptions.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pandas as pd
from new_rows import write_csv

import nelson


def main() -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as folder:
        write_csv(Path(folder) / "plans.csv")
        frame = pd.read_csv(Path(folder) / "plans.csv")
    train, test = frame[:4000], frame[4000:]
    space = nelson.Space.from_frame(frame)
    space.require("implies(plan == 'basic', seats == 1)")
    scores = []
    for pairs in (None, "auto"):
        estimator = nelson.TableEstimator(space, pairs=pairs, random_state=0).fit(train)
        scores.append(estimator.score(test))
        print(f"pairs={pairs}: {scores[-1]:.3f} nats a row")
    rows = estimator.sample(1000)
    print(f"{len(rows):,} new rows; basic plans have {rows.seats[rows.plan == 'basic'].max()} seat")
    return scores[0], scores[1]


if __name__ == "__main__":
    main()
