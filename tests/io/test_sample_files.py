"""Writers and reader: what goes out comes back, over counts, widths and ways to cut into blocks."""

from __future__ import annotations

import io

import numpy as np
import pytest

from nelson.errors import NelsonError
from nelson.io import sample_files as nio

COUNTS = (0, 1, 63, 64, 65, 200, 1000)
CUTS = ("whole", "words", "odd")


def pack(x: np.ndarray) -> np.ndarray:
    """`(m, n)` bool -> `(words, n)` uint64, the plain way."""
    m, n = x.shape
    packed = np.zeros((-(-m // 64), n), dtype=np.uint64)
    for i in range(m):
        packed[i // 64] |= x[i].astype(np.uint64) << np.uint64(i % 64)
    return packed


def cut(x: np.ndarray, how: str) -> list[np.ndarray]:
    if how == "whole":
        return [x]
    step = 128 if how == "words" else 37
    return [x[i : i + step] for i in range(0, len(x), step)]


def write(kind: str, x: np.ndarray, variables: list[int], how: str, info: dict | None = None):
    out = io.BytesIO()
    writer = nio.make_writer(kind, out, variables)
    for part in cut(x, how):
        block = pack(part)
        if len(part) % 64:  # lanes above the count hold rubbish: writers must not let it through
            block[-1] |= ~np.uint64((1 << (len(part) % 64)) - 1)
        writer.write(block, len(part))
    writer.close(info or {})
    return out.getvalue()


@pytest.mark.parametrize("how", CUTS)
@pytest.mark.parametrize("m", COUNTS)
@pytest.mark.parametrize("n", [1, 7, 130])
def test_csv_round_trip(tmp_path, monkeypatch, n, m, how):
    monkeypatch.setattr(nio, "_CSV_CELLS", 1000)  # several pieces of a block
    x, variables = draw(m, n), list(range(3, 3 + n))
    path = tmp_path / "x.csv"
    path.write_bytes(write("csv", x, variables, how))
    assert len(path.read_text().splitlines()) == m + 1
    y, names, _ = nio.read(path)
    np.testing.assert_array_equal(y, x)
    assert list(names) == variables


def draw(m: int, n: int) -> np.ndarray:
    return np.random.default_rng(1000 * m + n).random((m, n)) < 0.5


@pytest.mark.parametrize("how", CUTS)
@pytest.mark.parametrize("m", COUNTS)
@pytest.mark.parametrize("n", [1, 7, 8, 9, 130])
@pytest.mark.parametrize("kind", ["npz", "parquet"])
def test_binary_round_trip(tmp_path, kind, n, m, how):
    if kind == "parquet":
        pytest.importorskip("pyarrow", reason="pip install nelson-mrf[parquet]")
    x, variables = draw(m, n), list(range(3, 3 + n))
    path = tmp_path / f"x.{kind}"
    path.write_bytes(write(kind, x, variables, how, {"seed": 5}))
    y, names, info = nio.read(path)
    np.testing.assert_array_equal(y, x)
    assert y.dtype == bool
    assert names == tuple(variables)
    assert info == {"seed": 5}


@pytest.mark.parametrize("how", CUTS)
@pytest.mark.parametrize("m", COUNTS)
@pytest.mark.parametrize(
    "variables",
    [[1], [2, 5, 9], list(range(1, 131)), [99, 100, 999_999, 1_000_000, 123_456_789]],
    ids=["one", "some", "many", "wide"],
)
def test_text_is_literals_and_a_zero(variables, m, how):
    x = draw(m, len(variables))
    lines = [
        " ".join(str(v if value else -v) for v, value in zip(variables, row, strict=True)) + " 0\n"
        for row in x
    ]
    assert write("text", x, variables, how) == "".join(lines).encode()


def test_text_round_trip(tmp_path):
    x = draw(100, 12)
    path = tmp_path / "x.txt"
    path.write_bytes(write("text", x, list(range(1, 13)), "odd"))
    y, names, info = nio.read(path)
    np.testing.assert_array_equal(y, x)
    assert names == tuple(range(1, 13))
    assert info == {}


def test_no_variables_is_a_line_of_zero():
    assert write("text", draw(3, 0), [], "whole") == b"0\n0\n0\n"


def test_half_a_line_is_refused(tmp_path):
    path = tmp_path / "x.txt"
    path.write_text("1 -2 0\n1 -")
    with pytest.raises(NelsonError, match=r"x\.txt:2: .*expected"):
        nio.read(path)


def test_npz_needs_no_pickle_and_keeps_the_words(tmp_path):
    x = draw(70, 5)
    path = tmp_path / "x.npz"
    path.write_bytes(write("npz", x, [1, 2, 3, 4, 5], "whole"))
    with np.load(path, allow_pickle=False) as data:
        assert sorted(data.files) == ["count", "info", "packed", "variables"]
        np.testing.assert_array_equal(data["packed"], pack(x))
        assert data["count"] == 70


@pytest.mark.parametrize(
    ("name", "kind"),
    [("a.txt", "text"), ("a", "text"), ("a.NPZ", "npz"), ("b.parquet", "parquet")],
)
def test_format_by_name(name, kind):
    assert nio.format_of(name) == kind


@pytest.mark.parametrize("name", ["a.npy", "a.tsv", "a.txt.gz"])
def test_formats_we_do_not_write_are_refused(name):
    with pytest.raises(NelsonError, match=r"\.npz or \.parquet"):
        nio.format_of(name)
