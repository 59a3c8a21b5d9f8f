"""Compile a formula: from the cache, or by a compiler under limits.

Unit propagation and the split into components come first; each component is compiled on its own.
Evidence plays no part: it is theta = +-inf, and needs no new circuit.

    d4         a top-down search with components and caching; in a child process
    frontier   level by level, for narrow formulas (see `frontier`); in this process
    auto       D4. If the formula is narrow and D4 is not done after a first share of its effort,
               an order of the variables is computed (`frontier_order`). If it leads to few states:
               frontier. Else D4 decides the variables in this order; then D4 on its own again.
               Without D4: frontier. If the formula is too wide and too deep for D4, but its
               variables as they are numbered lead to few states (`compile_guess`): frontier first.

Effort is counted (`effort`), so that no clock decides whether a formula compiles. A caller may set
a limit in seconds instead; then a clock decides.

D4 finds components that no longer depend on each other, level by level cannot. So D4 in a good
order needs fewer decisions where components appear; frontier does not slow down where none appear.

`compile_parts` is the only place that starts D4.
"""

from __future__ import annotations

import importlib.util
import math
import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np

from nelson.budget import Budget
from nelson.errors import FormulaError, NelsonError, Unsatisfiable
from nelson.exact.circuit import disk_cache, frontier
from nelson.exact.circuit.attempts import (
    EFFORT,
    LONG_PAGE_BYTES,
    LONG_SECONDS,
    Attempt,
    attempts,
    effort_of,
    page_of,
    safety_seconds,
)
from nelson.exact.circuit.decisions import DecisionCircuit, NnfCircuit, decisions_of, joined
from nelson.exact.compile_guess import estimate
from nelson.exact.frontier_order import MAX_LITERALS, MAX_VARIABLES, Order
from nelson.formula import Formula
from nelson.formula.canonical import normalise
from nelson.formula.components import Component, split
from nelson.formula.propagate import propagated
from nelson.io.progress import phase
from nelson.process import MEMORY
from nelson.process.child import SPENT, STOPPED, Effort, run_child

#: Module, and name for people, of each compiler.
COMPILERS = {
    "d4": ("py_d4", "D4"),
    "frontier": ("numpy", "the frontier compiler"),
}
#: D4 first, the frontier compiler where D4 fails or is not installed.
AUTO = "auto"
#: D4 gets all the time for formulas with at most this many variables: it always compiles them.
SMALL = 40
#: Bytes of address space that D4 reserves without using them: it maps 1.8 GiB at once.
RESERVED = 2 << 30


@dataclass(frozen=True)
class BuildResult:
    """A circuit, or the reason why there is none."""

    circuit: DecisionCircuit | None
    seconds: float  # that this call took
    cached: bool = False  # it was read from disk
    why_not: str = ""
    effort: float = 0.0  # least limit under which a call without a clock finds this circuit
    cut: bool = False  # a limit in seconds ended it, though the caller had set none


def missing(compiler: str) -> str | None:
    """None, or what has to be installed first."""
    module, name = COMPILERS[compiler]
    if importlib.util.find_spec(module) is None:
        return f'{name} is not installed: pip install "nelson-mrf[samplers]"'
    return None


