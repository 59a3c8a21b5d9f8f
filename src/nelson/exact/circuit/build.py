"""Compile a formula: from the cache, or by D4 in a child process under limits.

Unit propagation and the split into components come first; each component is compiled on its own,
in one child process for all of them. Evidence plays no part: it is theta = +-inf, and needs no new
circuit.

`compile_parts` is the only place that starts D4 (or PySDD).
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nelson.errors import FormulaError, NelsonError, Unsatisfiable
from nelson.exact.circuit import disk_cache
from nelson.exact.circuit.decisions import DecisionCircuit, decisions_of, joined
from nelson.exact.circuit.nnf import Circuit
from nelson.formula import Formula
from nelson.formula.canonical import normalise
from nelson.formula.components import split
from nelson.formula.propagate import propagated
from nelson.io.progress import phase
from nelson.process.child import MEMORY, run_child

#: Module, and name for people, of each compiler.
COMPILERS = {"d4": ("py_d4", "D4"), "sdd": ("pysdd", "PySDD")}
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
) -> tuple[list[Circuit | str], str]:
    """All parts, one after the other, in one child process with these limits (seconds, bytes).

    A part is (literals, offsets) of clauses over variables 1..n, each of them in some clause.

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
    script = Path(__file__).with_name("compile_child.py")
    try:
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
    compiler: str = "d4",
    cache: bool = True,
) -> BuildResult:
    """The circuit of a formula, from the disk cache or compiled within these limits.

    Raises Unsatisfiable if propagation or the compiler proved it.
    """
    if compiler not in COMPILERS:
        raise FormulaError(f"no compiler {compiler!r}", expected="one of " + ", ".join(COMPILERS))
    started = time.monotonic()
    if formula.has_empty_clause:
        raise Unsatisfiable("the formula has an empty clause")
    key = disk_cache.key(formula, compiler) if cache else ""
    if cache and (circuit := load_cached(key, formula.n_total)) is not None:
        return BuildResult(circuit, time.monotonic() - started, cached=True)
    if lacking := missing(compiler):
        return BuildResult(None, 0.0, why_not=lacking)
    with phase(f"compiling a circuit with {COMPILERS[compiler][1]}"):
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


def _compile(
    formula: Formula, seconds: float, memory: int, compiler: str
) -> tuple[DecisionCircuit | None, str]:
    """(circuit, ""), or (None, why not)."""
    left = propagated(formula)
    parts = split(*normalise(left.literals, left.offsets), formula.n_total)
    parts.sort(key=lambda part: part.n_vars)
    name, circuits = COMPILERS[compiler][1], []
    started = time.monotonic()
    clauses = [(part.literals, part.offsets) for part in parts]
    answers, ended = compile_parts(clauses, compiler, seconds, memory)
    took = time.monotonic() - started
    for part, answer in zip(parts, answers, strict=False):
        if isinstance(answer, str):
            ended = answer
            break
        circuit = decisions_of(answer, part.variables)
        if circuit is None:
            raise Unsatisfiable(f"a solver proved that the formula has no solution: {name}")
        circuits.append(circuit)
    if len(circuits) < len(parts):
        hard = parts[len(circuits)]
        return None, (
            f"{name} {ended} after {took:.3g} s at a component of {hard.n_vars} variables, "
            f"{hard.n_clauses} clauses (limits: {seconds:.3g} s, {memory / 2**30:.3g} GiB)"
        )
    return joined(circuits, left.fixed, formula.n_total), ""
