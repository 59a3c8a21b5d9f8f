"""Tables that are empty, short, wide, long or odd: each has a clear answer."""

from __future__ import annotations

import datetime
import decimal
import tracemalloc

import numpy as np
import pandas as pd
import pytest

import nelson
from nelson.errors import FormulaError

pytestmark = pytest.mark.slow


def fitted(frame, **options):
    return nelson.TableEstimator(random_state=0, **options).fit(frame)


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (pd.DataFrame(), "without columns"),
        (pd.DataFrame({"a": []}), "without rows"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "two columns with the name 'a'"),
        (pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", 1), ("b", 2)])), "levels"),
        (pd.DataFrame({"a": [f"k{k}" for k in range(99)]}), r"to learn from: a \(id\)"),
        (pd.DataFrame({"a": [1.0, np.inf, 2.0]}), "infinite numbers in the column 'a'"),
        ("rows.xlsx", "a table in rows.xlsx"),
    ],
    ids=["nothing", "no rows", "twice", "levels", "keys", "infinite", "format"],
)
def test_what_cannot_be_learned_is_said(frame, said):
    with pytest.raises(FormulaError, match=said):
        fitted(frame)


def test_files_that_hold_no_table(tmp_path):
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "torn.csv").write_text('a,b\n1,2\n3,"4')
    (tmp_path / "torn.parquet").write_bytes(b"PAR1 and then nothing")
    with pytest.raises(FormulaError, match=r"empty.csv: an empty file"):
        fitted(tmp_path / "empty.csv")
    for name in ("torn.csv", "torn.parquet"):
        with pytest.raises(FormulaError, match=rf"{name}: no table can be read"):
            fitted(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        fitted(tmp_path / "nothing.csv")


def test_one_row_is_its_own_law():
    frame = pd.DataFrame({"a": [3], "b": ["x"], "c": [2.5], "d": pd.to_datetime(["2024-02-29"])})
    drawn = fitted(frame).sample(3, random_state=0)
    assert (
        drawn.dtypes.equals(frame.dtypes)
        and (drawn == frame.iloc[[0, 0, 0]].reset_index(drop=True)).all().all()
    )


def test_constant_columns_and_columns_without_a_value_stay_what_they_are():
    frame = pd.DataFrame(
        {"a": [1] * 60, "none": [None] * 60, "nan": np.nan, "b": [True, False] * 30}
    )
    made = fitted(frame)
    drawn = made.sample(40, random_state=0)
    assert drawn.dtypes.equals(frame.dtypes) and (drawn["a"] == 1).all()
    assert drawn[["none", "nan"]].isna().all().all() and drawn["b"].nunique() == 2
    assert made.columns_["none"].taken.kind == made.columns_["a"].taken.kind == "constant"
    missing = pd.DataFrame({"a": [np.nan] * 9, "b": [None] * 9})
    assert fitted(missing).sample(4, random_state=0).isna().all().all()


def odd(n: int = 300) -> pd.DataFrame:
    """A column of every type that pandas has for data."""
    rng = np.random.default_rng(0)
    seconds = pd.to_timedelta(rng.integers(0, 10**6, n), unit="s")
    day = datetime.date(2024, 1, 1)
    frame = pd.DataFrame(
        {
            "time": pd.to_datetime("2024-01-01") + seconds,
            "zone": (pd.to_datetime("2024-01-01", utc=True) + seconds).tz_convert("Europe/Vienna"),
            "took": pd.to_timedelta(rng.integers(0, 10**4, n), unit="min"),
            "day": [day + datetime.timedelta(days=int(k)) for k in rng.integers(0, 99, n)],
            "Int64": pd.array(rng.integers(0, 200, n), dtype="Int64"),
            "float32": rng.random(n).astype("float32"),
            "decimal": [decimal.Decimal(int(k)) / 4 for k in rng.integers(0, 99, n)],
            "boolean": pd.array(rng.random(n) < 0.3, dtype="boolean"),
            "category": pd.Categorical(rng.choice(list("abc"), n), ordered=True),
            "mixed": [1, "x", 2.5] * (n // 3),
            "words": [f"some words {k} and {rng.integers(10**9)}" for k in range(n)],
            "mail": [f"p{k}@x.org" for k in rng.permutation(n)],
            "int8": rng.integers(-5, 5, n).astype("int8"),
            "uint8": rng.integers(0, 200, n).astype("uint8"),
            "lists": [[k] for k in range(n)],
            17: rng.integers(0, 3, n),
        }
    )
    frame.loc[3:9, ["Int64", "time", "zone", "took", "category"]] = None
    frame.loc[30:39, ["boolean", "day", "decimal"]] = None
    return frame


def test_every_type_of_column_comes_back_as_it_was(tmp_path):
    frame = odd()
    made = fitted(frame)
    drawn = made.sample(600, random_state=0)
    assert drawn.dtypes.equals(frame.dtypes) and list(drawn.columns) == list(frame.columns)
    kinds = {c.name: c.taken.kind for c in made.columns_.columns}
    assert kinds["mail"] == "id" and kinds["words"] == kinds["lists"] == "text"
    assert kinds["mixed"] == "choice" and set(drawn["mixed"]) == {1, "x", 2.5}
    assert "of types float, int, str" in str(made.columns_)
    for name in ("day", "decimal", "zone"):
        first = type(frame[name].dropna().iloc[0])
        assert all(type(value) is first for value in drawn[name].dropna())
    quarters = drawn["decimal"].dropna() * 4
    assert all(value == int(value) for value in quarters)  # steps of 0.25
    for name in ("time", "zone", "took", "day", "Int64", "boolean"):
        share = frame[name].isna().mean()
        assert 0 < drawn[name].isna().mean() < share + 4 * np.sqrt(share / 600) + 0.02
    made.model_.save(tmp_path / "model")
    assert nelson.load(tmp_path / "model").sample(600, seed=0).equals(drawn)


def test_two_hundred_columns():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        rng.normal(size=(300, 200)).round(2), columns=[f"c{k}" for k in range(200)]
    )
    frame["c1"] = (frame["c0"] > 0).astype(int)
    made = fitted(frame)
    drawn = made.sample(50, random_state=0)
    assert drawn.shape == (50, 200)
    assert ((drawn["c0"] > 0) == drawn["c1"]).all()  # determined


def test_a_million_rows_in_bounded_memory_with_progress(capsys):
    """What is held besides the table and its codes is a few arrays of its length."""
    rng = np.random.default_rng(0)
    n = 10**6
    a = rng.integers(0, 4, n)
    frame = pd.DataFrame({"a": a, "b": rng.normal(a), "c": rng.integers(0, 3, n)})
    size = int(frame.memory_usage().sum())
    lines: list[str] = []
    tracemalloc.start()
    space = nelson.Space.from_frame(frame)
    model = space.learn(frame, seed=0, progress=lines.append)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20 * size
    assert model.pairs == [("a", "b")] and any("held-out" in line for line in lines)
    blocks = [len(block) for block in model.frames(200_000, seed=0, block=1 << 16)]
    assert sum(blocks) == 200_000 and max(blocks) == 1 << 16
