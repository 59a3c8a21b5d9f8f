"""Compile a formula: from the cache, or by a compiler under limits.

Unit propagation and the split into components come first; each component is compiled on its own.
Evidence plays no part: it is theta = +-inf, and needs no new circuit.

    d4         a top-down search with components and caching; in a child process
    sdd        PySDD, bottom-up; in a child process
    frontier   level by level, for narrow formulas (see `frontier`); in this process
    auto       D4. If the formula is narrow and D4 is not done after a first share of the time, an
               order of the variables is computed (`frontier_order`). If it leads to few states:
               frontier. Else D4 decides the variables in this order; then D4 on its own again.
               Without D4: frontier.

D4 finds components that no longer depend on each other, level by level cannot. So D4 in a good
order needs fewer decisions where components appear; frontier does not slow down where none appear.

`compile_parts` is the only place that starts D4 (or PySDD).
"""

from __future__ import annotations

import importlib.util
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nelson.errors import FormulaError, NelsonError, Unsatisfiable
from nelson.exact.circuit import disk_cache, frontier
from nelson.exact.circuit.decisions import DecisionCircuit, decisions_of, joined
from nelson.exact.circuit.frontier_order import Order, best_order
from nelson.exact.circuit.nnf import Circuit
from nelson.exact.compile_guess import estimate
from nelson.formula import Formula
from nelson.formula.canonical import normalise
from nelson.formula.components import Component, split
from nelson.formula.propagate import propagated
from nelson.io.progress import phase
from nelson.process.child import MEMORY, run_child

#: Module, and name for people, of each compiler.
COMPILERS = {
    "d4": ("py_d4", "D4"),
    "sdd": ("pysdd", "PySDD"),
    "frontier": ("numpy", "the frontier compiler"),
}
#: D4 first, the frontier compiler where D4 fails or is not installed.
AUTO = "auto"
#: D4's first share of the time if the formula is narrow; and its seconds, at most.
FIRST_SHARE = 0.3
FIRST_SECONDS = 2.0
#: The share of the time left then in which an order is searched; and its seconds, at most.
ORDER_SHARE = 0.3
ORDER_SECONDS = 4.0
#: The share of the time left then that D4 gets with the order, before it is left to itself.
ALONG_SHARE = 0.75
#: Log2 of the states below which the frontier compiler, which then takes about two seconds, comes
#: before D4 with the order; and above which D4 does better without the order.
FEW_STATES = 22.0
MANY_STATES = 28.0
#: The frontier compiler is tried if an elimination order has at most this width. The gates of sums
#: and comparisons make formulas wider than their number of states tells: up to about twice.
NARROW = 32
#: D4 gets all the time for formulas with at most this many variables: it always compiles them.
SMALL = 40
#: And for formulas with fewer variables than this for each unit of width: these are not long, and
#: no order is much better than D4's own.
LENGTH = 5
#: Formulas with more variables or more literals than this are left to D4: they are never narrow
#: enough for the time they would take.
MAX_VARIABLES = 20_000
MAX_LITERALS = 200_000
#: Bytes of address space that a compiler reserves without using them: D4 maps 1.8 GiB at once.
RESERVED = {"d4": 2 << 30, "sdd": 0}
#: A longer text, in bytes, counts as "did not compile": its arrays would take about 2 GB.
MAX_TEXT = 1 << 30


@dataclass(frozen=True)
class BuildResult:
    """A circuit, or the reason why there is none."""

    circuit: DecisionCircuit | None
    seconds: float  # that this call took
    cached: bool = False  # it was read from disk
    why_not: str = ""


class Attempt(NamedTuple):
    """Components for a compiler: -> the circuits of the first ones, None for one without a
    solution; and how it ended.
    """

    compiler: str
    until: float  # time.monotonic()
    memory: int
    orders: list[Order] | None = None  # for each component


def missing(compiler: str) -> str | None:
    """None, or what has to be installed first."""
    module, name = COMPILERS[compiler]
    if importlib.util.find_spec(module) is None:
        return f'{name} is not installed: pip install "nelson-mrf[samplers]"'
    return None


