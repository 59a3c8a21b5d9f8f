"""DIMACS: every form that is accepted, every choice of the reader, every error."""

from __future__ import annotations

import gzip
import io
import lzma
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nelson.errors import FormulaError
from nelson.formula import Formula
from nelson.formula.dimacs.weights import log_ratio, parse_number, to_weights

PLAIN = "c a comment\np cnf 3 2\n1 -2 0\n2 3 -1 0\n"
CLAUSES = [[1, -2], [2, 3, -1]]


def read(text: str, dialect: str = "auto") -> Formula:
    return Formula.from_string(text, dialect=dialect)


def theta_of(text: str, dialect: str = "auto") -> list[float]:
    theta = read(text, dialect).theta
    assert theta is not None
    return theta.tolist()


# --- sources --------------------------------------------------------------------------------------


def test_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = Formula(CLAUSES)
    data = PLAIN.encode()
    packed = {"f.cnf": data, "f.gz": gzip.compress(data), "f.xz": lzma.compress(data)}
    packed["misnamed.cnf"] = packed["f.gz"]
    packed["two_members.gz"] = gzip.compress(data[:20]) + gzip.compress(data[20:])
    for name, content in packed.items():
        path = tmp_path / name
        path.write_bytes(content)
        f = Formula.from_dimacs(path)
        assert f == expected
        assert f.source == str(path)
        assert Formula.from_dimacs(str(path)) == expected
        assert Formula.from_dimacs(content) == expected
        with open(path, "rb") as file:
            assert Formula.from_dimacs(file) == expected
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(content)))
        assert Formula.from_dimacs("-") == expected
    assert Formula.from_dimacs(io.StringIO(PLAIN)) == expected
    assert read(PLAIN) == expected


def test_missing_and_broken_files(tmp_path: Path) -> None:
    for path in (tmp_path / "none.cnf", tmp_path):
        with pytest.raises(FormulaError, match=f"{path}: cannot read it"):
            Formula.from_dimacs(path)
    with pytest.raises(FormulaError, match="cannot read it"):
        Formula.from_dimacs("a\0b")
    for whole in (gzip.compress(PLAIN.encode()), lzma.compress(PLAIN.encode())):
        with pytest.raises(FormulaError, match="broken compressed data"):
            Formula.from_dimacs(whole[:-5])


# --- layout ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        PLAIN.replace("\n", "\r\n"),
        PLAIN.replace("\n", "\r"),
        PLAIN.rstrip(),
        "p cnf 3 2\n1 -2\n0 2\n3\n-1 0",
        "p cnf 3 2\n1 -2 0 2 3 -1 0\n",
        "p  cnf   3\t2  \n\n  1\t-2 0\n\n 2 3\nc in the middle\n-1 0\n\n\n",
        PLAIN + "%\n0\n\n",
        PLAIN + "%\nanything at all",
        "p cnf 3 2\nc\ncomment\n1 -2 0\n  c indented\n2 3 -1 0\n",
    ],
)
def test_layouts(text: str) -> None:
    f = read(text)
    assert f.clauses() == CLAUSES
    assert f.n_vars == 3
    assert f.notes == ()


def test_what_is_tolerated_is_noted() -> None:
    f = read("p cnf 2 1\n1 -2 0\n2 3 -1 0\n")
    assert f.clauses() == CLAUSES
    assert f.notes == (
        "header says 2 variables, the file uses 3",
        "header says 1 clauses, the file has 2",
    )
    assert read("1 -2 0\n2 3 -1 0").notes == ("no `p cnf` header",)
    assert read("p cnf 3 5\n1 -2 0\n").notes == ("header says 5 clauses, the file has 1",)
    assert "closing 0" in read("p cnf 3 2\n1 -2 0\n2 3 -1").notes[0]
    assert read("p cnf 3 2\n1 -2 0\n2 3 -1").clauses() == CLAUSES


def test_a_cut_off_file_is_refused() -> None:
    with pytest.raises(FormulaError, match="<string>:3: the file ends inside clause 2 of 3"):
        read("p cnf 3 3\n1 -2 0\n2 3")


