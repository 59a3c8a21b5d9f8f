"""Runs alone, in a process of its own: loads a script and hands it its tasks, under hard limits.

    python childmain.py < question > answers         (`child.run_child` is the other side)

Nothing of nelson (nor NumPy) is imported: the process starts fast, and what blows up here dies
here. A *message* is one line of JSON; values that are bytes follow the line, as they are, and the
line says how many under "$bytes": [[name, length], ...].

    question   {"script": path, "memory": bytes, "seconds": s, "tasks": k}, then k tasks
    answers    what the script's `solve(task)` returned (a dict) or yielded (dicts), each as soon
               as it is there; {"error": text} for a task that raised; {"$end": true} at the end

Solvers print to standard output too: they get /dev/null. The limits hold even if the parent is
gone.
"""

import json
import math
import os
import runpy
import sys


def read(source):
    """The next message, or None."""
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
    try:
        import resource
    except ImportError:  # no such limits on this system: the parent's clock is the only one
        return
    for kind, value in (
        (resource.RLIMIT_AS, int(memory)),
        (resource.RLIMIT_CPU, math.ceil(seconds) + 1),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))


def answers(solve, task):
    """What `solve` says of one task; an exception is the last thing it says."""
    try:
        said = solve(task)
        if isinstance(said, dict):
            yield said
        else:
            yield from said
    except MemoryError:
        yield {"error": "out of memory"}
    except Exception as error:  # the parent reports it
        exhausted = "bad_alloc" in str(error)
        yield {"error": "out of memory" if exhausted else f"{type(error).__name__}: {error}"}


def main():
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    question = read(sys.stdin.buffer)
    limit(question["memory"], question["seconds"])
    solve = runpy.run_path(question["script"])["solve"]
    for _ in range(question["tasks"]):
        for answer in answers(solve, read(sys.stdin.buffer)):
            write(out, answer)
    write(out, {"$end": True})


if __name__ == "__main__":
    main()
