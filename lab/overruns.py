"""Is a limit a limit? Each public function and command on formulas and spaces of many kinds.

A call that was given s seconds must be back within 1.1 s + 0.5 seconds on an idle machine, and use
no more CPU than that on a loaded one. So it overruns only if both figures exceed the bound:

    wall   the time until it is back
    CPU    of the process and its children; a call on two threads may use twice its time

On a loaded machine the call is given a clock that stands still while its main thread waits for a
core, and the wall time is read from that clock: so it does what it would do on an idle machine.

Each call runs in a fork of its own, which is killed after some more seconds. Where a call is still
running at the bound, its innermost line of nelson is noted. The time includes loading the modules
and the compiled kernels that the call needs (but torch, for the functions of a distribution); run
it twice on a machine without built kernels. A command is a process that reads the formula from its
file: its limit begins when it starts, and Python itself has 0.3 s to get there.

    python -m lab overruns                       all functions, 1 s; draws also 5 s
    NELSON_OVERRUNS=':solved' python -m lab overruns     has a call samples if PySAT has one?
    NELSON_OVERRUNS='planted.*:sample, 5|rota' python -m lab overruns    calls whose name matches
    NELSON_OVERRUNS_LOAD=2 python -m lab overruns        beside two processes that never rest
    NELSON_BENCH_DATA=FOLDER ...                 with the file of the authors' formulas in FOLDER
    python -m lab page overruns FOLDER           docs/limits.md from what these printed: FOLDER has
                                                 idle.txt and loaded.txt
"""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import nelson
from lab.common import Row
from lab.overruns_cases import FORMULAS, SPACES, NoData
from nelson import Formula
from nelson_paper.experiments.base import Table
from nelson_paper.experiments.report import markdown

#: Seconds of the calls: all functions, and draws again.
SECONDS = (1.0, 5.0)
DRAWS = ("sample", "sample-shares")
#: A call is killed after this many times its bound.
PATIENCE = 3.0

Call = Callable[[Any, float], Any]


class Case:
    """A formula or a space, with what some calls need besides; none of it is timed."""

    def __init__(self, problem: Any, folder: Path) -> None:
        self.problem, self._folder = problem, folder

    @functools.cached_property
    def file(self) -> Path:
        """For commands."""
        suffix = "cnf" if isinstance(self.problem, Formula) else "toml"
        path = self._folder / f"case.{suffix}"
        if suffix == "cnf":
            self.problem.to_dimacs(path)
        else:
            self.problem.save(path)
        return path

    @functools.cached_property
    def examples(self) -> Any:
        """64 examples to learn from: one solution 64 times, whose fit never ends by itself. Zeros,
        which are mostly refused, if CaDiCaL has no solution within some seconds.
        """
        if not isinstance(self.problem, Formula):
            return self.problem.sample(64, seed=1, seconds=5.0)
        path = self._folder / "solution.npy"
        measured(lambda case, _: np.save(path, _solution(case)), self.problem, 2.0)
        row = np.load(path) if path.exists() else np.zeros(self.problem.n_vars)
        return np.tile(row.astype(np.uint8), (64, 1))

    @functools.cached_property
    def examples_file(self) -> Path:
        path = self._folder / "examples.npy"
        np.save(path, self.examples)
        return path


class Outcome(NamedTuple):
    """What one call did."""

    wall: float  # seconds of the clock of the call
    cpu: float
    memory: float  # MB
    answer: str
    where: str  # the innermost line of nelson at the bound

    def over(self, bound: float) -> bool:
        return self.wall > bound and self.cpu > bound


def bound(seconds: float) -> float:
    return 1.1 * seconds + 0.5


