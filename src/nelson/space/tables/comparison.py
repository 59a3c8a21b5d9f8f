"""A new table against a real one, in the measures of the field.

    one_way, two_way   total variation between the shares of values, and of pairs of values: means
                       over (pairs of) columns. Numbers are cut at the quantiles of the real table
    correlation        mean difference of the correlations of pairs of numbers
    detection          area under the curve of a classifier that tells new rows from real ones, by
                       cross-validation: 0.5 is best
    copies             share of new rows that are in the training table
    closer             share of new rows that are closer to a training row than to each row of a
                       held-out table of the same size: 0.5 if nothing was memorised

Detection needs scikit-learn. No measure looks at columns of ids and texts.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from nelson.space.rows import as_numbers
from nelson.space.tables.recognise import NUMERIC, recognise

#: Ranges of a number whose shares are compared, and values of a choice (the others are one).
RANGES, VALUES = 20, 50
#: Rows of each table that are looked at for distances of rows, and for detection.
CLOSE_ROWS, TOLD_ROWS = 1000, 20_000


@dataclass(frozen=True)
class Encoded:
    """A table as numbers (NaN: missing) and as codes; `numeric` says which columns are numbers."""

    names: tuple[str, ...]
    numeric: np.ndarray
    numbers: np.ndarray  # (rows, columns): numbers, or codes of values
    codes: np.ndarray  # (rows, columns) int64: ranges, or codes of values


class Measures:
    """How tables with the columns of a real one are encoded."""

    def __init__(self, real: Any, leave_out: Sequence[str] = ()) -> None:
        self.names, self._numeric, self._edges, self._values = [], [], {}, {}
        for name in real.columns:
            kind = recognise(real[name], name).kind
            if kind in ("id", "text") or name in leave_out:
                continue
            self.names.append(name)
            numeric = kind in NUMERIC and real[name].nunique() > 2
            self._numeric.append(numeric)
            if numeric:
                values = as_numbers(real[name])
                inner = np.quantile(values[~np.isnan(values)], np.arange(1, RANGES) / RANGES)
                self._edges[name] = np.unique(inner)
            else:
                common = real[name].astype(str).where(real[name].notna(), "").value_counts()
                self._values[name] = {v: k for k, v in enumerate(common.index[:VALUES])}

    def encoded(self, table: Any) -> Encoded:
        numbers, codes = [], []
        for name, numeric in zip(self.names, self._numeric, strict=True):
            if numeric:
                value = as_numbers(table[name])
                code = np.searchsorted(self._edges[name], value, side="right")
                code[np.isnan(value)] = len(self._edges[name]) + 1
            else:
                shown = table[name].astype(str).where(table[name].notna(), "")
                known = self._values[name]
                code = np.array([known.get(v, len(known)) for v in shown.tolist()], np.int64)
                value = code.astype(float)
            numbers.append(value)
            codes.append(code)
        names, numeric = tuple(self.names), np.array(self._numeric, bool)
        return Encoded(names, numeric, np.column_stack(numbers), np.column_stack(codes))


@dataclass(frozen=True)
class Comparison:
    """The measures. None: it was not asked for, or its column or its package is missing."""

    rows: int
    one_way: float
    two_way: float
    correlation: float | None
    detection: float | None
    copies: float | None = None
    closer: float | None = None

    def __str__(self) -> str:
        said = {
            "one_way": "distance of values (total variation, mean of columns)",
            "two_way": "distance of pairs of values",
            "correlation": "difference of correlations of numbers",
            "detection": "AUC of a classifier, real against new (0.5 is best)",
            "copies": "new rows that are rows of the training table",
            "closer": "new rows closer to a training row than to held-out rows (0.5 is best)",
        }
        shown = {name: value for name, value in asdict(self).items() if name in said}
        return "\n".join(
            f"{name:12} {value:.4f}  {said[name]}"
            for name, value in shown.items()
            if value is not None
        )


def compare(
    real: Any, new: Any, train: Any = None, *, detect: bool = True, seed: int = 0
) -> Comparison:
    """real: rows that no model has seen; new: rows of a model; train: what it was learned from."""
    how = Measures(real)
    a, b = how.encoded(real), how.encoded(new)
    copies = closer = None
    if train is not None:
        t = how.encoded(train)
        copies = _copies(t, b)
        closer = _closer(t, a, b, seed)
    return Comparison(
        len(new),
        one_way(a, b),
        two_way(a, b),
        correlation(a, b),
        detection(a, b, seed) if detect else None,
        copies,
        closer,
    )


def _shares(codes: np.ndarray, size: int) -> np.ndarray:
    return np.bincount(codes, minlength=size) / len(codes)


def one_way(a: Encoded, b: Encoded) -> float:
    found = []
    for k in range(len(a.names)):
        size = int(max(a.codes[:, k].max(), b.codes[:, k].max())) + 1
        found.append(np.abs(_shares(a.codes[:, k], size) - _shares(b.codes[:, k], size)).sum() / 2)
    return float(np.mean(found))


def two_way(a: Encoded, b: Encoded) -> float:
    sizes = np.maximum(a.codes.max(axis=0), b.codes.max(axis=0)) + 1
    found = []
    for i, j in itertools.combinations(range(len(a.names)), 2):
        size = int(sizes[i] * sizes[j])
        p, q = (_shares(x.codes[:, i] * sizes[j] + x.codes[:, j], size) for x in (a, b))
        found.append(np.abs(p - q).sum() / 2)
    return float(np.mean(found)) if found else 0.0


def correlation(a: Encoded, b: Encoded) -> float | None:
    """Over rows in which both numbers are known."""
    found = []
    for i, j in itertools.combinations(np.flatnonzero(a.numeric), 2):
        each = []
        for table in (a, b):
            x = table.numbers[:, [i, j]]
            x = x[~np.isnan(x).any(axis=1)]
            spread = x.std(axis=0).min() if len(x) > 2 else 0.0
            each.append(float(np.corrcoef(x.T)[0, 1]) if spread > 0 else 0.0)
        found.append(abs(each[0] - each[1]))
    return float(np.mean(found)) if found else None


def detection(a: Encoded, b: Encoded, seed: int = 0) -> float | None:
    """Gradient boosting, three folds; equally many rows of both."""
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier
        from sklearn.model_selection import cross_val_score
        from threadpoolctl import threadpool_limits
    except ImportError:
        return None
    n = min(len(a.codes), len(b.codes), TOLD_ROWS)
    rng = np.random.default_rng(seed)
    x = np.concatenate([_some(table.numbers, n, rng) for table in (a, b)])
    y = np.repeat([0, 1], n)
    judge = HistGradientBoostingClassifier(max_iter=60, random_state=seed, early_stopping=False)
    order = rng.permutation(2 * n)
    with threadpool_limits(1):  # its threads wait for each other on a busy machine
        scores = cross_val_score(judge, x[order], y[order], cv=3, scoring="roc_auc")
    return float(scores.mean())


def _some(x: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    return x if len(x) <= n else x[rng.choice(len(x), n, replace=False)]


def _copies(train: Encoded, new: Encoded) -> float:
    seen = {row.tobytes() for row in np.nan_to_num(train.numbers, nan=np.inf)}
    rows = np.nan_to_num(new.numbers, nan=np.inf)
    return float(np.mean([row.tobytes() in seen for row in rows]))


def _closer(train: Encoded, held: Encoded, new: Encoded, seed: int) -> float:
    """Gower's distance: numbers by the share of the training rows between them, values 0 or 1."""
    rng = np.random.default_rng(seed)
    m = min(len(train.codes), len(held.codes))
    ordered = [np.sort(train.numbers[:, k]) for k in range(len(train.names))]

    def scaled(table: Encoded) -> np.ndarray:
        out = np.array(table.numbers)
        for k in np.flatnonzero(table.numeric):
            known = ordered[k][~np.isnan(ordered[k])]
            out[:, k] = np.searchsorted(known, table.numbers[:, k]) / max(1, len(known))
            out[np.isnan(table.numbers[:, k]), k] = 2.0
        return out

    rows = _some(scaled(new), CLOSE_ROWS, rng)
    sides = [_some(scaled(table), m, rng) for table in (train, held)]
    nearest = []
    for side in sides:
        best = np.full(len(rows), np.inf)
        for k, row in enumerate(rows):
            gap = np.abs(side - row)
            best[k] = np.where(train.numeric, gap.clip(0, 1), gap > 0).sum(axis=1).min()
        nearest.append(best)
    return float(np.mean(nearest[0] < nearest[1]) + 0.5 * np.mean(nearest[0] == nearest[1]))
