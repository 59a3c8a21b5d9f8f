"""Parts drawn on a Ray cluster are those of one process; workers that die are replaced."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

import nelson
from nelson import Formula, NelsonError, cluster
from nelson.cluster import job
from tests.cli.commands import KSAT, NELSON, TIMEOUT, run_process
from tests.cluster import cells
from tests.cluster.jobs import LOOSE, QUICK

pytest.importorskip("pyarrow")
pytestmark = [pytest.mark.process, pytest.mark.slow]


@pytest.fixture
def deadly(tmp_path, monkeypatch):
    """deadly(first samples): workers die as they write those parts, once for each; -> the folder of
    graves, a file for each part that holds the process id.
    """
    graves = tmp_path / "graves"
    graves.mkdir()

    def set_up(*firsts: int) -> Path:
        names = [f"part-{first:015d}.parquet" for first in firsts]
        monkeypatch.setattr(job, "Store", lambda out: cells.Deadly(out, graves, names))
        return graves

    return set_up


def test_same_bytes_whatever_workers(head, ksat, tmp_path):
    options = {"seed": 9, "part_rows": 640, **QUICK}
    cluster.sample(ksat, None, 5000, tmp_path / "here", **options)
    for workers in (1, 2):
        out = tmp_path / str(workers)
        cluster.sample(
            ksat, None, 5000, out, address=head.address, workers=workers, retries=0, **options
        )
        for path in (tmp_path / "here").glob("part-*"):
            assert path.read_bytes() == (out / path.name).read_bytes()
        assert len(list(out.iterdir())) == 9


def test_killed_workers_lose_nothing(head, ksat, tmp_path, deadly):
    """SIGKILL to a worker in the middle of a part, three times: n rows, each once."""
    n, rows, out = 200_000, 10_048, tmp_path / "job"
    graves = deadly(2 * rows, 7 * rows, 19 * rows)
    options = {"seed": 2, "part_rows": rows, "address": head.address, **QUICK}
    folder = cluster.sample(ksat, None, n, out, **options)
    assert len({grave.read_text() for grave in graves.iterdir()}) == 3  # different processes
    assert (len(folder), folder.info["drawn"], folder.info["parts"]) == (n, 20, 20)
    assert len(list(out.iterdir())) == 21  # the killed ones left nothing behind
    expected = nelson.stream(ksat, n=n, seed=2, block=65536, **QUICK)
    for block, right in zip(folder.blocks(65536), expected, strict=True):
        assert np.array_equal(block.packed, right.packed)


def test_a_part_that_is_lost_too_often_is_an_error(head, ksat, tmp_path, deadly):
    """No retries, and one worker killed: it says so, and what is finished stays."""
    options = {"seed": 2, "part_rows": 10_048, "address": head.address, **QUICK}
    graves = deadly(10 * 10_048)
    with pytest.raises(NelsonError, match="was lost with its worker"):
        cluster.sample(ksat, None, 200_000, tmp_path / "job", retries=0, **options)
    assert len(list(graves.iterdir())) == 1
    folder = cluster.sample(ksat, None, 200_000, tmp_path / "job", **options)
    assert folder.info["kept"] and folder.info["kept"] + folder.info["drawn"] == 20
    folder.verify()


def test_spaces_circuits_and_errors_of_workers(head, tmp_path):
    unsatisfiable = Formula([[a, b, c] for a in (1, -1) for b in (2, -2) for c in (3, -3)])
    with pytest.raises(nelson.Unsatisfiable):
        cluster.sample(
            unsatisfiable, None, 9, tmp_path / "a", method="lovasz", seed=0, address=head.address
        )
    space = nelson.Space()
    space.integer("len", 1, 15)
    plan = space.plan()
    options = {"n": 1000, "seed": 1, "part_rows": 256, "address": head.address}
    folder = cluster.sample(plan, out=tmp_path / "b", **options)
    assert folder.to_pandas().equals(plan.sample(1000, seed=1).to_pandas())
    model = space.learn(plan.sample(300, seed=2), seed=0)
    for name, source, more in (
        ("model", model, {}),
        ("rule", space.plan(given="len > 5"), {}),
        ("terms", LOOSE, {"terms": {(1, 2): 0.7}}),
        ("chains", LOOSE, {"terms": {(1, 2): 0.7}, "sweeps": 9}),
    ):
        on_ray = cluster.sample(source, out=tmp_path / name, **options | more)
        more |= {"address": None}
        alone = cluster.sample(source, out=tmp_path / f"{name} here", **options | more)
        assert on_ray.to_pandas().equals(alone.to_pandas())
    drawn = cluster.sample(LOOSE, [1, 0, 0, 0, 0], out=tmp_path / "c", **options)
    expected = nelson.sample(LOOSE, [1, 0, 0, 0, 0], 1000, seed=1)
    assert np.array_equal(drawn.samples().packed, expected.packed)


def test_the_cluster_of_the_page_listens_on_the_loopback_interface_only(head):
    processes = [
        head.process.pid,
        *(p.pid for p in psutil.Process(head.process.pid).children(True)),
    ]
    found = set()
    for pid in processes:
        try:
            connections = psutil.Process(pid).net_connections()
        except psutil.NoSuchProcess:  # a helper of Ray that has ended meanwhile
            continue
        found |= {c.laddr.ip for c in connections if c.status == psutil.CONN_LISTEN}
    assert found and {ip.removeprefix("::ffff:") for ip in found} == {"127.0.0.1"}


def test_a_stranger_is_refused(head, tmp_path):
    """Without the token, and with a wrong one; the owner is let in by all other tests."""
    visit = (
        f"import nelson; nelson.cluster.sample(nelson.Formula([[1]]), n=1, out={str(tmp_path)!r}"
    )
    visit += f"+ '/x', address={head.address!r})"
    known = {name: text for name, text in os.environ.items() if not name.startswith("RAY_AUTH")}
    known["RAY_NUM_REDIS_GET_RETRIES"] = "1"  # ask once, not 20 times
    for shown in (
        {"RAY_AUTH_MODE": "disabled"},
        {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "f" * 64},
    ):
        done = subprocess.run(
            [NELSON[0], "-c", visit],
            env=known | shown,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
        assert done.returncode and "set RAY_AUTH_MODE=token" in done.stderr


def test_the_command_line_is_interrupted_and_goes_on(head, tmp_path):
    out = tmp_path / "many"
    args = ["sample", KSAT, "-n", "2e6", "--method", "lovasz", "--sweeps", "0", "--seed", "1"]
    args += ["--part-rows", "32000", "-o", f"{out}/", "--cluster", head.address]
    command = [*NELSON, *map(str, args), "--workers", "1"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + TIMEOUT
    while not list(out.glob("part-*")) and time.monotonic() < until and child.poll() is None:
        time.sleep(0.02)
    child.send_signal(signal.SIGINT)
    errors = child.communicate(timeout=TIMEOUT)[1]
    assert child.returncode == 130, errors
    assert "run the command again to go on" in errors
    done = run_process(*args)
    assert done.returncode == 0, done.stderr
    assert "2,000,000 samples · heuristic (lovasz) · 63 parts, " in done.stderr
    assert "of them from before" in done.stderr and "seed 1" in done.stderr
