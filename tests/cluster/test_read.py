"""Reading a folder back: rows, tensors, DataFrames; damage of every kind is an error."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import nelson
from nelson import NelsonError, cluster
from nelson.cluster import job_files, parts
from tests.cluster.jobs import NEXT, PART, THETA, TOWN, flip
from tests.test_docstrings import ON_RAY, run_example

pytestmark = pytest.mark.process


def test_read_is_the_same_samples(finished):
    x = nelson.sample(TOWN, THETA, 1000, seed=3).to_numpy()
    folder = nelson.read(finished)
    assert len(folder) == 1000 and folder.complete
    assert repr(folder).endswith("1000 x 7, exact, ok, method='lovasz')")
    for start, stop in ((0, None), (0, 0), (250, 260), (999, 5000), (-3, None), (512, 100)):
        assert np.array_equal(folder.samples(start, stop).to_numpy(), x[start:stop])
    assert [len(block) for block in folder.blocks(300)] == [300, 300, 300, 100]
    assert np.array_equal(np.concatenate([block.to_numpy() for block in folder]), x)
    assert folder.samples().info["seed"] == 3
    assert folder.dataset.count_rows() == 1000
    frame = folder.to_pandas(10, 20)
    assert list(frame.columns) == [f"x{v}" for v in range(1, 8)]
    assert np.array_equal(frame.to_numpy(), x[10:20])


def test_read_as_torch_batches(finished):
    torch = pytest.importorskip("torch")
    x = nelson.sample(TOWN, THETA, 1000, seed=3).to_numpy()
    folder = nelson.read(finished)
    batches = list(folder.torch(300))
    assert [tuple(batch.shape) for batch in batches] == [(300, 7)] * 3 + [(100, 7)]
    assert batches[0].dtype == torch.uint8
    assert np.array_equal(torch.cat(batches).numpy(), x)
    assert len(list(folder.torch(300, torch.float32, drop_last=True))) == 3
    with pytest.raises(nelson.FormulaError):
        folder.torch(0)


def test_names_and_projection(ray, tmp_path):
    names = [f"street {c}" for c in "abcdefg"]
    out = tmp_path / "job"
    folder = cluster.sample(TOWN, THETA, 100, out, seed=3, project=[6, 2], names=names)
    assert folder.variables == (6, 2)
    assert list(folder.to_pandas().columns) == ["street f", "street b"]
    assert np.array_equal(
        folder.samples().to_numpy(), nelson.sample(TOWN, THETA, 100, seed=3).to_numpy()[:, [5, 1]]
    )


def test_nothing_at_all(ray, tmp_path):
    folder = cluster.sample(TOWN, THETA, 0, tmp_path / "job", seed=3)
    assert (len(folder), folder.status, list(folder)) == (0, "ok", [])
    assert nelson.read(tmp_path / "job").samples().to_numpy().shape == (0, 7)


DAMAGE = {
    "truncated": (lambda f: (f / PART).write_bytes((f / PART).read_bytes()[:-1]), "its manifest"),
    "a bit of a row": (lambda f: flip(f / PART, 100), "checksum does not match"),
    "a bit of the footer": (lambda f: flip(f / PART, -100), "checksum does not match"),
    "missing": (lambda f: (f / PART).unlink(), "is missing"),
    "a second copy": (
        lambda f: shutil.copy(f / PART, f / "part-x.parquet"),
        "not a part of the job",
    ),
    "in another's place": (
        lambda f: shutil.copy(f / NEXT, f / PART),
        "checksum does not match|bytes",
    ),
    "manifest": (lambda f: flip(f / parts.MANIFEST, 60), "is damaged"),
    "manifest cut": (lambda f: (f / parts.MANIFEST).write_bytes(b"{"), "is damaged"),
    "job": (lambda f: flip(f / parts.JOB, 60), "is damaged"),
    "no job": (lambda f: (f / parts.JOB).unlink(), r"no job\.json"),
}


@pytest.mark.parametrize("how", [None, *DAMAGE])
def test_damage_is_seen(copy, how):
    """None: what was not damaged is read."""
    if how is None:
        nelson.read(copy).verify()
        return
    damage, says = DAMAGE[how]
    damage(copy)
    with pytest.raises(NelsonError, match=says):
        nelson.read(copy).samples(300, 301)


def test_damage_elsewhere_is_seen_by_verify(copy):
    flip(copy / PART, 100)
    folder = nelson.read(copy)
    assert len(folder.samples(0, 10)) == 10  # another part: not looked at
    with pytest.raises(NelsonError, match=f"{PART} is damaged"):
        folder.verify()
    assert len(nelson.read(copy, check=False).samples(300, 310)) == 10


def test_a_duplicate_in_the_manifest_is_seen(copy):
    folder = job_files.LocalFiles(copy)
    whole = parts.read_json(folder, parts.MANIFEST)
    for values in whole["parts"].values():
        values.insert(1, values[0])
    parts.write_json(folder, parts.MANIFEST, whole)
    with pytest.raises(NelsonError, match="there twice"):
        nelson.read(copy)
    for values in whole["parts"].values():
        del values[1:3]
    parts.write_json(folder, parts.MANIFEST, whole)
    with pytest.raises(NelsonError, match="samples 256 to 512 are missing"):
        nelson.read(copy)


def test_no_folder_of_ours(tmp_path):
    with pytest.raises(NelsonError, match=r"no job\.json"):
        nelson.read(tmp_path)
    with pytest.raises(NelsonError, match=r"no job\.json"):
        nelson.read(tmp_path / "none")


@pytest.mark.parametrize("name", ON_RAY)
def test_the_example_of_a_name_on_ray_runs(ray, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_example(name)
