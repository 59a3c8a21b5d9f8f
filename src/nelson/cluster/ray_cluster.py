"""Ray: connect to a cluster or start one, and run tasks on it. Ray does the scheduling.

A cluster that is started here
- listens on the loopback interface only, and asks for its token (`authenticated`);
- keeps its files in a folder that no other user can enter. Its path is short, because the path of a
  socket may have 107 characters;
- sends no usage statistics;
- is stopped at the end. If this process is killed, Ray stops it, and the next job of the same user
  removes the folder.

Two private names of Ray are used, for safety only: `ray_constants.ENABLE_RAY_CLUSTER` binds the
cluster to the loopback interface, and `AuthenticationTokenLoader.reset_cache` lets each cluster of
a process have a token of its own. Ray reads the public variables of the environment behind them
once, when it is imported and when it first connects; a caller may have done both already.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import shutil
import signal
import socket
import stat
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any

from nelson.errors import NelsonError
from nelson.io import atomic
from nelson.kernels.core.threads import usable_cores

#: Longest wait for a result: after it, the deadline and the size of the cluster are checked again.
_WAIT_SECONDS = 1.0

#: A cluster's folder is called PREFIX + 8 random letters, under a folder whose path has at most
#: _LONGEST_BASE characters. Ray adds up to 66 characters to the path of a socket.
_PREFIX, _INNER, _LONGEST_BASE = "nray", "s", 24
_LOCK = "lock"  # a file in that folder, which the process that made the folder holds locked

_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DISABLE_IMPORT_WARNING": "1",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # keep CUDA_VISIBLE_DEVICES; else Ray warns
    # On Windows and macOS Ray starts a cluster that no other machine can join, all of whose
    # processes listen on 127.0.0.1. We want that everywhere; `_node_ip_address` does not do it.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
}


def require_ray() -> Any:
    """The module `ray`; raises NelsonError if it or pyarrow is not installed."""
    os.environ.setdefault("RAY_DISABLE_IMPORT_WARNING", "1")
    try:
        import pyarrow  # noqa: F401
        import ray
    except ImportError as error:
        raise NelsonError(
            f'a cluster needs Ray and pyarrow: pip install "nelson-mrf[cluster]" ({error})'
        ) from None
    return ray


def check_reachable(address: str | None, seconds: float = 5.0) -> None:
    """Raise NelsonError if nothing answers at host:port; Ray itself would try for many minutes."""
    host, _, port = (address or "").rpartition("://")[2].rpartition(":")
    if not (host and port.isdigit()):
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=seconds).close()
    except (OSError, OverflowError) as error:
        raise NelsonError(f"no Ray cluster at {address}: {error}") from None


def _on_loopback_only(ray: Any, address: str) -> bool:
    """Whether the address answers on the loopback interface only. Ray replaces 127.0.0.1 by the
    machine's own address, and would not find it there.
    """
    host, _, port = address.rpartition(":")
    if host not in ("127.0.0.1", "localhost", "[::1]"):
        return False
    try:
        check_reachable(f"{ray.util.get_node_ip_address()}:{port}")
    except NelsonError:
        return True
    return False


@contextlib.contextmanager
def connected(address: str | None, workers: int | None = None, threads: int = 1) -> Iterator[Any]:
    """`ray`, connected to `address`; None: to a cluster that lives as long as the block.

    A process that is connected already keeps its connection, whatever the address.
    """
    ray = require_ray()
    if ray.is_initialized():
        yield ray
        return
    if address is None or address == "local":
        with _started_here(ray, (workers or usable_cores()) * threads):
            yield ray
        return
    check_reachable(address)
    try:
        with _loopback() if _on_loopback_only(ray, address) else contextlib.nullcontext():
            ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False)
    except (ConnectionError, RuntimeError, ValueError, OSError, ray.exceptions.RayError) as error:
        raise NelsonError(
            f"no Ray cluster at {address} lets this process in: {error}. If it asks for a token, "
            "set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN_PATH to the file with its token"
        ) from None
    try:
        yield ray
    finally:
        ray.shutdown()


@contextlib.contextmanager
def _started_here(ray: Any, cpus: int) -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)  # Ray replaces the handler
    with _private_folder() as folder, authenticated():
        try:
            with _loopback():
                ray.init(
                    address="local",
                    num_cpus=cpus,
                    num_gpus=0,
                    include_dashboard=False,
                    object_store_memory=128 << 20,  # jobs travel through it, samples do not
                    logging_level=logging.ERROR,
                    log_to_driver=False,
                    _temp_dir=folder,
                )
            _handle_sigterm(before)
            yield
        finally:
            _handle_sigterm(before)
            with uninterrupted():
                ray.shutdown()


def _handle_sigterm(handler: Any) -> None:
    if handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C and SIGTERM wait until the block has ended: cleaning up is never left half done.

    Their handlers are replaced. Blocking the signals would not do: a thread of Ray would take them,
    and Python would still interrupt the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}
    for number in numbers:
        signal.signal(number, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        if came:
            signal.raise_signal(came[0])


@contextlib.contextmanager
def _private_folder() -> Iterator[str]:
    """A folder inside one that only this user can enter: Ray lets everybody write to its own."""
    remove_abandoned()
    handle = -1
    while handle < 0:
        outer = tempfile.mkdtemp(prefix=_PREFIX, dir=_base())  # mode 0700
        with contextlib.suppress(FileNotFoundError):  # another process took it for abandoned
            handle = os.open(os.path.join(outer, _LOCK), os.O_CREAT | os.O_RDWR, 0o600)
            atomic.lock(handle, wait=True)
            if not os.path.exists(os.path.join(outer, _LOCK)):
                os.close(handle)
                handle = -1
    try:
        yield os.path.join(outer, _INNER)
    finally:
        with uninterrupted():
            _remove(outer)
            os.close(handle)


def _base() -> str:
    base = tempfile.gettempdir()
    return base if len(base) <= _LONGEST_BASE else "/tmp"


def _remove(outer: str, attempts: int = 30) -> None:
    """Remove a cluster's folder, its lock last. Ray's processes may write for a moment after they
    were told to end; if they do for longer, the next job tries again.
    """
    inner = os.path.join(outer, _INNER)
    for _ in range(attempts):
        shutil.rmtree(inner, ignore_errors=True)
        if not os.path.lexists(inner):
            break
        time.sleep(_WAIT_SECONDS / 10)
    if not os.path.lexists(inner):
        shutil.rmtree(outer, ignore_errors=True)


def remove_abandoned(base: str | None = None) -> None:
    """Remove folders of this user's clusters whose process has ended without removing them."""
    with contextlib.suppress(OSError), os.scandir(base or _base()) as items:
        for item in items:
            if not item.name.startswith(_PREFIX):
                continue
            with contextlib.suppress(OSError):
                about = item.stat(follow_symlinks=False)
                if stat.S_ISDIR(about.st_mode) and about.st_uid == os.geteuid():
                    _remove_if_abandoned(item.path)


