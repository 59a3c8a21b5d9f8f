"""Pairs of ordered fields with few numbers: polynomials of scores instead of a free table."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from nelson.space import Space
from nelson.space.rows import table_codes
from nelson.space.tables import pair_search
from nelson.space.tables.fit import Prior, TableProblem, covariance, fit
from nelson.space.tables.learn import _potential
from nelson.space.tables.potential import FREE

NO_PRIOR = Prior(0.0, 0.0)


def numbers(n: int, seed: int, columns: int = 2, r: float = 0.6) -> pd.DataFrame:
    """Normal columns, each pair of correlation r; the first one has gaps."""
    rng = np.random.default_rng(seed)
    x = np.sqrt(1 - r) * rng.normal(size=(n, columns)) + np.sqrt(r) * rng.normal(size=(n, 1))
    frame = pd.DataFrame(x, columns=[f"x{k}" for k in range(columns)])
    frame.loc[rng.random(n) < 0.1, "x0"] = np.nan
    return frame


def fitted(frame, forms):
    space = Space.from_frame(frame, bins=5)
    codes = {name: np.asarray(c) for name, c in table_codes(space.fields, frame).items()}
    potential = _potential(space, codes, None)
    rows = potential.levels_of(codes)
    singles = fit(TableProblem.of(space, potential, 0), rows, len(frame), NO_PRIOR)
    problem = TableProblem.of(space, potential.with_pairs(forms), 0)
    return fit(problem, rows, len(frame), NO_PRIOR, singles), rows


def test_scores_are_orthonormal_and_missing_comes_first():
    made, rows = fitted(numbers(500, 0), {})
    for name, table in made.potential.scores.items():
        counts = np.bincount(rows[name], minlength=len(table)) + 0.5
        share = counts / counts.sum()
        whole = np.column_stack([np.ones(len(table)), table])
        assert whole.T @ (share[:, None] * whole) == pytest.approx(np.eye(whole.shape[1]), abs=1e-9)
    assert made.potential.scores["x0"].shape == (6, 3) and len(made.potential.scores["x1"]) == 5
    assert len(set(made.potential.scores["x0"][:5, 0].round(9))) == 1  # present or missing


@pytest.mark.parametrize("degree", [1, 2, FREE])
def test_the_fit_has_the_moments_of_its_numbers(degree):
    """At the maximum B^T (E[features] - shares of the data) is 0; theta is B w; rank of a table."""
    pair = ("x0", "x1")
    made, rows = fitted(numbers(400, 1), {pair: degree})
    potential = made.potential
    data = potential.vector(potential.counts(rows, potential.blocks)) / 400
    gap = potential.reduced(made.shares - data)
    assert np.abs(gap).max() < 2e-3
    assert potential.expanded(potential.numbers(made.theta)) == pytest.approx(made.theta, abs=1e-9)
    columns = {1: (2, 1), 2: (3, 2), FREE: (5, 4)}[degree]
    assert potential.freedom == 5 + 4 + columns[0] * columns[1]
    table = potential.tables(made.theta)[pair]
    centred = table - table.mean(0) - table.mean(1)[:, None] + table.mean()
    assert np.linalg.matrix_rank(centred, tol=1e-8) == columns[1]
    assert covariance(potential, rows).shape == (potential.freedom,) * 2
    free = np.abs(made.shares - data).max()
    assert (free < 2e-3) == (degree == FREE)  # fewer numbers leave the table itself free


def test_few_rows_keep_the_correlations_of_many_columns(monkeypatch):
    """200 rows of eight columns: free tables of 49 numbers a pair find few of the 28 correlations,
    one number a pair finds most. The twin without pairs has none.
    """
    train = numbers(200, 2, columns=8, r=0.5)
    pairs = list(itertools.combinations(range(8), 2))
    real = train.corr().to_numpy()

    def error(which):
        model = Space.from_frame(train).learn(train, which, seed=0)
        assert model.guarantee == "exact"
        new = model.sample(4000, seed=1).corr().to_numpy()
        return np.mean([abs(new[at] - real[at]) for at in pairs])

    few, none = error("auto"), error(None)
    monkeypatch.setattr(pair_search, "DEGREES", ())
    free = error("auto")
    assert few < 0.13 < 0.3 < min(free, none)


def test_noise_of_the_margins_is_no_dependence():
    """Independent columns, 300 tables of 4 x 3: G follows chi-square with 6 degrees of freedom, so
    its mean is 6 +- 1 (5 sigma). The twin counts the noise of both margins, too: 11.
    """
    rng, n, m = np.random.default_rng(7), 3000, 2000
    law = np.outer([0.1, 0.2, 0.3, 0.4], [0.2, 0.3, 0.5]).ravel()
    values, plain = [], []
    for _ in range(300):
        d, k = (rng.multinomial(size, law).reshape(4, 3).astype(float) for size in (n, m))
        ((g, freedom, _),) = pair_search._statistics(SimpleNamespace(scores={}), ("a", "b"), d, k)
        assert freedom == 6
        values.append(g / (1 + n / m))
        plain.append(2 * float((d * np.log(d / n / (k / m))).sum()) / (1 + n / m))
    assert abs(np.mean(values) - 6) < 1 < abs(np.mean(plain) - 6)
