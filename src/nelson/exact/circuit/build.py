"""Compile a formula: from the cache, or by D4 in a child process under limits.

Unit propagation and the split into components come first; each
component is compiled on its own, in one child for all of them. Evidence is no part of it: it is
theta = +-inf, and needs no new circuit.
"""

from __future__ import annotations

import importlib.util
import time
from dataclasses import dataclass
from pathlib import Path

from nelson.errors import FormulaError, NelsonError, Unsatisfiable
from nelson.exact.circuit import disk_cache
from nelson.exact.circuit.flat import Flat, decisions_of, joined
from nelson.formula import Formula
from nelson.formula.canonical import normalise
from nelson.formula.components import split
from nelson.formula.propagate import propagated
from nelson.process.child import MEMORY, Answers, run_child

#: Module, and name for people, of each compiler.
COMPILERS = {"d4": ("py_d4", "D4"), "sdd": ("pysdd", "PySDD")}
#: Address space that a compiler reserves and does not use: D4 maps 1.8 GiB at once.
RESERVED = {"d4": 2 << 30, "sdd": 0}
#: Bytes of text beyond which a circuit counts as one that did not compile: about 2 GB as arrays.
TEXT = 1 << 30


@dataclass(frozen=True)
class Built:
    """A circuit, or why there is none."""

    flat: Flat | None
    seconds: float  # spent, here and now
    cached: bool = False  # it was read from disk
    why_not: str = ""


def missing(compiler: str) -> str | None:
    """None, or what has to be installed first."""
    module, name = COMPILERS[compiler]
    if importlib.util.find_spec(module) is None:
        return f'{name} is not installed: pip install "nelson[samplers]"'
    return None


def build(
    formula: Formula,
    seconds: float,
    memory: int = MEMORY,
    compiler: str = "d4",
    cache: bool = True,
) -> Built:
    """Raises Unsatisfiable if propagation or the compiler proved it."""
    if compiler not in COMPILERS:
        raise FormulaError(f"no compiler {compiler!r}", expected="one of " + ", ".join(COMPILERS))
    started = time.monotonic()
    if formula.has_empty_clause:
        raise Unsatisfiable("the formula has an empty clause")
    name = disk_cache.key(formula, compiler) if cache else ""
    if cache and (flat := disk_cache.load(name)) is not None and flat.n == formula.n_total:
        return Built(flat, time.monotonic() - started, cached=True)
    if lacking := missing(compiler):
        return Built(None, 0.0, why_not=lacking)
    flat, why_not = _compile(formula, seconds, memory, compiler)
    if flat is not None and cache:
        disk_cache.save(name, flat)
    return Built(flat, time.monotonic() - started, why_not=why_not)


def _compile(
    formula: Formula, seconds: float, memory: int, compiler: str
) -> tuple[Flat | None, str]:
    from nelson.exact.circuit.nnf import Circuit

    left = propagated(formula)
    parts = split(*normalise(left.literals, left.offsets), formula.n_total)
    parts.sort(key=lambda part: part.n_vars)
    tasks = [
        {
            "compiler": compiler,
            "n": part.n_vars,
            "literals": part.literals,
            "offsets": part.offsets,
        }
        for part in parts
    ]
    started, ended = time.monotonic(), ""
    answers: Answers = []
    if tasks:
        script = Path(__file__).with_name("compile_child.py")
        try:
            answers, ended = run_child(script, tasks, seconds, memory + RESERVED[compiler])
        except NelsonError as error:
            # libsdd ends the process when it gets no memory for a start.
            ended = "out of memory" if "alloc failed" in str(error) else str(error)
    took = time.monotonic() - started
    flats: list[Flat] = []
    for part, answer in zip(parts, answers, strict=False):
        if "error" in answer:
            ended = answer["error"]
            break
        if len(answer["nnf"]) > TEXT:
            ended = f"a circuit of {len(answer['nnf']):,} bytes is too large"
            break
        circuit = Circuit.parse(answer.pop("nnf"))
        flat = decisions_of(circuit, part.variables)
        if flat is None:
            said = COMPILERS[compiler][1]
            raise Unsatisfiable(f"a solver proved that the formula has no solution: {said}")
        flats.append(flat)
    if len(flats) < len(parts):
        hard = parts[len(flats)]
        name = COMPILERS[compiler][1]
        return None, (
            f"{name} {ended} after {took:.3g} s at a component of {hard.n_vars} variables, "
            f"{hard.n_clauses} clauses (limits: {seconds:.3g} s, {memory / 2**30:.3g} GiB)"
        )
    return joined(flats, left.fixed, formula.n_total), ""