def test_empty_clause_and_no_clauses() -> None:
    assert read("p cnf 2 1\n0\n").clauses() == [[]]
    assert read("p cnf 0 0\n").n_vars == 0
    assert read("p cnf 4 0\n").n_vars == 4


def test_xor_lines() -> None:
    f = read("p cnf 3 2\nx1 2 -3 0\n1 2 0\n")
    x = np.array([[a, b, c] for a in (0, 1) for b in (0, 1) for c in (0, 1)], dtype=bool)
    assert f.satisfied(x).tolist() == ((x[:, 0] ^ x[:, 1] ^ ~x[:, 2]) & x[:, :2].any(1)).tolist()
    assert f == read("p cnf 3 2\nx 1 2 -3 0\n1 2 0\n")
    assert f.notes == ()  # an XOR line counts as a clause
    long = read("p cnf 20 1\nx" + " ".join(map(str, range(1, 21))) + " 0\n")
    assert (long.n_vars, long.n_aux > 0) == (20, True)


def test_projections() -> None:
    assert read("p cnf 5 0\nc ind 1 2 0\nc ind 5 0\n").projection == (1, 2, 5)
    assert read("p cnf 5 0\nc p show 3 1 0\n").projection == (3, 1)
    assert read("p pcnf 5 0\nvp 3 1 0\n").projection == (3, 1)
    assert read("p cnf 5 0\nc ind 1 2\n").projection == (1, 2)
    assert read("p cnf 5 0\nc p show 0\n").projection == ()
    assert read("p cnf 5 0\nc ind variables are nice\n").projection is None
    both = read("p cnf 5 0\nc ind 1 0\nc p show 2 0\n")
    assert both.projection == (2,)
    assert both.notes == ("`c p show` and `c ind` differ: `c p show` is used",)


# --- weights --------------------------------------------------------------------------------------


def test_mcc_weights() -> None:
    text = "c t wmc\np cnf 4 0\nc p weight 1 0.2 0\nc p weight -1 0.6 0\n"
    text += "c p weight -2 1/3 0\nc p weight 2 2/3 0\nc p weight 3 5e-1 0\nc p weight -3 1 0\n"
    assert theta_of(text) == pytest.approx([math.log(1 / 3), math.log(2), math.log(0.5), 0])
    assert read(text).dialect == "mcc"
    assert read(text).notes == ()
    assert theta_of("c t pwmc\np cnf 2 0\n") == [0, 0]  # weighted, all weights 1
    assert read("c t mc\np cnf 2 0\n").theta is None


def test_weight_of_one_literal_only() -> None:
    """The other gets 1 - w, as Ganak reads it; above 1 that would be negative, so 1."""
    f = read("p cnf 3 0\nc p weight 1 0.2 0\nc p weight -2 0.2 0\nc p weight 3 7 0\n")
    assert f.theta == pytest.approx([math.log(0.25), math.log(4), math.log(7)])
    assert "3 variables have a weight w for one literal only" in f.notes[0]


def test_literal_weights() -> None:
    for header in ("p cnf 2 0", "p wcnf 2 0"):
        for end in ("", " 0"):
            f = read(f"{header}\nw 1 0.3{end}\nw -1 2.5{end}\n")
            assert f.theta == pytest.approx([math.log(0.3 / 2.5), 0])
            assert f.dialect == "literal"
            assert f.notes == ("`w` lines read as dialect 'literal'",)


def test_cachet_weights() -> None:
    f = read("p cnf 4 0\nw 1 0.2\nw 2 -1\nw 3 1\nw 4 0\n")
    assert f.theta == pytest.approx([math.log(0.25), 0, math.inf, -math.inf])
    assert f.dialect == "cachet"


def test_cachet_and_literal_agree_where_one_cannot_tell() -> None:
    text = "p cnf 2 0\nw 1 0.3\nw 2 0.9\n"
    assert read(text).dialect == "cachet"
    assert theta_of(text, "literal") == theta_of(text, "cachet")


