"""Sampling on Ray is `nelson.sample`, bit for bit; what is refused; what a worker holds."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import nelson
from nelson import Formula, NelsonError, cluster
from nelson.cluster import parts
from nelson.io import sample_files
from nelson.sampling import shards
from tests.cluster.jobs import LOOSE, QUICK, THETA, TOWN

pytestmark = pytest.mark.process


def test_same_samples_whatever_workers_and_shards(ray, ksat, tmp_path):
    n = 5000
    expected = nelson.sample(ksat, n=n, seed=9, **QUICK)
    for workers, shard in ((1, 1024), (2, 640), (2, None)):
        out = tmp_path / f"{workers}-{shard}"
        folder = cluster.sample(ksat, None, n, out, seed=9, workers=workers, shard=shard, **QUICK)
        assert (len(folder), folder.status, folder.guarantee) == (n, "ok", expected.guarantee)
        assert folder.info["workers"] == workers
        assert np.array_equal(folder.samples().packed, expected.packed)
        assert len(list(out.glob("*.parquet"))) == folder.info["parts"]
    assert not np.array_equal(nelson.sample(ksat, n=n, seed=8, **QUICK).packed, expected.packed)


def test_auto_decides_once(ray, tmp_path, monkeypatch):
    from nelson.sampling import auto

    calls, decide = [], auto.decide
    monkeypatch.setattr(auto, "decide", lambda *args: calls.append(args) or decide(*args))
    folder = cluster.sample(LOOSE, [1, 0, 0, 0, 0], 1000, tmp_path / "job", seed=1, shard=128)
    expected = nelson.sample(LOOSE, [1, 0, 0, 0, 0], 1000, seed=1)
    assert len(calls) == 2  # one for the job, one for the line above
    assert (folder.guarantee, folder.job["method"]) == (expected.guarantee, expected.info["method"])
    assert np.array_equal(folder.samples().packed, expected.packed)


def test_what_a_part_says_of_itself(copy):
    import pyarrow.parquet as pq

    file = pq.ParquetFile(copy / parts.part_name(256))
    meta = {key.decode(): value.decode() for key, value in file.metadata.metadata.items()}
    assert json.loads(meta["nelson.variables"]) == list(range(1, 8))
    assert (
        meta["nelson.formula"] == json.loads((copy / parts.JOB).read_text())["content"]["formula"]
    )
    told = [meta[f"nelson.{key}"] for key in ("seed", "method", "guarantee", "first", "count")]
    assert told == ["3", "lovasz", "exact", "256", "256"]
    assert file.schema_arrow.field("x").type.byte_width == 1
    x, variables, info = sample_files.read(copy / parts.part_name(256))  # one part alone
    assert np.array_equal(x, nelson.sample(TOWN, THETA, 1000, seed=3).to_numpy()[256:512])
    assert (variables, info["guarantee"]) == (tuple(range(1, 8)), "exact")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"n": 1001}, "number of samples is 1000, not 1001"),
        ({"seed": 4}, "seed is 3, not 4"),
        ({"formula": LOOSE, "theta": None}, "its formula is"),
        ({"theta": None}, "its theta is"),
        ({"method": "prs"}, "method and sweeps are"),
        ({"given": [1]}, "evidence is"),
        ({"project": [1, 2]}, "variables are"),
        ({"shard": 128}, "shards hold 256, not 128"),
        ({"names": list("abcdefg")}, "names are"),
        ({"max_rounds": 7}, "max_rounds is 1000, not 7"),
    ],
)
def test_the_folder_of_another_job_is_refused(copy, change, says):
    """No cluster is started for it."""
    options = {"formula": TOWN, "theta": THETA, "n": 1000, "seed": 3, "shard": 256} | change
    with pytest.raises(NelsonError, match=says):
        cluster.sample(out=copy, **options)


def test_other_folders_that_are_refused(tmp_path, copy):
    (copy / parts.JOB).unlink()
    with pytest.raises(NelsonError, match=r"but no job\.json"):
        cluster.sample(TOWN, THETA, 1000, copy, seed=3)
    (tmp_path / "file").write_text("")
    with pytest.raises(NelsonError, match="is a file"):
        cluster.sample(TOWN, THETA, 1000, tmp_path / "file", seed=3)
    for options, says in (
        ({"shard": 100}, "multiple of 64"),
        ({"workers": 0}, "workers = 0"),
        ({"seconds": -1}, "seconds"),
        ({"names": ["a"]}, "1 names"),
        ({"theta": np.zeros((2, 7))}, "one theta vector"),
        ({"address": "127.0.0.1:1"}, "no Ray cluster at"),
        ({"out": ""}, "no folder"),
    ):
        with pytest.raises(NelsonError, match=says):
            cluster.sample(**({"formula": TOWN, "n": 10, "out": tmp_path / "new"} | options))
    assert not (tmp_path / "new").exists()


def test_another_decision_is_not_mixed_in(ray, tmp_path, monkeypatch):
    """Stopped, and gone on with where `auto` would find other starts or circuits: refused."""
    out = tmp_path / "job"
    cluster.sample(TOWN, THETA, 1000, out, seed=3, shard=256, seconds=0)
    monkeypatch.setattr(shards.Settled, "digest", property(lambda self: "another"))
    with pytest.raises(NelsonError, match="begun with lovasz"):
        cluster.sample(TOWN, THETA, 1000, out, seed=3, shard=256)


def test_errors_of_workers_arrive_as_they_are(ray, tmp_path):
    unsatisfiable = Formula([[a, b, c] for a in (1, -1) for b in (2, -2) for c in (3, -3)])
    with pytest.raises(nelson.Unsatisfiable):
        cluster.sample(unsatisfiable, None, 100, tmp_path / "a", method="lovasz", seed=0)
    few = Formula([[v] + [-u for u in range(1, 13) if u != v] for v in range(1, 13)])
    some = nelson.sample(few, n=2000, seed=1, max_rounds=0, **QUICK)
    assert 0 < len(some) < 2000
    options = {"seed": 1, "max_rounds": 0, "shard": 1024, **QUICK}
    folder = cluster.sample(few, None, 2000, tmp_path / "b", **options)
    assert (folder.status, len(folder), folder.complete) == ("budget", len(some), True)
    assert "became valid within 0 rounds" in folder.info["reason"]
    assert np.array_equal(folder.samples().packed, some.packed)


def test_a_sampler_of_others_has_a_seed_a_shard(ray, tmp_path):
    options = {"method": "rejection", "seed": 1, "shard": 256}
    one = cluster.sample(LOOSE, None, 1000, tmp_path / "a", workers=1, **options)
    two = cluster.sample(LOOSE, None, 1000, tmp_path / "b", workers=2, **options)
    assert one.job["keyed"] == "shard"
    assert np.array_equal(one.samples().packed, two.samples().packed)
    assert LOOSE.satisfied(one.samples().to_numpy()).all()


def test_memory_of_a_worker_is_constant_in_n(ray, ksat, tmp_path):
    """Eight times the samples, in shards eight times as long: the same blocks are held at a time.

    Peaks only grow, and both jobs run in the same processes.
    """
    peaks = []
    for n in (131_072, 8 * 131_072):
        options = {"seed": 1, "shard": n // 2, **QUICK}
        folder = cluster.sample(ksat, None, n, tmp_path / str(n), **options)
        peaks.append(folder.info["peak_mb"])
        assert folder.info["bytes"] > 125 * n
        shutil.rmtree(tmp_path / str(n))
    assert peaks[1] - peaks[0] < 30  # MB; the shards differ by 57 MB


def workers_of(ray, title: str) -> list[int]:
    """Processes of the cluster of this test that are busy with `title`: children of its raylet."""
    from ray._private.worker import _global_node

    raylet = _global_node.all_processes["raylet"][0].process.pid
    workers = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                named = title.encode() in (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if parent == raylet and named:
                workers.append(int(folder.name))
    return workers


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="finds sockets in /proc")
def test_the_embedded_cluster_listens_on_the_loopback_interface_only(ray):
    from ray._private.worker import _global_node

    pids = {p.process.pid for some in _global_node.all_processes.values() for p in some}
    pids |= {os.getpid(), *workers_of(ray, "ray::")}
    sockets = set()
    for pid in pids:
        for link in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                target = os.readlink(link)
            except OSError:
                continue
            if target.startswith("socket:["):
                sockets.add(target[8:-1])
    listening = []
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            field = line.split()
            if field[3] == "0A" and field[9] in sockets:
                listening.append(field[1].rpartition(":")[0])
    loopback = {"0100007F", "0000000000000000FFFF00000100007F", "0" * 24 + "01000000"}
    assert listening and set(listening) <= loopback
