"""The table of a new user: what each column becomes, against the law that made it.

Distances of distributions are Kolmogorov-Smirnov: at most 1.95 sqrt(1/n + 1/m) for two samples of
one law, with a false-alarm rate of 0.1% (a model of 5,000 rows counts as a sample of 5,000).
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

import nelson
from nelson.errors import FormulaError
from tests.space.tables.people import BANDS, people

pytestmark = pytest.mark.slow

ROWS, NEW = 5_000, 20_000
RULES = ["end - start <= 90", "implies(state == 'CA', income > 20000)"]


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    frame = people(ROWS)
    return frame[(frame["state"] != "CA") | (frame["income"] > 20_000)].reset_index(drop=True)


@pytest.fixture(scope="module")
def estimator(table):
    return nelson.TableEstimator(rules=RULES, random_state=0).fit(table)


@pytest.fixture(scope="module")
def drawn(estimator):
    return estimator.sample(NEW, random_state=1)


@pytest.fixture(scope="module")
def fresh():
    """Rows of the true law that the model has not seen."""
    frame = people(NEW, seed=1)
    return frame[(frame["state"] != "CA") | (frame["income"] > 20_000)]


def distance(one: pd.Series, other: pd.Series) -> float:
    a, b = (np.sort(x.dropna().to_numpy().astype(float)) for x in (one, other))
    at = np.concatenate([a, b])
    shares = (np.searchsorted(x, at, side="right") / len(x) for x in (a, b))
    return float(np.abs(np.subtract(*shares)).max())


def bound(*counts: int) -> float:
    return 1.95 * math.sqrt(sum(1 / n for n in counts))


def days(frame: pd.DataFrame) -> pd.Series:
    return (frame["end"] - frame["start"]).dt.total_seconds() / 86400


# --- the lines of the table -----------------------------------------------------------------------


def test_what_each_column_is_taken_for(estimator, table):
    assert {c.name: c.taken.kind for c in estimator.columns_.columns} == {
        "id": "id", "age": "number", "income": "number", "band": "choice", "state": "choice",
        "zip": "code", "marital": "choice", "children": "integer", "start": "date", "end": "date",
        "phone": "number",
    }  # fmt: skip
    said = str(estimator.columns_)
    assert "columns={'zip': 'number'}" in said and "difference to start" in said
    assert "determined by income" in said and "numbered anew" in said
    assert estimator.columns_["band"].notes and not estimator.columns_["marital"].notes


def test_new_rows_have_the_types_and_the_order_of_the_columns(drawn, table):
    assert drawn.dtypes.equals(table.dtypes) and list(drawn) == list(table) and len(drawn) == NEW


def test_codes_are_codes_of_the_table(drawn, table, fresh):
    assert drawn["zip"].isin(table["zip"]).all()
    seen, wanted = (f["zip"].value_counts(normalize=True) for f in (drawn, fresh))
    band = 4.5 * np.sqrt(wanted * (1 / ROWS + 2 / NEW))  # 60 codes: false alarms below 0.1%
    assert ((seen.reindex(wanted.index).fillna(0) - wanted).abs() < band + 1e-3).all()
    low, high = table["zip"].min(), table["zip"].max()
    twin = pd.Series(np.random.default_rng(0).integers(low, high + 1, NEW))
    assert twin.isin(table["zip"]).mean() < 0.1


def test_numbers_come_out_as_numbers_of_the_same_law(drawn, table, fresh):
    for name in ("income", "age", "phone"):
        assert distance(drawn[name], fresh[name]) < bound(ROWS, NEW, NEW)
    cents = drawn["income"] * 100
    assert np.abs(cents - cents.round()).max() < 1e-4  # steps of 0.01
    assert drawn["income"].nunique() > 0.9 * NEW and not drawn["income"].isin(table["income"]).all()
    # The twin: uniform between the least and the greatest income of each quarter of the rows.
    quarters = np.quantile(table["income"], [0, 0.25, 0.5, 0.75, 1])
    twin = np.interp(np.random.default_rng(0).random(NEW), np.arange(5) / 4, quarters)
    assert distance(pd.Series(twin), fresh["income"]) > bound(ROWS, NEW, NEW)


def test_rules_on_numbers_hold_in_every_row(estimator, drawn, table):
    assert (drawn.loc[drawn["state"] == "CA", "income"] > 20_000).all()
    known = drawn.dropna(subset=["end"])
    assert (known["end"] >= known["start"]).all() and days(known).max() <= 90
    assert days(known).max() == 90 and (days(known) == 0).any()
    assert estimator.space_.satisfied(drawn).all()
    # The twin: the same model without rules breaks them.
    twin = nelson.TableEstimator(columns={"end": "date"}, random_state=0).fit(table)
    assert (days(twin.sample(NEW, random_state=1)) < 0).any()


def test_missing_is_a_value_that_depends_on_others(estimator, drawn, table, fresh):
    for name in ("end", "phone"):
        for status in ("single", "married"):
            seen, wanted = (
                f.loc[f["marital"] == status, name].isna().mean() for f in (drawn, fresh)
            )
            assert abs(seen - wanted) < 4 * math.sqrt(0.21 * (3 / ROWS + 6 / NEW))
    single = drawn["marital"] == "single"
    gap = drawn.loc[single, "end"].isna().mean() - drawn.loc[~single, "end"].isna().mean()
    assert gap > 0.15  # the twin: independent gaps would have 0
    full = estimator.sample(2000, random_state=0, given="~phone.missing and ~end.missing")
    assert full["phone"].notna().all() and full["end"].notna().all()


def test_the_law_of_a_difference_is_kept(drawn, table, fresh):
    assert distance(days(drawn), days(fresh)) < bound(ROWS, NEW, NEW)
    assert distance(drawn["start"].astype("int64"), fresh["start"].astype("int64")) < bound(
        ROWS, NEW, NEW
    )
    twin = nelson.TableEstimator(columns={"end": "date"}, random_state=0).fit(table)
    assert distance(days(twin.sample(NEW, random_state=1)), days(fresh)) > bound(ROWS, NEW, NEW)


def test_ids_are_numbered_anew(drawn, table):
    assert drawn["id"].is_unique and not drawn["id"].isin(table["id"]).any()
    assert drawn["id"].iloc[0] == table["id"].max() + 1


def test_a_derived_column_is_derived_in_every_row(drawn, table):
    def band(income):
        return np.array(BANDS)[np.searchsorted([25_000, 50_000], income, side="right")]

    assert (drawn["band"] == band(drawn["income"])).all()
    twin = nelson.TableEstimator(columns={"band": "choice"}, random_state=0).fit(table)
    rows = twin.sample(NEW, random_state=1)
    assert (rows["band"] != band(rows["income"])).any()


def test_correlations_of_numbers(drawn, fresh):
    """Four standard errors of a correlation of 5,000 rows, for each of three pairs."""
    for a, b in (("age", "income"), ("age", "phone"), ("income", "phone")):
        assert abs(drawn[a].corr(drawn[b]) - fresh[a].corr(fresh[b])) < 4 / math.sqrt(ROWS)
    shuffled = drawn["age"].sample(frac=1, random_state=0).reset_index(drop=True)
    assert (
        abs(shuffled.corr(drawn["income"]) - fresh["age"].corr(fresh["income"])) > 0.3
    )  # the twin


# --- suggestions ----------------------------------------------------------------------------------


def test_rules_are_suggested_and_not_applied(table):
    plain, space = nelson.Space.from_frame(table), nelson.Space.from_frame(table, rules=True)
    assert [str(rule) for rule in space.rules] == [str(rule) for rule in plain.rules]
    assert not plain.suggestions
    for rule in space.suggestions:
        assert (
            rule.log_p < math.log(0.01)
            and rule.support > 3
            and rule.upper == pytest.approx(3 / rule.support)
        )
        assert "p = " in str(rule) and f"{rule.support:,} rows" in str(rule)
        assert nelson.Space.from_frame(table, rules=[rule.rule]).satisfied(table).all()


def test_a_rule_that_holds_is_suggested_and_noise_is_not():
    """`b > 3 only if a` is planted; false-alarm rate of another one 1%."""
    rng = np.random.default_rng(0)
    n = 3000
    a = rng.random(n) < 0.5
    b = np.where(a, rng.integers(0, 6, n), rng.integers(0, 4, n))
    columns = {"a": a, "b": b, "c": rng.integers(0, 5, n), "low": rng.gamma(2, 2, n).round(2)}
    frame = pd.DataFrame(columns)
    frame["high"] = (frame["low"] + rng.gamma(1, 1, n)).round(2)
    found = [s.rule for s in nelson.Space.from_frame(frame, rules=True).suggestions]
    assert "low <= high" in found
    assert all("c" not in rule.replace("implies", "") for rule in found)
    assert any("b" in rule and "a" in rule for rule in found)
    frame["b"] = rng.permutation(frame["b"])
    frame["high"] = rng.permutation(frame["high"])
    assert not nelson.Space.from_frame(frame, rules=True).suggestions


# --- in and out -----------------------------------------------------------------------------------


def test_csv_parquet_and_arrow_in_and_out(table, tmp_path):
    arrow = pytest.importorskip("pyarrow", reason="NO PYARROW: Arrow tables are not tested")
    small = table.head(600)
    small.to_csv(tmp_path / "rows.csv", index=False)
    made = nelson.TableEstimator(pairs=None, random_state=0).fit(tmp_path / "rows.csv")
    assert made.columns_["start"].taken.because == "dates as texts"
    rows = made.sample(50, random_state=0)
    assert rows["start"].str.fullmatch(r"\d{4}-\d\d-\d\d").all()
    assert rows.dtypes.equals(pd.read_csv(tmp_path / "rows.csv").dtypes)
    small.to_parquet(tmp_path / "rows.parquet")
    other = nelson.TableEstimator(pairs=None, random_state=0).fit(tmp_path / "rows.parquet")
    assert other.sample(50, random_state=0).dtypes.equals(small.dtypes)
    whole = arrow.Table.from_pandas(small, preserve_index=False)
    again = nelson.TableEstimator(pairs=None, random_state=0).fit(whole).sample(50, random_state=0)
    assert isinstance(again, arrow.Table) and again.column_names == list(small)
    assert again.to_pandas()["income"].equals(other.sample(50, random_state=0)["income"])


def test_polars_in_and_out(table):
    polars = pytest.importorskip("polars", reason="NO POLARS: its frames are not tested")
    frame = polars.from_pandas(table.head(600))
    new = nelson.TableEstimator(pairs=None, random_state=0).fit(frame).sample(50, random_state=0)
    assert isinstance(new, polars.DataFrame) and new.columns == frame.columns and new.height == 50


def test_a_saved_model_draws_the_same_rows(estimator, tmp_path):
    estimator.model_.save(tmp_path / "model")
    back = nelson.load(tmp_path / "model")
    assert back.sample(500, seed=3).equals(estimator.model_.sample(500, seed=3))
    assert str(back.columns) == str(estimator.columns_)
    blocks = list(
        back.frames(500, seed=3, block=500)
    )  # rows that break a rule come in a second one
    assert pd.concat(blocks, ignore_index=True).equals(back.sample(500, seed=3))


def test_a_numeric_pair_that_a_rule_ties_keeps_its_difference():
    rng = np.random.default_rng(0)
    low = rng.normal(100, 20, 4000).round(1)
    frame = pd.DataFrame({"low": low, "high": (low + rng.exponential(3, 4000)).round(1)})
    tied = (
        nelson.TableEstimator(rules=["low <= high"], random_state=0)
        .fit(frame)
        .sample(4000, random_state=1)
    )
    free = nelson.TableEstimator(random_state=0).fit(frame).sample(4000, random_state=1)
    gap = frame["high"] - frame["low"]
    assert (tied["high"] >= tied["low"]).all() and (free["high"] < free["low"]).any()
    assert distance(tied["high"] - tied["low"], gap) < bound(4000, 4000)
    assert distance(free["high"] - free["low"], gap) > bound(4000, 4000)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"columns": {"nothing": "code"}}, "columns of 'nothing'"),
        ({"columns": {"age": "colour"}}, "one of flag, choice"),
        ({"columns": {"state": "number"}}, "columns={'state': 'number'}"),
        ({"columns": {"end": "after zip"}}, "two columns of numbers"),
        ({"rules": ["income > 'x'"]}, "'x', compared with income"),
        ({"rules": ["income * age > 3"]}, "a product of"),
        ({"rules": ["wages > 3"]}, "no field is called 'wages'"),
        ({"rules": ["income < 0"]}, "rows are not legal"),
        ({"bins": {"nothing": 3}}, "bins of 'nothing'"),
    ],
)
def test_bad_wishes_are_clear_sentences(table, asked, said):
    with pytest.raises(FormulaError, match=said):
        nelson.TableEstimator(pairs=None, **asked).fit(table.head(300))