def test_minic2d_weights() -> None:
    f = read("p cnf 2 0\nc weights 0.2 0.8 3 1\n")
    assert f.theta == pytest.approx([math.log(0.25), math.log(3)])
    assert f.dialect == "minic2d"
    assert read("p cnf 2 0\nc weights are not used here\n").theta is None


def test_conflicting_dialects() -> None:
    text = "p cnf 1 0\nc p weight 1 0.5 0\nc p weight -1 0.25 0\nw 1 0.9\nc weights 1 4\n"
    expected = {"mcc": 2, "literal": 9, "cachet": 9, "minic2d": 1 / 4, "auto": 2}
    for dialect, odds in expected.items():
        f = read(text, dialect)
        assert f.theta == pytest.approx([math.log(odds)])
        assert f.dialect == ("mcc" if dialect == "auto" else dialect)
        assert len([note for note in f.notes if "ignored" in note]) == 2
    assert read(text).notes[0] == "1 `w` line ignored: weights are read as dialect 'mcc'"
    unweighted = read(text, "none")
    assert unweighted.theta is None
    assert unweighted.dialect is None
    assert len(unweighted.notes) == 3
    assert read("p cnf 1 0\nw 1 0.9\n", "mcc").theta is None
    with pytest.raises(FormulaError, match="one of auto, mcc"):
        read(text, "other")


def test_zero_weights_are_evidence() -> None:
    text = "p cnf 2 0\nc p weight 1 0 0\nc p weight -1 1 0\nc p weight -2 0.0 0\n"
    assert theta_of(text) == [-math.inf, math.inf]
    with pytest.raises(FormulaError, match=":3: both weights of variable 1 are 0"):
        read("p cnf 1 0\nw 1 0\nw -1 0\n")


def test_extreme_weights() -> None:
    text = "p cnf 3 0\nw 1 1e-400\nw -1 1\nw 2 1e400\nw -2 1e-400\nw 3 1e-400/1e-399\nw -3 1\n"
    assert theta_of(text) == pytest.approx([-400 * math.log(10), 800 * math.log(10), -math.log(10)])


# --- several headers ------------------------------------------------------------------------------


def test_a_second_header_that_says_the_same_is_noted() -> None:
    f = read("p cnf 3 2\nc ind 1 2 0\np cnf 3 2\n1 -2 0\n2 3 -1 0\n")
    assert f == read("p cnf 3 2\nc ind 1 2 0\n1 -2 0\n2 3 -1 0\n")
    assert f.notes == ("2 `p` lines say the same; the first is used",)


@pytest.mark.parametrize(("first", "second"), [("3 2", "5 2"), ("5 2", "3 2")])
def test_headers_that_differ_give_the_larger_number_of_variables(first, second) -> None:
    f = read(f"p cnf {first}\np cnf {second}\n1 -2 0\n2 3 -1 0\n")
    assert f.n_vars == 5 and f.clauses() == CLAUSES
    (note,) = f.notes
    assert "differ" in note and "line 2 says" in note and ": 5 variables, the larger number" in note


