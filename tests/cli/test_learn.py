"""`nelson learn`, `sample MODEL`, `evaluate`: exit codes, folders, streams."""

from __future__ import annotations

import json
import math
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import nelson
from nelson import Formula, metrics
from nelson.io import sample_files
from nelson.learning.model import Model, load
from tests.cli.commands import STREETS, literals, run


@pytest.fixture(scope="module")
def theta() -> np.ndarray:
    return np.array([1.5, -1.0, 0.5, 0.0, 1.0, -0.5, 0.0])


@pytest.fixture(scope="module")
def data(tmp_path_factory, theta) -> Path:
    path = tmp_path_factory.mktemp("data") / "train.txt"
    s = nelson.sample(Formula.from_dimacs(STREETS), theta, 3000, seed=1)
    path.write_text("".join(" ".join(map(str, row)) + " 0\n" for row in s.literals().tolist()))
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory, data) -> Path:
    path = tmp_path_factory.mktemp("models") / "m"
    done = run("learn", STREETS, data, "-o", path, "--seed", 3)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert "converged" in done.stderr
    assert "seed 3" in done.stderr
    return path


def test_learn_writes_a_model_that_is_close(model, theta):
    loaded = load(model)
    assert metrics.kl(loaded.formula, theta, loaded.theta).value < 0.01
    files = {path.name for path in model.iterdir()}
    assert files == {
        "README.md", "formula.cnf", "history.csv", "model.json", "theta.safetensors"
    }  # fmt: skip


def test_sample_draws_from_the_model(model, tmp_path):
    done = run("sample", model, "-n", 200, "--seed", 5)
    assert done.returncode == 0, done.stderr
    x = literals(done.stdout)
    assert Formula.from_dimacs(STREETS).satisfied(x > 0).all()
    np.testing.assert_array_equal(x > 0, load(model).sample(200, seed=5).to_numpy())
    out = tmp_path / "new.npz"
    assert run("sample", model, "-n", 200, "--seed", 5, "-o", out, "-q").stderr == ""
    np.testing.assert_array_equal(sample_files.read(out)[0], x > 0)
    some = run("sample", model, "-n", 20, "--given", "1,-2", "--project", "1,2", "--seed", 1)
    assert set(some.stdout.splitlines()) == {"1 -2 0"}


@pytest.mark.slow
def test_evaluate_prints_figures_and_json(model, data):
    done = run("evaluate", model, data, "--train", data)
    assert done.returncode == 0, done.stderr
    for word in ("log-likelihood", "on train", "log Z", "moment gap", "MAP@10", "validity"):
        assert word in done.stdout
    report = json.loads(run("evaluate", model, data, "--json").stdout)
    assert report["examples"] == 3000
    assert report["validity"] == 1.0
    assert report["log_likelihood"]["value"] < 0


def test_evaluate_says_when_log_z_has_only_bounds(tmp_path, monkeypatch):
    """The star of 13 variables, if no other method is allowed."""
    estimate = partial(metrics.compute.log_z, method="bounds")
    monkeypatch.setattr(metrics.compute, "log_z", estimate)
    f = Formula([[-1, -i] for i in range(2, 14)], n_vars=13)
    Model(f, np.array([10.0] + [2.0] * 12)).save(tmp_path / "m")
    examples = tmp_path / "x.txt"
    examples.write_text(("-1 " + " ".join(map(str, range(2, 14))) + " 0\n") * 20)
    done = run("evaluate", tmp_path / "m", examples, "--samples", 100)
    assert done.returncode == 0, done.stderr
    assert "bounds that always hold, not a 95% interval" in done.stdout


@pytest.mark.process
def test_evaluate_a_component_of_more_variables_than_a_float_has_powers_of_two(tmp_path):
    f = Formula([[i, i + 1] for i in range(1, 1100)], n_vars=1100)
    Model(f, np.zeros(1100)).save(tmp_path / "m")
    examples = tmp_path / "x.txt"
    examples.write_text((" ".join(map(str, range(1, 1101))) + " 0\n") * 20)
    done = run("evaluate", tmp_path / "m", examples, "--samples", 100, "--json")
    assert done.returncode == 0, done.stderr
    golden = (1 + math.sqrt(5)) / 2  # the number of structures is a Fibonacci number
    log_z = json.loads(done.stdout)["log_z"]
    truth = math.log(golden) * 1102 - math.log(5) / 2
    assert abs(log_z["value"] - truth) <= max(3 * log_z["half_width"], 1e-6)


