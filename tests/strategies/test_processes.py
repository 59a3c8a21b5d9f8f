"""Replay in another process; Hypothesis' entry point; a Python without Hypothesis."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib

import pytest

from tests import ROOT

pytestmark = pytest.mark.process

FAILING = """
import nelson
from hypothesis import given, settings
from hypothesis.database import DirectoryBasedExampleDatabase
from nelson.strategies import rows

space = nelson.Space()
burst = space.choice("burst", ["FIXED", "INCR", "WRAP"])
length, addr = space.integer("len", 1, 15), space.bits("addr", 32)
space.require((burst == "WRAP").implies(length.isin([2, 4, 8])))
space.require(addr % 8 == 4)
seen = []

@settings(database=DirectoryBasedExampleDatabase("examples"))
@given(rows(space))
def test(row):
    seen.append(tuple(row.values()))
    assert row["len"] < 5 or row["addr"] < 70000

try:
    test()
except AssertionError:
    print(seen[0], seen[-1], len(seen), space.satisfied(dict(zip(space.fields, zip(*seen)))).all())
"""

BOUND = """
import sys
import nelson
from dataclasses import dataclass
from nelson import strategies

space = nelson.Space()
space.integer("a", 0, 9), space.integer("b", 0, 9)
space.require("a + b == 11")

@strategies.bind(space)
@dataclass
class Pair:
    a: int
    b: int

assert "hypothesis" not in sys.modules and "numba" not in sys.modules
from hypothesis import given, settings, strategies as st

@settings(max_examples=20, database=None)
@given(...)
def test(pair: Pair):
    assert pair.a + pair.b == 11

test()
"""

WITHOUT = """
import sys
sys.modules["hypothesis"] = None
import nelson
from nelson.strategies import minimal, rows
space = nelson.Space()
space.integer("a", 3, 9)
print(minimal(space))
try:
    rows(space)
except nelson.NelsonError as error:
    print(error)
"""


def output(code: str, folder, path: str = "") -> tuple[str, str]:
    where = os.pathsep.join(filter(None, [str(ROOT / "src"), path]))
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": where},
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.stdout, done.stderr


@pytest.mark.slow
def test_another_process_begins_with_the_least_failing_row(tmp_path):
    first, error = output(FAILING, tmp_path)
    assert "('FIXED', 5, 70004)" in first, error
    again, _ = output(FAILING, tmp_path)
    assert again.startswith("('FIXED', 5, 70004) ('FIXED', 5, 70004)")  # seen[0] and seen[-1]
    assert first.split()[-1] == again.split()[-1] == "True"


@pytest.mark.slow
def test_the_entry_point_registers_a_class_that_was_bound_before(tmp_path):
    """With the entry points that pyproject.toml declares, whatever is installed here."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [f"{k} = {v}" for k, v in project["entry-points"]["hypothesis"].items()]
    info = tmp_path / "site" / "ours-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ours\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[hypothesis]\n" + "\n".join(lines) + "\n")
    _, error = output(BOUND, tmp_path, str(tmp_path / "site"))
    assert error == ""
    _, error = output(f"import os\nos.environ['HYPOTHESIS_NO_PLUGINS'] = '1'\n{BOUND}", tmp_path)
    assert "AssertionError" in error  # the twin: pairs of any integers


def test_hypothesis_starts_as_fast_as_before(tmp_path):
    """Whoever has nelson installed loads this module with Hypothesis."""
    code = "import sys, nelson.strategies; print(sorted(m for m in sys.modules if '.' not in m))"
    shown, error = output(code, tmp_path)
    loaded = set(shown.replace("'", "").strip("[]\n").split(", "))
    assert "nelson" in loaded, error
    assert not loaded & {"numpy", "scipy", "numba", "hypothesis", "typer", "pandas"}


def test_without_hypothesis_the_extra_is_named(tmp_path):
    shown, error = output(WITHOUT, tmp_path)
    assert shown.splitlines() == [
        "{'a': 3}",
        'nelson.strategies needs Hypothesis: pip install "nelson-mrf[hypothesis]"',
    ], error