def test_headers_that_are_wrong_are_noted_as_one_wrong_header_is() -> None:
    """Neither line has the right counts; two files in one; weights of the second header."""
    f = read("p cnf 2 7\np cnf 1 8\n1 -2 0\n2 3 -1 0\n")
    assert f.n_vars == 3
    assert f.notes[1:] == (
        "header says 2 variables, the file uses 3",
        "header says 7 clauses, the file has 2",
    )
    both = read("p cnf 2 1\n1 -2 0\np cnf 3 1\n2 3 -1 0\n")
    assert both.clauses() == CLAUSES
    assert any("holds two formulas" in note for note in both.notes)
    assert read("p wcnf 1 1\np cnf 1 1\nw 1 0.9\n1 0\n").dialect == "literal"
    assert read("p cnf 3 2\np cnf 3 1\n1 2 0\n").notes == (
        "2 `p` lines differ (line 1 says 3 variables, 2 clauses; line 2 says 3 variables, "
        "1 clauses): 3 variables, the larger number, and all 1 clauses of the file are used",
    )


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", None, "expected a DIMACS file"),
        ("c only a comment\n", None, "expected a DIMACS file"),
        ("p cnf 3\n", 1, "expected `p cnf VARIABLES CLAUSES`"),
        ("p cnf a 3\n", 1, "expected `p cnf"),
        ("p cnf -1 3\n", 1, "negative count"),
        ("p edge 3 3\n", 1, "expected `p cnf"),
        ("p wcnf 3 3 10\n", 1, "MaxSAT"),
        ("p cnf 3 1\n1 2 0\np cnf 3\n", 3, "expected `p cnf VARIABLES CLAUSES`"),
        ("p cnf 3 1\np wcnf 3 3 10\n1 2 0\n", 2, "MaxSAT"),
        ("p cnf 3 2\n1 2 0\n2 3\nc x\np cnf 3 2\n1 0\n", 5, "another `p` line inside a clause"),
        ("p cnf 3 3\np cnf 3 5\n1 2 0\n1 2", 4, "ends inside clause"),
        ("p cnf 99999999999 1\n", 1, "variables"),
        ("p cnf 9999999999999999999999999 1\n", 1, "expected `p cnf"),
        ("p cnf 3 2\n1 2 0\n1 2147483648 0\n", 3, "variable 2147483648"),
        ("p cnf 3 2\n1 2 0\n1 -9223372036854775808 0\n", 3, "variable 9223372036854775808"),
        ("p cnf 3 2\n1 2 0\n1 -99999999999999999999 0\n", 3, "variable 99999999999999999999"),
        ("p cnf 3 2\n\n1 two 0\n", 3, "unexpected 'two'"),
        ("p cnf 3 2\nc x\n1 2.5 0\n", 3, "unexpected '2.5'"),
        ("p cnf 3 2\n1 2 0 c no\n", 2, "unexpected 'c'"),
        ("p cnf 3 2\n1 2-3 0\n", 2, "unexpected '2-3'"),
        ("p cnf 3 2\n1 --3 0\n", 2, "unexpected '--3'"),
        ("p cnf 3 2\n1 - 3 0\n", 2, "unexpected '-'"),
        ("p cnf 3 2\n1 3 0 -", 2, "unexpected '-'"),
        ("p cnf 3 1\nh 1 2 0\n", 2, "unknown line 'h 1 2 0'"),
        ("p cnf 3 1\nw 1\n", 2, "expected `w LITERAL WEIGHT`"),
        ("p cnf 3 1\nw 1 2 3\n", 2, "expected `w LITERAL WEIGHT`"),
        ("p cnf 3 1\nw 0 0.5\n", 2, "non-zero"),
        ("p cnf 3 1\nw x 0.5\n", 2, "expected a literal"),
        ("p cnf 3 0\nw 1 -0.5\n", 2, "weight '-0.5' of literal 1"),
        ("p cnf 3 0\nw 1 nan\n", 2, "weight 'nan'"),
        ("p cnf 3 0\nw 1 inf\n", 2, "weight 'inf'"),
        ("p cnf 3 0\nw 1 1/0\n", 2, "weight '1/0'"),
        ("p cnf 3 0\nw 1 1e-9999999999999999\n", 2, "too far apart"),
        ("p cnf 3 0\nw 1 0.5\nw 1 0.4\n", 3, "second weight for literal 1"),
        ("p cnf 3 0\nw 1 -1\nw -2 0.5\n", 3, "Cachet"),
        ("p cnf 3 0\nw 1 -1\nw 2 1.5\n", 3, "0..1, or -1"),
        ("p cnf 3 0\nc p weight 1 0\n", 2, "weight|expected"),
        ("p cnf 3 0\nc p weight 1 2 3 0\n", 2, "expected `c p weight LITERAL WEIGHT 0`"),
        ("p cnf 1 0\nc weights 1 2 3\n", 2, "two for each variable"),
        ("p cnf 3 1\nx 1 2\n", 2, "closed by one 0"),
        ("p cnf 3 1\nx 1 0 2 0\n", 2, "closed by one 0"),
        ("p cnf 3 1\nc p show 1 a 0\n", 2, "expected a literal"),
        ("p cnf 3 1\nc p show -1 0\n", 2, "negative variable"),
    ],
)
def test_errors_name_file_line_and_expectation(text: str, line: int | None, message: str) -> None:
    if message == "weight|expected":  # `c p weight 1 0` is weight 0 without the closing 0
        assert theta_of(text)[0] == -math.inf
        return
    with pytest.raises(FormulaError, match=message) as caught:
        read(text)
    assert caught.value.line == line
    assert caught.value.source == "<string>"
    assert str(caught.value).startswith("<string>:" if line is None else f"<string>:{line}: ")
    assert "; expected " in str(caught.value)


