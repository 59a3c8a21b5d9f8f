"""Run a script on some tasks in a child process, under a time and a memory limit.

    answers, ended = run_child(script, tasks, seconds, memory)

script    path of a plain Python file that defines `solve(task)`: the task is a dict, the answer is
          a dict or a generator of dicts. The script imports what it needs inside functions, and
          nothing of nelson, so that it starts fast. The child runs with `-P` and the parent's
          sys.path.
tasks     dicts of JSON values. A value may also be bytes or a NumPy array, which arrives as bytes:
          read it with `array.array("i", ...)` or `np.frombuffer`. Answers may hold bytes too.
seconds   wall-clock time for all tasks, including the start. Then the child is killed.
memory    bytes of address space (RLIMIT_AS).
answers   all answers that came before the end, in order. A task that raised answers
          {"error": text}; the text is "out of memory" if Python noticed that.
ended     "" if all tasks were done. Otherwise how the child ended: "stopped" (time was up),
          "out of memory", "died (signal 11, most likely out of memory)", ...

Raises NelsonError if the child could not start, for example because the script does not import.
Ctrl-C kills the child and is raised again.
"""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nelson.errors import NelsonError
from nelson.process import child_main

#: Default limit of a child's address space, in bytes.
MEMORY = 4 << 30

Answers = list[dict[str, Any]]


def run_child(
    script: str | os.PathLike[str],
    tasks: Sequence[Mapping[str, Any]],
    seconds: float,
    memory: int = MEMORY,
) -> tuple[Answers, str]:
    if seconds <= 0:
        return [], "stopped"
    head = {"script": str(script), "memory": memory, "seconds": seconds, "tasks": len(tasks)}
    with tempfile.TemporaryFile() as question, tempfile.TemporaryFile() as errors:
        for message in (head, *tasks):
            child_main.write(question, {key: _plain(value) for key, value in message.items()})
        question.seek(0)
        output, code = _communicate(question, errors, seconds)
        errors.seek(0)
        stderr = errors.read().decode(errors="replace").strip().splitlines()
    answers, complete = _messages(output)
    if complete:
        return answers, ""
    if code is None:
        return answers, "stopped"
    if any("bad_alloc" in line or "emory" in line for line in stderr):
        return answers, "out of memory"
    if not answers and code == 1:
        raise NelsonError(f"the child process for {Path(script).name} failed: {stderr[-1:]}")
    return answers, _ending(code)


def _plain(value: Any) -> Any:
    return np.ascontiguousarray(value).tobytes() if isinstance(value, np.ndarray) else value


def _communicate(question: Any, errors: Any, seconds: float) -> tuple[bytes, int | None]:
    """The output of the child, and its exit status; None if it was killed."""
    command = [sys.executable, "-P", child_main.__file__, str(os.getpid())]
    # One thread per child: thread pools reserve address space that counts against the limit.
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    with subprocess.Popen(
        command, stdin=question, stdout=subprocess.PIPE, stderr=errors, env=environment
    ) as child:
        try:
            # The system's timers hold no more than 32-bit milliseconds: 24 days.
            return child.communicate(timeout=min(seconds, 2_000_000.0))[0], child.returncode
        except subprocess.TimeoutExpired:
            child.kill()
            return child.communicate()[0], None
        except BaseException:
            child.kill()
            raise


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
        return "stopped"
    # A compiler that does not check the result of malloc dies of this signal.
    reason = ", most likely out of memory" if -code == signal.SIGSEGV else ""
    return f"died (signal {-code}{reason})"
