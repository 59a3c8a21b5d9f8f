"""One cluster of two cores for all tests of this folder, and one finished job to copy."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from nelson import Formula, cluster
from nelson.cluster import ray_cluster
from tests.cluster import ray_head
from tests.cluster.jobs import KSAT, THETA, TOWN, aws


@pytest.fixture(scope="package")
def head():
    """A cluster on the loopback interface, whose workers can import `tests`; this process is
    connected to it. Ray reads the variables of its token when it is imported.
    """
    if not ray_head.available():
        pytest.skip("NO ray: nothing is drawn on a cluster")
    assert "ray" not in sys.modules
    with ray_head.running() as running, pytest.MonkeyPatch.context() as patch:
        for name, value in running.environment.items():
            patch.setenv(name, value)
        with ray_cluster.connected(running.address):
            yield running


@pytest.fixture(scope="session")
def ksat() -> Formula:
    return Formula.from_dimacs(KSAT)


@pytest.fixture(scope="session")
def finished(tmp_path_factory) -> Path:
    """A finished job of four parts."""
    pytest.importorskip("pyarrow")
    out = tmp_path_factory.mktemp("done") / "job"
    cluster.sample(TOWN, THETA, 1000, out, seed=3, part_rows=256)
    return out


@pytest.fixture
def copy(finished, tmp_path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "copy"))


@pytest.fixture(scope="package")
def bucket():
    """s3://nelson on a server of `moto`, in this process."""
    for name in ("s3fs", "moto", "flask", "flask_cors"):
        pytest.importorskip(name, reason=f"NO {name}: no object store is tested")
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in aws(f"http://{host}:{port}").items():
            patch.setenv(name, value)
        import s3fs

        s3fs.S3FileSystem.clear_instance_cache()
        s3fs.S3FileSystem().mkdir("nelson")
        yield "s3://nelson"
        s3fs.S3FileSystem.clear_instance_cache()
    server.stop()
