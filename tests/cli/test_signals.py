"""`nelson sample` in a shell: on a terminal, under signals, and with a reader that leaves."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from nelson.kernels.core.bits import unpack
from tests.cli.commands import KSAT, NELSON, TIMEOUT, assert_valid, literals, run, said
from tests.paper.experiments.toy_runs import wait

pytestmark = pytest.mark.process


def on_terminal(*args: object) -> tuple[int, bytes]:
    """Run with stderr on a pseudo-terminal; exit code and what was shown there."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [*NELSON, *map(str, args)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=slave,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "100"},
    )
    os.close(slave)
    shown = b""
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        if select.select([master], [], [], 0.1)[0]:
            try:
                data = os.read(master, 65536)
            except OSError:  # Linux: the other end is closed
                break
            if not data:
                break
            shown += data
    os.close(master)
    return process.wait(TIMEOUT), shown


def test_progress_bar_only_on_a_terminal(tmp_path):
    args = ("sample", KSAT, "-n", "inf", "--seconds", 1, "-o", tmp_path / "x.npz")
    code, shown = on_terminal(*args)
    assert code == 0
    assert b"\x1b[" in shown
    assert b"samples/s" in shown
    assert b"sampling" in shown
    piped = run(*args).stderr
    assert "\x1b[" not in piped
    assert "sampling" not in piped
    code, shown = on_terminal(*args, "-q")
    assert code == 0
    assert said(shown.decode()) == ""


def has_written(pid: int, folder: Path) -> bool:
    """Is the first block written? The words of an .npz wait in a file without a name."""
    files = [*folder.iterdir(), *Path(f"/proc/{pid}/fd").glob("*")]
    for file in files:
        with contextlib.suppress(OSError):  # closed meanwhile
            named = file.parent == folder or "(deleted)" in os.readlink(file)
            if named and file.is_file() and file.stat().st_size:
                return True
    return False


@pytest.mark.parametrize("name", ["x.txt", "x.npz", "x.parquet"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_a_complete_valid_file(tmp_path, name, number):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow", reason="pip install nelson-mrf[parquet]")
    if name.endswith("npz") and not Path("/proc/self/fd").is_dir():
        pytest.skip("finds the scratch file in /proc")
    path = tmp_path / name
    process = subprocess.Popen(
        [*NELSON, "sample", KSAT, "-n", "inf", "-o", path],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    wait(lambda: has_written(process.pid, tmp_path) or process.poll() is not None)
    process.send_signal(number)
    _, error = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 128 + number, error
    assert b"Traceback" not in error
    assert b"interrupted" in error
    assert [p.name for p in tmp_path.iterdir()] == [name]
    for x in first_and_last(path):
        assert len(x) > 0
        assert_valid(KSAT, x)


def first_and_last(path: Path) -> list[np.ndarray]:
    """A few samples from both ends of a file that may be large; its counts must agree."""
    if path.suffix == ".txt":
        with path.open("rb") as file:
            head = b"".join(file.readline() for _ in range(100))
            file.seek(max(0, path.stat().st_size - 100_000))
            file.readline()
            return [literals(text.decode()) > 0 for text in (head, file.read())]
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as data:
            packed, count, info = data["packed"], int(data["count"]), json.loads(str(data["info"]))
        assert info["samples"] == count
        assert len(packed) == -(-count // 64)
        tail = unpack(packed[-1:], count - 64 * (len(packed) - 1))
        return [unpack(packed[:1], min(64, count)), tail]
    from pyarrow import parquet

    file = parquet.ParquetFile(path)
    assert json.loads(file.metadata.metadata[b"nelson.info"])["samples"] == file.metadata.num_rows
    ends = []
    for group in (0, file.num_row_groups - 1):
        rows = file.read_row_group(group).column("x").to_pylist()[:100]
        octets = np.array([list(row) for row in rows], dtype=np.uint8)
        ends.append(np.unpackbits(octets, axis=1, count=1000, bitorder="little").astype(bool))
    return ends


def test_the_reader_may_leave_early():
    process = subprocess.Popen(
        [*NELSON, "sample", KSAT, "-n", "inf"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.endswith(b" 0\n")
    process.stdout.close()
    assert process.wait(TIMEOUT) == 141
    assert process.stderr is not None
    assert said(process.stderr.read().decode()) == ""
    process.stderr.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_the_first_sample_leaves_nothing(tmp_path, number):
    """The command waits for its formula, and its output is begun."""
    process = subprocess.Popen(
        [*NELSON, "sample", "-", "-o", tmp_path / "x.npz"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    wait(lambda: any(tmp_path.iterdir()) or process.poll() is not None)
    process.send_signal(number)
    _, error = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 128 + number, error
    assert b"Traceback" not in error and list(tmp_path.iterdir()) == []
    assert error == b"nelson: interrupted\n"


#: Moment -> the exit code, or None for 128 + the number of the signal; and what a process without
#: the handlers of the command line does after SIGINT (a negative code: the signal ends it).
MOMENTS = {
    "text": (None, -2),  # in `exec` of text: dataclasses are made so, while modules are imported
    "callback": (None, 0),  # of a weak reference or a collector: the exception is lost
    "start": (None, -2),  # while the commands are imported
    "after": (None, -2),  # after the command
    "last": (0, -2),  # while Python takes itself apart
}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_signal_gives_its_exit_code_at_any_moment(moment, number):
    program = [sys.executable, "-m", "tests.cli.interrupted", moment, str(int(number))]
    root = Path(__file__).parents[2]
    done = subprocess.run(program, cwd=root, capture_output=True, text=True, check=False)
    code, plain_code = MOMENTS[moment]
    assert (done.returncode, done.stderr) == (128 + number if code is None else code, "")
    if number == signal.SIGINT and (moment != "text" or sys.version_info < (3, 12)):
        plain = subprocess.run([*program, "plain"], cwd=root, capture_output=True, check=False)
        assert plain.returncode == plain_code  # the twin


WAITING_THREAD = """
import atexit, sys, threading
from nelson import cli
from nelson.cli import commands, interrupt

def app():
    print("rows are written")
    threading.Thread(target=lambda: (sys.stdin.read(), print("the thread has ended"))).start()
    atexit.register(print, "exit functions ran")
    interrupt._arrived.extend({arrived})
    raise SystemExit(143)

commands.app = app
cli.main()
"""


@pytest.mark.parametrize("arrived", [[15], []])
def test_an_interrupted_command_waits_for_no_thread(arrived):
    """A thread waits until stdin ends, as one waits for ever whose start a signal interrupted. The
    twin without a signal ends after its thread.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", WAITING_THREAD.format(arrived=arrived)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    if arrived:
        assert process.wait(TIMEOUT) == 143  # stdin is still open
    out, _ = process.communicate(timeout=TIMEOUT)
    thread = [] if arrived else ["the thread has ended"]
    assert out.decode().splitlines() == ["rows are written", *thread, "exit functions ran"]
    assert process.returncode == 143
