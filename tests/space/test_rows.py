"""Rows: decoding, columns, frames, files of other libraries, memory types."""

from __future__ import annotations

import numpy as np
import pytest

import nelson
from nelson.space import Space
from nelson.space.rows import table_codes


def space_of_all_kinds() -> Space:
    space = Space()
    space.flag("flag")
    space.choice("colour", ["red", "green", "blue"])
    space.choice("pair", ["yes", "no"])
    space.choice("only", ["one"])
    space.choice("size", [1, 2, 4, 8])
    space.choice("mixed", [None, "x", 3])
    space.choice("many", [f"v{k}" for k in range(300)])
    space.integer("bit", 0, 1)
    space.integer("small", -3, 3)
    space.integer("fixed", 7, 7)
    space.integer("wide", -1000, 70_000)
    space.integer("full", -(2**63), 2**63 - 1)
    space.integer("unsigned", 0, 2**64 - 1)
    space.integer("huge", -(2**70), 2**70)
    return space


@pytest.fixture(scope="module")
def rows():
    return space_of_all_kinds().sample(1000, seed=3)


def test_every_kind_of_field_is_decoded(rows):
    """Uniform draws reach both halves of each domain, and nothing else."""
    space = space_of_all_kinds()
    for name, field in space.fields.items():
        column = rows[name]
        assert len(column) == 1000
        codes = [field.code(value) for value in column.tolist()]  # raises if it is no value
        assert min(codes) >= 0 and max(codes) < field.size
        if field.size > 1:
            middle = (field.size - 1) / 2
            share = np.mean([code > middle for code in codes])
            odd = field.size % 2 and field.size < 10
            assert abs(share - (0.5 - 0.5 / field.size * bool(odd))) < 0.08  # 5 sigma
    assert rows["full"].dtype == np.int64 and rows["unsigned"].dtype == np.uint64
    assert rows["huge"].dtype == object and rows["flag"].dtype == bool
    assert rows["wide"].dtype == np.int64


def test_rows_slices_and_columns(rows):
    first = rows[0]
    assert list(first) == rows.columns and isinstance(first["flag"], bool)
    assert isinstance(first["wide"], int)
    assert rows[:5][4] == rows[4] == list(rows)[4]
    assert len(rows[:5]) == 5 and len(rows[990:2000]) == 10 and len(rows[::-1]) == 1000
    assert rows[::-1][0] == rows[-1]
    assert rows[:3].to_list() == [rows[0], rows[1], rows[2]]
    with pytest.raises(IndexError):
        rows[1000]
    with pytest.raises(nelson.FormulaError, match="no column 'colur'; expected 'colour'"):
        rows["colur"]
    assert sum(rows.shares("colour").values()) == pytest.approx(1)
    printed = repr(rows)
    assert "colour" in printed and "[1,000 rows, exact" in printed and len(printed) < 5000


def test_to_pandas(rows):
    pandas = pytest.importorskip("pandas")
    frame = rows.to_pandas()
    assert list(frame.columns) == rows.columns and len(frame) == 1000
    assert frame["flag"].dtype == bool and frame["wide"].dtype == np.int64
    assert isinstance(frame["colour"].dtype, pandas.CategoricalDtype)
    assert list(frame["colour"].cat.categories) == ["red", "green", "blue"]
    for name in rows.columns:
        if name != "mixed":  # None is a missing value there
            assert frame[name].tolist() == rows[name].tolist()
    assert (frame["mixed"].isna() == [v is None for v in rows["mixed"]]).all()
    space = space_of_all_kinds()
    assert space.satisfied(frame).all() and space.satisfied(rows).all()
    assert {k: v.tolist() for k, v in table_codes(space.fields, frame).items()} == {
        k: v.tolist() for k, v in rows.codes.items()
    }


def test_to_arrow(rows):
    pytest.importorskip("pyarrow")
    table = rows.to_arrow()
    assert table.column_names == rows.columns and table.num_rows == 1000
    assert table["colour"].to_pylist() == rows["colour"].tolist()
    assert table["wide"].to_pylist() == rows["wide"].tolist()
    assert [int(v) for v in table["huge"].to_pylist()] == rows["huge"].tolist()
    space = Space()
    space.integer("x", 0, 2**200)
    with pytest.raises(nelson.FormulaError, match="to_pandas"):
        space.sample(3, seed=0).to_arrow()


def test_to_numpy(rows):
    records = rows.to_numpy()
    assert records.dtype.names == tuple(rows.columns) and records.shape == (1000,)
    assert records["colour"].tolist() == rows["colour"].tolist()
    assert records["colour"].dtype == np.dtype("U5")
    assert records["huge"].tolist() == rows["huge"].tolist()


def test_columns_are_kept_in_small_types(rows):
    assert rows.codes["flag"].dtype == rows.codes["colour"].dtype == np.uint8
    assert rows.codes["many"].dtype == np.uint16 and rows.codes["wide"].dtype == np.uint32


def test_violations_name_the_rule_and_the_rows():
    space = Space()
    a, b = space.integer("a", 0, 9), space.choice("b", ["x", "y"])
    space.require((b == "x").implies(a > 3), name="x needs more")
    space.require(a != 7)
    table = {"a": [4, 2, 7, 12, 5, 2.5], "b": ["x", "x", "y", "y", "z", "x"], "other": [0] * 6}
    found = space.violations(table)
    assert {k: v.tolist() for k, v in found.items()} == {
        "a is not in 0..9": [3, 5],
        "b is not in {x, y}": [4],
        "x needs more: implies(b == 'x', a > 3)": [1],
        "a != 7": [2],
    }
    assert space.satisfied(table).tolist() == [True, False, False, False, False, False]
    with pytest.raises(nelson.FormulaError, match="without the column 'b'"):
        space.violations({"a": [1]})


def test_no_rows():
    space = space_of_all_kinds()
    none = space.sample(0, seed=0)
    assert len(none) == 0 and list(none) == [] and "[0 rows" in repr(none)
    assert len(none.to_numpy()) == 0