@pytest.mark.slow
def test_exit_codes(model, data, tmp_path):
    cut = run("learn", STREETS, data, "-o", tmp_path / "cut", "--iterations", 1)
    assert cut.returncode == 3
    assert "budget reached" in cut.stderr
    assert load(tmp_path / "cut").theta.shape == (7,)
    assert run("learn", STREETS, tmp_path / "none.txt", "-o", tmp_path / "x").returncode == 1
    assert run("learn", STREETS, data).returncode == 2
    mine = run("learn", STREETS, data, "-o", data.parent)
    assert mine.returncode == 1
    assert "not written over" in mine.stderr
    assert run("sample", tmp_path).returncode == 1
    assert run("learn", STREETS, data, "-o", tmp_path / "x", "--preset", "no").returncode == 1
    lines = data.read_text().splitlines()
    broken = tmp_path / "broken.txt"
    broken.write_text("\n".join([*lines, "-1 -2 -3 -4 -5 -6 -7 0"]))
    bad = run("learn", STREETS, broken, "-o", tmp_path / "x")
    assert bad.returncode == 1
    assert "1 of 3,001 rows are invalid: row 3000 breaks clause" in bad.stderr
    assert len(bad.stderr.splitlines()) == 1
    assert not (tmp_path / "x").exists()
    dropped = run("learn", STREETS, broken, "-o", tmp_path / "y", "--drop-invalid", "--seed", 3)
    assert dropped.returncode == 0
    assert load(tmp_path / "y").theta.tobytes() == load(model).theta.tobytes()


@pytest.mark.slow
def test_paper_preset_checkpoint_history_and_plot(data, tmp_path):
    pytest.importorskip("matplotlib", reason="pip install nelson-mrf[plots]")
    out = [tmp_path / name for name in ("m", "run", "h.csv", "c.png")]
    args = ["learn", STREETS, data, "-o", out[0], "--preset", "paper", "--iterations", 40]
    args += ["--checkpoint", out[1], "--history", out[2], "--plot", out[3], "--seed", 1, "-q"]
    done = run(*args)
    assert done.returncode == 0, done.stderr  # a preset without a stopping test misses no budget
    assert len(out[2].read_text().splitlines()) == 41
    assert out[3].read_bytes().startswith(b"\x89PNG")
    first = load(out[0]).theta
    assert run(*args).returncode == 0  # nothing left to do
    assert load(out[0]).theta.tobytes() == first.tobytes()


@pytest.mark.slow
def test_products_are_learned_and_continue(data, tmp_path):
    """--terms pairs with validation rows and penalties, twice with one checkpoint; named products;
    held-out rows are scored. What cannot be meant is refused in one line."""
    rows = data.read_text().splitlines()
    held = tmp_path / "valid.txt"
    held.write_text("\n".join(rows[:300]))
    args = ["learn", STREETS, data, "--terms", "pairs", "--valid", held, "--l1", 0.001]
    args += ["--l2", 0.001, "--seed", 1, "--iterations", 320, "--checkpoint", tmp_path / "run"]
    done = run(*args, "-o", tmp_path / "m")
    assert done.returncode == 3 and "products" in done.stderr, done.stderr  # the budget ends it
    first = load(tmp_path / "m")
    assert first.terms and all(len(product) == 2 for product in first.terms)
    assert first.metadata["settings"]["l1"] == first.metadata["settings"]["l2"] == 0.001
    assert run(*args, "-o", tmp_path / "again").returncode == 3  # nothing left to do
    assert load(tmp_path / "again").terms == first.terms
    report = json.loads(run("evaluate", tmp_path / "m", held, "--json").stdout)
    assert report["log_likelihood"]["value"] < 0 and report["log_z"]["method"] == "enumerate"
    named = ["learn", STREETS, data, "-o", tmp_path / "n", "--terms", "1*2, 2*3*5", "--seed", 1]
    assert run(*named).returncode == 0
    assert set(load(tmp_path / "n").terms) == {(1, 2), (2, 3, 5)}
    for wrong in (["--terms", "1+2"], ["--terms", "1*99"], ["--l1", 1], ["--valid", held]):
        bad = run("learn", STREETS, data, "-o", tmp_path / "x", *wrong)
        assert bad.returncode == 1 and len(bad.stderr.splitlines()) == 1, bad.stderr
        assert "terms" in bad.stderr or "term (1, 99)" in bad.stderr


def test_a_model_that_could_not_be_saved_is_not_fitted(data, tmp_path, monkeypatch):
    fits = []
    monkeypatch.setattr("nelson.learning.learn.learn", lambda *args, **how: fits.append(args))
    monkeypatch.setitem(sys.modules, "safetensors.numpy", None)  # as if it were not installed
    done = run("learn", STREETS, data, "-o", tmp_path / "m")
    assert done.returncode == 1 and "pip install safetensors" in done.stderr and not fits


def test_help_has_examples():
    for command in ("learn", "sample", "evaluate"):
        done = run(command, "--help")
        assert done.returncode == 0
        assert f"nelson {command}" in done.stdout
        assert "Exit codes" in done.stdout
