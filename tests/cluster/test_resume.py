"""Workers are killed, jobs stopped, parts lost: the same job continues and loses nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nelson
from nelson import NelsonError, cluster
from nelson.cluster import job, parts
from tests.cluster import cells
from tests.cluster.jobs import QUICK, THETA, TOWN

pytestmark = pytest.mark.process


@pytest.fixture
def deadly(tmp_path, monkeypatch):
    """deadly(shards): workers die while they write those, once for each; -> the folder of graves,
    a file for each shard that holds the process id.
    """
    graves = tmp_path / "graves"
    graves.mkdir()

    def set_up(*firsts: int) -> Path:
        names = [parts.part_name(first) for first in firsts]
        monkeypatch.setattr(job, "files_at", lambda out: cells.Deadly(out, graves, names))
        return graves

    return set_up


def test_killed_workers_lose_nothing(ray, ksat, tmp_path, deadly):
    """SIGKILL to a worker in the middle of a shard, three times: n rows, each once."""
    n, shard, out = 200_000, 10_048, tmp_path / "job"
    graves = deadly(2 * shard, 7 * shard, 19 * shard)
    folder = cluster.sample(ksat, None, n, out, seed=2, shard=shard, **QUICK)
    assert len({grave.read_text() for grave in graves.iterdir()}) == 3  # different processes
    assert (len(folder), folder.info["drawn"], folder.info["parts"]) == (n, 20, 20)
    assert not list(out.glob(".*.part"))  # what they left behind is gone
    expected = nelson.stream(ksat, n=n, seed=2, block=65536, **QUICK)
    for block, right in zip(folder.blocks(65536), expected, strict=True):
        assert np.array_equal(block.packed, right.packed)


def test_a_shard_that_is_lost_too_often_is_an_error(ray, ksat, tmp_path, deadly):
    """No retries, and one worker killed: it says so, and what is finished stays."""
    options = {"seed": 2, "shard": 10_048, **QUICK}
    graves = deadly(10 * 10_048)
    with pytest.raises(NelsonError, match="was lost with its worker"):
        cluster.sample(ksat, None, 200_000, tmp_path / "job", retries=0, **options)
    assert len(list(graves.iterdir())) == 1
    assert list((tmp_path / "job").glob(".*.part"))  # it was in the middle of it
    folder = cluster.sample(ksat, None, 200_000, tmp_path / "job", **options)
    assert folder.info["kept"] and folder.info["kept"] + folder.info["drawn"] == 20
    folder.verify()
    assert len(folder) == 200_000


def test_goes_on_where_it_was_stopped(ray, tmp_path):
    out, n = tmp_path / "job", 4000

    def stop(safe: int) -> None:
        if safe >= 1000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cluster.sample(TOWN, THETA, n, out, seed=4, shard=256, progress=stop)
    with pytest.raises(NelsonError, match="not finished"):
        nelson.read(out)
    kept = nelson.read(out, partial=True)
    assert 1000 <= len(kept) < n
    assert (kept.status, kept.complete) == ("budget", False)
    complete = [path.with_suffix(".parquet") for path in out.glob("part-*.json")]
    before = {path: path.stat().st_mtime_ns for path in complete}
    assert before

    steps: list[int] = []
    folder = cluster.sample(TOWN, THETA, n, out, shard=256, progress=steps.append)  # the same seed
    assert folder.info["kept"] >= len(kept) // 256
    assert folder.info["kept"] + folder.info["drawn"] == 16
    assert steps[0] == 256 * folder.info["kept"] and steps[-1] == n and steps == sorted(steps)
    assert all(path.stat().st_mtime_ns == when for path, when in before.items())  # not touched
    expected = nelson.sample(TOWN, THETA, n, seed=4)
    assert np.array_equal(folder.samples().packed, expected.packed)
    assert cluster.sample(TOWN, THETA, n, out).info["drawn"] == 0


def test_time_that_is_up_and_parts_that_are_gone(ray, copy, tmp_path):
    folder = cluster.sample(TOWN, THETA, 1000, tmp_path / "new", seed=3, shard=256, seconds=0)
    assert (len(folder), folder.status) == (0, "budget")
    (copy / parts.part_name(256)).unlink()
    with (copy / parts.part_name(512)).open("ab") as file:
        file.write(b"more")
    folder = cluster.sample(TOWN, THETA, 1000, copy, seed=3)
    assert (folder.info["kept"], folder.info["drawn"]) == (2, 2)
    assert np.array_equal(folder.samples().packed, nelson.sample(TOWN, THETA, 1000, seed=3).packed)
