"""Is a limit a limit? Each public function on formulas and spaces of many kinds, with `seconds=`.

A call that was given s seconds must be back within 1.1 s + 0.5 seconds on an idle machine, and use
no more CPU than that on a loaded one. So it overruns only if both figures exceed the bound:

    wall   the time until it is back
    CPU    of the process and its children; a call on two threads may use twice its time

On a loaded machine the call is given a clock that stands still while its main thread waits for a
core, and the wall time is read from that clock: so it does what it would do on an idle machine.

Each call runs in a fork of its own, which is killed after some more seconds. Where a call is still
running at the bound, its innermost line of nelson is noted. The time includes loading the modules
and the compiled kernels that the call needs; run it twice on a machine without built kernels.

    python -m lab overruns                       all functions, 1 s; draws also 5 s
    NELSON_OVERRUNS=':solved' python -m lab overruns     has a call samples if PySAT has one?
    NELSON_OVERRUNS='planted.*:sample, 5|rota' python -m lab overruns    calls whose name matches
"""

from __future__ import annotations

import faulthandler
import json
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import nelson
from lab.common import Row
from lab.overruns_cases import FORMULAS, SPACES
from nelson import Formula

#: Seconds of the calls: all functions, and draws again.
SECONDS = (1.0, 5.0)
DRAWS = ("sample", "sample-shares")
#: A call is killed after this many times its bound.
PATIENCE = 3.0

Call = Callable[[Any, float], Any]


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
    for name, seconds, outcome in outcomes(wanted):
        calls += 1
        overruns += outcome.over(bound(seconds))
        figure = min(outcome.wall, outcome.cpu)
        note = f"wall {outcome.wall:.1f} s, CPU {outcome.cpu:.1f} s, {outcome.memory:,.0f} MB: "
        note += outcome.answer + (f"; at the bound in {outcome.where}" if outcome.where else "")
        limit = bound(seconds)
        yield Row(name, figure, limit, limit, "s", at_most=True, note=note)
    yield Row("overruns", overruns, 0, 0, "calls", at_most=True, note=f"of {calls}")
    for case, make in FORMULAS.items():
        if wanted.search(f"{case}:solved"):
            yield from _solved(case, make())


def _solved(case: str, formula: Formula) -> Iterator[Row]:
    """If PySAT has a solution after t seconds, a call with 4 t + 1 must have samples."""
    solver = measured(lambda f, s: _solve(f), formula, 5.0)
    if solver.answer != "bool":
        return
    limit = 4 * solver.wall + 1
    ours = measured(OF_FORMULAS["sample"], formula, limit)
    note = f"CaDiCaL {solver.wall:.2f} s; with {limit:.1f} s {ours.answer}"
    yield Row(f"{case}:solved", int(has_samples(ours.answer)), 1, 1, "yes", note=note)


def has_samples(answer: str) -> bool:
    """Does an answer in words begin with a number of samples that is not 0?"""
    count = answer.split()[0]
    return count.isdigit() and int(count) > 0


def _solve(formula: Formula) -> bool:
    from pysat.solvers import Solver

    with Solver(name="cadical153", bootstrap_with=formula.clauses()) as solver:
        return bool(solver.solve())


def outcomes(wanted: re.Pattern[str]) -> Iterator[tuple[str, float, Outcome]]:
    """(case:function, seconds, outcome) for all calls whose name matches."""
    for cases, functions in ((FORMULAS, OF_FORMULAS), (SPACES, OF_SPACES)):
        for case, make in cases.items():
            every = [
                (f"{case}:{function}, {seconds:g} s", call, seconds)
                for function, call in functions.items()
                for seconds in (SECONDS if function in DRAWS else SECONDS[:1])
            ]
            asked = [entry for entry in every if wanted.search(entry[0])]
            problem = make() if asked else None
            for name, call, seconds in asked:
                yield name, seconds, measured(call, problem, seconds)


