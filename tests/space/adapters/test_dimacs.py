"""DIMACS files with names in comments, as feature model tools write them."""

from __future__ import annotations

import gzip
import itertools
import math

import numpy as np
import pytest

import nelson
from nelson.errors import FormulaError, Unsatisfiable
from nelson.space.adapters.dimacs import fill, require_clauses
from tests.space.adapters.every_row import distinct_rows

CAR = b"""c 1 Car
c 2 Winter tyres
c 3 Petrol
c 4 Electric
c a plain comment
c 17 is no variable of this file
p cnf 5 6
1 0
-2 1 0
3 4 -1 0
-3 -4 0
-3 1 0
-4 1 0
"""


def test_names_come_from_comments_and_the_rest_is_numbered():
    space = nelson.Space.from_dimacs(CAR)
    assert list(space.fields) == ["Car", "Winter tyres", "Petrol", "Electric", "x5"]
    assert space.count() == 8
    rows = distinct_rows(space)
    assert rows == {
        (True, tyres, petrol, not petrol, other)
        for tyres in (False, True)
        for petrol in (False, True)
        for other in (False, True)
    }


def test_the_count_is_that_of_the_formula():
    space, formula = nelson.Space.from_dimacs(CAR), nelson.Formula.from_dimacs(CAR)
    assert space.formula.n_vars == formula.n_vars == 5
    assert {frozenset(c) for c in space.formula} == {frozenset(c) for c in formula}


def test_samples_and_conditions_use_the_names():
    space = nelson.Space.from_dimacs(CAR)
    rows = space.sample(200, given={"Winter tyres": True}, seed=0)
    assert rows["Winter tyres"].all() and (rows["Petrol"] ^ rows["Electric"]).all()
    assert space.satisfied(rows).all()


def test_names_can_be_ignored():
    assert list(nelson.Space.from_dimacs(CAR, names=False).fields) == [f"x{k}" for k in range(1, 6)]


def test_a_contradiction_is_told_in_names():
    space = nelson.Space.from_dimacs(CAR)
    with pytest.raises(Unsatisfiable) as caught:
        space.sample(1, given={"Petrol": True, "Electric": True})
    assert "not Petrol or not Electric" in str(caught.value)
    assert "Winter" not in str(caught.value)


def test_an_empty_clause_leaves_no_row():
    space = nelson.Space.from_dimacs(b"p cnf 2 2\n1 2 0\n0\n")
    assert space.count() == 0
    with pytest.raises(Unsatisfiable):
        space.sample(1)


def test_repeated_literals_and_tautologies():
    space = nelson.Space.from_dimacs(b"p cnf 2 2\n1 1 0\n2 -2 0\n")
    assert distinct_rows(space) == {(True, False), (True, True)}


def test_parity_lines():
    space = nelson.Space.from_dimacs(b"p cnf 5 1\n1 2 0\nx 1 2 3 4 -5 0\n")
    rows = distinct_rows(space)
    assert rows == {
        row
        for row in itertools.product((False, True), repeat=5)
        if (row[0] or row[1]) and (sum(row[:4]) + (not row[4])) % 2 == 1
    }


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (b"c 1 A\nc 2 B\nc 1 C\np cnf 2 1\n1 2 0\n", 3, "second name 'C' for variable 1"),
        (b"c 1 A\nc 2 A\np cnf 2 1\n1 2 0\n", 2, "which variable 1 has"),
        (b"c 1 x2\np cnf 2 1\n1 2 0\n", None, "'x2'"),
    ],
)
def test_names_that_clash_name_the_line_and_the_way_out(tmp_path, text, line, said):
    path = tmp_path / "car.cnf"
    path.write_bytes(text)
    with pytest.raises(FormulaError, match="names=False") as caught:
        nelson.Space.from_dimacs(path)
    assert said in str(caught.value)
    assert (caught.value.source, caught.value.line) == (str(path), line)
    assert len(nelson.Space.from_dimacs(path, names=False).fields) == 2


def test_a_header_that_the_file_does_not_back_costs_nothing():
    with pytest.raises(FormulaError, match="header with 5000000 variables"):
        nelson.Space.from_dimacs(b"p cnf 5000000 1\n1 0\n")


def test_names_in_other_encodings_and_line_ends():
    space = nelson.Space.from_dimacs("c 1 Größe\r\nc 2 déjà\r\np cnf 2 1\r\n1 2 0\r\n".encode())
    assert list(space.fields) == ["Größe", "déjà"]
    space = nelson.Space.from_dimacs("c 1 Größe\np cnf 1 1\n1 0\n".encode("latin-1"))
    assert list(space.fields) == ["Größe"]


def test_compressed_files(tmp_path):
    path = tmp_path / "car.cnf.gz"
    path.write_bytes(gzip.compress(CAR))
    assert "Winter tyres" in nelson.Space.from_dimacs(path)


def test_weights_are_kept_and_used_when_asked_for():
    text = b"p cnf 3 1\n1 2 0\nc p weight 1 0.8 0\nc p weight -1 0.2 0\nc p weight 3 0 0\n"
    text += b"c p weight -3 1 0\n"
    space = nelson.Space.from_dimacs(text)
    assert space.weights["x1"] == {False: pytest.approx(0.25)}
    assert space.weights["x3"] == {True: 0.0}
    assert "x2" not in space.weights
    # P(x1) = 0.8 * 2 / (0.8 * 2 + 0.2) with the weights, 2/3 without.
    assert space.marginals(weights=space.weights)["x1"][True] == pytest.approx(1.6 / 1.8)
    assert space.marginals(weights=space.weights)["x3"][True] == 0
    assert space.marginals()["x1"][True] == pytest.approx(2 / 3)


def test_extreme_weights_stay_finite():
    space = nelson.Space()
    fill(space, b"p cnf 1 0\nw 1 1e300\nw -1 1e-300\n", dialect="auto")
    [(value, factor)] = space.weights["x1"].items()
    assert value is False and 0 < factor < 1 and math.isfinite(factor)


def test_clauses_over_other_fields_are_refused():
    space = nelson.Space()
    space.flag("a")
    with pytest.raises(FormulaError, match="literal 2"):
        require_clauses(space, [[1, 2]])
    space.integer("n", 0, 5)
    with pytest.raises(FormulaError, match=r"'n'.*flags only"):
        require_clauses(space, [[1]])


@pytest.mark.slow
def test_ten_thousand_clauses_become_ten_thousand_rules_without_new_variables():
    rng = np.random.default_rng(0)
    clauses = [
        (rng.choice(2000, 3, replace=False) + 1) * rng.choice([-1, 1], 3) for _ in range(10_000)
    ]
    text = "p cnf 2000 10000\n" + "".join(" ".join(map(str, c)) + " 0\n" for c in clauses)
    space, formula = nelson.Space.from_dimacs(text.encode()), nelson.Formula.from_string(text)
    assert len(space.rules) == 10_000
    assert (space.formula.n_vars, space.formula.n_clauses) == (2000, formula.n_clauses)
