"""Files appear when they are complete, in a local folder and through a file system of pyarrow."""

from __future__ import annotations

import numpy as np
import pytest

import nelson
from nelson import NelsonError
from nelson.cluster import job, job_files, parts, worker
from nelson.cluster.read import Folder
from tests.cluster.jobs import THETA, TOWN, settled

pytest.importorskip("pyarrow")


def half(place: job_files.JobFiles) -> None:
    with place.writing("b") as sink:
        sink.write(b"half")
        raise RuntimeError


def test_a_file_appears_when_it_is_complete(tmp_path):
    place = job_files.LocalFiles(tmp_path)
    with place.writing("a") as sink:
        sink.write(b"half")
        assert place.sizes() == {} and len(list(tmp_path.iterdir())) == 1
        sink.write(b" and half")
    assert place.sizes() == {"a": 13}
    with pytest.raises(RuntimeError):
        half(place)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    (tmp_path / ".a.leftover.part").write_text("by somebody who was killed")
    place.tidy()
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.slow
def test_a_job_through_a_file_system_of_pyarrow(tmp_path):
    """What s3:// would do, on the one such file system that is at hand."""
    from pyarrow import fs

    place = job_files.JobFiles("test://job", fs.LocalFileSystem(), str(tmp_path / "job"))
    place.make()
    told = job.described(TOWN, THETA, 1000, "auto", None, None, None, 1000, True, None)
    whole = settled(TOWN, 1000, theta=THETA, seed=3)
    told |= {"seed": 3, "shard": 256, **job._decided(whole)}
    parts.write_json(place, parts.JOB, told)
    work = worker.WorkerJob(place, told, whole).pickled()
    manifests = [worker.draw_shard(work, one)[0] for one in job.shard_sizes(1000, 256).items()]
    assert parts.finished_parts(place, place.sizes()).keys() == {0, 256, 512, 768}
    parts.write_json(place, parts.MANIFEST, parts.combined(told, manifests))
    folder = Folder(place)
    folder.verify()
    expected = nelson.sample(TOWN, THETA, 1000, seed=3)
    assert np.array_equal(folder.samples().packed, expected.packed)
    assert folder.dataset.count_rows() == 1000
    with pytest.raises(RuntimeError):
        half(place)
    assert "b" not in place.sizes()
    with pytest.raises(NelsonError, match="cannot be opened"):
        job_files.files_at("nosuch://bucket/folder")
    assert isinstance(job_files.files_at(f"file://{tmp_path}"), job_files.LocalFiles)
