"""What ranks learn from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nelson
from nelson import Formula
from tests.learning import ranks


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
