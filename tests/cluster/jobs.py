"""Small jobs, and tools to look into them, for the tests of sampling into folders."""

from __future__ import annotations

import pickle
from importlib import resources
from pathlib import Path

import numpy as np

from nelson import Formula
from nelson.sampling import shards
from nelson.sampling.options import Options
from nelson.sampling.plan import Plan

DATA = Path(str(resources.files("nelson_paper.tasks") / "data"))
STREETS, KSAT = DATA / "streets.cnf", DATA / "ksat-1000.cnf"
TOWN = Formula([[1, 3], [-1, 2, 4], [-2, 5], [-3, 6], [-4, -6, 7], [-5, -7]])
THETA = [0.7, 0.7, 0, -0.4, 0, 0, 0]
LOOSE = Formula([[1, 2, 3], [2, 3, 4], [-1, 4, 5]])  # not extremal
QUICK = {"method": "lovasz", "sweeps": 0}
#: The second and the third part of the job in the fixture `finished`.
PART, NEXT = "part-000000000000256.parquet", "part-000000000000512.parquet"


def settled(formula, n, method="auto", **options) -> shards.Settled:
    theta = options.pop("theta", None)
    plan = Plan(formula, theta, Options(method, **{"seed": 5, "threads": 1, **options})).drawing(n)
    return pickle.loads(pickle.dumps(shards.settle(plan)))  # as a worker gets it


def rows_of(folder: Path) -> np.ndarray:
    """The samples in a folder, read by pyarrow alone."""
    import pyarrow.dataset

    table = pyarrow.dataset.dataset(folder).to_table()
    octets = np.frombuffer(b"".join(table["x"].to_pylist()), np.uint8).reshape(len(table), -1)
    return np.unpackbits(octets, axis=1, bitorder="little")


def flip(path: Path, at: int) -> None:
    """Flip one bit of a file."""
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def aws(endpoint: str) -> dict[str, str]:
    """The variables that lead s3fs to a store of our own."""
    keys = dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "test")
    return keys | {"AWS_ENDPOINT_URL": endpoint, "AWS_DEFAULT_REGION": "us-east-1"}