def rows() -> Iterator[Row]:
    wanted = re.compile(os.environ.get("NELSON_OVERRUNS", ""))
    overruns = calls = 0
    with at_work(int(os.environ.get("NELSON_OVERRUNS_LOAD", "0"))):
        for name, seconds, outcome in outcomes(wanted):
            calls += 1
            overruns += outcome.over(bound(seconds))
            figure = min(outcome.wall, outcome.cpu)
            note = f"wall {outcome.wall:.1f} s, CPU {outcome.cpu:.1f} s, {outcome.memory:,.0f} MB: "
            note += outcome.answer + (f"; at the bound in {outcome.where}" if outcome.where else "")
            limit = bound(seconds)
            yield Row(name, figure, limit, limit, "s", at_most=True, note=note)
        yield Row("overruns", overruns, 0, 0, "calls", at_most=True, note=f"of {calls}")
        for name, make in FORMULAS.items():
            if wanted.search(f"{name}:solved"):
                with contextlib.suppress(NoData):
                    yield from _solved(name, make())


@contextlib.contextmanager
def at_work(count: int) -> Iterator[None]:
    """`count` processes that never rest run beside the block."""
    code = "while True: pass"
    others = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def _solved(case: str, formula: Formula) -> Iterator[Row]:
    """If PySAT has a solution after t seconds, a call with 4 t + 1 must have samples."""
    solver = measured(lambda f, s: _solution(f), formula, 5.0)
    if solver.answer != "ndarray":
        return
    limit = 4 * solver.wall + 1
    ours = measured(lambda f, s: nelson.sample(f, n=100, seed=1, seconds=s), formula, limit)
    note = f"CaDiCaL {solver.wall:.2f} s; with {limit:.1f} s {ours.answer}"
    yield Row(f"{case}:solved", int(has_samples(ours.answer)), 1, 1, "yes", note=note)


def has_samples(answer: str) -> bool:
    """Does an answer in words begin with a number of samples that is not 0?"""
    count = answer.split()[0]
    return count.isdigit() and int(count) > 0


def _solution(formula: Formula) -> np.ndarray:
    """By CaDiCaL, of all variables. An error if there is none."""
    from pysat.solvers import Solver

    with Solver(name="cadical153", bootstrap_with=formula.clauses()) as solver:
        if not solver.solve():
            raise nelson.Unsatisfiable("no solution")
        model = np.resize(solver.get_model() or [-1], formula.n_vars)
        return model == np.arange(1, formula.n_vars + 1)


def outcomes(wanted: re.Pattern[str]) -> Iterator[tuple[str, float, Outcome]]:
    """(case:function, seconds, outcome) for all calls whose name matches."""
    for cases, functions in ((FORMULAS, OF_FORMULAS), (SPACES, OF_SPACES)):
        for name, make in cases.items():
            every = [
                (f"{name}:{function}, {seconds:g} s", call, seconds)
                for function, call in functions.items()
                for seconds in (SECONDS if function in DRAWS else SECONDS[:1])
            ]
            asked = [entry for entry in every if wanted.search(entry[0])]
            if not asked:
                continue
            with tempfile.TemporaryDirectory() as folder:
                try:
                    case = Case(make(), Path(folder))
                except NoData as why:
                    print(f"LEFT OUT: {name}: {why}", flush=True)
                    continue
                for told, call, seconds in asked:
                    prepare = NEEDS.get(call)
                    if prepare is not None:
                        prepare(case)
                    yield told, seconds, measured(call, case, seconds)


def measured(call: Call, problem: Any, seconds: float) -> Outcome:
    """One call in a fork. The problem is shared, what the call keeps with it is not."""
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        child = os.fork()
        if not child:
            _child(call, problem, seconds, Path(folder))
        wall, asked = 0.0, False
        while not (ended := os.wait4(child, os.WNOHANG))[0]:
            waited = _command_waited(child) if isinstance(call, Command) else _waited(child)
            wall = time.monotonic() - started - waited
            if wall > bound(seconds) and not asked:
                os.kill(child, signal.SIGUSR1)  # it writes where it is
                asked = True
            if wall > PATIENCE * bound(seconds):
                os.killpg(child, signal.SIGKILL)
                ended = os.wait4(child, 0)
                break
            time.sleep(0.02)
        usage = ended[2]
        answer = {"wall": wall, "answer": "KILLED" if os.WIFSIGNALED(ended[1]) else "died"}
        if (report := Path(folder, "report")).exists():
            answer = json.loads(report.read_text())
        cpu = usage.ru_utime + usage.ru_stime
        trace = Path(folder, "trace").read_text() if Path(folder, "trace").exists() else ""
        return Outcome(
            answer["wall"], cpu, usage.ru_maxrss / 1024, str(answer["answer"]), _where(trace)
        )


