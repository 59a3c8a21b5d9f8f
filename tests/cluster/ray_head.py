"""A Ray cluster on the loopback interface, as docs/cluster.md tells a user to start one."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import psutil

from tests import ROOT

SECONDS = 120.0


class Head(NamedTuple):
    address: str
    process: subprocess.Popen
    environment: dict[str, str]  # of a process that may talk to the cluster

    def workers(self, title: str = "ray::draw") -> list[psutil.Process]:
        """The processes that draw parts now."""
        found = []
        for process in psutil.Process(self.process.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if process.cmdline()[:1] and process.cmdline()[0].startswith(title):
                    found.append(process)
        return found


@contextlib.contextmanager
def running(cpus: int = 2) -> Iterator[Head]:
    """`ray start --head --block` in a process group of its own, which ends with the block."""
    folder = tempfile.mkdtemp(prefix="nray", dir="/tmp")  # paths of sockets must be short
    environment = os.environ | {
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # all ports on 127.0.0.1, as on these systems
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_gcs_rpc_server_reconnect_timeout_s": "5",  # how long a driver mourns its cluster
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
    }
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block"]
    command += ["--node-ip-address", "127.0.0.1", "--port", "0", "--num-cpus", str(cpus)]
    command += ["--include-dashboard", "false", "--object-store-memory", str(128 << 20)]
    command += [
        "--ray-client-server-port",
        str(_free_port()),
        "--temp-dir",
        folder,
        "--disable-usage-stats",
    ]
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    try:
        told, until = Path(folder, "ray_current_cluster"), time.monotonic() + SECONDS
        while not (told.exists() and told.read_text()) and time.monotonic() < until:
            assert process.poll() is None
            time.sleep(0.1)
        yield Head(told.read_text(), process, environment)
    finally:
        end(process)
        shutil.rmtree(folder, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def available() -> bool:
    return find_spec("ray") is not None


def kill(head: Head) -> None:
    """SIGKILL to every process of the cluster at once, as if its machine lost its power."""
    below = psutil.Process(head.process.pid).children(recursive=True)
    for one in [psutil.Process(head.process.pid), *below]:
        with contextlib.suppress(psutil.Error):
            one.kill()


def end(process: subprocess.Popen) -> None:
    """The head and all that it started."""
    below = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    process.send_signal(signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(10)
    for one in [*below, process]:
        with contextlib.suppress(psutil.Error, OSError):
            one.kill()
    process.wait(10)
