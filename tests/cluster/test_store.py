"""Object stores: a job on one that runs on the loopback interface; no wait without an end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time

import numpy as np
import pytest

import nelson
from nelson import NelsonError, cluster
from nelson.cluster import parts
from nelson.cluster.store import Store
from tests.cli.commands import NELSON, STREETS, TIMEOUT
from tests.cluster.jobs import THETA, TOWN, aws

pytest.importorskip("pyarrow")
pytest.importorskip("fsspec")


def stored(where: str) -> dict[str, bytes]:
    place = Store(where)
    return {name: place.read(name) for name in place.sizes()}


def exercise(where: str) -> None:
    """A job by two shards, damaged, lost and drawn again; another job is refused."""
    expected = nelson.sample(TOWN, THETA, 1000, seed=3)
    options = {"seed": 3, "part_rows": 256}
    with pytest.raises(NelsonError, match=r"no _nelson\.parquet"):
        nelson.read(where)
    for k in (2, 1):
        cluster.sample(TOWN, THETA, 1000, where, shard=f"{k}/2", **options)
    folder = nelson.read(where)
    folder.verify()
    assert np.array_equal(folder.samples().packed, expected.packed)
    before = stored(where)
    assert len(before) == 5
    assert Store(where).begin(parts.JOB, b"another") is False
    with pytest.raises(NelsonError, match="seed is 3, not 4"):
        cluster.sample(TOWN, THETA, 1000, where, seed=4)
    first, second = sorted(before)[1:3]
    changed = bytearray(before[first])
    changed[100] ^= 1
    Store(where).write(first, bytes(changed))
    Store(where).remove(second)
    again = cluster.sample(TOWN, THETA, 1000, where, **options)
    assert (again.info["kept"], again.info["drawn"]) == (2, 2)
    assert stored(where) == before


def test_a_job_in_an_object_store(bucket):
    exercise(f"{bucket}/job")


def test_a_job_in_memory_and_at_a_file_uri(tmp_path):
    exercise("memory://nelson-test/job")
    exercise(f"file://{tmp_path}/a%20job")
    assert (tmp_path / "a job" / parts.JOB).is_file()


@pytest.fixture
def silent():
    """The address of a server that accepts connections and never answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(100)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_a_store_that_does_not_answer_is_an_error_in_time(silent, monkeypatch):
    s3fs = pytest.importorskip("s3fs", reason="NO s3fs: no object store is tested")
    for name, value in aws(silent).items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    monkeypatch.setattr(Store, "first_answer", 1.0)
    with pytest.raises(NelsonError, match="no answer within 1 s"):
        cluster.sample(TOWN, THETA, 1000, "s3://nelson/job", seed=3)
    s3fs.S3FileSystem.clear_instance_cache()


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_are_obeyed_while_a_store_does_not_answer(silent, number):
    pytest.importorskip("s3fs", reason="NO s3fs: no object store is tested")
    args = ["sample", str(STREETS), "-n", "1000", "-o", "s3://nelson/job"]
    child = subprocess.Popen([*NELSON, *args], env=os.environ | aws(silent), stderr=subprocess.PIPE)
    time.sleep(5)  # by then it waits for an answer; earlier, the signal ends it just as well
    assert child.poll() is None
    child.send_signal(number)
    told = child.communicate(timeout=TIMEOUT / 4)[1].decode()
    assert child.returncode == 128 + number, told
    assert "interrupted" in told
