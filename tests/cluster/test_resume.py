"""Jobs are stopped, parts lost or damaged: the same call continues and loses nothing."""

from __future__ import annotations

import numpy as np
import pytest

import nelson
from nelson import NelsonError, cluster
from nelson.cluster import parts
from tests.cluster.jobs import NEXT, PART, THETA, TOWN, flip

pytest.importorskip("pyarrow")


def test_goes_on_where_it_was_stopped(tmp_path):
    out, n = tmp_path / "job", 4000

    def stop(safe: int) -> None:
        if safe >= 1000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cluster.sample(TOWN, THETA, n, out, seed=4, part_rows=256, progress=stop)
    with pytest.raises(NelsonError, match="4 of 16 parts are there"):
        nelson.read(out)
    kept = nelson.read(out, partial=True)
    assert (len(kept), kept.status, kept.complete) == (1024, "budget", False)
    before = {path: path.stat().st_mtime_ns for path in out.iterdir()}
    assert len(before) == 5

    steps: list[int] = []
    folder = cluster.sample(TOWN, THETA, n, out, progress=steps.append)  # the same seed and parts
    assert (folder.info["kept"], folder.info["drawn"]) == (4, 12)
    assert steps[0] == 1024 and steps[-1] == n and steps == sorted(steps)
    assert all(path.stat().st_mtime_ns == when for path, when in before.items())  # not touched
    expected = nelson.sample(TOWN, THETA, n, seed=4)
    assert np.array_equal(folder.samples().packed, expected.packed)
    assert cluster.sample(TOWN, THETA, n, out).info["drawn"] == 0


def test_time_that_is_up(tmp_path, ksat):
    folder = cluster.sample(TOWN, THETA, 1000, tmp_path / "new", seed=3, part_rows=256, seconds=0)
    assert (len(folder), folder.status, folder.complete) == (0, "budget", False)
    many = cluster.sample(ksat, None, 10**8, tmp_path / "many", seed=3, seconds=0.5)
    assert many.status == "budget" and len(many) < 10**8  # the deadline is looked at within a part


@pytest.mark.parametrize("verify", [True, False])
def test_damaged_parts_are_drawn_again(copy, finished, tmp_path, verify):
    """A part of equal size with a changed bit, one of another seed, one that is longer, one that is
    gone. The twin: with verify=False only what is gone is drawn, and `verify` names the others.
    """
    cluster.sample(TOWN, THETA, 1000, tmp_path / "other", seed=4, part_rows=256)
    flip(copy / PART, 100)
    (copy / NEXT).write_bytes((tmp_path / "other" / NEXT).read_bytes())
    first, last = "part-000000000000000.parquet", "part-000000000000768.parquet"
    (copy / first).unlink()
    with (copy / last).open("ab") as file:
        file.write(b"more")
    folder = cluster.sample(TOWN, THETA, 1000, copy, verify=verify)
    assert (folder.info["kept"], folder.info["drawn"]) == ((0, 4) if verify else (3, 1))
    if not verify:
        with pytest.raises(NelsonError, match=rf"{PART}.*{NEXT}.*{last}"):
            folder.verify()
        return
    folder.verify()
    for path in finished.iterdir():
        assert path.read_bytes() == (copy / path.name).read_bytes()


def test_a_part_whose_name_lies_is_drawn_again(copy):
    """Its name claims fewer samples than the job asks for; the right part has another name."""
    wrong = "part-000000000000256.250-exact.parquet"
    (copy / PART).rename(copy / wrong)
    folder = cluster.sample(TOWN, THETA, 1000, copy)
    assert folder.info["drawn"] == 1 and len(folder) == 1000
    assert sorted(p.name for p in copy.iterdir())[:3] == [
        parts.JOB, "part-000000000000000.parquet", PART
    ]  # fmt: skip
    nelson.read(copy).verify()
