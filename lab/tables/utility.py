"""What rows are good for: boosting learned from new rows, scored on real ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from nelson.space.tables.comparison import Encoded


def utility(train: Encoded, test: Encoded, target: str, seed: int = 0) -> float | None:
    """F1 (macro) of a class, or R^2 of a number, on `test`, of boosting learned from `train`."""
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
        from sklearn.metrics import f1_score, r2_score
        from threadpoolctl import threadpool_limits
    except ImportError:
        return None
    k = train.names.index(target)
    rest = np.arange(len(train.names)) != k
    x, y = train.numbers[:, rest], train.numbers[:, k]
    keep = ~np.isnan(y)
    known = ~np.isnan(test.numbers[:, k])
    wanted = test.numbers[known][:, k]
    if train.numeric[k]:
        judge: Any = HistGradientBoostingRegressor(max_iter=100, random_state=seed)
        with threadpool_limits(1):
            judge.fit(x[keep], y[keep])
        return float(r2_score(wanted, judge.predict(test.numbers[known][:, rest])))
    if len(np.unique(y[keep])) < 2:
        return 0.0
    judge = HistGradientBoostingClassifier(max_iter=100, random_state=seed)
    with threadpool_limits(1):
        judge.fit(x[keep], y[keep])
    found = judge.predict(test.numbers[known][:, rest])
    return float(f1_score(wanted, found, average="macro"))