def compile_parts(
    parts: Sequence[tuple[np.ndarray, np.ndarray]],
    compiler: str,
    seconds: float,
    memory: int = MEMORY,
    orders: Sequence[Order] | None = None,
    shown: Sequence[np.ndarray] | None = None,
) -> tuple[list[Circuit | str], str]:
    """All parts, one after the other, in one child process with these limits (seconds, bytes).

    A part is (literals, offsets) of clauses over variables 1..n, each of them in some clause.
    orders: in which D4 decides the variables of each part.  shown: of each part, the variables that
    D4 projects its solutions on.

    -> for each part its circuit or the compiler's error. The list is shorter than `parts` if the
    child process ended early; the second value then says how it ended.
    """
    tasks = [
        {
            "compiler": compiler,
            "n": int(np.abs(literals).max()),
            "literals": literals.astype(np.int32),
            "offsets": offsets.astype(np.int64),
        }
        for literals, offsets in parts
    ]
    if not tasks:
        return [], ""
    for task, order in zip(tasks, orders or (), strict=False):
        places = np.empty(len(order.variables), np.int32)
        places[order.variables] = np.arange(1, len(places) + 1)
        task["places"] = places
    script = Path(__file__).with_name("compile_child.py")
    try:
        with tempfile.TemporaryDirectory() if shown else nullcontext("") as folder:
            for task, own in zip(tasks, shown or (), strict=False):
                task |= {"shown": own.astype(np.int32), "file": str(Path(folder) / "part.cnf")}
            answers, ended = run_child(script, tasks, seconds, memory + RESERVED[compiler])
    except NelsonError as error:
        # libsdd ends the process if it cannot allocate its first tables.
        return [], "out of memory" if "alloc failed" in str(error) else str(error)
    return [_read(answer) for answer in answers], ended


def _read(answer: dict[str, Any]) -> Circuit | str:
    if "error" in answer:
        return answer["error"]
    text = answer.pop("nnf")  # freed when it is parsed
    if len(text) > MAX_TEXT:
        return f"a circuit of {len(text):,} bytes is too large"
    try:
        return Circuit.parse(text)
    except ValueError as error:
        return f"answered with {error}"


def build(
    formula: Formula,
    seconds: float,
    memory: int = MEMORY,
    compiler: str = AUTO,
    cache: bool = True,
) -> BuildResult:
    """The circuit of a formula, from the disk cache or compiled within these limits.

    Raises Unsatisfiable if propagation or the compiler proved it.
    """
    if compiler not in (AUTO, *COMPILERS):
        expected = "one of " + ", ".join([AUTO, *COMPILERS])
        raise FormulaError(f"no compiler {compiler!r}", expected=expected)
    started = time.monotonic()
    if formula.has_empty_clause:
        raise Unsatisfiable("the formula has an empty clause")
    key = disk_cache.key(formula, compiler) if cache else ""
    if cache and (circuit := load_cached(key, formula.n_total)) is not None:
        return BuildResult(circuit, time.monotonic() - started, cached=True)
    if lacking := not_possible(formula, compiler):
        return BuildResult(None, 0.0, why_not=lacking)
    circuit, why_not = _compile(formula, seconds, memory, compiler)
    if circuit is not None and cache:
        disk_cache.save(key, {"n": np.int64(circuit.n), **circuit.arrays})
    return BuildResult(circuit, time.monotonic() - started, why_not=why_not)


def load_cached(key: str, n: int) -> DecisionCircuit | None:
    """The circuit of `n` variables in the disk cache, if its file is there and undamaged."""
    arrays = disk_cache.load(key, ("n", *DecisionCircuit.ARRAYS))
    if arrays is None or not np.array_equal(arrays.pop("n"), n):
        return None
    circuit = DecisionCircuit(n, **arrays)
    return circuit if circuit.sound() else None


def narrow(formula: Formula) -> bool:
    """Is the frontier compiler worth a try? About a millisecond, once for each formula."""
    if formula.n_total > MAX_VARIABLES or len(formula.literals) > MAX_LITERALS:
        return False
    guess = estimate(formula)
    return guess.complete and guess.width <= NARROW


def _long(formula: Formula) -> bool:
    """May an order of the variables help D4?"""
    if formula.n_total <= SMALL or not narrow(formula):
        return False
    return formula.n_total >= LENGTH * estimate(formula).width


def not_possible(formula: Formula, compiler: str = AUTO) -> str | None:
    """None if the compiler can run on the formula; else what has to be installed first."""
    if compiler != AUTO:
        return missing(compiler)
    lacking = missing("d4")
    return lacking if lacking and not narrow(formula) else None


