"""A cluster that nelson starts: other users can neither talk to it nor read its files.

A stranger is a process that does not have the token. (These tests have one user. Another user could
not read the environment of the owner's processes, which is where the token is.)
"""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from nelson.cluster import ray_cluster
from tests.cli.commands import TIMEOUT

pytestmark = pytest.mark.process

VISIT = """
import sys
from nelson.cluster import ray_cluster
with ray_cluster.connected(sys.argv[1]) as ray:
    print("let in", ray.get(ray.remote(lambda: 6 * 7).remote()))
"""


def visit(address: str, **authentication: str) -> subprocess.Popen:
    """A process that joins a cluster and runs a task there."""
    known = {name: text for name, text in os.environ.items() if not name.startswith("RAY_AUTH")}
    return subprocess.Popen(
        [sys.executable, "-c", VISIT, address],
        env=known | {"RAY_NUM_REDIS_GET_RETRIES": "1"} | authentication,  # ask once, not 20 times
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def token() -> str:
    return os.environ["RAY_AUTH_TOKEN"]


def test_a_stranger_is_refused_and_the_owner_is_let_in(ray):
    address = ray.get_runtime_context().gcs_address
    visits = {
        "no token": visit(address, RAY_AUTH_MODE="disabled"),
        "wrong token": visit(address, RAY_AUTH_MODE="token", RAY_AUTH_TOKEN="f" * 64),
        "owner": visit(address, RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=token()),
    }
    for who, process in visits.items():
        out, told = process.communicate(timeout=TIMEOUT)
        assert (out == "let in 42\n") == (who == "owner"), (who, told)
        assert (process.returncode == 0) == (who == "owner"), (who, told)
        assert ("token is missing or incorrect" in told) == (who != "owner"), told
        assert ("set RAY_AUTH_MODE=token" in told) == (who != "owner"), told


def test_every_port_asks_for_the_token(ray):
    """Each kind of service, at its own port, without token and with a wrong one; the twin: at all
    ports but those where a call would do harm, the token is accepted.
    """
    grpc = pytest.importorskip("grpc")
    ray.get(ray.remote(lambda: 1).remote())  # now a worker listens
    calls = {
        "JobInfoGcsService/GetAllJobInfo": True,
        "NodeManagerService/GetNodeStats": True,
        "ObjectManagerService/Pull": False,
        "CoreWorkerService/PushTask": False,
    }
    answered = dict.fromkeys(calls, 0)
    for port in listening_ports():
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            for name, harmless in calls.items():
                codes = [call(grpc, channel, name, shown) for shown in ("", "f" * 64)]
                if "UNAUTHENTICATED" in codes:  # this service is at this port
                    answered[name] += 1
                assert codes[0] == codes[1] != "OK", (name, codes)
                if "UNAUTHENTICATED" in codes and harmless:
                    assert call(grpc, channel, name, token()) == "OK"
    assert all(answered.values()), answered


def listening_ports() -> set[int]:
    ports = set()
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        try:
            connections = process.net_connections()
        except psutil.NoSuchProcess:  # a helper of Ray that has ended meanwhile
            continue
        for connection in connections:
            if connection.status == psutil.CONN_LISTEN:
                assert connection.laddr.ip.removeprefix("::ffff:") == "127.0.0.1"
                ports.add(connection.laddr.port)
    return ports


def call(grpc, channel, name: str, shown: str) -> str:
    """The status of one call, with a token."""
    metadata = [("authorization", f"Bearer {shown}")] if shown else []
    try:
        channel.unary_unary(f"/ray.rpc.{name}")(b"", timeout=TIMEOUT, metadata=metadata)
    except grpc.RpcError as error:
        return str(error.code().name)
    return "OK"


def test_the_token_is_only_in_the_environment_and_the_folder_is_private(ray):
    session = Path(ray._private.worker._global_node.get_session_dir_path())
    files = [path for path in session.rglob("*") if path.is_file() and not path.is_symlink()]
    assert len(files) > 5
    assert not [path for path in files if token().encode() in path.read_bytes()]
    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    assert len(processes) > 3
    assert not [p for p in processes if any(token() in word for word in p.cmdline())]
    outer = session.parents[1]
    assert outer.name.startswith("nray") and stat.S_IMODE(outer.stat().st_mode) == 0o700


#: In a process of its own: the token of a running cluster must not change.
TWICE = """
import os
from nelson.cluster import ray_cluster
os.environ["RAY_AUTH_TOKEN"] = "mine"
for _ in range(2):
    with ray_cluster.authenticated():
        print(os.environ["RAY_AUTH_MODE"], os.environ["RAY_AUTH_TOKEN"])
print(os.environ.get("RAY_AUTH_MODE"), os.environ["RAY_AUTH_TOKEN"])
"""


def test_each_cluster_has_its_own_token_and_the_environment_is_restored():
    pytest.importorskip("ray")
    known = {name: text for name, text in os.environ.items() if not name.startswith("RAY_AUTH")}
    done = subprocess.run(
        [sys.executable, "-c", TWICE], env=known, capture_output=True, timeout=TIMEOUT, text=True
    )
    (mode, first), (again, second), last = map(str.split, done.stdout.splitlines())
    assert mode == again == "token" and last == ["None", "mine"]
    assert len(first) == len(second) == 64 and first != second


def test_a_ray_without_tokens_is_said(monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.delattr("ray._raylet.AuthenticationTokenLoader")
    with pytest.warns(UserWarning, match="does not authenticate"), ray_cluster.authenticated():
        pass


def test_folders_of_killed_processes_are_removed(tmp_path):
    """A process that holds the folder's lock is killed; the twin: while it lives, nothing goes."""
    hold = """
import os, sys, time
from nelson.io import atomic
handle = os.open(sys.argv[1], os.O_RDWR)
assert atomic.lock(handle, wait=False)
print("locked", flush=True)
time.sleep(600)
"""
    for name in ("nray-left", "nray-held", "else"):
        (tmp_path / name / "s").mkdir(parents=True)
        (tmp_path / name / "lock").touch()
    (tmp_path / "nray-empty").mkdir()
    (tmp_path / "nray-link").symlink_to(tmp_path / "else")
    held = tmp_path / "nray-held" / "lock"
    process = subprocess.Popen([sys.executable, "-c", hold, held], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"locked\n"
    ray_cluster.remove_abandoned(str(tmp_path))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["else", "nray-held", "nray-link"]
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=TIMEOUT)
    ray_cluster.remove_abandoned(str(tmp_path))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["else", "nray-link"]
    assert (tmp_path / "else" / "lock").exists()


def test_cleaning_up_is_not_interrupted():
    """Ctrl-C in the middle counts after the block, also if it comes several times."""
    done = []

    def clean_up() -> None:
        with ray_cluster.uninterrupted():
            for _ in range(3):
                signal.raise_signal(signal.SIGINT)
                done.append(1)

    with pytest.raises(KeyboardInterrupt):
        clean_up()
    assert len(done) == 3
    with pytest.raises(KeyboardInterrupt):  # and the handler is back
        signal.raise_signal(signal.SIGINT)