def compile_parts(
    parts: Sequence[tuple[np.ndarray, np.ndarray]],
    seconds: float,
    memory: int = MEMORY,
    orders: Sequence[Order] | None = None,
    effort: Effort | None = None,
    cpu: bool = False,
    shown: Sequence[np.ndarray] | None = None,
) -> tuple[list[NnfCircuit | str], str]:
    """All parts, one after the other, in one child process with these limits (seconds, bytes).
    Parts that are equal are compiled once: spaces have many components of the same few kinds.

    A part is (literals, offsets) of clauses over variables 1..n, each of them in some clause.
    orders: in which D4 decides the variables of each part.
    effort: counts D4's effort, and may limit it (`effort_of`). cpu: `seconds` are CPU seconds.
    shown: of each part, the variables that D4 projects its solutions on.

    -> for each part its circuit or D4's error. The list is shorter than `parts` if the
    child process ended early; the second value then says how it ended.
    """
    page = LONG_PAGE_BYTES if effort is None else page_of(parts)
    tasks = [
        {
            "page": page,
            "clean": effort is None,
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
    for task, variables in zip(tasks, shown or (), strict=False):
        task["shown"] = variables.astype(np.int32)
    keys = [tuple((name, np.asarray(v).tobytes()) for name, v in task.items()) for task in tasks]
    kinds: dict[Any, dict[str, Any]] = {}
    for key, task in zip(keys, tasks, strict=True):
        kinds.setdefault(key, task)
    script = Path(__file__).with_name("compile_child.py")
    try:
        with tempfile.TemporaryDirectory() if shown else nullcontext("") as folder:
            for task in kinds.values() if shown else ():
                task["file"] = str(Path(folder) / "part.cnf")
            answers, ended = run_child(
                script,
                list(kinds.values()),
                seconds,
                memory + RESERVED,
                effort=effort,
                cpu=cpu,
            )
    except NelsonError as error:
        return [], str(error)
    read = dict(zip(kinds, map(_read, answers), strict=False))
    return [read[key] for key in takewhile(read.__contains__, keys)], ended


def _read(answer: dict[str, Any]) -> NnfCircuit | str:
    # A longer text, in bytes, counts as "did not compile": its arrays would take about 2 GB.
    max_text = 1 << 30
    if "error" in answer:
        return answer["error"]
    text = answer.pop("nnf")  # freed when it is parsed
    if len(text) > max_text:
        return f"a circuit of {len(text):,} bytes is too large"
    try:
        return NnfCircuit.parse(text)
    except ValueError as error:
        return f"answered with {error}"


def build(
    formula: Formula,
    budget: Budget | None = None,
    compiler: str = AUTO,
    cache: bool = True,
    effort: float = EFFORT,
) -> BuildResult:
    """The circuit of a formula, from the disk cache or compiled within the budget.

    Without a deadline effort is counted. A circuit from the cache may have taken more than
    `effort`: its `effort` says so. With an empty cache there would be none.
    Raises Unsatisfiable if propagation or the compiler proved it.
    """
    if compiler not in (AUTO, *COMPILERS):
        expected = "one of " + ", ".join([AUTO, *COMPILERS])
        raise FormulaError(f"no compiler {compiler!r}", expected=expected)
    budget, started = Budget() if budget is None else budget, time.monotonic()
    if formula.has_empty_clause:
        raise Unsatisfiable("the formula has an empty clause")
    key = disk_cache.key(formula, _route(compiler)) if cache else ""
    if cache and (circuit := load_cached(key, formula.n_total)) is not None:
        spent = effort_on_disk(key)
        if not budget.counted or spent < math.inf:
            return BuildResult(circuit, time.monotonic() - started, cached=True, effort=spent)
    if lacking := not_possible(formula, compiler):
        return BuildResult(None, 0.0, why_not=lacking)
    built = _compile(formula, budget, effort, compiler)
    built = replace(built, seconds=time.monotonic() - started)
    if built.circuit is not None and cache:
        arrays = {"n": np.int64(built.circuit.n), "effort": np.float64(built.effort)}
        disk_cache.save(key, arrays | built.circuit.arrays)
    return built


def _route(compiler: str) -> str:
    """The way a compiler goes here: without D4, `auto` is another one."""
    return "frontier" if compiler == AUTO and missing("d4") else compiler


def effort_on_disk(key: str) -> float:
    """The effort that the circuit in the disk cache took."""
    arrays = disk_cache.load(key, ("effort",))
    return math.inf if arrays is None else float(arrays["effort"])


def load_cached(key: str, n: int) -> DecisionCircuit | None:
    """The circuit of `n` variables in the disk cache, if its file is there and undamaged."""
    arrays = disk_cache.load(key, ("n", *DecisionCircuit.ARRAYS))
    if arrays is None or not np.array_equal(arrays.pop("n"), n):
        return None
    circuit = DecisionCircuit(n, **arrays)
    return circuit if circuit.sound() else None


def narrow(formula: Formula) -> bool:
    """Is the frontier compiler worth a try? About a millisecond, once for each formula."""
    # The width of an elimination order, at most. The gates of sums and comparisons make formulas
    # wider than their number of states tells: up to about twice.
    most_width = 32
    if formula.n_total > MAX_VARIABLES or len(formula.literals) > MAX_LITERALS:
        return False
    guess = estimate(formula)
    return guess.complete and guess.width <= most_width


def _long(formula: Formula) -> bool:
    """May an order of the variables help D4?"""
    # Formulas with fewer variables than this for each unit of width are not long: no order is much
    # better than D4's own.
    length = 5
    if formula.n_total <= SMALL or not narrow(formula):
        return False
    return formula.n_total >= length * estimate(formula).width


def not_possible(formula: Formula, compiler: str = AUTO) -> str | None:
    """None if the compiler can run on the formula; else what has to be installed first."""
    if compiler != AUTO:
        return missing(compiler)
    lacking = missing("d4")
    return lacking if lacking and not (narrow(formula) or estimate(formula).by_level) else None


def _compile(formula: Formula, budget: Budget, effort: float, compiler: str) -> BuildResult:
    """A circuit and its effort, or why there is none."""
    left = propagated(formula)
    parts = split(*normalise(left.literals, left.offsets), formula.n_total)
    parts.sort(key=lambda part: part.n_vars)
    circuits: list[DecisionCircuit] = []
    reasons, cut, spent = [], False, 0.0
    long = _route(compiler) == AUTO and _long(formula)
    first = "d4" if _route(compiler) == AUTO else _route(compiler)
    short = compiler == AUTO and estimate(formula).by_level
    most = f"{effort:g} units of effort" if budget.counted else f"{budget.left:.3g} s"
    limits = f"{most}, {budget.memory / 2**30:.3g} GiB"
    for attempt in attempts(parts, circuits, budget, effort, first, long, short):
        name, started = COMPILERS[attempt.compiler][1], time.monotonic()
        compiled = _by_frontier if attempt.compiler == "frontier" else _by_child
        seconds = None if attempt.budget.counted else attempt.budget.left
        with phase(f"compiling a circuit with {name}", seconds):
            done, ended, used = compiled(parts[len(circuits) :], attempt, effort)
        if None in done:
            raise Unsatisfiable(f"a solver proved that the formula has no solution: {name}")
        spent += used
        circuits += [circuit for circuit in done if circuit is not None]
        if len(circuits) == len(parts):
            # With a clock only the first attempt is the one that counted effort leads to.
            same = budget.counted or (attempt.first and used <= attempt.effort)
            whole = joined(circuits, left.fixed, formula.n_total)
            return BuildResult(whole, 0.0, effort=spent if same else math.inf)
        if budget.counted and ended == STOPPED:
            cut = True
            ended = f"was ended by the safety limit of {safety_seconds(effort):g} s of CPU time"
        elif not budget.counted:
            ended += f" after {time.monotonic() - started:.3g} s"
        hard = parts[len(circuits)]
        reasons.append(
            f"{name} {ended} at a component of {hard.n_vars} variables, {hard.n_clauses} clauses"
        )
    return BuildResult(None, 0.0, why_not=f"{'; '.join(reasons)} (limits: {limits})", cut=cut)


Done = tuple[list[DecisionCircuit | None], str, float]  # circuits, how it ended, effort


def _by_child(parts: list[Component], attempt: Attempt, whole_effort: float) -> Done:
    clauses = [(part.literals, part.offsets) for part in parts]
    budget, counted = attempt.budget, attempt.budget.counted
    seconds = safety_seconds(whole_effort) if counted else budget.left
    effort = None
    if counted or seconds <= LONG_SECONDS:
        effort = effort_of(clauses, attempt.effort if counted else math.inf)
    answers, ended = compile_parts(clauses, seconds, budget.memory, attempt.orders, effort, counted)
    unknown = 0.0 if counted else math.inf
    spent = unknown if effort is None else effort.total
    if ended == SPENT:
        spent, ended = attempt.effort, f"{SPENT} after {attempt.effort:g} units of effort"
    circuits: list[DecisionCircuit | None] = []
    for part, answer in zip(parts, answers, strict=False):
        if isinstance(answer, str):
            return circuits, answer, spent
        circuits.append(decisions_of(answer, part.variables))
        if circuits[-1] is None:
            break
    return circuits, ended, spent


def _by_frontier(parts: list[Component], attempt: Attempt, _: float) -> Done:
    budget = attempt.budget
    most = min(frontier.MAX_STATES, budget.memory // frontier.STATE_BYTES)
    circuits: list[DecisionCircuit | None] = []
    for part, order in zip(parts, attempt.orders or (), strict=True):
        if not order.feasible:
            return circuits, f"found the formula too wide ({order})", 0.0
        try:
            circuit = frontier.compiled_along(
                part.literals, part.offsets, order.variables, part.variables, budget, most
            )
        except frontier.TooLarge as error:
            return circuits, str(error), 0.0
        circuits.append(circuit)
        if circuit is None:
            break
    return circuits, "", 0.0