def _remove_if_abandoned(folder: str) -> None:
    try:
        handle = os.open(os.path.join(folder, _LOCK), os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        os.rmdir(folder)  # killed before it made the lock; a folder with files stays
        return
    try:
        if atomic.lock(handle, wait=False):
            _remove(folder)
    finally:
        os.close(handle)


@contextlib.contextmanager
def authenticated() -> Iterator[None]:
    """Set a random token in the environment: a cluster that starts in the block asks for it.

    Ray's processes inherit the environment, which other users cannot read. Without this, Ray 2.59
    and later take the token in ~/.ray/auth_token, which Ray writes so that everybody may read it;
    Ray 2.52 to 2.58 ask for no token. Earlier versions have none: a warning says so.
    """
    raylet: Any = import_module("ray._raylet")
    if not hasattr(raylet, "AuthenticationTokenLoader"):
        warnings.warn(
            "this version of Ray does not authenticate: other users of this machine can run code "
            "in your name while the cluster runs; pip install 'ray>=2.52'",
            stacklevel=2,
        )
        yield
        return
    values = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    try:
        with _environment(values):
            _read_authentication_again(raylet)
            yield
    finally:
        _read_authentication_again(raylet)


def _read_authentication_again(raylet: Any) -> None:
    """Ray keeps mode and token from their first use. The mode must be read before the token: a
    thread of Ray that still wants a token finds none, and without a mode that is no error.
    """
    raylet.Config.initialize("")
    raylet.AuthenticationTokenLoader.instance().reset_cache()


@contextlib.contextmanager
def _loopback() -> Iterator[None]:
    """Set `_ENVIRONMENT` while Ray starts; its processes inherit it."""
    from ray._private import ray_constants

    flag = getattr(ray_constants, "ENABLE_RAY_CLUSTER", True)  # Ray read the variable at import
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        with _environment(_ENVIRONMENT):
            yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = flag


@contextlib.contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set variables of the environment for the block."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


class Tasks:
    """Runs functions on a cluster, with a bounded number of tasks handed to Ray at a time."""

    def __init__(
        self, ray: Any, workers: int | None = None, cpus: int = 1, retries: int = 5
    ) -> None:
        self._ray, self._workers, self._cpus, self._retries = ray, workers, cpus, retries

    def slots(self) -> int:
        """How many tasks can run at once; the cluster may grow."""
        fit = self._cluster_slots()
        return min(self._workers or fit, fit)

    def _cluster_slots(self) -> int:
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)) // self._cpus)

    def _limit(self, ahead: int) -> int:
        """How many tasks Ray may hold. With fewer workers than the cluster could run, Ray would not
        let further tasks wait but start them at once, so it gets none.
        """
        fit = self._cluster_slots()
        return self._workers if self._workers and self._workers < fit else fit * ahead

    def results(
        self,
        function: Callable[[Any, Any], Any],
        shared: Any,
        jobs: Iterable[Any],
        deadline: float | None = None,
        *,
        ahead: int = 2,
        lost: Callable[[Any, str], Any] | None = None,
        options: Callable[[Any], dict[str, Any]] | None = None,
    ) -> Iterator[Any]:
        """Yields function(shared, job) of every job, in the order in which they end.

        A task whose worker died, or that raised OSError, is run again, at most `retries` times.
        After that the error is raised here, or lost(job, why) is yielded. Tasks that run at the
        deadline are not waited for. A job is taken from its iterator when Ray may have one more
        task. ahead: tasks handed to Ray for each worker; of 2, one waits. options(job): further
        options of `ray.remote`.

        Tasks that nobody waits for end by themselves, or with the cluster. They are not cancelled:
        `ray.cancel` of a task that is about to end kills the calling process (Ray 2.60).
        """
        ray = self._ray
        remote = ray.remote(
            num_cpus=self._cpus, max_retries=self._retries, retry_exceptions=[OSError]
        )(function)
        common = ray.put(shared)
        waiting = iter(jobs)
        running: dict[Any, Any] = {}
        while True:
            wait = _WAIT_SECONDS if deadline is None else deadline - time.monotonic()
            limit = self._limit(ahead) if wait > 0 else 0
            while len(running) < limit:
                job = next(waiting, None)
                if job is None:
                    break
                more = options(job) if options else {}
                running[remote.options(**more).remote(common, job)] = job
            if not running or wait <= 0:
                return
            ready, _ = ray.wait(list(running), num_returns=1, timeout=min(_WAIT_SECONDS, wait))
            for reference in ready:
                yield _result(ray, reference, running.pop(reference), lost)


def _result(ray: Any, reference: Any, job: Any, lost: Callable[[Any, str], Any] | None) -> Any:
    """The value that a task returned; an error that it raised is raised here, with its own type."""
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
            f"{job} was lost with its worker ({type(error).__name__}), more often than it may be "
            "retried; finished parts are kept, and the same call continues"
        ) from None
