"""One reader for tables: every form of text, and windows of rows."""

from __future__ import annotations

import gzip
import io
from types import SimpleNamespace

import numpy as np
import pytest

import nelson.io
from nelson.errors import FormulaError
from nelson.io import tables

FORMS = {
    "literals": "1 -2 3 0\n-1 -2 3 0\n-1 -2 3 0\n",
    "any order": "c three samples\nv 1 -2 3 0\nv -1 -2 3 0\nv 3 -2 -1 0\n",
    "several lines": "s SATISFIABLE\nv 1 -2\nv 3 0\nv -1 -2 3 0\nv -1\nv -2 3 0\n",
    "counts in front": "1:1 -2 3 0\n2:-1 -2 3 0\n",
    "counts behind": "v 1 -2 3 0:1\nv -1 -2 3 0: 2\n",
    "digits": "101\n001\n001\n",
    "digits apart": "1 0 1\n0 0 1\n0 0 1\n",
}
ROWS = np.array([[1, 0, 1], [0, 0, 1], [0, 0, 1]], bool)


@pytest.mark.parametrize("name", FORMS)
def test_windows_of_text(tmp_path, name):
    path = tmp_path / "samples.txt"
    path.write_text(FORMS[name])
    for first in range(4):
        for last in range(first, 4):
            rows = tables.read_rows(path, lambda total, w=(first, last): w, n_vars=3)
            np.testing.assert_array_equal(rows.table.x, ROWS[first:last])
            assert rows.table.variables == (1, 2, 3)
            assert (rows.first, rows.total) == (first, 3)


def test_digits_need_the_number_of_variables(tmp_path):
    path = tmp_path / "samples.txt"
    path.write_text("1 0\n0 1\n")
    np.testing.assert_array_equal(tables.read(path, 2).x, [[1, 0], [0, 1]])
    with pytest.raises(FormulaError, match=r"samples\.txt:2"):
        tables.read(path)


def test_standard_input(monkeypatch):
    data = gzip.compress(FORMS["literals"].encode())
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    np.testing.assert_array_equal(tables.read("-").x, ROWS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 2 0\n1 -2\n1 2 0\n", r"x\.txt:2: a variable twice .* a 0 at the end"),
        ("1 2 0\n1 -2\n", r"x\.txt:2: a line without its 0"),
        ("1 2 0\n1 0 2 0\n", r"x\.txt:2: a 0 inside a line"),
        ("1 2 0\n\n1 3 0\n", r"x\.txt:3: 2 literals of other variables than line 1"),
        ("1 2 0\n1 two\n3 0\n", r"x\.txt:2: '1 two'"),
        ("c nothing\n", r"x\.txt: no samples"),
    ],
)
def test_errors_name_the_line_where_the_sample_begins(tmp_path, text, message):
    path = tmp_path / "x.txt"
    path.write_text(text)
    with pytest.raises(FormulaError, match=message):
        tables.read(path)


def test_files_under_a_wrong_name(tmp_path):
    """An `.npy` file called `.npz` is read; a cut archive and no file at all are errors."""
    with open(tmp_path / "a.npz", "wb") as file:
        np.save(file, ROWS)
    np.testing.assert_array_equal(tables.read(tmp_path / "a.npz").x, ROWS)
    np.savez(tmp_path / "b.npz", x=ROWS)
    whole = (tmp_path / "b.npz").read_bytes()
    (tmp_path / "b.npz").write_bytes(whole[: len(whole) // 2])
    for name in ("a.npy", "b.npz", "missing.npz", "missing.csv", "missing.txt"):
        with pytest.raises(FormulaError, match=f"{name}: cannot read it"):
            tables.read(tmp_path / name)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_empty_arrays(tmp_path, shape):
    for name, save in (("a.npy", np.save), ("a.npz", np.savez)):
        save(tmp_path / name, np.zeros(shape))
        assert tables.read(tmp_path / name).x.shape == shape


def test_no_samples_can_be_read_back(tmp_path):
    """`nelson sample -n 0` writes an empty text file."""
    (tmp_path / "x.txt").write_text("")
    x, variables, info = nelson.io.read(tmp_path / "x.txt")
    assert (x.shape, variables, info) == ((0, 0), (), {})
