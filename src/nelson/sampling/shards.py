"""Samples first .. first + count - 1 of a drawing: for work that several processes share.

Sample i of seed s is a function of (s, i) alone, if a sampler's random numbers are keyed by the
sample. Processes that draw parts of one drawing must not decide for themselves, as clocks influence
decisions. `settle` does all of that once. Its results travel with the drawing (`Settled` can be
pickled, circuits included), and `digest` tells two settled drawings apart.

Samplers that are not keyed by the sample (of other packages, and those that draw until enough are
valid) get a seed for each span. Their samples depend on where spans begin, and on nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from nelson.budget import Budget
from nelson.chains.problem import Problem
from nelson.chains.request import Request
from nelson.errors import BudgetExceeded, FormulaError
from nelson.exact.circuit.decisions import DecisionCircuit
from nelson.exact.compiled import keep_circuits, known_circuits
from nelson.formula import Formula
from nelson.sampling import auto
from nelson.sampling.auto import Decision
from nelson.sampling.auto.steps.solver import SolverChains
from nelson.sampling.collect import in_blocks
from nelson.sampling.drawing import Drawing
from nelson.sampling.foreign import seed_of
from nelson.sampling.methods.circuit import circuit_of
from nelson.sampling.registry import get, names
from nelson.sampling.samples import Samples

#: Random numbers are keyed by 40 bits of words of samples.
MOST = 64 << 40


@dataclass(frozen=True)
class Settled:
    drawing: Drawing
    #: The compiled circuits of formulas, which pickling a formula leaves behind.
    circuits: list[tuple[Formula, dict[str, Any]]] = field(default_factory=list)

    def __reduce__(self) -> tuple[Any, ...]:
        """A sampler holds functions, so its name travels, or the decisions of `auto`."""
        name = None if _composed(self.drawing) else self.drawing.sampler.name
        return _restored, (replace(self.drawing, sampler=None), name, self.circuits)  # type: ignore[arg-type]

    @property
    def numbered(self) -> bool:
        """Is sample i the same in every span?"""
        return self.drawing.keyed

    @property
    def decided(self) -> dict[str, Any]:
        """What was decided, in plain values."""
        drawing = self.drawing
        return {
            "method": drawing.sampler.name,
            "sweeps": drawing.sweeps,
            "guarantee": drawing.guarantee,
            "why": drawing.choice.why,
            "keyed": "sample" if self.numbered else "part",
            "law": self.digest,
        }

    @property
    def digest(self) -> str:
        """Differs if the same request would draw other samples."""
        text = hashlib.sha256(f"{self.drawing.sampler.name} {self.drawing.request.sweeps}".encode())
        for decision in (self.drawing.decisions or {}).values():
            for group in decision.groups:
                moves = "" if group.moves.in_tiles else group.moves.info
                text.update(
                    f"{group.method} {group.sweeps} {len(group.variables)} {moves}".encode()
                )
                for rows in group.pool:
                    text.update(np.packbits(rows).tobytes())
        for _, known in self.circuits:
            for built, _ in known.values():
                for array in built.circuit.arrays.values():
                    text.update(array.tobytes())
        return text.hexdigest()[:32]


def settle(drawing: Drawing) -> Settled:
    """Find everything that a draw would find on its way: starts of chains, circuits."""
    if not drawing.single or len(drawing.parts) > 1:
        raise FormulaError("one theta row per context", expected="one theta vector")
    if drawing.decisions is None and _composed(drawing):
        raise FormulaError(
            f"projected solutions that {drawing.sampler.name!r} draws, in several processes",
            expected='nelson.sample, or project_law="marginal"',
        )
    drawing = drawing.confirmed()
    problem, request = drawing.parts[0]
    if drawing.decisions is not None:
        chosen = {evidence: _auto(d, request) for evidence, d in drawing.decisions.items()}
        drawing = replace(drawing, decisions=chosen)
        if _composed(drawing):
            drawing = replace(drawing, sampler=auto.sampler(chosen))
    return Settled(drawing, [_known(formula) for formula in _compiled(drawing, problem)])


def _composed(drawing: Drawing) -> bool:
    """Did `auto` compose the sampler, so that it is not a registered one?"""
    return drawing.sampler.name not in names() or drawing.sampler is not get(drawing.sampler.name)


def _restored(drawing: Drawing, name: str | None, circuits: list[Any]) -> Settled:
    sampler = auto.sampler(drawing.decisions or {}) if name is None else get(name)
    return Settled(replace(drawing, sampler=sampler), circuits)


def _auto(decision: Decision, request: Request) -> Decision:
    decision = auto.settled(decision, request)
    for group in decision.groups:
        if isinstance(group.step, SolverChains) and not group.pool:
            raise BudgetExceeded("a CDCL solver found no solution in the time it had")
    return decision


def _compiled(drawing: Drawing, problem: Problem) -> Iterator[Formula]:
    """The formulas whose circuits the drawing draws from, compiled."""
    problems = [problem] if drawing.sampler.from_circuit else []
    for decision in (drawing.decisions or {}).values():
        for group in decision.groups:
            if group.step.sampler.from_circuit and group.problem is not problem:
                problems.append(group.problem)
    for formula in problems:
        circuit, why = circuit_of(formula, Budget())
        if circuit is None:
            raise BudgetExceeded(f"no circuit: {why}")
        yield circuit.formula


def _known(formula: Formula) -> tuple[Formula, dict[str, Any]]:
    """The formula and its circuits, without caches of this process."""
    circuits = {}
    for compiler, (built, limits) in known_circuits(formula).items():
        if built.circuit is not None:
            circuit = DecisionCircuit(built.circuit.n, **built.circuit.arrays)
            circuits[compiler] = replace(built, circuit=circuit), limits
    return formula, circuits


def blocks(settled: Settled, first: int, count: int, block: int | None = None) -> Iterator[Samples]:
    """Samples `first` (a multiple of 64) to `first + count`, `block` at a time (default: 32 MB).

    Samples that do not become valid within the rounds are left out, as in `nelson.sample`. Raises
    BudgetExceeded if drawing ended before all samples were tried.
    """
    if first % 64 or first < 0 or first + count > MOST:
        raise FormulaError(f"samples from {first:,} on", expected="a multiple of 64 below 2^46")
    for formula, circuits in settled.circuits:
        keep_circuits(formula, circuits)
    drawing = _moved(settled, first, count)
    width = max(1, drawing.formula.n_total)
    block = block or 64 * max(1, min(1 << 16, (1 << 28) // width) // 64)
    tried, reason = 0, ""
    for samples in _uninterrupted(in_blocks(drawing, block)):
        asked = min(block, count - tried)
        tried += asked
        short = len(samples) < asked
        if short and (not len(samples) or not settled.numbered):
            reason = samples.info.get("reason", "the time was up")
            break
        yield samples
    else:
        if tried == count:
            return
    raise BudgetExceeded(f"samples {first:,} to {first + count:,}: {reason or 'drawing ended'}")


def _uninterrupted(blocks: Iterable[Samples]) -> Iterator[Samples]:
    for samples in blocks:
        if samples.info.get("interrupted"):
            raise KeyboardInterrupt
        yield samples


def _moved(settled: Settled, first: int, count: int) -> Drawing:
    drawing = settled.drawing
    (problem, request), numbered = drawing.parts[0], settled.numbered
    request = replace(
        request,
        start=first if numbered else 0,
        seed=request.seed if numbered else seed_of(request.seed, 0, first // 64),
        count=count,
        budget=Budget(threads=request.budget.threads),
        block_seconds=None if numbered else 86400.0,  # a day: as good as no limit
    )
    return replace(drawing, n=count, parts=[(problem, request)])
