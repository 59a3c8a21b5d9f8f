"""A space makes the same clauses in every process, whatever Python's hashes of strings are."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests import ROOT

PROGRAM = """
import nelson
space = nelson.Space()
a = space.choice("a", [f"v{k}" for k in range(70)])
b = space.choice("b", [f"v{k}" for k in range(50, 120)])
space.require((a == b) | (a == "v1"))
print(list(space.formula.clauses()))
"""


@pytest.mark.process
def test_the_clauses_do_not_depend_on_the_hashes_of_strings():
    """Else the same seed would give other rows in another process."""
    printed = set()
    for seed in ("1", "2"):
        env = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT / "src")}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, check=True
        )
        printed.add(done.stdout)
    assert len(printed) == 1
    assert len(printed.pop()) > 1000
