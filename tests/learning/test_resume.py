"""A run that is killed and resumed ends with the same bits as one that was not."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import nelson
from nelson import FormulaError
from nelson.learning import PAPER, Adam, Network, Newton, Run
from nelson.learning.checkpoint import pack_tensors, unpack_tensors
from nelson.learning.learn import learn
from tests import ROOT
from tests.problems import complete_edges, exact_law, random_ksat, sink_free, weights

MESH = sink_free(complete_edges(4))


CHILD = """
import os, signal, sys
sys.path.insert(0, {tests!r})
from tests.learning.test_resume import resumable
def stop(row):
    if row["iteration"] == {at}:
        os.kill(os.getpid(), signal.SIGKILL)
resumable({kind!r}, checkpoint={folder!r}, callback=stop)
"""
KINDS = {
    "default": Newton(m=256, stop=False, iterations=30),
    "paper": replace(PAPER, iterations=60),
    "adam": Adam(iterations=60, stop=False),
    "net": Network(iterations=20, m=64, batch=32),
}


def resumable(kind: str, *, method="auto", iterations=None, **running) -> bytes:
    """One run of a kind; -> the bytes of what it learned."""
    f = random_ksat(20, 20, 5, seed=1)
    data = nelson.sample(f, weights(f), 300, seed=1, threads=1)
    optimizer = KINDS[kind]
    if iterations is not None:
        optimizer = replace(optimizer, iterations=iterations)
    options = {"optimizer": optimizer, "method": method, "run": Run(every=7, **running)}
    if kind == "net":
        import torch

        torch.manual_seed(1)
        net = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Dropout(0.2))
        net.append(torch.nn.Linear(4, 20))
        options |= {"net": net, "contexts": np.random.default_rng(1).normal(size=(300, 2))}
        learn(f, data, seed=1, **options)
        return b"".join(p.detach().numpy().tobytes() for p in net.parameters())
    fit = learn(f, data, seed=1, **options)
    return fit.theta.tobytes()


class Stopped(Exception):
    """Raised after an iteration: the loop ends without saving, as if it had been killed."""


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_stopped_run_resumes_to_the_same_bits(tmp_path, kind):
    if kind == "net":
        pytest.importorskip("torch", reason="pip install nelson-mrf[torch]")

    def stop(row):
        if row["iteration"] == 17:
            raise Stopped

    with pytest.raises(Stopped):
        resumable(kind, checkpoint=tmp_path, callback=stop)
    check_resumed(tmp_path, kind)


@pytest.mark.process
def test_a_killed_run_resumes_to_the_same_bits(tmp_path):
    child = CHILD.format(tests=str(ROOT), at=17, kind="default", folder=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", child], capture_output=True, timeout=240)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    check_resumed(tmp_path, "default")


def check_resumed(folder: Path, kind: str) -> None:
    """A run that ended in iteration 17, with a checkpoint every 7, goes on from iteration 14."""
    state = json.loads((folder / "checkpoint.json").read_text())
    assert state["iteration"] == 14
    seen = []
    resumed = resumable(kind, checkpoint=folder, callback=lambda row: seen.append(row["iteration"]))
    assert seen[0] == 15
    assert resumed == resumable(kind)
    # The twin: the same comparison tells apart runs that differ by one iteration.
    assert resumed != resumable(kind, iterations=KINDS[kind].iterations - 1)


@pytest.mark.process
def test_the_format_of_a_checkpoint_is_kept(tmp_path):
    resumable("default", checkpoint=tmp_path, iterations=3)
    state = json.loads((tmp_path / "checkpoint.json").read_text())
    common = {"version", "state", "iteration", "run", "drawer", "guarantee", "history"}
    assert set(state) == common | {"scalars", "chosen_at"}
    assert state["version"] == 1
    assert state["state"] == "state-000003.safetensors"


@pytest.mark.process
@pytest.mark.slow
def test_a_network_resumes_without_the_iteration_of_its_last_refresh(tmp_path):
    """Checkpoints of networks once did not have it; iteration 26 chooses the sweeps again."""
    pytest.importorskip("torch", reason="pip install nelson-mrf[torch]")
    more = {"method": "lovasz", "iterations": 30}
    resumable("net", checkpoint=tmp_path, **(more | {"iterations": 14}))
    path = tmp_path / "checkpoint.json"
    state = json.loads(path.read_text())
    assert state.pop("chosen_at") == [0, 64]
    path.write_text(json.dumps(state))
    assert resumable("net", checkpoint=tmp_path, **more) == resumable("net", **more)
    assert json.loads(path.read_text())["chosen_at"] == [25, 64]


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    f = MESH
    data = np.tile(exact_law(f)[0], (6, 1))
    learn(f, data, seed=1, run=Run(checkpoint=tmp_path), optimizer=Newton(iterations=3))
    with pytest.raises(FormulaError, match="belongs to another run: data"):
        learn(f, data[:-1], seed=1, run=Run(checkpoint=tmp_path))
    with pytest.raises(FormulaError, match="setting prior"):
        learn(f, data, seed=1, run=Run(checkpoint=tmp_path), optimizer=Newton(prior=2.0))
    assert learn(f, data, seed=2, run=Run(checkpoint=tmp_path, resume=False)).seed == 2
    (tmp_path / "checkpoint.json").write_text("{")
    with pytest.raises(nelson.NelsonError, match="not a checkpoint"):
        learn(f, data, seed=2, run=Run(checkpoint=tmp_path))


def test_a_run_without_a_seed_resumes_with_the_one_it_drew(tmp_path):
    f = MESH
    data = np.tile(exact_law(f)[0], (6, 1))
    first = learn(f, data, run=Run(checkpoint=tmp_path), optimizer=Newton(iterations=4))
    second = learn(f, data, run=Run(checkpoint=tmp_path))
    assert second.seed == first.seed
    assert second.theta.tobytes() == learn(f, data, seed=first.seed).theta.tobytes()


def test_a_finished_run_keeps_its_reasons(tmp_path):
    """Also from a checkpoint without the prior's share, which older ones do not have."""
    data = np.tile(exact_law(MESH)[0], (6, 1))
    fit = learn(MESH, data, seed=1, run=Run(checkpoint=tmp_path, every=1))
    assert "samples add" in fit.why
    assert learn(MESH, data, seed=1, run=Run(checkpoint=tmp_path)).why == fit.why
    path = tmp_path / "checkpoint.json"
    state = json.loads(path.read_text())
    del state["scalars"]["prior_share"]
    path.write_text(json.dumps(state))
    older = learn(MESH, data, seed=1, run=Run(checkpoint=tmp_path))
    assert "samples add" not in older.why and older.converged


