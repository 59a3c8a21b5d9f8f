"""`nelson learn rows.csv`, `sample`, `evaluate`: a table in, a table of the same look out."""

from __future__ import annotations

import json
import tomllib

import pandas as pd
import pytest

from tests.cli.commands import run
from tests.space.tables.people import people

pytestmark = [pytest.mark.slow, pytest.mark.process]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("rows")
    people(1200).to_csv(path / "rows.csv", index=False)
    people(400, seed=1).to_csv(path / "held.csv", index=False)
    done = run(
        "learn",
        path / "rows.csv",
        "-o",
        path / "model",
        "--seed",
        1,
        "--suggest",
        path / "rules.toml",
    )
    assert done.returncode == 0, done.stderr
    assert "taken for" in done.stdout and "1,200 rows" in done.stderr
    return path


def test_new_rows_have_the_columns_and_types_of_the_table(folder):
    done = run("sample", folder / "model", "-n", 500, "-o", folder / "new.csv", "--seed", 2)
    assert done.returncode == 0, done.stderr
    old, new = pd.read_csv(folder / "rows.csv"), pd.read_csv(folder / "new.csv")
    assert new.dtypes.equals(old.dtypes) and list(new) == list(old) and len(new) == 500
    assert new["id"].is_unique and new["zip"].isin(old["zip"]).all()
    assert (
        new["end"].isna().any()
        and (new["end"].dropna() >= new.loc[new["end"].notna(), "start"]).all()
    )
    again = run("sample", folder / "model", "-n", 500, "--seed", 2)
    assert again.stdout == (folder / "new.csv").read_text()
    given = run(
        "sample", folder / "model", "-n", 9, "--given", "income > 60000", "--given", "state=CA"
    )
    assert [line.split(",")[4] for line in given.stdout.splitlines()[1:]] == ["CA"] * 9
    assert all(float(line.split(",")[2]) > 60_000 for line in given.stdout.splitlines()[1:])
    pytest.importorskip("pyarrow", reason="NO PYARROW: Parquet is not tested")
    assert (
        run(
            "sample", folder / "model", "-n", 500, "-o", folder / "new.parquet", "--seed", 2
        ).returncode
        == 0
    )
    assert pd.read_parquet(folder / "new.parquet")["income"].tolist() == new["income"].tolist()


def test_rules_of_a_file_hold_and_suggestions_are_apart(folder):
    said = tomllib.loads((folder / "rules.toml").read_text())
    assert said["rules"] == [] and said["columns"] == {}
    (folder / "mine.toml").write_text(
        'rules = ["end - start <= 60", "income < 80000"]\n'
        '[columns]\nzip = "number"\n[bins]\nage = 5\n'
    )
    args = ["learn", folder / "mine.toml", folder / "rows.csv", "-o", folder / "mine", "--seed", 1]
    assert "rows are not legal" in run(*args).stderr
    done = run(*args, "--drop-invalid")
    assert done.returncode == 0 and "5 ranges" in done.stdout, done.stderr
    run("sample", folder / "mine", "-n", 500, "-o", folder / "short.csv", "--seed", 1)
    new = pd.read_csv(folder / "short.csv", parse_dates=["start", "end"])
    assert (new["end"] - new["start"]).dt.days.max() <= 60 and new["income"].max() < 80_000
    (folder / "wrong.toml").write_text("rulez = []\n")
    assert (
        "the key 'rulez'"
        in run("learn", folder / "wrong.toml", folder / "rows.csv", "-o", folder / "x").stderr
    )
    assert run("learn", folder / "mine.toml", "-o", folder / "x").returncode == 2
    assert run("learn", folder / "rows.csv", "-o", folder / "x", "--terms", "pairs").returncode == 2


def test_a_space_with_fields_learns_from_a_table(folder):
    (folder / "space.toml").write_text(
        "rules = [\"implies(marital == 'single', children <= 6)\"]\n[fields]\n"
        'marital = { choice = ["single", "married", "divorced"] }\n'
        "children = { integer = [0, 6] }\n"
        "income = { bins = [0, 30000, 60000, inf] }\n"
    )
    done = run("learn", folder / "space.toml", folder / "rows.csv", "-o", folder / "s", "--seed", 1)
    assert done.returncode == 0, done.stderr
    out = run("sample", folder / "s", "-n", 20, "--seed", 1).stdout.splitlines()
    assert out[0] == "income,marital,children" and float(out[1].split(",")[0]) > 0


def test_evaluate_prints_the_measures(folder):
    pytest.importorskip("sklearn", reason="NO SCIKIT-LEARN: detection is not tested")
    done = run("evaluate", folder / "model", folder / "held.csv", "--train", folder / "rows.csv")
    for name in (
        "rules kept   100.00%",
        "one_way",
        "two_way",
        "correlation",
        "detection",
        "copies",
    ):
        assert name in done.stdout, done.stdout + done.stderr
    told = json.loads(run("evaluate", folder / "model", folder / "held.csv", "--json").stdout)
    assert told["rules_kept"] == 1.0 and 0.4 < told["detection"] < 0.65