def test_error_lines_do_not_depend_on_line_ends() -> None:
    for end in ("\n", "\r\n", "\r"):
        with pytest.raises(FormulaError, match="<string>:4: "):
            read(end.join(["c", "p cnf 2 2", "1 0", "2 q 0"]))


def test_a_small_file_allocates_little() -> None:
    """The largest variable that a short file may name costs nothing until weights ask for it."""
    assert read("10000000 0\n").n_vars == 10_000_000
    with pytest.raises(FormulaError, match="for a file of this size"):
        read("11000000 0\n")


# --- round trip -----------------------------------------------------------------------------------

THETA = st.floats(allow_nan=False, min_value=-1e15, max_value=1e15) | st.sampled_from(
    [math.inf, -math.inf, 0.0, 1e-300, -5e-324, 745.2, -1e5]
)


@st.composite
def formulas(draw: st.DrawFn) -> Formula:
    n = draw(st.integers(0, 8))
    literal = st.integers(1, max(n, 1)).flatmap(lambda v: st.sampled_from([v, -v]))
    clause = st.lists(literal, max_size=5 if n else 0)
    theta = draw(st.none() | st.lists(THETA, min_size=n, max_size=n))
    shown = draw(st.none() | st.lists(st.integers(1, n), max_size=4) if n else st.none())
    clauses = draw(st.lists(clause, max_size=10))
    return Formula(clauses, n_vars=n, theta=theta, projection=shown)


@pytest.mark.slow
@settings(max_examples=500)
@given(formulas())
@example(Formula(n_vars=2, theta=[0, 0]))
@example(Formula(n_vars=0, theta=[]))
@example(Formula([[]], projection=[]))
def test_round_trip(f: Formula) -> None:
    """parse(print(f)) == f: clauses, theta (bit for bit) and projection."""
    text = f.to_dimacs()
    assert text is not None
    g = read(text)
    assert g == f
    assert g.notes == ()


@pytest.mark.slow
@given(THETA)
def test_theta_survives_as_weights_bit_for_bit(theta: float) -> None:
    positive, negative = map(parse_number, to_weights(theta))
    assert positive is not None
    assert negative is not None
    assert log_ratio(positive, negative) == theta


def test_theta_beyond_any_weight() -> None:
    with pytest.raises(FormulaError, match="has no weight"):
        Formula(n_vars=1, theta=[1e300]).to_dimacs()


def test_writing_to_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    f = Formula(CLAUSES, theta=[0.1, -2, 0], projection=[1, 3])
    for name in ("f.cnf", "f.cnf.gz", "f.cnf.xz"):
        f.to_dimacs(tmp_path / name)
        assert Formula.from_dimacs(tmp_path / name) == f
    assert (tmp_path / "f.cnf.gz").read_bytes()[:2] == b"\x1f\x8b"
    text, binary = io.StringIO(), io.BytesIO()
    f.to_dimacs(text)
    f.to_dimacs(binary)
    f.to_dimacs("-")
    assert text.getvalue() == binary.getvalue().decode() == capsys.readouterr().out


def test_constraints_are_written_as_clauses_that_show_the_visible_variables() -> None:
    f = Formula([[1, 2]], n_vars=9).xor(range(1, 10))
    text = f.to_dimacs()
    assert text is not None
    g = read(text)
    assert (g.n_vars, g.n_aux, g.projection) == (f.n_total, 0, tuple(range(1, 10)))
    assert g.clauses() == f.clauses()
