"""Run a script on some tasks in a child process, under a time and a memory limit.

    answers, ended = run_child(script, tasks, seconds, memory, effort=None, cpu=False)

script    path of a plain Python file that defines `solve(task)`: the task is a dict, the answer is
          a dict or a generator of dicts. The script imports what it needs inside functions, and
          nothing of nelson, so that it starts fast. The child runs with `-P` and the parent's
          sys.path.
tasks     dicts of JSON values. A value may also be bytes or a NumPy array, which arrives as bytes:
          read it with `array.array("i", ...)` or `np.frombuffer`. Answers may hold bytes too.
seconds   wall-clock time for all tasks, including the start. Then the child is killed.
cpu       the seconds are CPU time, so that other programs on the machine do not matter.
memory    bytes of address space (RLIMIT_AS).
effort    counts how far the child has come, by the lines that its solver prints. Each task must
          then have one answer. An answer counts only if all tasks up to it stayed within
          `effort.most`. So the same tasks end in the same way on any machine, unless the seconds
          are up first.
answers   all answers that came before the end, in order. A task that raised answers
          {"error": text}; the text is "out of memory" if Python noticed that.
ended     "" if all tasks were done. Otherwise how the child ended: STOPPED (time was up), SPENT
          (the effort was spent), "out of memory", "died (signal 11, most likely out of memory)"

Raises NelsonError if the child could not start, for example because the script does not import.
Ctrl-C kills the child and is raised again. Another thread may end it: see `cancelled_by`.
"""

from __future__ import annotations

import io
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nelson.errors import NelsonError
from nelson.process import MEMORY, child_main

#: How a child may end: its time was up; its effort was spent.
STOPPED, SPENT = "stopped", "gave up"
#: Seconds between two looks at what a solver printed.
_LOOK = 0.05
#: The line that ends the output of a task.
_DONE = child_main.DONE.strip()

Answers = list[dict[str, Any]]
_CANCEL: ContextVar[threading.Event | None] = ContextVar("cancels child processes", default=None)


class Cancelled(Exception):
    """Another thread ended a child process, or work in this one. Nothing is known about it."""


@contextmanager
def cancelled_by(event: threading.Event) -> Iterator[None]:
    """Child processes that run inside, in this thread, raise Cancelled once the event is set."""
    token = _CANCEL.set(event)
    try:
        yield
    finally:
        _CANCEL.reset(token)


def cancelled() -> bool:
    """Has another thread set the event of `cancelled_by`?"""
    event = _CANCEL.get()
    return event is not None and event.is_set()


@dataclass
class Effort:
    """A limit that no clock decides: what the lines that a solver prints add up to."""

    of_line: Callable[[bytes], float]
    most: float = math.inf
    done: list[float] = field(default_factory=list)  # the effort of each task that ended
    now: float = 0.0  # of the task that runs

    def add(self, line: bytes) -> None:
        if line == _DONE:
            self.done.append(self.now)
            self.now = 0.0
        else:
            self.now += self.of_line(line)

    @property
    def total(self) -> float:
        return sum(self.done) + self.now

    @property
    def spent(self) -> bool:
        return self.total > self.most

    @property
    def within(self) -> int:
        """The number of tasks that ended within the limit."""
        return int((np.cumsum(self.done) <= self.most).sum())


def run_child(
    script: str | os.PathLike[str],
    tasks: Sequence[Mapping[str, Any]],
    seconds: float,
    memory: int = MEMORY,
    effort: Effort | None = None,
    cpu: bool = False,
) -> tuple[Answers, str]:
    if seconds <= 0:
        return [], STOPPED
    head = {"script": str(script), "memory": memory, "seconds": seconds, "tasks": len(tasks)}
    head["log"] = effort is not None
    with tempfile.TemporaryFile() as question, tempfile.TemporaryFile() as errors:
        for message in (head, *tasks):
            child_main.write(question, {key: _raw(value) for key, value in message.items()})
        question.seek(0)
        # CPU seconds: the clock kills the child only after 20 times as many seconds.
        wall_seconds = seconds * (20.0 if cpu else 1.0)
        output, code = _communicate(question, errors, wall_seconds, effort)
        errors.seek(0)
        stderr = errors.read().decode(errors="replace").strip().splitlines()
    answers, complete = _messages(output)
    if effort is not None and effort.spent:
        return answers[: effort.within], SPENT
    if complete:
        return answers, ""
    if code is None:
        return answers, STOPPED
    stderr = [line for line in stderr if not line.startswith("c ")]  # a solver's comments
    if any("bad_alloc" in line or "emory" in line for line in stderr):
        return answers, "out of memory"
    if not answers and code == 1:
        raise NelsonError(f"the child process for {Path(script).name} failed: {stderr[-1:]}")
    return answers, _ending(code)


def _raw(value: Any) -> Any:
    """A NumPy array as its bytes."""
    return np.ascontiguousarray(value).tobytes() if isinstance(value, np.ndarray) else value


def _communicate(
    question: Any, errors: Any, seconds: float, effort: Effort | None
) -> tuple[bytes, int | None]:
    """The output of the child, and its exit status; None if it was killed."""
    command = [sys.executable, "-P", child_main.__file__, str(os.getpid())]
    # One thread per child: thread pools reserve address space that counts against the limit.
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        # D4 fills a table of 64 MB for each formula, small or not: with pages of 4 KiB that takes
        # 31 ms, with huge pages 8 ms. Ignored where there are none.
        "GLIBC_TUNABLES": os.environ.get("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1"),
    }
    log, cancel = None if effort is None else _Log(errors.fileno(), effort), _CANCEL.get()
    end = time.monotonic() + seconds
    with subprocess.Popen(
        command, stdin=question, stdout=subprocess.PIPE, stderr=errors, env=environment
    ) as child:
        while True:
            # The system's timers hold no more than 32-bit milliseconds: 24 days.
            left = min(max(0.0, end - time.monotonic()), 2_000_000.0)
            try:
                look = left if log is None and cancel is None else min(left, _LOOK)
                output = child.communicate(timeout=look)[0]
            except subprocess.TimeoutExpired:
                if cancel is not None and cancel.is_set():
                    child.kill()
                    raise Cancelled from None
                if left and (log is None or not log.read().spent):
                    continue
                child.kill()
                return child.communicate()[0], None
            except BaseException:
                child.kill()
                raise
            if log is not None:
                log.read()
            return output, child.returncode


class _Log:
    """The lines that a child prints to a file."""

    def __init__(self, file: int, effort: Effort) -> None:
        self.file, self.effort, self.at, self.rest = file, effort, 0, b""

    def read(self) -> Effort:
        """Add the lines that came since the last call."""
        while text := os.pread(self.file, 1 << 16, self.at):
            self.at += len(text)
            *lines, self.rest = (self.rest + text).split(b"\n")
            for line in lines:
                self.effort.add(line)
        return self.effort


def _messages(output: bytes) -> tuple[Answers, bool]:
    """All whole messages (the last may be cut off), and whether the child reached its end."""
    source = io.BytesIO(output)
    answers: Answers = []
    while (message := child_main.read(source)) is not None:
        if "$end" in message:
            return answers, True
        answers.append(message)
    return answers, False


def _ending(code: int) -> str:
    if code >= 0:
        return f"ended (exit status {code})"
    if -code == signal.SIGXCPU:  # the CPU limit ended it before the clock of the parent
        return STOPPED
    # A compiler that does not check the result of malloc dies of this signal.
    reason = ", most likely out of memory" if -code == signal.SIGSEGV else ""
    return f"died (signal {-code}{reason})"