def measured(call: Call, problem: Any, seconds: float) -> Outcome:
    """One call in a fork. The problem is shared, what the call keeps with it is not."""
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        child = os.fork()
        if not child:
            _child(call, problem, seconds, Path(folder))
        wall, asked = 0.0, False
        while not (ended := os.wait4(child, os.WNOHANG))[0]:
            wall = time.monotonic() - started - _waited(child)
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
            real = time.monotonic
            time.monotonic = lambda: real() - _waited()
            started = time.monotonic()
            try:
                answer = _in_words(call(problem, seconds))
            except Exception as error:
                answer = f"{type(error).__name__}: {str(error)[:120]}"
            wall = time.monotonic() - started
        Path(folder, "report").write_text(json.dumps({"wall": wall, "answer": answer}))
        code = 0
    finally:
        os._exit(code)


def _waited(process: int | str = "self") -> float:
    """Seconds that its main thread was ready to run and had no core."""
    with open(f"/proc/{process}/schedstat") as file:
        return int(file.read().split()[1]) / 1e9


def _in_words(answer: Any) -> str:
    status = getattr(answer, "status", None)
    if status is not None:
        reason = answer.info.get("reason", "")
        return f"{len(answer)} {answer.guarantee} {status} {reason}"[:200]
    return type(answer).__name__


def _where(trace: str) -> str:
    """The innermost line of nelson in a trace."""
    lines = re.findall(r'File ".*?/src/nelson/(.*?)", line (\d+) in (\S+)', trace)
    return " < ".join(f"{file}:{line} {name}" for file, line, name in lines[:3])


# --- the calls -----------------------------------------------------------------------------------


def _first_block(formula: Any, seconds: float) -> Any:
    return next(iter(nelson.stream(formula, n=128, block=64, seed=1, seconds=seconds)))


def _learned(formula: Any, seconds: float) -> Any:
    import numpy as np

    data = np.zeros((64, formula.n_vars), np.uint8)  # refused where zeros are no structure
    return nelson.learn(formula, data, drop_invalid=True, seed=1, seconds=seconds)


OF_FORMULAS: dict[str, Call] = {
    "sample": lambda f, s: nelson.sample(f, n=100, seed=1, seconds=s),
    "sample-unique": lambda f, s: nelson.sample(f, n=100, seed=1, unique=True, seconds=s),
    "plan": lambda f, s: nelson.plan(f, seconds=s).guarantee,
    "stream": _first_block,
    "count": lambda f, s: nelson.count(f, seconds=s),
    "marginals": lambda f, s: nelson.marginals(f, seconds=s),
    "mode": lambda f, s: nelson.mode(f, [0.5] * f.n_vars, seconds=s),
    "log_z": lambda f, s: nelson.log_z(f, seconds=s, seed=1),
    "learn": _learned,
    "judge": lambda f, s: nelson.judge(f, "auto", seconds=s),
    "report": lambda f, s: nelson.report(f, seconds=s),
}


def _shares(space: Any) -> dict[Any, Any]:
    """A share of 0.3 for one value of each of the first three fields."""
    fields = list(space.fields.values())[:3]
    return {field: {field.value(field.size - 1): 0.3} for field in fields}


def _weights(space: Any) -> dict[Any, Any]:
    fields = list(space.fields.values())[:3]
    return {field: {field.value(0): 2.0} for field in fields}


OF_SPACES: dict[str, Call] = {
    "sample": lambda x, s: x.sample(100, seed=1, seconds=s),
    "sample-shares": lambda x, s: x.sample(100, shares=_shares(x), seed=1, seconds=s),
    "sample-weights": lambda x, s: x.sample(100, weights=_weights(x), seed=1, seconds=s),
    "count": lambda x, s: x.count(seconds=s),
    "marginals": lambda x, s: x.marginals(seconds=s),
    "mode": lambda x, s: x.mode(weights=_weights(x), seconds=s),
    "cover": lambda x, s: x.cover(2, list(x.fields)[:12], seed=1, seconds=s),
    "contradiction": lambda x, s: x.contradiction(seconds=s),
}


if __name__ == "__main__":
    sys.exit(print(*rows(), sep="\n"))
