"""Ray: a cluster of our own or somebody's, and tasks with back-pressure. No scheduler of our own.

An embedded cluster listens on the loopback interface only, tells nobody of its use, keeps its
files in a short folder of its own (a socket's path may have 107 characters) and is gone at the end.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from nelson.errors import NelsonError
from nelson.kernels.core.threads import usable_cores

#: Bytes of Ray's store of objects: jobs travel through it, samples do not.
_STORE = 128 << 20
#: Tasks handed to Ray for each worker: one that it works on, one that waits.
_AHEAD = 2
#: Seconds between two looks at the size of the cluster, and the longest wait for a result.
_LOOK, _WAIT = 10.0, 1.0
#: Seconds that an address has to answer.
_ANSWER = 5.0

_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DISABLE_IMPORT_WARNING": "1",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # leave CUDA_VISIBLE_DEVICES alone; else it warns
    # On Windows and macOS Ray does not make a cluster that others can join, and then everything
    # listens on 127.0.0.1. That is what we want everywhere; `_node_ip_address` does not do it.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
}


def require() -> Any:
    """The module."""
    os.environ.setdefault("RAY_DISABLE_IMPORT_WARNING", "1")
    try:
        import pyarrow  # noqa: F401
        import ray
    except ImportError as error:
        raise NelsonError(
            f'a cluster needs Ray and pyarrow: pip install "nelson[cluster]" ({error})'
        ) from None
    return ray


def reachable(address: str | None) -> None:
    """Raise if nothing answers at host:port; Ray itself would try for many minutes."""
    host, _, port = (address or "").rpartition("://")[2].rpartition(":")
    if not (host and port.isdigit()):
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER).close()
    except (OSError, OverflowError) as error:
        raise NelsonError(f"no Ray cluster at {address}: {error}") from None


def _only_here(ray: Any, address: str) -> bool:
    """Does it answer on the loopback interface alone? Ray takes 127.0.0.1 for the machine's own
    address, and would not find it.
    """
    host, _, port = address.rpartition(":")
    if host not in ("127.0.0.1", "localhost", "[::1]"):
        return False
    try:
        reachable(f"{ray.util.get_node_ip_address()}:{port}")
    except NelsonError:
        return True
    return False


@contextlib.contextmanager
def cluster(address: str | None, workers: int | None = None, threads: int = 1) -> Iterator[Any]:
    """`ray`, connected: to `address`, or to a cluster of our own that ends with the block.

    A process that is connected already stays so, whatever the address.
    """
    ray = require()
    if ray.is_initialized():
        yield ray
        return
    if address is None or address == "local":
        with _embedded(ray, (workers or usable_cores()) * threads):
            yield ray
        return
    reachable(address)
    try:
        with _loopback(ray) if _only_here(ray, address) else contextlib.nullcontext():
            ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise NelsonError(f"no Ray cluster at {address}: {error}") from None
    try:
        yield ray
    finally:
        ray.shutdown()


@contextlib.contextmanager
def _embedded(ray: Any, cpus: int) -> Iterator[None]:
    base = tempfile.gettempdir()
    before = signal.getsignal(signal.SIGTERM)  # Ray puts its own in the place
    folder = tempfile.mkdtemp(prefix="r", dir=base if len(base) <= 24 else "/tmp")
    try:
        with _loopback(ray):
            ray.init(
                address="local",
                num_cpus=cpus,
                num_gpus=0,
                include_dashboard=False,
                object_store_memory=_STORE,
                logging_level=logging.ERROR,
                log_to_driver=False,
                _temp_dir=folder,
            )
        yield
    finally:
        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)
        if before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _loopback(ray: Any) -> Iterator[None]:
    """The environment above while Ray starts; its processes inherit it."""
    from ray._private import ray_constants

    before = {name: os.environ.get(name) for name in _ENVIRONMENT}
    flag = getattr(ray_constants, "ENABLE_RAY_CLUSTER", True)  # read when Ray was imported
    os.environ.update(_ENVIRONMENT)
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = flag
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


class Tasks:
    """Calls of one function on a cluster; a bounded number of them at Ray at a time."""

    def __init__(
        self, ray: Any, workers: int | None = None, cpus: int = 1, retries: int = 5, **options: Any
    ) -> None:
        self._ray, self._workers, self._cpus = ray, workers, cpus
        self._options = {"num_cpus": cpus, "max_retries": retries, **options}
        self._looked, self._there = -_LOOK, 1

    def slots(self) -> int:
        """Tasks that can run at once; the cluster may grow."""
        if time.monotonic() - self._looked >= _LOOK:
            self._there = max(1, int(self._ray.cluster_resources().get("CPU", 1)) // self._cpus)
            self._looked = time.monotonic()
        return self._there if self._workers is None else min(self._workers, self._there)

    def _room(self, ahead: int) -> int:
        """Tasks that Ray may have. Where there are fewer workers than the cluster could run, those
        that wait would not wait.
        """
        slots = self.slots()
        return slots * (ahead if slots == self._there else 1)

    def results(
        self,
        function: Callable[[Any, Any], Any],
        shared: Any,
        jobs: Iterable[Any],
        deadline: float | None = None,
        *,
        ahead: int = _AHEAD,
        lost: Callable[[Any, str], Any] | None = None,
        options: Callable[[Any], dict[str, Any]] | None = None,
    ) -> Iterator[Any]:
        """function(shared, job) of every job, in the order in which they end.

        A worker that dies is replaced, and what it did is done again, `retries` times at most; so
        is what an OSError ended. Then it raises, or goes on with lost(job, why). What is not done
        at the deadline is not waited for. Jobs are taken from their iterator as there is room for
        them. options(job): more for Ray.

        Tasks that nobody waits for any more end with the cluster, or by themselves: `ray.cancel` of
        a task that is just being finished ends the calling process (Ray 2.60, a failed check).
        """
        ray = self._ray
        remote = ray.remote(retry_exceptions=[OSError], **self._options)(function)
        common = ray.put(shared)
        waiting = iter(jobs)
        running: dict[Any, Any] = {}
        while True:
            left = _WAIT if deadline is None else min(_WAIT, deadline - time.monotonic())
            while left > 0 and len(running) < self._room(ahead):
                job = next(waiting, None)
                if job is None:
                    break
                more = options(job) if options else {}
                running[remote.options(**more).remote(common, job)] = job
            if not running or left <= 0:
                return
            ready, _ = ray.wait(list(running), num_returns=1, timeout=left)
            for reference in ready:
                yield _got(ray, reference, running.pop(reference), lost)


def _got(ray: Any, reference: Any, job: Any, lost: Callable[[Any, str], Any] | None) -> Any:
    """What a task returned; what it raised is raised here as it was raised there."""
    errors = ray.exceptions
    try:
        return ray.get(reference)
    except errors.RayTaskError as error:
        cause = getattr(error, "cause", None)
        if not isinstance(cause, Exception) or isinstance(cause, errors.RayError):
            cause = NelsonError(f"{job}: {error}")
        if lost is not None:
            return lost(job, f"{type(cause).__name__}: {cause}")
        raise cause from None
    except errors.RayError as error:
        if lost is not None:
            return lost(job, f"lost with its worker ({type(error).__name__})")
        raise NelsonError(
            f"{job} was lost with its worker ({type(error).__name__}), again and again; what is "
            "finished is kept, and the same call goes on from there"
        ) from None