def _child(call: Call, problem: Any, seconds: float, folder: Path) -> None:
    """Never returns. What solvers start dies with the group."""
    os.setsid()
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    code = 1
    try:
        with Path(folder, "trace").open("w") as trace:
            faulthandler.register(signal.SIGUSR1, file=trace, all_threads=False)
            if not isinstance(call, Command):
                real = time.monotonic
                time.monotonic = lambda: real() - _waited()
            started = time.monotonic()
            try:
                answer = _in_words(call(problem, seconds))
            except Exception as error:
                answer = f"{type(error).__name__}: {str(error)[:120]}"
            wall = time.monotonic() - started - getattr(call, "waited", 0.0)
        whole = Path(folder, "report.part")  # it may be killed while it writes
        whole.write_text(json.dumps({"wall": wall, "answer": answer}))
        whole.replace(folder / "report")
        code = 0
    finally:
        os._exit(code)


def _waited(process: int | str = "self") -> float:
    """Seconds that its main thread was ready to run and had no core."""
    try:
        with open(f"/proc/{process}/schedstat") as file:
            return int(file.read().split()[1]) / 1e9
    except OSError:  # it has ended
        return 0.0


def _command_waited(child: int) -> float:
    """The same of the process of a command, which runs below the fork."""
    below = Path(f"/proc/{child}/task/{child}/children").read_text().split()
    return sum(map(_waited, below))


def _in_words(answer: Any) -> str:
    status = getattr(answer, "status", None)
    if status is not None:
        reason = answer.info.get("reason", "")
        return f"{len(answer)} {answer.guarantee} {status} {reason}"[:200]
    return answer if isinstance(answer, str) else type(answer).__name__


def _where(trace: str) -> str:
    """The innermost line of nelson in a trace."""
    lines = re.findall(r'File ".*?/src/nelson/(.*?)", line (\d+) in (\S+)', trace)
    return " < ".join(f"{file}:{line} {name}" for file, line, name in lines[:3])


# --- the calls -----------------------------------------------------------------------------------


def _first_block(formula: Formula, seconds: float) -> Any:
    return next(iter(nelson.stream(formula, n=128, block=64, seed=1, seconds=seconds)))


def _learn(case: Case, seconds: float) -> Any:
    return nelson.learn(case.problem, case.examples, drop_invalid=True, seed=1, seconds=seconds)


def _distribution(formula: Formula, seconds: float) -> Any:
    return nelson.ConstrainedMRF(formula, logits=np.full(formula.n_vars, 0.5), seconds=seconds)


def _log_prob(case: Case, seconds: float) -> Any:
    import torch

    return _distribution(case.problem, seconds).log_prob(torch.tensor(case.examples[:1]))


class Command:
    """A command, whose output goes to files. FILE, DATA and OUT are names of files."""

    def __init__(self, *words: str) -> None:
        self.words = words

    def __call__(self, case: Case, seconds: float) -> str:
        named = {
            "FILE": lambda: str(case.file),
            "DATA": lambda: str(case.examples_file),
            "OUT": lambda: str(case.file.with_name("out")),
        }
        line = [named[word]() if word in named else word for word in self.words]
        line = [sys.executable, "-m", "nelson.cli", *line, "--seconds", f"{seconds:g}"]
        with tempfile.TemporaryFile("w+") as told:
            process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=told)
            waited = 0.0
            while process.poll() is None:
                waited = max(waited, _waited(process.pid))
                time.sleep(0.01)
            told.seek(0)
            last = told.read().strip().splitlines()[-1:]
        self.waited = waited
        return f"exit {process.returncode}: {' '.join(last)}"


