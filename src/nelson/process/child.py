"""Work that may blow up, in a child process under a time and a memory limit.

    answers, ended = run_child(script, tasks, seconds, memory)

script    path of a plain Python file that defines `solve(task)`: task is a dict, the answer a dict,
          or a generator of dicts. It imports what it needs inside functions and nothing of nelson,
          so that it starts fast; `-P` and the parent's sys.path are in force.
tasks     dicts of what JSON holds; a value may also be bytes or a NumPy array (it arrives as
          bytes: `array.array("i", ...)` or `np.frombuffer` reads it). Answers may hold bytes too.
seconds   wall-clock time for all tasks, start-up included. Then the child is killed.
memory    bytes of address space (RLIMIT_AS).
answers   all that was said before the end, in order: what was finished is kept. A task that raised
          says {"error": text}; out of memory is one of those where Python notices it.
ended     "" if all tasks were done, else how it ended: "stopped" (time was up), "out of memory",
          "died (signal 11, most likely out of memory)", ...

Raises NelsonError if the child could not even begin (a script that does not import). Ctrl-C kills
the child and goes on to the caller.
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

#: Address space that a child may fill, in bytes.
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
        said = errors.read().decode(errors="replace").strip().splitlines()
    answers, complete = _messages(output)
    if complete:
        return answers, ""
    if code is None:
        return answers, "stopped"
    if any("bad_alloc" in line or "emory" in line for line in said):
        return answers, "out of memory"
    if not answers and code == 1:
        raise NelsonError(f"the child process for {Path(script).name} failed: {said[-1:]}")
    return answers, _ending(code)


def _plain(value: Any) -> Any:
    return np.ascontiguousarray(value).tobytes() if isinstance(value, np.ndarray) else value


def _communicate(question: Any, errors: Any, seconds: float) -> tuple[bytes, int | None]:
    """What the child wrote, and its exit status; None if it had to be killed."""
    command = [sys.executable, "-P", child_main.__file__]
    # One thread a child: thread pools reserve address space that nobody uses.
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    with subprocess.Popen(
        command, stdin=question, stdout=subprocess.PIPE, stderr=errors, env=environment
    ) as child:
        try:
            return child.communicate(timeout=seconds)[0], child.returncode
        except subprocess.TimeoutExpired:
            child.kill()
            return child.communicate()[0], None
        except BaseException:
            child.kill()
            raise


def _messages(output: bytes) -> tuple[Answers, bool]:
    """Whole messages only (the last may have been cut), and whether the end was reached."""
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
    if -code == signal.SIGXCPU:  # its own clock was first
        return "stopped"
    # Compilers that do not look at what malloc returns end so.
    told = ", most likely out of memory" if -code == signal.SIGSEGV else ""
    return f"died (signal {-code}{told})"
