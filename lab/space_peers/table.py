"""A table of ten columns with about five categories each and six rules, drawn from a known law.

A value is drawn for one column after the other, given one or two earlier columns, by tables of
probabilities that a fixed seed chose. Rows that break a rule are dropped. So

    P(row) = product of the conditional probabilities * [the row is legal] / Z.

Z is the sum over all 5.4 million rows. Values are numbers here; `named` gives them the names that
learners see.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations

import numpy as np

COLUMNS = {
    "region": 5,
    "plan": 4,
    "device": 5,
    "os": 5,
    "age": 6,
    "income": 6,
    "channel": 5,
    "payment": 4,
    "support": 3,
    "status": 5,
}
NAMES = tuple(COLUMNS)
#: The columns that the law of each column depends on.
PARENTS = {
    "region": (),
    "plan": ("region",),
    "device": ("plan",),
    "os": ("device",),
    "age": ("region",),
    "income": ("age", "plan"),
    "channel": ("age",),
    "payment": ("plan", "income"),
    "support": ("plan",),
    "status": ("support", "channel"),
}
SEED = 16
#: The smaller, the further the conditional probabilities are from equal.
CONCENTRATION = 1.0
TRAIN = TEST = 10_000


def name(column: str, value: int) -> str:
    return f"{column}_{value}"


def legal(rows: np.ndarray) -> np.ndarray:
    """The six rules. Age and income are ordered; all other categories are not."""
    x = dict(zip(NAMES, rows.T, strict=True))
    ranges = ((rows >= 0) & (rows < list(COLUMNS.values()))).all(axis=1)
    return (
        ranges
        & ~((x["device"] == 0) & (x["os"] > 1))
        & ~((x["device"] == 3) & (x["os"] < 2))
        & (x["income"] <= x["age"] + 2)
        & ~((x["plan"] == 3) & (x["payment"] == 0))
        & ~((x["support"] == 2) & (x["plan"] < 2))
        & ~((x["region"] == 4) & (x["channel"] > 2) & (x["status"] == 0))
    )


@cache
def conditionals() -> dict[str, np.ndarray]:
    """For each column its probabilities, given the values of its parents."""
    rng = np.random.default_rng(SEED)
    return {
        column: rng.dirichlet(
            np.full(size, CONCENTRATION), [COLUMNS[parent] for parent in PARENTS[column]]
        )
        for column, size in COLUMNS.items()
    }


def draw(n: int, rng: np.random.Generator) -> np.ndarray:
    """n legal rows of the law, by rejection."""
    blocks: list[np.ndarray] = []
    while sum(map(len, blocks)) < n:
        x: dict[str, np.ndarray] = {}
        for column, law in conditionals().items():
            sums = law.cumsum(axis=-1)[tuple(x[parent] for parent in PARENTS[column])]
            sums = np.broadcast_to(sums, (n, COLUMNS[column]))
            x[column] = (rng.random(n)[:, None] > sums[:, :-1]).sum(axis=1)
        rows = np.stack([x[column] for column in NAMES], axis=1)
        blocks.append(rows[legal(rows)])
    return np.concatenate(blocks)[:n]


@cache
def train_and_test() -> tuple[np.ndarray, np.ndarray]:
    rows = draw(TRAIN + TEST, np.random.default_rng(SEED + 1))
    return rows[:TRAIN], rows[TRAIN:]


def log_prob(rows: np.ndarray) -> np.ndarray:
    """The exact log-probability of legal rows."""
    x = dict(zip(NAMES, rows.T, strict=True))
    total = np.zeros(len(rows))
    for column, law in conditionals().items():
        total += np.log(law[(*(x[parent] for parent in PARENTS[column]), x[column])])
    return total - log_z()


@cache
def log_z() -> float:
    """log Z by a sum over all rows, for one value of the first column at a time."""
    total = 0.0
    sizes = list(COLUMNS.values())
    for first in range(sizes[0]):
        grid = np.indices((1, *sizes[1:]), dtype=np.int8).reshape(len(sizes), -1)
        grid[0] = first
        rows = grid.T[legal(grid.T)]
        x = dict(zip(NAMES, rows.T, strict=True))
        weights = np.ones(len(rows))
        for column, law in conditionals().items():
            weights *= law[(*(x[parent] for parent in PARENTS[column]), x[column])]
        total += weights.sum()
    return float(np.log(total))


def two_way_distance(rows: np.ndarray, other: np.ndarray) -> float:
    """Total-variation distance of the shares of two columns, mean over all pairs of columns."""
    distances = []
    for i, j in combinations(range(len(NAMES)), 2):
        size = COLUMNS[NAMES[i]] * COLUMNS[NAMES[j]]
        shares = [
            np.bincount(x[:, i] * COLUMNS[NAMES[j]] + x[:, j], minlength=size) / len(x)
            for x in (rows, other)
        ]
        distances.append(0.5 * np.abs(shares[0] - shares[1]).sum())
    return float(np.mean(distances))
