"""Test rows for a bus: a small table with every legal pair of values, then random rows.

For test engineers. The fields and rules are in bus.toml. Every row is legal; of the random rows,
60% are FIXED, 30% INCR and 10% WRAP bursts, and nothing else is assumed about them.

    python examples/bus_tests.py [cover.csv random.csv]
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import nelson


def write(path: str, rows: nelson.space.Rows) -> None:
    with open(path, "w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(rows.columns)
        lines.writerows(zip(*(rows[name].tolist() for name in rows.columns), strict=True))


def main(cover_file: str = "cover.csv", random_file: str = "random.csv") -> None:
    space = nelson.Space.load(Path(__file__).parent / "bus.toml")
    print(f"{space.count():,} legal rows")
    cover = space.cover(2, {"addr": 8}, seed=0)  # addr has too many values: 8 ranges of it
    print(f"{len(cover)} rows have all {cover.info['legal']} legal pairs of values")
    write(cover_file, cover)
    shares = {"burst": {"FIXED": 0.6, "INCR": 0.3, "WRAP": 0.1}}
    rows = space.sample(10_000, shares=shares, seed=0)
    print(f"{len(rows):,} random rows, {rows.guarantee}; shares: {rows.info['shares']}")
    write(random_file, rows)


if __name__ == "__main__":
    main(*sys.argv[1:3])
