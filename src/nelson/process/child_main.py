"""The program of a child process: loads a script and gives it tasks, under hard limits.

    python child_main.py PARENT < question > answers  (started by `child.run_child`)

Nothing of nelson, and not NumPy, is imported: the process starts fast, and a crash stays inside it.
A *message* is one line of JSON. Values that are bytes follow the line as they are; the line lists
their names and lengths under "$bytes": [[name, length], ...].

    question   {"script": path, "memory": bytes, "seconds": s, "tasks": k, "log": bool}, then k
               tasks
    answers    the dict that the script's `solve(task)` returned, or each dict that it yielded, as
               soon as it is there; {"error": text} if a task raised; {"$end": true} at the end

Solvers that print to standard output write to /dev/null; with "log" to standard error, line by
line, where DONE ends the lines of each task. The limits hold even if the parent dies. On Linux the
child dies with its parent.
"""

import contextlib
import ctypes
import json
import math
import os
import runpy
import signal
import sys

#: The line that ends the output of a task.
DONE = b"$done\n"


def read(source):
    """The next message; None at the end, or if the message is cut off."""
    line = source.readline()
    if not line.endswith(b"\n"):
        return None
    message = json.loads(line)
    for name, length in message.pop("$bytes", ()):
        message[name] = source.read(length)
        if len(message[name]) < length:
            return None
    return message


def write(target, message):
    """One message; values may be bytes, bytearray or memoryview."""
    raw = {
        name: bytes(value)
        for name, value in message.items()
        if isinstance(value, bytes | bytearray | memoryview)
    }
    plain = {name: value for name, value in message.items() if name not in raw}
    if raw:
        plain["$bytes"] = [[name, len(value)] for name, value in raw.items()]
    target.write(json.dumps(plain).encode() + b"\n" + b"".join(raw.values()))
    target.flush()


def limit(memory, seconds):
    """Bytes of address space and CPU seconds for this process, and no core dump."""
    try:
        import resource
    except ImportError:  # not on this system: only the parent's clock limits the child
        return
    cpu = math.ceil(seconds) + 1
    for kind, *values in (
        (resource.RLIMIT_AS, int(memory), int(memory)),
        (resource.RLIMIT_CPU, cpu, cpu + 1),  # SIGXCPU, and a second later SIGKILL
        (resource.RLIMIT_CORE, 0, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        if hard != resource.RLIM_INFINITY:
            values = [min(value, hard) for value in values]
        resource.setrlimit(kind, tuple(values))


def die_with(parent):
    """On Linux: have the system kill this process when its parent ends, even by SIGKILL."""
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    except (OSError, AttributeError):  # not Linux
        return
    if os.getppid() != parent:  # the parent ended before prctl took effect
        os._exit(1)


def answers(solve, task):
    """The answers of `solve` to one task; an exception becomes the last answer."""
    try:
        answer = solve(task)
        if isinstance(answer, dict):
            yield answer
        else:
            yield from answer
    except MemoryError:
        yield {"error": "out of memory"}
    except Exception as error:  # the parent reports it
        exhausted = "bad_alloc" in str(error)
        yield {"error": "out of memory" if exhausted else f"{type(error).__name__}: {error}"}


def line_by_line():
    """Have solvers written in C++ print each line at once; else lines come later, in blocks."""
    try:
        library = ctypes.CDLL(None)
        stdout = ctypes.c_void_p.in_dll(library, "stdout")
        library.setvbuf(stdout, None, 2, 0)  # _IONBF
    except (OSError, AttributeError, ValueError):  # a C library with other names
        return


def print_done():
    """End the output of a task."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).fflush(None)
    os.write(1, DONE)


def main(parent):
    die_with(parent)
    out = os.fdopen(os.dup(1), "wb")
    question = read(sys.stdin.buffer)
    os.dup2(2 if question["log"] else os.open(os.devnull, os.O_WRONLY), 1)
    if question["log"]:
        line_by_line()
    limit(question["memory"], question["seconds"])
    solve = runpy.run_path(question["script"])["solve"]
    for _ in range(question["tasks"]):
        for answer in answers(solve, read(sys.stdin.buffer)):
            if question["log"]:
                print_done()
            write(out, answer)
    write(out, {"$end": True})


if __name__ == "__main__":
    main(int(sys.argv[1]))
