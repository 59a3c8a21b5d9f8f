"""Reading a folder back: rows, tensors, DataFrames; damage of every kind is an error."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import nelson
from nelson import NelsonError, cluster
from nelson.cluster import parts
from tests.cluster.jobs import NEXT, PART, THETA, TOWN, flip
from tests.test_docstrings import IN_A_FOLDER, run_example

pytest.importorskip("pyarrow")


def test_read_is_the_same_samples(finished):
    x = nelson.sample(TOWN, THETA, 1000, seed=3).to_numpy()
    folder = nelson.read(finished)
    assert len(folder) == 1000 and folder.complete
    assert repr(folder).endswith("1000 x 7, exact, ok, method='lovasz')")
    for start, stop in ((0, None), (0, 0), (250, 260), (999, 5000), (-3, None), (512, 100)):
        assert np.array_equal(folder.samples(start, stop).to_numpy(), x[start:stop])
    assert [len(block) for block in folder.blocks(300)] == [300, 300, 300, 100]
    with pytest.raises(nelson.FormulaError):
        folder.blocks(0)
    assert np.array_equal(np.concatenate([block.to_numpy() for block in folder]), x)
    assert folder.samples().info["seed"] == 3
    assert np.array_equal(folder.mean(), x.mean(axis=0))
    frame = folder.to_pandas(10, 20)
    assert list(frame.columns) == [f"x{v}" for v in range(1, 8)]
    assert np.array_equal(frame.to_numpy(), x[10:20])


@pytest.mark.parametrize("columns", [False, True])
def test_names_and_projection(tmp_path, columns):
    names = [f"street {c}" for c in "abcdefg"]
    options = {"seed": 3, "project": [6, 2], "names": names, "columns": columns, "part_rows": 64}
    folder = cluster.sample(TOWN, THETA, 100, tmp_path / "job", **options)
    assert folder.variables == (6, 2)
    x = nelson.sample(TOWN, THETA, 100, seed=3).to_numpy()[:, [5, 1]]
    assert np.array_equal(folder.samples().to_numpy(), x)
    assert np.array_equal(folder.mean(), x.mean(axis=0))
    frame = folder.to_pandas(50, 90)
    assert list(frame.columns) == ["street f", "street b"]
    assert np.array_equal(frame.to_numpy(), x[50:90])


@pytest.mark.parametrize("columns", [False, True])
def test_nothing_at_all(tmp_path, columns):
    folder = cluster.sample(TOWN, THETA, 0, tmp_path / "job", seed=3, columns=columns)
    assert (len(folder), folder.status, list(folder)) == (0, "ok", [])
    assert nelson.read(tmp_path / "job").samples().to_numpy().shape == (0, 7)
    assert folder.to_pandas().shape == (0, 7)
    assert folder.mean().tolist() == [0.0] * 7


DAMAGE = {
    "truncated": (lambda f: (f / PART).write_bytes((f / PART).read_bytes()[:-1]), "checksum"),
    "empty": (lambda f: (f / PART).write_bytes(b""), "checksum does not match"),
    "a bit of a row": (lambda f: flip(f / PART, 100), "checksum does not match"),
    "a bit of the footer": (lambda f: flip(f / PART, -100), "checksum does not match"),
    "missing": (lambda f: (f / PART).unlink(), "samples from 256 on are missing"),
    "a strange file": (
        lambda f: shutil.copy(f / PART, f / "part-x.parquet"),
        "not a part of the job",
    ),
    "a second copy": (
        lambda f: shutil.copy(f / PART, f / "part-000000000000256.250-exact.parquet"),
        "there twice",
    ),
    "in another's place": (lambda f: shutil.copy(f / NEXT, f / PART), "its first is 512, not 256"),
    "job": (lambda f: flip(f / parts.JOB, 600), "is damaged"),
    "job cut": (lambda f: (f / parts.JOB).write_bytes(b"{"), "is damaged"),
    "no job": (lambda f: (f / parts.JOB).unlink(), r"no _nelson\.parquet"),
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


def test_every_byte_of_a_part_counts(finished):
    """One changed bit anywhere is seen, also where Parquet readers do not look."""
    data = bytearray((finished / PART).read_bytes())
    assert parts.intact(bytes(data))
    for at in range(len(data)):
        data[at] ^= 1 << at % 8
        assert not parts.intact(bytes(data)), at
        data[at] ^= 1 << at % 8


@pytest.mark.parametrize("sealed", [True, False])
def test_a_footer_that_cannot_be_read_is_damage(copy, sealed):
    """Also if somebody computed the checksum again."""
    data = bytearray((copy / PART).read_bytes())
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    data[footer : footer + 4] = b"\xff" * 4
    whole = parts.sealed(bytes(data)) if sealed else bytes(data)
    assert parts.intact(whole) == sealed
    (copy / PART).write_bytes(whole)
    says = "its footer cannot be read" if sealed else "its checksum does not match"
    with pytest.raises(NelsonError, match=says):
        nelson.read(copy).samples(300, 301)


def test_a_part_of_another_seed_is_seen(copy, tmp_path):
    cluster.sample(TOWN, THETA, 1000, tmp_path / "other", seed=4, part_rows=256)
    shutil.copy(tmp_path / "other" / PART, copy / PART)
    with pytest.raises(NelsonError, match="its seed is 4, not 3"):
        nelson.read(copy).samples()


def test_damage_elsewhere_is_seen_by_verify(copy):
    flip(copy / PART, 100)
    flip(copy / NEXT, 100)
    folder = nelson.read(copy)
    assert len(folder.samples(0, 10)) == 10  # another part: not looked at
    with pytest.raises(NelsonError, match=rf"{PART} is damaged.*{NEXT} is damaged"):
        folder.verify()
    assert len(nelson.read(copy, check=False).samples(300, 310)) == 10


def test_partial_reads_what_is_there(copy):
    (copy / PART).unlink()
    with pytest.raises(NelsonError, match=r"3 of 4 parts are there.*--partial"):
        nelson.read(copy)
    x = nelson.sample(TOWN, THETA, 1000, seed=3).to_numpy()
    folder = nelson.read(copy, partial=True)
    assert (folder.complete, folder.status) == (False, "budget")
    assert np.array_equal(folder.samples().to_numpy(), np.delete(x, range(256, 512), axis=0))


def test_no_folder_of_ours(tmp_path):
    with pytest.raises(NelsonError, match=r"no _nelson\.parquet"):
        nelson.read(tmp_path)
    with pytest.raises(NelsonError, match=r"no _nelson\.parquet"):
        nelson.read(tmp_path / "none")


@pytest.mark.parametrize("name", IN_A_FOLDER)
def test_the_example_of_a_name_with_a_folder_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_example(name)
