"""Texts that begin with something else than text, half characters, and very many comments."""

from __future__ import annotations

import bz2
import gzip
import io
import tracemalloc

import pytest

import nelson
from nelson import Formula
from nelson.formula.dimacs.read import read
from nelson.io import tables
from nelson.space import Space

CNF = b"c 1 Engine\np cnf 2 1\n1 2 0\n"
BEGINS = {
    "compressed by bzip2": bz2.compress(CNF),
    "compressed by bzip2, of nothing": bz2.compress(b""),
    "compressed by zstd": b"\x28\xb5\x2f\xfd" + CNF,
    "compressed by lz4": b"\x04\x22\x4d\x18" + CNF,
    "a zip archive": b"PK\x03\x04" + CNF,
    "a 7z archive": b"7z\xbc\xaf\x27\x1c" + CNF,
    "text in UTF-16": CNF.decode().encode("utf-16"),
}
READERS = {
    "f.cnf": Formula.from_dimacs,
    "s.cnf": Space.from_dimacs,
    "s.uvl": Space.from_uvl,
    "s.toml": Space.load,
    "t.csv": tables.read,
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("kind", BEGINS)
def test_another_compression_is_named(tmp_path, name, kind):
    for content in (BEGINS[kind], gzip.compress(BEGINS[kind])):
        path = tmp_path / name
        path.write_bytes(content)
        if content[:2] != b"\x1f\x8b" or name.endswith((".cnf", ".uvl")):
            with pytest.raises(nelson.FormulaError, match=kind.partition(",")[0]) as error:
                READERS[name](path)
            assert error.value.source == str(path)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_byte_order_mark_is_skipped(tmp_path, pack):
    path = tmp_path / "f.cnf"
    path.write_bytes(pack(b"\xef\xbb\xbf" + CNF))
    assert Formula.from_dimacs(path) == Formula([[1, 2]])
    assert list(Space.from_dimacs(path).fields) == ["Engine", "x2"]
    path = tmp_path / "s.uvl"
    path.write_bytes(pack(b"\xef\xbb\xbffeatures\n\tA\n"))
    assert list(Space.from_uvl(path).fields) == ["A"]
    with pytest.raises(nelson.FormulaError):  # a second one is no text of the format
        Formula.from_dimacs(b"\xef\xbb\xbf\xef\xbb\xbf" + CNF)


@pytest.mark.parametrize(
    "read_text", [Formula.from_string, lambda t: Formula.from_dimacs(io.StringIO(t))]
)
def test_half_characters(tmp_path, read_text):
    assert read_text("c \ud800 a comment\np cnf 2 1\n1 2 0\n") == Formula([[1, 2]])
    with pytest.raises(nelson.FormulaError, match=r"2: unknown line '\\\\ud800 1 0'"):
        read_text("p cnf 2 1\n\ud800 1 0\n")
    for path in (tmp_path / "\ud800.cnf", tmp_path / "a\0.cnf"):
        with pytest.raises(nelson.FormulaError, match="no file name"):
            Formula([[1, 2]]).to_dimacs(path)
        with pytest.raises(nelson.FormulaError, match="cannot read it"):
            Formula.from_dimacs(path)


def peak(data: bytes) -> int:
    tracemalloc.start()
    assert read(data).n_vars == 2
    _, highest = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return highest


def test_comment_lines_take_no_more_memory_than_the_file():
    """Each line once cost a view of 200 bytes, so that short lines cost ten times the file."""
    lines = 20_000
    many = peak(b"c a\n" * lines + CNF)
    one = peak(b"c" + b" " * (4 * lines) + b"\n" + CNF)
    assert many < one + 4 * 4 * lines, (many, one)  # the line ends, copied; a list has 8 each
