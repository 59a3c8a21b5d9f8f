"""Child processes: limits of time and memory, answers that are kept, how a child ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

from nelson.errors import NelsonError
from nelson.process.child import Cancelled, cancelled_by, run_child
from tests.paper.experiments.toy_runs import alive, wait

pytestmark = pytest.mark.process

SCRIPT = """
import time
def solve(task):
    kind = task["kind"]
    if kind == "echo":
        return {"text": task["text"], "data": task["data"][::-1], "more": memoryview(b"xy")}
    if kind == "many":
        return ({"k": k} for k in range(task["count"]))
    if kind == "sleep":
        return sleepy(task["count"])
    if kind == "eat":
        return {"size": len(bytearray(task["bytes"]))}
    if kind == "print":
        print("noise on stdout", flush=True)
        import os
        os.system("echo more noise")
        return {"done": True}
    if kind == "exit":
        import os
        os._exit(task["code"])
    if kind == "abort":
        import os
        os.abort()
    raise ValueError("no such task")
def sleepy(count):
    for k in range(count):
        yield {"k": k}
    time.sleep(600)
    yield {"k": -1}
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def test_tasks_and_answers(script):
    data = np.arange(5, dtype=np.int32)
    tasks = [
        {"kind": "echo", "text": "a\nb", "data": b"\n\x00{"},
        {"kind": "many", "count": 3},
        {"kind": "echo", "text": "", "data": data},
        {"kind": "print"},
    ]
    answers, ended = run_child(script, tasks, 60.0)
    assert ended == ""
    assert answers[0] == {"text": "a\nb", "data": b"{\x00\n", "more": b"xy"}
    assert answers[1:4] == [{"k": 0}, {"k": 1}, {"k": 2}]
    assert answers[4]["data"] == data.tobytes()[::-1]
    assert answers[5] == {"done": True}
    assert run_child(script, [], 60.0) == ([], "")


def test_a_task_that_raises_is_an_answer(script):
    tasks = [{"kind": "?"}, {"kind": "many", "count": 1}]
    answers, ended = run_child(script, tasks, 60.0)
    assert answers == [{"error": "ValueError: no such task"}, {"k": 0}] and ended == ""


def test_time_is_up_and_what_was_done_is_kept(script):
    answers, ended = run_child(script, [{"kind": "sleep", "count": 4}], 1.5)
    assert [answer["k"] for answer in answers] == [0, 1, 2, 3] and ended == "stopped"
    assert run_child(script, [{"kind": "sleep", "count": 4}], 0.0) == ([], "stopped")
    with pytest.raises(ChildProcessError):  # no child is left behind
        os.waitpid(-1, os.WNOHANG)


def test_memory_is_limited(script):
    tasks = [{"kind": "eat", "bytes": 1 << 20}, {"kind": "eat", "bytes": 1 << 28}]
    answers, ended = run_child(script, tasks, 60.0, memory=192 << 20)
    assert answers == [{"size": 1 << 20}, {"error": "out of memory"}] and ended == ""
    answers, _ = run_child(script, tasks, 60.0, memory=1 << 30)  # with enough memory it works
    assert answers[1] == {"size": 1 << 28}


def test_how_it_ended(script):
    tasks = [{"kind": "many", "count": 1}, {"kind": "exit", "code": 3}]
    assert run_child(script, tasks, 60.0) == ([{"k": 0}], "ended (exit status 3)")
    _, ended = run_child(script, [{"kind": "abort"}], 60.0)
    assert ended.startswith("died (signal 6")


def test_a_script_that_cannot_begin_is_an_error(tmp_path):
    path = tmp_path / "broken.py"
    path.write_text("import no_such_module\n")
    with pytest.raises(NelsonError, match="no_such_module"):
        run_child(path, [{}], 60.0)


PARENT = """
import sys
from nelson.process.child import Cancelled, cancelled_by, run_child
run_child(sys.argv[1], [{}], seconds=500.0)
"""
LONG = """
import os, sys, time
def solve(task):
    with open(PATH, "w") as file:
        file.write(f"{os.getpid()}\\n")
    time.sleep(500)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="prctl")
def test_the_child_dies_with_its_parent(tmp_path):
    """SIGKILL: the parent cannot clean up, the system does."""
    noted, script = tmp_path / "pid", tmp_path / "long.py"
    script.write_text(LONG.replace("PATH", repr(str(noted))))
    parent = subprocess.Popen([sys.executable, "-c", PARENT, script])
    wait(lambda: noted.exists() and noted.read_text().endswith("\n"))
    child = int(noted.read_text())
    assert alive(child)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    wait(lambda: not alive(child))


def test_another_thread_ends_a_child(tmp_path):
    """It raises Cancelled, so that nobody takes the end for an answer; and the child never gets to
    the end of its minute.
    """
    script, ended = tmp_path / "sleeper.py", tmp_path / "ended"
    code = (
        "import pathlib, time\ndef solve(task):\n    time.sleep(60)\n    pathlib.Path({}).touch()\n"
    )
    script.write_text(code.format(repr(str(ended))))
    event = threading.Event()
    threading.Timer(0.2, event.set).start()
    with pytest.raises(Cancelled), cancelled_by(event):
        run_child(script, [{}], 120.0)
    assert not ended.exists()
