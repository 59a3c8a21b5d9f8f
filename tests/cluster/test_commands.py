"""`nelson sample --cluster` and `nelson read`."""

from __future__ import annotations

import signal
import subprocess
import time

import pytest

import nelson
from nelson.io import sample_files
from tests.cli.commands import KSAT, NELSON, STREETS, TIMEOUT, literals, run, run_process
from tests.cluster.jobs import PART, THETA, TOWN, flip

pytest.importorskip("pyarrow")


@pytest.mark.process
def test_the_command_line_is_interrupted_and_goes_on(ray, tmp_path):
    """The first run has a cluster of its own; the second is a guest at the address of ours."""
    out = tmp_path / "many"
    args = ["sample", KSAT, "-n", "2e6", "--method", "lovasz", "--sweeps", "0", "--seed", "1"]
    args += ["--shard", "32000", "-o", f"{out}/"]
    command = [*NELSON, *map(str, args), "--cluster", "--workers", "1"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + TIMEOUT
    while not list(out.glob("part-*.json")) and time.monotonic() < until and child.poll() is None:
        time.sleep(0.02)
    child.send_signal(signal.SIGINT)
    errors = child.communicate(timeout=TIMEOUT)[1]
    assert child.returncode == 130, errors
    assert "run the command again to go on" in errors
    assert not list(out.glob(".*.part"))
    kept = len(list(out.glob("part-*.json")))
    assert 0 < kept < 63
    done = run_process(*args, "--cluster", ray.get_runtime_context().gcs_address)
    assert done.returncode == 0, done.stderr
    assert "2,000,000 samples · heuristic (lovasz) · 63 parts, " in done.stderr
    assert f"{kept} of them from before" in done.stderr and "seed 1" in done.stderr


@pytest.mark.process
def test_the_command_line_reads_back(copy):
    done = run("read", copy, "--from", "998")
    assert (done.returncode, done.stderr) == (0, "")
    expected = nelson.sample(TOWN, THETA, 1000, seed=3).literals()[998:]
    assert literals(done.stdout).tolist() == expected.tolist()
    done = run("read", copy, "--info")
    assert done.returncode == 0
    assert "guarantee  exact" in done.stdout and "samples    1,000\n" in done.stdout
    assert run("read", copy, "-o", copy / "all.npz").returncode == 0
    x, _, info = sample_files.read(copy / "all.npz")
    assert len(x) == 1000 and info["guarantee"] == "exact"
    flip(copy / PART, 100)
    done = run("read", copy, "--verify")
    assert done.returncode == 1 and "is damaged" in done.stderr


@pytest.mark.slow
def test_the_command_line_refuses(tmp_path):
    for args, says in (
        (["--cluster"], "is no folder"),
        (["--cluster", "-o", tmp_path / "x.npz"], "is no folder"),
        (["--cluster", "-o", "x/", "-n", "inf"], "not with --cluster"),
        (["--cluster", "-o", "x/", "--unique"], "not with --cluster"),
        (["--workers", "2"], "not without --cluster"),
        (["-o", "x/"], "only --cluster writes"),
    ):
        done = run("sample", STREETS, *args)
        assert done.returncode == 2 and says in done.stderr
