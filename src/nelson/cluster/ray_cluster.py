"""Tasks on a Ray cluster that runs already. Ray schedules them, and replaces workers that die.

`ray start --head --node-ip-address 127.0.0.1` starts one on this machine; docs/cluster.md says who
can use it. nelson starts none: on one machine a process with threads, or `shard=`, does the same.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from nelson.errors import NelsonError

#: Longest wait for a result: after it, the deadline and the size of the cluster are checked again.
_WAIT_SECONDS = 1.0
_ADVICE = "`ray start --head --node-ip-address 127.0.0.1` starts one on this machine"


def check_reachable(address: str, seconds: float = 5.0) -> None:
    """Raise NelsonError if nothing answers at host:port; Ray itself would try for many minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if host and port.isdigit():
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=seconds).close()
        except (OSError, OverflowError) as error:
            raise NelsonError(f"no Ray cluster at {address}: {error}; {_ADVICE}") from None


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """`ray`, connected to the cluster. A process that is connected already stays as it is."""
    os.environ.setdefault("RAY_DISABLE_IMPORT_WARNING", "1")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # keep CUDA_VISIBLE_DEVICES
    try:
        import ray
    except ImportError as error:
        raise NelsonError(
            f'a cluster needs Ray: pip install "nelson-mrf[cluster]" ({error})'
        ) from None
    if ray.is_initialized():
        yield ray
        return
    check_reachable(address)
    try:
        ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False)
    except (RuntimeError, ValueError, OSError, ray.exceptions.RayError) as error:
        raise NelsonError(
            f"no Ray cluster at {address} lets this process in: {error}; {_ADVICE}. If it asks for "
            "a token, set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN_PATH to the file with its token"
        ) from None
    try:
        yield ray
    finally:
        ray.shutdown()


def results(
    address: str,
    function: Callable[[Any, Any], Any],
    shared: Any,
    jobs: Iterable[Any],
    *,
    workers: int | None = None,
    cpus: int = 1,
    retries: int = 5,
    deadline: float | None = None,
    options: Callable[[Any], dict[str, Any]] = lambda job: {},
) -> Iterator[tuple[Any, Any]]:
    """Yields (job, function(shared, job)) of every job, in the order in which they end.

    A task whose worker died, or that raised OSError, is run again, at most `retries` times. After
    that, or if it raised something else, the exception stands in place of its value. Tasks that run
    at the deadline end with the connection: `ray.cancel` of a task that is about to end kills the
    calling process (Ray 2.60). A job is taken from its iterator when Ray may have one more task.

    workers: tasks at a time; None: as many as the cluster has cores for, also after it has grown,
    and as many that wait. options(job): more of `ray.remote`.
    """
    how: Any = {"num_cpus": cpus, "max_retries": retries, "retry_exceptions": [OSError]}
    with connected(address) as ray:
        remote, common, waiting = ray.remote(**how)(function), ray.put(shared), iter(jobs)
        running: dict[Any, Any] = {}
        while True:
            left = _WAIT_SECONDS if deadline is None else deadline - time.monotonic()
            limit = workers or 2 * max(1, int(ray.cluster_resources().get("CPU", 1)) // cpus)
            while left > 0 and len(running) < limit and (job := next(waiting, None)) is not None:
                running[remote.options(**options(job)).remote(common, job)] = job
            if not running or left <= 0:
                return
            for done in ray.wait(list(running), timeout=min(_WAIT_SECONDS, left))[0]:
                job = running.pop(done)
                try:
                    outcome = ray.get(done)
                except ray.exceptions.RayTaskError as error:  # what the function raised
                    cause, lost = getattr(error, "cause", None), ray.exceptions.RayError
                    known = isinstance(cause, Exception) and not isinstance(cause, lost)
                    outcome = cause if known else NelsonError(f"{job}: {error}")
                except ray.exceptions.RayError as error:
                    outcome = NelsonError(
                        f"{job} was lost with its worker ({type(error).__name__}), more often than "
                        "it may be retried; finished parts are kept, and the same call continues"
                    )
                yield job, outcome