def _of(function: Callable[[Any, float], Any]) -> Call:
    """A call that needs the formula, or the space, alone."""
    return lambda case, seconds: function(case.problem, seconds)


OF_FORMULAS: dict[str, Call] = {
    "sample": _of(lambda f, s: nelson.sample(f, n=100, seed=1, seconds=s)),
    "sample-unique": _of(lambda f, s: nelson.sample(f, n=100, seed=1, unique=True, seconds=s)),
    "plan": _of(lambda f, s: nelson.plan(f, seconds=s).guarantee),
    "stream": _of(_first_block),
    "count": _of(lambda f, s: nelson.count(f, seconds=s)),
    "marginals": _of(lambda f, s: nelson.marginals(f, seconds=s)),
    "mode": _of(lambda f, s: nelson.mode(f, [0.5] * f.n_vars, seconds=s)),
    "log_z": _of(lambda f, s: nelson.log_z(f, seconds=s, seed=1)),
    "learn": _learn,
    "judge": _of(lambda f, s: nelson.judge(f, "auto", seconds=s)),
    "report": _of(lambda f, s: nelson.report(f, seconds=s)),
    "log_prob": _log_prob,
    "mean": _of(lambda f, s: _distribution(f, s).mean),
    "$ sample": Command("sample", "FILE", "-n", "100", "--seed", "1"),
    "$ count": Command("count", "FILE"),
    "$ mode": Command("mode", "FILE"),
    "$ marginals": Command("marginals", "FILE", "--seed", "1"),
    "$ report": Command("report", "FILE"),
    "$ learn": Command("learn", "FILE", "DATA", "-o", "OUT", "--seed", "1", "--drop-invalid"),
    "$ judge": Command("judge", "FILE", "--method", "auto"),
}


def _shares(space: Any) -> dict[Any, Any]:
    """A share of 0.3 for one value of each of the first three fields."""
    fields = list(space.fields.values())[:3]
    return {field: {field.value(field.size - 1): 0.3} for field in fields}


def _weights(space: Any) -> dict[Any, Any]:
    fields = list(space.fields.values())[:3]
    return {field: {field.value(0): 2.0} for field in fields}


def _learn_rows(case: Case, seconds: float) -> Any:
    return case.problem.learn(case.examples, seed=1, seconds=seconds)


def _coverage(case: Case, seconds: float) -> Any:
    few = list(case.problem.fields)[:12]
    return case.problem.coverage(case.examples, 2, few, seconds=seconds)


OF_SPACES: dict[str, Call] = {
    "sample": _of(lambda x, s: x.sample(100, seed=1, seconds=s)),
    "sample-shares": _of(lambda x, s: x.sample(100, shares=_shares(x), seed=1, seconds=s)),
    "sample-weights": _of(lambda x, s: x.sample(100, weights=_weights(x), seed=1, seconds=s)),
    "sample-unique": _of(lambda x, s: x.sample(100, unique=True, seed=1, seconds=s)),
    "sample-first": _of(lambda x, s: x.sample(100, first=list(x.fields)[:1], seed=1, seconds=s)),
    "plan": _of(lambda x, s: x.plan(seconds=s).guarantee),
    "stream": _of(lambda x, s: next(iter(x.stream(128, block=64, seed=1, seconds=s)))),
    "count": _of(lambda x, s: x.count(seconds=s)),
    "marginals": _of(lambda x, s: x.marginals(seconds=s)),
    "marginals-shares": _of(lambda x, s: x.marginals(shares=_shares(x), seed=1, seconds=s)),
    "mode": _of(lambda x, s: x.mode(weights=_weights(x), seconds=s)),
    "cover": _of(lambda x, s: x.cover(2, list(x.fields)[:12], seed=1, seconds=s)),
    "coverage": _coverage,
    "learn": _learn_rows,
    "contradiction": _of(lambda x, s: x.contradiction(seconds=s)),
    "$ sample": Command("sample", "FILE", "-n", "100", "--seed", "1"),
    "$ count": Command("count", "FILE"),
    "$ cover": Command("cover", "FILE", "--seed", "1"),
}

