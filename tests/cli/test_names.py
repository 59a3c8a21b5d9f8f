"""Names of variables in DIMACS comments and in models: in options, headers and tables."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from nelson import Formula
from nelson.formula.names import names_in_comments
from nelson.io import tables
from nelson.learning.model import Model
from nelson.space import Space
from tests.cli.commands import STREETS, UNSAT, Done, literals, run

CAR = """c a feature model
c 1 Engine
c 2 Winter tyres
c 3 Diesel
p cnf 4 3
1 0
-2 1 0
-3 -2 0
"""
#: All solutions, by brute force.
SOLUTIONS = [x for x in itertools.product([False, True], repeat=4) if x[0] and not (x[1] and x[2])]


@pytest.fixture
def car(tmp_path) -> Path:
    path = tmp_path / "car.cnf"
    path.write_text(CAR)
    return path


def good(done: Done) -> str:
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_names_in_comments():
    found = names_in_comments(CAR.encode(), "car.cnf", 4)
    assert found == {1: "Engine", 2: "Winter tyres", 3: "Diesel"}


@pytest.mark.parametrize(
    ("comments", "noted"),
    [
        ("c 12 variables, 3 clauses", False),  # no such variable
        ("c 1 2 3", False),  # no letter
        ("c Engine 1", False),
        ("c 1 A\nc 1 B", True),  # two names
        ("c 1 A\nc 2 A", True),  # a name twice
        ("c 1 x2", True),  # the name that variable 2 has without a name
    ],
)
def test_other_comments_are_no_names_and_no_error(tmp_path, comments, noted):
    done = run("sample", "-", "-o", tmp_path / "a.csv", stdin=f"{comments}\np cnf 4 1\n1 0\n")
    assert good(done) == "" and ("no names are taken" in done.stderr) == noted
    assert (tmp_path / "a.csv").read_text().splitlines()[0] == "x1,x2,x3,x4"


def test_csv_has_the_names_as_header(car, tmp_path):
    done = run("sample", car, "-n", 100, "--seed", 1, "-o", tmp_path / "a.csv")
    assert good(done) == ""
    lines = list(csv.reader(io.StringIO((tmp_path / "a.csv").read_text())))
    assert lines[0] == ["Engine", "Winter tyres", "Diesel", "x4"]
    drawn = literals(run("sample", car, "-n", 100, "--seed", 1).stdout) > 0
    np.testing.assert_array_equal(np.array(lines[1:], int), drawn)
    table = tables.read(tmp_path / "a.csv")
    assert table.names == ("Engine", "Winter tyres", "Diesel", "x4")
    np.testing.assert_array_equal(table.x, drawn)


def test_csv_without_names_numbers_the_variables(tmp_path):
    run("sample", STREETS, "-n", 3, "--project", "2,7", "-o", tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text().splitlines()[0] == "x2,x7"
    assert tables.read(tmp_path / "a.csv").variables == (2, 7)


def test_npz_and_parquet_keep_the_names(car, tmp_path):
    run("sample", car, "-n", 3, "--project", "3,1", "-o", tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz", allow_pickle=False) as data:
        assert data["names"].tolist() == ["Diesel", "Engine"]
    parquet = pytest.importorskip("pyarrow.parquet", reason="pip install nelson-mrf[parquet]")
    run("sample", car, "-n", 3, "-o", tmp_path / "a.parquet")
    meta = parquet.read_schema(tmp_path / "a.parquet").metadata
    assert json.loads(meta[b"nelson.names"])[1] == "Winter tyres"


@pytest.mark.parametrize(
    ("given", "column", "value"),
    [
        ("Diesel=true", 2, True),
        ("Winter tyres=0", 1, False),
        ("3=false", 2, False),
        ("-Diesel", 2, False),
        ("Diesel", 2, True),
        ("x4=True", 3, True),
        ("-4,1", 3, False),
    ],
)
def test_given_by_name_by_number_or_as_literals(car, given, column, value):
    agree = [x for x in SOLUTIONS if x[column] is value]
    x = literals(good(run("sample", car, "-n", 30, "--given", given))) > 0
    assert (x[:, column] == value).all()
    assert good(run("count", car, "--given", given)) == f"{len(agree)}\n"
    found = json.loads(good(run("marginals", car, "--given", given, "--json")))
    assert [r["share"] for r in found] == pytest.approx(np.mean(agree, axis=0).tolist())
    row = json.loads(good(run("mode", car, "--given", given, "--json")))
    assert tuple(row.values()) in agree
    assert list(row) == ["Engine", "Winter tyres", "Diesel", "x4"]


def test_several_conditions_and_stdin_and_compressed_files(car, tmp_path):
    options = ("--given", "Diesel=false", "--given", "2=true")
    assert good(run("count", car, *options)) == "2\n"
    assert good(run("count", "-", *options, stdin=CAR)) == "2\n"
    packed = tmp_path / "car.cnf.gz"
    packed.write_bytes(gzip.compress(CAR.encode()))
    assert good(run("count", packed, *options)) == "2\n"


def test_weights_by_name(car):
    """A factor of 3 on Diesel: 2 of the 6 solutions have it."""
    found = json.loads(good(run("marginals", car, "--weight", "Diesel=3", "--json")))
    assert found[2] == {"field": "Diesel", "value": True, "share": pytest.approx(6 / 10)}
    best = good(run("mode", car, "--weight", "Diesel=3", "--weight", "4=2"))
    assert [line.split()[-1] for line in best.splitlines()[1:]] == ["True", "False", "True", "True"]


def test_files_without_names_print_literals():
    done = run("mode", STREETS, "--given", "1=true")
    x = literals(good(done)) > 0
    assert Formula.from_dimacs(STREETS).satisfied(x).all() and x[0, 0]
    assert good(run("marginals", STREETS)).splitlines()[1].split()[0] == "x1"


@pytest.mark.parametrize("command", ["marginals", "mode", "sample"])
def test_unsatisfiable_is_exit_20(command, car):
    assert run(command, "-", stdin=UNSAT).returncode == 20
    assert run(command, car, "--given", "Engine=false").returncode == 20


def test_unsatisfiable_has_no_solutions(car):
    assert good(run("count", "-", stdin=UNSAT)) == "0\n"
    assert good(run("count", car, "--given", "Engine=false")) == "0\n"


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--given", "Motor=true"], 2),
        (["--given", "Engine=maybe"], 2),
        (["--given", "99=true"], 1),
        (["--weight", "Engine=-1"], 2),
        (["--weight", "Engine"], 2),
        (["--share", "Engine=0.5"], 2),
        (["--first", "Engine"], 2),
    ],
)
def test_bad_options(car, options, code):
    for command in ("sample", "marginals", "mode"):
        done = run(command, car, *options)
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr


def test_count_says_that_a_projection_is_not_used(tmp_path):
    path = tmp_path / "p.cnf"
    path.write_text("c ind 1 0\np cnf 2 0\n")
    done = run("count", path)
    assert good(done) == "4\n" and "projection" in done.stderr


@pytest.mark.slow
def test_sample_gives_back_the_names_of_a_model(tmp_path):
    formula = Formula([[1, 2], [-1, 3]], n_vars=3)
    model = Model(formula, np.array([0.5, 0.0, 0.0]), ("rain", "sun", "wind, strong"))
    pytest.importorskip("safetensors", reason="pip install nelson-mrf[torch]")
    model.save(tmp_path / "m")
    out = tmp_path / "new.csv"
    options = ("--given", "sun=false", "--given", "wind, strong=true")
    assert run("sample", tmp_path / "m", "-n", 20, *options, "-o", out).returncode == 0
    lines = list(csv.reader(io.StringIO(out.read_text())))
    assert lines[0] == ["rain", "sun", "wind, strong"]
    assert {tuple(line) for line in lines[1:]} == {("1", "0", "1")}
    assert run("sample", tmp_path / "m", "--given", "snow=true").returncode == 2
    # The other commands take the model too: its theta is the default of --weights.
    assert good(run("count", tmp_path / "m")) == "4\n"
    shares = json.loads(good(run("marginals", tmp_path / "m", "--json")))
    x = np.array(list(itertools.product([False, True], repeat=3)))
    x = x[formula.satisfied(x)]
    p = np.exp(x @ model.theta)
    assert [r["field"] for r in shares] == ["rain", "sun", "wind, strong"]
    assert [r["share"] for r in shares] == pytest.approx((p @ x / p.sum()).tolist())
    uniform = json.loads(good(run("marginals", tmp_path / "m", "--weights", "none", "--json")))
    assert [r["share"] for r in uniform] == pytest.approx(x.mean(axis=0).tolist())
    assert json.loads(good(run("mode", tmp_path / "m", "--json")))["rain"] is True
    assert json.loads(good(run("report", tmp_path / "m", "--json")))["n_vars"] == 3


def test_commands_for_models_refuse_terms_that_they_would_ignore(tmp_path):
    pytest.importorskip("safetensors", reason="pip install nelson-mrf[torch]")
    formula = Formula([[1, 2], [-1, 3]], n_vars=3)
    Model(formula, np.zeros(3), terms={(1, 2): 2.0}).save(tmp_path / "m")
    assert literals(good(run("sample", tmp_path / "m", "-n", 5, "--seed", 1))).shape == (5, 3)
    for command in ("marginals", "mode"):
        done = run(command, tmp_path / "m")
        assert done.returncode == 1 and "terms" in done.stderr
    done = run("sample", tmp_path / "m", "-n", 200, "--given", "1,2", "--seed", 1)
    assert (literals(good(done))[:, :2] > 0).all()
    for refused in (("-n", "inf"), ("--unique",)):
        assert run("sample", tmp_path / "m", *refused).returncode == 1


@pytest.mark.slow
def test_cover_takes_dimacs_with_names_and_feature_models(car, tmp_path):
    rows = list(csv.reader(io.StringIO(good(run("cover", car, "--seed", 1)))))
    assert rows[0] == ["Engine", "Winter tyres", "Diesel", "x4"]
    x = [tuple(cell == "True" for cell in row) for row in rows[1:]]
    assert set(x) <= set(SOLUTIONS)
    for a, b in itertools.combinations(range(4), 2):
        assert {(row[a], row[b]) for row in x} == {(row[a], row[b]) for row in SOLUTIONS}
    uvl = tmp_path / "car.uvl"
    uvl.write_text("features\n\tCar\n\t\toptional\n\t\t\tRadio\n")
    assert len(good(run("cover", uvl, "--seed", 1)).splitlines()) == 3


@pytest.mark.slow
def test_sample_gives_rows_of_a_model_of_a_table(tmp_path):
    pytest.importorskip("safetensors", reason="pip install nelson-mrf[torch]")
    space = Space.from_toml(
        "rules = [\"implies(plan == 'free', not yearly)\"]\n[fields]\n"
        'plan = { choice = ["free", "pro"] }\nyearly = "flag"\nseats = { integer = [1, 3] }\n'
    )
    rows = space.sample(500, weights={"plan": {"pro": 4}}, seed=0)
    model = space.learn({name: rows[name] for name in rows.columns}, pairs=None)
    model.save(tmp_path / "m")
    done = run("sample", tmp_path / "m", "-n", 300, "--seed", 1, "--given", "yearly=true")
    drawn = list(csv.DictReader(io.StringIO(good(done))))
    assert len(drawn) == 300 and list(drawn[0]) == ["plan", "yearly", "seats"]
    assert {(r["plan"], r["yearly"]) for r in drawn} == {("pro", "True")}
    assert "300 rows" in done.stderr
    expected = model.rows(300, given={"yearly": True}, seed=1)
    assert [int(r["seats"]) for r in drawn] == expected["seats"].tolist()
    out = tmp_path / "new.npz"
    assert run("sample", tmp_path / "m", "-n", 5, "-o", out).returncode == 0
    with np.load(out, allow_pickle=False) as data:
        assert data["rows"].dtype.names == ("plan", "yearly", "seats")
    assert run("sample", tmp_path / "m", "--project", "1").returncode == 2
    assert run("sample", tmp_path / "m", "--given", "plan=gold").returncode == 1
    assert run("sample", tmp_path / "m", "--weight", "plan.pro=2").returncode == 2
    assert good(run("count", tmp_path / "m")) == f"{space.count()}\n"
    table = json.loads(good(run("marginals", tmp_path / "m", "--json")))
    assert {tuple(row) for row in table} == {("field", "value", "share")}
    plans = {row["value"]: row["share"] for row in table if row["field"] == "plan"}
    assert plans == pytest.approx(model.marginals()["plan"])
    assert json.loads(good(run("mode", tmp_path / "m", "--json")))["plan"] == "pro"
    assert json.loads(good(run("report", tmp_path / "m", "--json")))["legal_rows"] == space.count()
