"""SIGKILL at a random time to a worker, to the driver, or to the whole cluster: nothing is lost.

`NELSON_KILLS=20 make kill PYTEST_ARGS="-k cluster"` kills each of them 20 times. A failure prints
the time of its kill; times are drawn from a fixed seed.
"""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import time
from pathlib import Path

import psutil
import pytest

import nelson
from nelson import cluster
from tests.cli.commands import KSAT, NELSON, TIMEOUT
from tests.cluster import ray_head
from tests.test_kills import kills

pytest.importorskip("pyarrow")
pytestmark = [pytest.mark.process, pytest.mark.slow]

N, ROWS = 600_000, 20_032
SWEEPS = 150  # so that drawing takes seconds, and most kills fall into it
DRAWING, SECONDS = 3.0, 12.0  # in which kills lie: about the times of drawing and of a run


def start(out: Path, head: ray_head.Head) -> subprocess.Popen:
    args = ["sample", KSAT, "-n", N, "--seed", 1, "--part-rows", ROWS, "--method", "lovasz"]
    args += ["--sweeps", SWEEPS, "-q", "-o", f"{out}/", "--cluster", head.address]
    return subprocess.Popen(
        [*NELSON, *map(str, args)], env=head.environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def parts_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("part-*")}


@pytest.fixture(scope="module")
def reference(tmp_path_factory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("reference")
    formula, options = nelson.Formula.from_dimacs(KSAT), {"seed": 1, "part_rows": ROWS}
    cluster.sample(formula, None, N, out, method="lovasz", sweeps=SWEEPS, **options)
    return parts_of(out)


@pytest.mark.parametrize("victim", ["worker", "driver", "cluster"])
def test_a_killed_cluster_loses_nothing(victim, reference, tmp_path):
    if not ray_head.available():
        pytest.skip("NO ray: nothing is drawn on a cluster")
    rng, died, kept = random.Random(7), 0, 0
    with contextlib.ExitStack() as stack:
        head = stack.enter_context(ray_head.running())
        for number in range(kills(1)):
            out, drawing = tmp_path / str(number), number % 4 != 3
            driver, after = start(out, head), rng.uniform(0, DRAWING if drawing else SECONDS)
            if drawing:  # three in four while it draws, the others at any time
                while not list(out.glob("part-*")) and driver.poll() is None:
                    time.sleep(0.02)
            with contextlib.suppress(subprocess.TimeoutExpired):
                driver.wait(after)
            if victim == "driver":
                driver.kill()
            elif victim == "worker":
                for process in head.workers()[:1]:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        process.kill()
                        died += 1
            else:
                ray_head.kill(head)
                head = stack.enter_context(ray_head.running())
            told = driver.communicate(timeout=4 * TIMEOUT)[1]
            said = f"{victim} after {after:.2f} s: {told[-500:]}"
            if victim == "worker":  # it was replaced
                assert driver.returncode == 0, said
            there = parts_of(out)
            assert there.items() <= reference.items(), said  # whole parts, and the right ones
            kept += 0 < len(there) < len(reference)
            again = start(out, head)
            assert again.communicate(timeout=4 * TIMEOUT)[1] == "" and not again.returncode, said
            assert parts_of(out) == reference, said
            assert len(os.listdir(out)) == len(reference) + 1, said
            print(f"{said[:60]}; {len(there)} of {len(reference)} parts were there", flush=True)
    print(f"{victim}: {kills(1)} kills, {kept} in the middle of drawing, {died} workers died")


def test_nothing_of_a_cluster_stays(tmp_path):
    """The twin of the fixture: after `ray_head.running`, no process of the cluster is left."""
    if not ray_head.available():
        pytest.skip("NO ray: nothing is drawn on a cluster")
    with ray_head.running(cpus=1) as head:
        below = psutil.Process(head.process.pid).children(recursive=True)
        assert len(below) >= 2
    assert not psutil.wait_procs(below, timeout=TIMEOUT)[1]