#: What calls need that is not timed: made, or loaded, before their clock starts.
NEEDS: dict[Call, Callable[[Case], Any]] = {
    _learn: lambda case: case.examples,
    _learn_rows: lambda case: case.examples,
    _coverage: lambda case: case.examples,
    _log_prob: lambda case: (case.examples, nelson.ConstrainedMRF),
    OF_FORMULAS["mean"]: lambda case: nelson.ConstrainedMRF,
    **{call: lambda case: case.file for name, call in OF_FORMULAS.items() if name[0] == "$"},
    **{call: lambda case: case.file for name, call in OF_SPACES.items() if name[0] == "$"},
}
NEEDS[OF_FORMULAS["$ learn"]] = lambda case: (case.file, case.examples_file)


# --- the page ------------------------------------------------------------------------------------

_LINE = re.compile(
    r"(?P<case>.+?):(?P<call>[^:]+), (?P<seconds>[15]) s: (?P<figure>-?[\d.]+) s  (?P<note>.*)"
)
_SOLVED = re.compile(r"(?P<case>.+):solved: (?P<yes>[01]) yes  (?P<note>.*)")


class Figure(NamedTuple):
    """One printed line: the smaller of wall and CPU seconds of a call."""

    case: str
    call: str
    seconds: float
    figure: float
    note: str

    @property
    def over(self) -> bool:
        return self.figure > bound(self.seconds)

    def __str__(self) -> str:
        return f"{self.figure:.1f} ({self.call})"


def figures(folder: Path, kind: str) -> list[Figure]:
    """What `python -m lab overruns` printed into KIND*.txt; of equal calls the last one."""
    last: dict[tuple[str, str, str], Figure] = {}
    for path in sorted(folder.glob(f"{kind}*.txt")):
        for line in path.read_text().splitlines():
            if match := _LINE.fullmatch(line):
                case, call, seconds, figure, note = match.groups()
                key = case, call, seconds
                last[key] = Figure(case, call, float(seconds), float(figure), note)
    return list(last.values())


def page(folder: Path) -> list[str]:
    """Text and tables of docs/limits.md."""
    runs = {kind: figures(folder, kind) for kind in ("idle", "loaded")}
    cells: list[list[str]] = []
    for case in (*FORMULAS, *SPACES):
        mine = {kind: [f for f in run if f.case == case] for kind, run in runs.items()}
        if any(mine.values()):
            cells.append([case, *(_worst(each, s) for each in mine.values() for s in SECONDS)])
    late = [
        [f.case, f.call, kind, f"{f.figure:.2f} s", f"{bound(f.seconds):.1f} s", _place(f)]
        for kind, run in runs.items()
        for f in run
        if f.over
    ]
    lines = [line for path in sorted(folder.glob("*.txt")) for line in path.open()]
    solved = [match for line in lines if (match := _SOLVED.fullmatch(line.strip()))]
    yes = sum(match["yes"] == "1" for match in solved)
    totals = [
        f"{kind}: {sum(f.over for f in run)} of {len(run)} calls came back late"
        for kind, run in runs.items()
    ]
    totals.append(f"of {len(solved)} formulas that CaDiCaL solves within 5 s, {yes} had samples")
    columns = ["formula or space", "1 s, idle", "5 s, idle", "1 s, loaded", "5 s, loaded"]
    late_columns = ["case", "call", "machine", "seconds", "bound", "where it was then"]
    return [
        "; ".join(totals) + ".",
        markdown(Table("The call of each case that took longest", columns, cells)),
        markdown(Table("Calls that came back late", late_columns, late)) if late else "",
    ]


def _place(late: Figure) -> str:
    """The innermost line of nelson at the bound, if it is known."""
    return late.note.partition("; at the bound in ")[2].partition(" < ")[0] or "–"


def _worst(found: list[Figure], seconds: float) -> str:
    of_these = [f for f in found if f.seconds == seconds]
    return str(max(of_these, key=lambda f: f.figure)) if of_these else "–"


if __name__ == "__main__":
    sys.exit(print(*rows(), sep="\n"))
