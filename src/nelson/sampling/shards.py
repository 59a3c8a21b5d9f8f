"""Samples first .. first + count - 1 of a plan, anywhere: for work that is shared among processes.

Sample i of seed s is a function of (s, i) alone for samplers whose random numbers are keyed by the
sample. A plan that is to be drawn in several places must not be decided, or found out by a clock,
in each of them: `settle` does all that once. What it found travels with the plan (`Settled` can be
pickled, circuits included), and `digest` tells two of them apart.

Samplers that are not keyed by the sample (other people's, and those that draw on until enough are
valid) get a seed for each span: then samples depend on where spans begin, and on nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from nelson.errors import BudgetExceeded, FormulaError
from nelson.exact.compiled import keep_circuits, known_circuits
from nelson.formula import Formula
from nelson.sampling.collect import in_blocks
from nelson.sampling.foreign import seed_of
from nelson.sampling.plan import Plan
from nelson.sampling.problem import Problem
from nelson.sampling.registry import get, names
from nelson.sampling.samples import Samples

#: Sample i depends on (seed, i) alone. "cdcl" is a step of `auto`.
NUMBERED = {"lovasz", "moser-tardos", "prs", "enumerate", "circuit", "kus", "waps", "cdcl"}
_CIRCUITS = {"circuit", "kus", "waps"}
#: Random numbers are keyed by 40 bits of words of samples.
MOST = 64 << 40
#: Seconds that a block of a sampler with a clock may take: a day, which is to say that it has none.
_DAY = 86400.0


@dataclass(frozen=True)
class Settled:
    plan: Plan
    #: What pickling a formula leaves behind: its compiled circuits.
    circuits: list[tuple[Formula, dict[str, Any]]] = field(default_factory=list)

    def __reduce__(self) -> tuple[Any, ...]:
        """A sampler holds functions: it travels as its name, or as what `auto` decided."""
        name = None if _composed(self.plan) else self.plan.sampler.name
        return _restored, (replace(self.plan, sampler=None), name, self.circuits)  # type: ignore[arg-type]

    @property
    def numbered(self) -> bool:
        """Is sample i the same whatever span it is drawn in?"""
        methods = set(self.plan.sampler.name.split(" + "))
        return methods <= NUMBERED or (methods == {"gibbs"} and not self.plan.check)

    @property
    def digest(self) -> str:
        """Differs where other samples would be drawn from the same request."""
        text = hashlib.sha256(f"{self.plan.sampler.name} {self.plan.request.sweeps}".encode())
        for decision in (self.plan.decisions or {}).values():
            for group in decision.groups:
                text.update(f"{group.method} {group.sweeps} {len(group.variables)}".encode())
                for rows in group.pool:
                    text.update(np.packbits(rows).tobytes())
        for _, known in self.circuits:
            for built, _ in known.values():
                for array in built.circuit.arrays.values():
                    text.update(array.tobytes())
        return text.hexdigest()[:32]


def settle(plan: Plan) -> Settled:
    """Find out, now, all that a draw would: starts of chains, circuits."""
    if not plan.single or len(plan.parts) > 1:
        raise FormulaError("one theta row a context", expected="one theta vector")
    problem, request = plan.parts[0]
    if plan.decisions is not None:
        chosen = {evidence: _auto(d, request) for evidence, d in plan.decisions.items()}
        plan = replace(plan, decisions=chosen)
        if _composed(plan):
            from nelson.sampling import auto

            plan = replace(plan, sampler=auto.sampler(chosen))
    return Settled(plan, [_known(found) for found in _compiled(plan, problem)])


def _composed(plan: Plan) -> bool:
    """Is the sampler one that `auto` put together, rather than a registered one?"""
    return plan.sampler.name not in names() or plan.sampler is not get(plan.sampler.name)


def _restored(plan: Plan, name: str | None, circuits: list[Any]) -> Settled:
    from nelson.sampling import auto

    sampler = auto.sampler(plan.decisions or {}) if name is None else get(name)
    return Settled(replace(plan, sampler=sampler), circuits)


def _auto(decision: Any, request: Any) -> Any:
    from nelson.sampling import auto

    decision = auto.settled(decision, request)
    for group in decision.groups:
        if group.method == "cdcl" and not group.pool:
            raise BudgetExceeded("a CDCL solver found no solution in the time it had")
    return decision


def _compiled(plan: Plan, problem: Problem) -> Iterator[Formula]:
    """The formulas whose circuits are drawn from; each compiled."""
    from nelson.sampling.methods.circuit import circuit_of

    problems = [problem] if plan.sampler.name in _CIRCUITS else []
    for decision in (plan.decisions or {}).values():
        for group in decision.groups:
            if group.method == "circuit" and group.problem is not problem:
                problems.append(group.problem)
    for one in problems:
        found, why = circuit_of(one, None)
        if found is None:
            raise BudgetExceeded(f"no circuit: {why}")
        yield found.formula


def _known(formula: Formula) -> tuple[Formula, dict[str, Any]]:
    """The formula and its circuits, without what only this process needs."""
    from nelson.exact.circuit.decisions import DecisionCircuit

    circuits = {}
    for compiler, (built, limits) in known_circuits(formula).items():
        if built.circuit is not None:
            circuit = DecisionCircuit(built.circuit.n, **built.circuit.arrays)
            circuits[compiler] = replace(built, circuit=circuit), limits
    return formula, circuits


def blocks(settled: Settled, first: int, count: int, block: int) -> Iterator[Samples]:
    """Samples `first` (a multiple of 64) to `first + count`, `block` at a time, all of them.

    Those that do not become valid within the rounds are left out, as `nelson.sample` leaves them
    out. Raises BudgetExceeded where drawing ended before all were tried.
    """
    if first % 64 or first < 0 or first + count > MOST:
        raise FormulaError(f"samples from {first:,} on", expected="a multiple of 64 below 2^46")
    for formula, circuits in settled.circuits:
        keep_circuits(formula, circuits)
    plan = _moved(settled, first, count)
    tried, reason = 0, ""
    for samples in _whole(in_blocks(plan, block)):
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


def _whole(found: Iterable[Samples]) -> Iterator[Samples]:
    for samples in found:
        if samples.info.get("interrupted"):
            raise KeyboardInterrupt
        yield samples


def _moved(settled: Settled, first: int, count: int) -> Plan:
    plan = settled.plan
    (problem, request), numbered = plan.parts[0], settled.numbered
    request = replace(
        request,
        start=first if numbered else 0,
        seed=request.seed if numbered else seed_of(request.seed, 0, first // 64),
        count=count,
        deadline=None,
        patience=None if numbered else _DAY,
    )
    return replace(plan, n=count, parts=[(problem, request)])