def _compile(
    formula: Formula, seconds: float, memory: int, compiler: str
) -> tuple[DecisionCircuit | None, str]:
    """(circuit, ""), or (None, why not)."""
    left = propagated(formula)
    parts = split(*normalise(left.literals, left.offsets), formula.n_total)
    parts.sort(key=lambda part: part.n_vars)
    circuits: list[DecisionCircuit] = []
    reasons = []
    for attempt in _attempts(formula, parts, circuits, seconds, memory, compiler):
        name, started = COMPILERS[attempt.compiler][1], time.monotonic()
        compiled = _by_frontier if attempt.compiler == "frontier" else _by_child
        with phase(f"compiling a circuit with {name}"):
            done, ended = compiled(parts[len(circuits) :], attempt)
        if None in done:
            raise Unsatisfiable(f"a solver proved that the formula has no solution: {name}")
        circuits += [circuit for circuit in done if circuit is not None]
        if len(circuits) == len(parts):
            return joined(circuits, left.fixed, formula.n_total), ""
        hard, took = parts[len(circuits)], time.monotonic() - started
        reasons.append(
            f"{name} {ended} after {took:.3g} s at a component of {hard.n_vars} variables, "
            f"{hard.n_clauses} clauses (limits: {attempt.until - started:.3g} s, "
            f"{memory / 2**30:.3g} GiB)"
        )
    return None, "; ".join(reasons)


def _attempts(
    formula: Formula,
    parts: list[Component],
    done: list[DecisionCircuit],
    seconds: float,
    memory: int,
    compiler: str,
) -> Iterator[Attempt]:
    """What to try next on the parts that are not done yet."""
    end = time.monotonic() + seconds
    if compiler == AUTO and missing("d4"):
        compiler = "frontier"
    if compiler == "frontier":
        yield Attempt(compiler, end, memory, _orders(parts, end))
        return
    if compiler != AUTO or not _long(formula):
        yield Attempt("d4" if compiler == AUTO else compiler, end, memory)
        return
    yield Attempt("d4", end - seconds + min(FIRST_SECONDS, FIRST_SHARE * seconds), memory)
    orders = _orders(parts[len(done) :], end)
    if max(order.work for order in orders) <= FEW_STATES:
        finished = len(done)
        yield Attempt("frontier", end, memory, orders)
        orders = orders[len(done) - finished :]
    if max(order.work for order in orders) <= MANY_STATES:
        now = time.monotonic()
        yield Attempt("d4", now + ALONG_SHARE * (end - now), memory, orders)
    yield Attempt("d4", end, memory)


def _orders(parts: Sequence[Component], end: float) -> list[Order]:
    with phase("looking for an order of the variables"):
        now = time.monotonic()
        until = now + min(ORDER_SECONDS, ORDER_SHARE * (end - now))
        return [best_order(part.literals, part.offsets, until) for part in parts]


def _by_child(parts: list[Component], attempt: Attempt) -> tuple[list[DecisionCircuit | None], str]:
    clauses = [(part.literals, part.offsets) for part in parts]
    seconds = max(0.0, attempt.until - time.monotonic())
    answers, ended = compile_parts(
        clauses, attempt.compiler, seconds, attempt.memory, attempt.orders
    )
    circuits: list[DecisionCircuit | None] = []
    for part, answer in zip(parts, answers, strict=False):
        if isinstance(answer, str):
            return circuits, answer
        circuits.append(decisions_of(answer, part.variables))
        if circuits[-1] is None:
            break
    return circuits, ended


def _by_frontier(
    parts: list[Component], attempt: Attempt
) -> tuple[list[DecisionCircuit | None], str]:
    most = min(frontier.MAX_STATES, attempt.memory // frontier.STATE_BYTES)
    circuits: list[DecisionCircuit | None] = []
    for part, order in zip(parts, attempt.orders or (), strict=True):
        if not order.feasible:
            return circuits, f"found the formula too wide ({order})"
        try:
            circuit = frontier.compiled_along(
                part.literals, part.offsets, order.variables, part.variables, attempt.until, most
            )
        except frontier.TooLarge as error:
            return circuits, str(error)
        circuits.append(circuit)
        if circuit is None:
            break
    return circuits, ""
