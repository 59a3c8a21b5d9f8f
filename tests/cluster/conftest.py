"""One cluster of two workers for all tests of this folder, and one finished job to copy."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import nelson
from nelson import Formula, cluster
from nelson.cluster import ray_cluster
from tests import ROOT
from tests.cluster import ranks
from tests.cluster.jobs import KSAT, THETA, TOWN


@pytest.fixture(scope="package")
def ray():
    """Connected to a real cluster on the loopback interface, whose workers can import `tests`.

    Calls without an address use the cluster that the process is connected to.
    """
    pytest.importorskip("ray")
    pytest.importorskip("pyarrow")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
        with ray_cluster.connected(None, workers=2) as connected:
            yield connected


@pytest.fixture(scope="session")
def ksat() -> Formula:
    return Formula.from_dimacs(KSAT)


@pytest.fixture(scope="package")
def finished(ray, tmp_path_factory) -> Path:
    """A finished job of four parts."""
    out = tmp_path_factory.mktemp("done") / "job"
    cluster.sample(TOWN, THETA, 1000, out, seed=3, shard=256)
    return out


@pytest.fixture
def copy(finished, tmp_path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "copy"))


@pytest.fixture(scope="session")
def examples() -> np.ndarray:
    """Examples for ranks to learn from."""
    return nelson.sample(Formula.from_dimacs(ranks.STREETS), ranks.THETA, 1001, seed=1).to_numpy()


@pytest.fixture(scope="session")
def data(tmp_path_factory, examples) -> Path:
    """The examples in a file."""
    path = tmp_path_factory.mktemp("data") / "train.npy"
    np.save(path, examples)
    return path
