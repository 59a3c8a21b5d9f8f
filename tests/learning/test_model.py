"""What a run leaves behind: model folders, the history, a torch distribution, TensorBoard files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import nelson
from nelson import Formula, FormulaError
from nelson.io import atomic
from nelson.learning import Run
from nelson.learning.checkpoint import pack_tensors
from nelson.learning.learn import learn
from nelson.learning.model import Model, load
from nelson.learning.run_options import History
from nelson_paper.tasks import drawing
from tests.cli.commands import run
from tests.learning.planted import draws, mesh
from tests.problems import exact_law, weights


def test_a_model_is_a_folder_that_loads(tmp_path):
    f = Formula([[1, 2, 3]], n_vars=4).exactly([1, 2, 3, 4], 2).xor([1, 4], False)
    data = exact_law(f, np.zeros(4))[0]
    fit = learn(f, np.tile(data, (50, 1)), seed=1)
    fit.save(tmp_path / "m")
    model = load(tmp_path / "m")
    assert model.formula == f
    assert model.theta.tobytes() == fit.theta.tobytes()
    assert model.metadata["why"] == fit.why
    assert (
        model.sample(100, seed=1).to_numpy().tolist() == fit.sample(100, seed=1).to_numpy().tolist()
    )
    assert "seed | 1" in (tmp_path / "m" / "README.md").read_text()
    assert not [p for p in (tmp_path / "m").iterdir() if p.suffix in (".pkl", ".pt", ".part")]
    fit.save(tmp_path / "m")  # a model may be replaced, other folders not
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("mine")
    with pytest.raises(nelson.NelsonError, match="not written over"):
        fit.save(tmp_path / "other")


def test_broken_models_are_refused(tmp_path):
    with pytest.raises(FormulaError, match="no model here"):
        load(tmp_path)
    Model(Formula([[1, 2]]), np.zeros(2)).save(tmp_path / "m")
    whole = (tmp_path / "m" / "theta.safetensors").read_bytes()
    (tmp_path / "m" / "theta.safetensors").write_bytes(whole[:-3])
    with pytest.raises(nelson.NelsonError, match="not a complete model"):
        load(tmp_path / "m")


@pytest.mark.parametrize("last", ["theta.safetensors", "formula.cnf", "README.md"])
def test_a_killed_save_leaves_a_model_or_none(tmp_path, monkeypatch, last):
    """The second save ends after the file `last`: no model is there, and a third save works."""
    folder = tmp_path / "m"
    old, new = (Model(Formula([[1, 2]]), np.full(2, value)) for value in (1.0, 2.0))
    old.save(folder)
    write = atomic.write

    def killed(path, data):
        write(path, data)
        if path.name == last:
            raise KeyboardInterrupt

    monkeypatch.setattr(atomic, "write", killed)
    with pytest.raises(KeyboardInterrupt):
        new.save(folder)
    monkeypatch.undo()
    with pytest.raises(FormulaError, match="no model here"):
        load(folder)
    new.save(folder)
    assert load(folder).theta.tolist() == [2.0, 2.0]


def test_a_network_replaces_theta(tmp_path):
    torch = pytest.importorskip("torch", reason="pip install nelson-mrf[torch]")
    Model(Formula([[1, 2]]), np.zeros(2)).save(tmp_path)
    Model(Formula([[1, 2]]), None, net=torch.nn.Linear(1, 2)).save(tmp_path)
    assert load(tmp_path).theta is None


@pytest.mark.slow
def test_a_picture_is_whole_or_absent(tmp_path, monkeypatch):
    """Ctrl-C in the middle of writing it."""
    module = pytest.importorskip("matplotlib.figure", reason="pip install nelson-mrf[plots]")

    def half(figure, target, **options):
        if isinstance(target, (str, os.PathLike)):
            Path(target).write_bytes(b"half")
        else:
            target.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(module.Figure, "savefig", half)
    row = {"iteration": 1, "gap_l1": 1.0, "gap_max": 0.5, "chi2": 2.0, "dof": 1.0, "m": 1}
    with pytest.raises(KeyboardInterrupt):
        History([row]).plot(tmp_path / "curve.png")
    with pytest.raises(KeyboardInterrupt):
        drawing.save(drawing.figure(1, 1), tmp_path / "task.svg")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()  # the twin: nothing else stands in the way
    History([row]).plot(tmp_path / "curve.png")
    drawing.save(drawing.figure(1, 1), tmp_path / "task.svg")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["curve.png", "task.svg"]


@pytest.mark.slow
def test_the_history_is_a_table_a_file_and_a_picture(tmp_path):
    f = mesh(6)
    fit = learn(f, draws(f, weights(f), 200, 1), seed=1)
    first = fit.history[0]
    assert first["iteration"] == 1
    assert {"phase", "gap_l1", "chi2", "m", "rounds", "sampling", "update"} <= set(first)
    fit.history.to_csv(tmp_path / "h.csv")
    assert len((tmp_path / "h.csv").read_text().splitlines()) == len(fit.history) + 1
    pq = pytest.importorskip("pyarrow.parquet", reason="pip install nelson-mrf[parquet]")
    fit.history.to_parquet(tmp_path / "h.parquet")
    assert pq.read_table(tmp_path / "h.parquet").num_rows == len(fit.history)
    pytest.importorskip("matplotlib", reason="pip install nelson-mrf[plots]")
    fit.history.plot(tmp_path / "h.png")
    assert (tmp_path / "h.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.process
def test_learning_needs_no_torch_and_import_loads_nothing():
    code = textwrap.dedent("""
        import sys, numpy as np, nelson
        assert "nelson.learning" not in sys.modules
        sys.modules["torch"] = None
        import nelson.learning.learn
        fit = nelson.learn(nelson.Formula([[1, 2]]), np.array([[0, 1], [1, 1]]), seed=0)
        assert fit.converged, fit.why
    """)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=240)
    assert done.returncode == 0, done.stderr.decode()


def test_the_fit_is_a_torch_distribution():
    torch = pytest.importorskip("torch", reason="pip install nelson-mrf[torch]")
    f = mesh(6)
    fit = learn(f, draws(f, weights(f), 500, 1), seed=1)
    states, p = exact_law(f, fit.theta)
    got = fit.mrf.log_prob(torch.as_tensor(states)).exp().detach().numpy()
    np.testing.assert_allclose(got, p, rtol=1e-6)


def test_tensorboard_is_optional(tmp_path):
    f = mesh(6)
    data = draws(f, weights(f), 100, 1)
    try:
        import torch.utils.tensorboard  # noqa: F401
    except ImportError:
        with pytest.raises(nelson.NelsonError, match="pip install tensorboard"):
            learn(f, data, seed=1, run=Run(tensorboard=tmp_path))
        return
    learn(f, data, seed=1, run=Run(tensorboard=tmp_path))
    assert any(name.startswith("events") for name in os.listdir(tmp_path))


# --- hostile folders -----------------------------------------------------------------------------

WRONG = {
    "null": lambda meta: None,
    "a number": lambda meta: 5,
    "a list": lambda meta: [meta],
    "another format": lambda meta: meta | {"format": 2},
    "names a number": lambda meta: meta | {"names": 7},
    "names a text": lambda meta: meta | {"names": "abc"},
    "names of numbers": lambda meta: meta | {"names": [1, 2, 3]},
    "a name too few": lambda meta: meta | {"names": ["a", "b"]},
    "terms a number": lambda meta: meta | {"terms": 3},
    "terms a text": lambda meta: meta | {"terms": "12"},
    "terms an object": lambda meta: meta | {"terms": {"a": 1}},
    "terms of three": lambda meta: meta | {"terms": [[[1, 2], 1.0, 0]]},
    "a term beyond n": lambda meta: meta | {"terms": [[[1, 9], 1.0]]},
    "a term of texts": lambda meta: meta | {"terms": [["ab", 1.0]]},
    "a term of NaN": lambda meta: meta | {"terms": [[[1, 2], float("nan")]]},
    "a term of a text": lambda meta: meta | {"terms": [[[1, 2], "1"]]},
    "constraints a number": lambda meta: meta | {"constraints": 1},
    "constraints null": lambda meta: meta | {"constraints": None},
    "constraints an object": lambda meta: meta | {"constraints": {"kind": "Xor"}},
    "a constraint null": lambda meta: meta | {"constraints": [None]},
    "a constraint of no kind": lambda meta: meta | {"constraints": [{"variables": [1]}]},
    "a constraint beyond n": lambda meta: (
        meta | {"constraints": [{"kind": "Xor", "variables": [1, 99], "parity": True}]}
    ),
    "a constraint of variable 0": lambda meta: (
        meta | {"constraints": [{"kind": "Xor", "variables": [0, 1], "parity": True}]}
    ),
    "a constraint of texts": lambda meta: (
        meta | {"constraints": [{"kind": "Xor", "variables": "12", "parity": True}]}
    ),
    "weights too few": lambda meta: (
        meta
        | {
            "constraints": [
                {"kind": "Linear", "weights": [1], "literals": [1, 2], "low": 0, "high": 1}
            ]
        }
    ),
    "n_vars negative": lambda meta: meta | {"n_vars": -3},
    "n_vars a text": lambda meta: meta | {"n_vars": "3"},
    "n_vars too many": lambda meta: meta | {"n_vars": 10**8},
    "n_aux too many": lambda meta: meta | {"n_aux": 10**8},
    "projection a number": lambda meta: meta | {"projection": 1},
    "projection beyond n": lambda meta: meta | {"projection": [9]},
    "settings a list": lambda meta: meta | {"settings": [1]},
    "nothing": lambda meta: {},
}


@pytest.fixture
def folder(tmp_path):
    Model(Formula([[1, 2, 3]]), np.zeros(3), ("a", "b", "c")).save(tmp_path / "m")
    return tmp_path / "m"


@pytest.mark.parametrize("name", WRONG)
def test_a_model_with_other_values_is_refused_in_one_line(folder, name):
    path = folder / "model.json"
    path.write_text(json.dumps(WRONG[name](json.loads(path.read_text()))))
    with pytest.raises(nelson.NelsonError, match="not a complete model"):
        load(folder)
    done = run("sample", folder, "-n", 5)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1, done.stderr


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "\xff"])
def test_a_model_that_is_no_json_is_refused(folder, text):
    (folder / "model.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(nelson.NelsonError, match="not a complete model"):
        load(folder)


@pytest.mark.parametrize(
    "theta",
    [np.zeros(2), np.zeros(4), np.zeros((3, 1)), np.zeros(3, np.int64), np.array([0, np.nan, 0])],
)
def test_theta_of_another_shape_or_type_is_refused(folder, theta):
    (folder / "theta.safetensors").write_bytes(pack_tensors({"theta": theta}))
    with pytest.raises(nelson.NelsonError, match="not a complete model"):
        load(folder)
    (folder / "theta.safetensors").write_bytes(pack_tensors({"theta": np.zeros(3, np.float32)}))
    assert load(folder).theta.dtype == np.float64  # the twin