# --- hostile checkpoints -------------------------------------------------------------------------


def _changed(**changes):
    return lambda state: state | changes


def _inside(key, **changes):
    return lambda state: state | {key: state[key] | changes}


WRONG = {
    "null": lambda state: None,
    "a list": lambda state: [state],
    "another version": _changed(version=2),
    "state a number": _changed(state=5),
    "state elsewhere": _changed(state="../../other.safetensors"),
    "history a number": _changed(history=3),
    "history of numbers": _changed(history=[1, 2, 3]),
    "history too short": _changed(history=[]),
    "iteration a text": _changed(iteration="3"),
    "run a list": _changed(run=[]),
    "seed a text": _inside("run", seed="1"),
    "drawer null": _changed(drawer=None),
    "method a number": _inside("drawer", method=1),
    "no such method": _inside("drawer", method="nope"),
    "sweeps a text": _inside("drawer", sweeps="1"),
    "a guarantee nobody gives": _inside("drawer", guarantee="perfect"),
    "guarantee unknown": _changed(guarantee="perfect"),
    "chosen_at a number": _changed(chosen_at=1),
    "scalars null": _changed(scalars=None),
    "m a text": _inside("scalars", m="64"),
    "m negative": _inside("scalars", m=-1),
    "m huge": _inside("scalars", m=10**15),
    "m_final huge": _inside("scalars", m_final=10**15),
    "averaged true": _inside("scalars", averaged=True),
    "done without figures": lambda state: (
        state
        | {"scalars": state["scalars"] | {"done": True}, "history": [{}] * len(state["history"])}
    ),
    "phase a number": _inside("scalars", phase=1),
    "an empty mean": _inside("scalars", phase="average", averaged=0),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_checkpoint_with_other_values_is_refused(tmp_path, name):
    data = np.tile(exact_law(MESH)[0], (6, 1))
    learn(MESH, data, seed=1, run=Run(checkpoint=tmp_path), optimizer=Newton(iterations=3))
    path = tmp_path / "checkpoint.json"
    path.write_text(json.dumps(WRONG[name](json.loads(path.read_text()))))
    with pytest.raises(nelson.NelsonError):
        learn(MESH, data, seed=1, run=Run(checkpoint=tmp_path), optimizer=Newton(iterations=4))


@pytest.mark.parametrize(
    "change",
    [
        lambda a: a | {"theta": a["theta"][:-1]},
        lambda a: a | {"target": a["target"][None]},
        lambda a: a | {"step": a["step"].astype(np.float32)},
        lambda a: a | {"target": a["target"] + 1},
        lambda a: a | {"point": np.full_like(a["point"], np.nan)},
        lambda a: {name: array for name, array in a.items() if name != "total"},
    ],
)
def test_a_checkpoint_with_other_arrays_is_refused(tmp_path, change):
    data = np.tile(exact_law(MESH)[0], (6, 1))
    whole = learn(MESH, data, seed=1, run=Run(checkpoint=tmp_path), optimizer=Newton(iterations=3))
    (path,) = tmp_path.glob("*.safetensors")
    arrays = unpack_tensors(path.read_bytes())
    path.write_bytes(pack_tensors(change(arrays)))
    with pytest.raises(nelson.NelsonError, match="not a checkpoint of nelson"):
        learn(MESH, data, seed=1, run=Run(checkpoint=tmp_path), optimizer=Newton(iterations=4))
    path.write_bytes(pack_tensors(arrays))  # the twin: unchanged arrays are read
    again = learn(MESH, data, seed=1, run=Run(checkpoint=tmp_path), optimizer=Newton(iterations=3))
    assert again.theta.tobytes() == whole.theta.tobytes()


@pytest.mark.slow
def test_a_checkpoint_of_another_network_is_refused(tmp_path):
    torch = pytest.importorskip("torch", reason="pip install nelson-mrf[torch]")
    data = np.tile(exact_law(MESH)[0], (6, 1))
    contexts = np.zeros((len(data), 2), np.float32)

    def fit():
        torch.manual_seed(1)
        net = torch.nn.Linear(2, MESH.n_vars)
        options = {"optimizer": Network(m=16, batch=8, iterations=3), "seed": 1}
        options["run"] = Run(checkpoint=tmp_path)
        return learn(MESH, data, net=net, contexts=contexts, **options)

    fit()
    (path,) = tmp_path.glob("*.safetensors")
    arrays = unpack_tensors(path.read_bytes())
    for name in arrays:
        path.write_bytes(pack_tensors(arrays | {name: np.zeros((3, 7), np.float32)}))
        with pytest.raises(nelson.NelsonError, match="not a checkpoint of nelson"):
            fit()
    path.write_bytes(pack_tensors(arrays))
    fit()
