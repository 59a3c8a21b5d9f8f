"""Runs cells one after another in a worker process, each under a time and a memory limit.

    for cell, rows in limited(cells): ...          one at a time, because cells are timed

One worker serves many cells, because starting Python with Numba takes a second or two. When a cell
exceeds a limit, the worker is killed with all processes that it started. A worker that died or that
holds too much memory is replaced. (`nelson.process.child` runs a batch of tasks under one limit;
this module uses its message format.)

    to the worker     {"name": experiment, "key": {...}, "prepare": True}
    from the worker   {"ready": True}
    to the worker     {"name": experiment, "key": {...}, "seconds": s}
    from the worker   {"rows": [...]} or {"error": status}

The first question has the worker compile kernels (`Experiment.prepare`); the clock of the cell
starts with the second one.

The memory limit applies to the resident memory of the worker and its descendants, measured every
POLL seconds. The operating system can only limit address space, of which thread pools and CUDA
reserve gigabytes without using them.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable, Iterator
from typing import IO, Any

from nelson.errors import NelsonError
from nelson.process import child_main
from nelson_paper.experiments.base import FAILED, OUT_OF_MEMORY, TIMED_OUT, Cell, Row
from nelson_paper.experiments.registry import get, run_cell

#: Seconds between two measurements of the memory; one takes about 2 ms.
POLL = 0.1
#: Seconds that a worker may take to start: on a new machine it may compile kernels.
START_SECONDS = 300.0
#: A worker that holds more bytes than this after a cell is replaced before the next cell.
REPLACE_ABOVE = 1 << 30


def limited(cells: Iterable[Cell]) -> Iterator[tuple[Cell, list[Row]]]:
    """Run the cells in order. The next cell is taken from the iterable when it begins."""
    worker = Worker()
    try:
        for cell in cells:
            yield cell, worker.run(cell)
    finally:
        worker.end()


class Worker:
    """The parent's side: at most one worker process, started when first needed."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  (closed in `end`)

    def run(self, cell: Cell) -> list[Row]:
        """The rows of a cell; one row with a status if the cell was killed, died or raised."""
        if self._child is not None and self._child.poll() is not None:
            self._kill()  # the worker died between two cells
        child = self._child or self._start()
        said_before = self._errors.seek(0, os.SEEK_END)
        question = {"name": cell.experiment, "key": dict(cell.key)}
        started = time.monotonic()
        try:
            child_main.write(child.stdin, question | {"prepare": True})
            if not _watch(child, started + START_SECONDS, cell.memory):
                child_main.read(child.stdout)
            started = time.monotonic()
            child_main.write(child.stdin, question | {"seconds": cell.seconds})
            status = _watch(child, started + cell.seconds, cell.memory)
            answer = None if status else child_main.read(child.stdout)
        except BrokenPipeError:
            status, answer = "", None
        except BaseException:  # Ctrl-C: leave no process behind
            self._kill()
            raise
        if answer is not None and "rows" in answer:
            if _resident(child.pid) > min(REPLACE_ABOVE, cell.memory // 2):
                self._kill()
            return answer["rows"]
        if answer is None:
            code = self._kill()
            status = status or self._ending(code, said_before)
        else:
            status = answer["error"]
        head = {**cell.head(), "status": status}
        return [{**head, "cell_seconds": time.monotonic() - started}]

    def end(self) -> None:
        self._kill()
        self._errors.close()

    def _start(self) -> subprocess.Popen[bytes]:
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)
        }
        self._child = child = subprocess.Popen(
            [
                sys.executable,
                "-P",
                "-m",
                "nelson_paper.experiments.child_process",
                str(os.getpid()),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment,
            start_new_session=True,  # one group to kill; Ctrl-C reaches only the parent
        )
        try:
            status = _watch(child, time.monotonic() + START_SECONDS, sys.maxsize)
            ready = None if status else child_main.read(child.stdout)
        except BaseException:
            self._kill()
            raise
        if ready is None:
            self._kill()
            raise NelsonError(f"cannot start the worker process: {self._last_line(0)}")
        return child

    def _kill(self) -> int | None:
        """Kill the process and its descendants. Returns its exit status if it ended by itself."""
        child, self._child = self._child, None
        if child is None:
            return None
        try:
            child.wait(1.0 if child.stdout and _at_end(child.stdout) else 0)
        except subprocess.TimeoutExpired:
            pass
        code = child.returncode
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe:
                try:
                    pipe.close()
                except OSError:  # unwritten data is lost with the process
                    pass
        return code

    def _ending(self, code: int | None, since: int) -> str:
        said = self._last_line(since)
        if "bad_alloc" in said or "MemoryError" in said:
            return OUT_OF_MEMORY
        if code is not None and code < 0:
            told = (
                ", perhaps by the system, which ran out of memory"
                if -code == signal.SIGKILL
                else ""
            )
            how = f"died (signal {-code}{told})"
        else:
            how = f"ended (exit status {code})"
        return f"{FAILED}{how}{f': {said}' if said else ''}"

    def _last_line(self, since: int) -> str:
        self._errors.seek(since)
        lines = self._errors.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _watch(child: subprocess.Popen[bytes], until: float, memory: int) -> str:
    """Wait for an answer or the end of the process. Returns "", or why it must be killed."""
    assert child.stdout is not None
    while not select.select([child.stdout], [], [], POLL)[0]:
        if time.monotonic() > until:
            return TIMED_OUT
        if memory < sys.maxsize and _resident(child.pid) > memory:
            return OUT_OF_MEMORY
    return ""


def _at_end(pipe: IO[bytes]) -> bool:
    return bool(select.select([pipe], [], [], 0)[0])


def _resident(pid: int) -> int:
    """Bytes of resident memory of a process and its descendants; 0 if it has ended."""
    import psutil

    held = 0
    try:
        process = psutil.Process(pid)
        for one in (process, *process.children(recursive=True)):
            try:
                held += one.memory_info().rss
            except psutil.NoSuchProcess:  # a descendant has just ended
                continue
    except psutil.NoSuchProcess:
        return 0
    return held


# ---------------------------------------------------------------------------- the worker's side


def main(parent: int) -> None:
    """Serve cells until the parent closes the pipe. Whatever cells print is discarded."""
    _write_no_core_files()
    child_main.die_with(parent)
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    child_main.write(out, {"ready": True})
    while (question := child_main.read(sys.stdin.buffer)) is not None:
        child_main.write(out, prepared(question) if "prepare" in question else answer(question))


def prepared(question: dict[str, Any]) -> dict[str, Any]:
    """Compile kernels. An error is left to the cell, which meets it again and reports it."""
    try:
        get(question["name"]).prepare(question["key"])
    except Exception:
        if os.environ.get("NELSON_DEBUG"):
            traceback.print_exc()
    return {"ready": True}


def answer(question: dict[str, Any]) -> dict[str, Any]:
    try:
        said: dict[str, Any] = {
            "rows": run_cell(question["name"], question["key"], question["seconds"])
        }
    except MemoryError:
        said = {"error": OUT_OF_MEMORY}
    except Exception as error:  # reported by the parent
        if os.environ.get("NELSON_DEBUG"):
            traceback.print_exc()
        text = " ".join(f"{type(error).__name__}: {error}".split())
        said = {"error": OUT_OF_MEMORY if "bad_alloc" in text else FAILED + text}
    gc.collect()
    return said


def _write_no_core_files() -> None:
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ImportError, OSError, ValueError):
        return


if __name__ == "__main__":
    main(int(sys.argv[1]))
