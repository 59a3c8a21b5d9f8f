"""Groups the parts by the step that draws them, so that each group is drawn in one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from nelson.chains.diagnosis.verdict import StepVerdict
from nelson.chains.guarantee import GUARANTEES, weakest
from nelson.exact.preprocess import Preprocessed
from nelson.formula import Formula
from nelson.sampling import total_variation
from nelson.sampling.auto.decision import ComponentGroup, Decision, FormulaPart, interned, joined
from nelson.sampling.auto.steps.extremal import EXTREMAL, Extremal
from nelson.sampling.auto.steps.step import Step


class TakenPart(NamedTuple):
    """A part, the step that draws it, and its guarantee."""

    step: Step
    part: FormulaPart
    verdict: StepVerdict


def decision_of(whole: FormulaPart, taken: Sequence[TakenPart], reduced: Preprocessed) -> Decision:
    """The decision for a formula all parts of which are taken. whole: the formula as given."""
    _require_every_part(taken, reduced)
    if (step := _one_step(whole, taken, reduced)) is not None:
        fixed = TakenPart(step, whole, replace(EXTREMAL, why="no clause is left"))
        return Decision([group_of(step, whole, taken or [fixed])], None, reduced.steps)
    owner = whole.formula
    if len(reduced.free):
        free = replace(EXTREMAL, why="in no clause")
        taken = [*taken, TakenPart(Extremal(), _free(owner, reduced), free)]
    groups = []
    for members in _bundles(taken):
        part = joined(owner, [member.part for member in members])
        groups.append(group_of(members[0].step, part, members))
    return Decision(groups, reduced, reduced.steps)


def _require_every_part(taken: Sequence[TakenPart], reduced: Preprocessed) -> None:
    """Every component must be drawn by exactly one step: else its variables would have no value."""
    nothing = np.zeros(0, np.int64)
    drawn = np.concatenate([nothing, *(member.part.variables for member in taken)])
    wanted = np.concatenate([nothing, *(component.variables for component in reduced.components)])
    if not np.array_equal(np.sort(drawn), np.sort(wanted)):
        lost, doubled = np.setdiff1d(wanted, drawn), len(drawn) - len(np.unique(drawn))
        raise AssertionError(
            f"{len(lost)} variables belong to no group, {doubled} to several: a step of `auto` "
            "neither took a part nor left it"
        )


def _one_step(whole: FormulaPart, taken: Sequence[TakenPart], reduced: Preprocessed) -> Step | None:
    """The step that draws the formula as given, if there is one for all of it."""
    if not taken:
        return None if reduced.changed else Extremal()
    step = taken[0].step
    same = {(member.step.sampler.name, id(member.verdict.moves)) for member in taken}
    alone = len(taken) > 1 and not step.together  # the product of acceptances would be small
    if reduced.changed or len(same) > 1 or alone or not step.draws_whole:
        return None
    return None if step.sampler.from_circuit and whole.evidence else step


def _bundles(taken: Sequence[TakenPart]) -> list[list[TakenPart]]:
    """The parts that are drawn together, in the order in which they are drawn.

    Joint moves cost much more than sweeps of single variables: parts that need none get none.
    """
    bundles: dict[Any, list[TakenPart]] = {}
    for number, member in enumerate(taken):
        step = member.step
        jointly = step.together and not member.verdict.moves.in_tiles
        alone = number if jointly or not step.together else -1
        key = step.turn, step.sampler.name, jointly, alone
        bundles.setdefault(key, []).append(member)
    return [bundles[key] for key in sorted(bundles)]


def _free(owner: Formula, reduced: Preprocessed) -> FormulaPart:
    none, n = np.zeros(0, np.int32), len(reduced.free)
    formula = interned(owner, none, np.zeros(1, np.int64), n)
    return FormulaPart(reduced.free, reduced.free_theta, formula)


def group_of(step: Step, part: FormulaPart, members: Sequence[TakenPart]) -> ComponentGroup:
    """Components that are drawn together; components with the same verdict share a record."""
    verdicts = {id(member.verdict): member.verdict for member in members}
    step.expect(part, list(verdicts.values()))
    records = [
        _record(step, verdict, [member.part for member in members if member.verdict is verdict])
        for verdict in verdicts.values()
    ]
    worst = min(verdicts.values(), key=lambda verdict: GUARANTEES.index(verdict.guarantee))
    contexts = range(len(part.theta))
    labels = [verdict.rows or [verdict.guarantee] * len(contexts) for verdict in verdicts.values()]
    group = ComponentGroup(
        step,
        max(verdict.sweeps for verdict in verdicts.values()),
        worst.guarantee,
        worst.why,
        part.problem,
        part.variables,
        part.theta,
        records,
        worst.starts,
        rows=tuple(weakest([label[k] for label in labels]) for k in contexts),
        moves=worst.moves,
    )
    rounds = group.guarantee == "exact" and total_variation.of_bits_too(step.sampler)
    return _judged(group) if rounds else group


def _judged(group: ComponentGroup) -> ComponentGroup:
    """With a weaker guarantee where the rounding of probabilities may change the law too much."""
    bounds = group.variation
    guarantee, why = total_variation.judged("exact", float(bounds.max(initial=0.0)), rounded=True)
    if guarantee == "exact":
        return group
    rows = tuple(total_variation.judged("exact", bound, rounded=True)[0] for bound in bounds)
    records = [record | {"guarantee": guarantee} for record in group.records]
    why = f"{group.why}; but {why}"
    return replace(group, guarantee=guarantee, why=why, rows=rows, records=records)


def _record(step: Step, verdict: StepVerdict, parts: Sequence[FormulaPart]) -> dict[str, Any]:
    """An entry of `s.info["auto"]`; "not taken" holds the reasons of the largest component."""
    return {
        "components": len(parts),
        "variables": sum(len(part.variables) for part in parts),
        "clauses": sum(part.formula.n_clauses for part in parts),
        "method": step.sampler.name,
        "sweeps": verdict.sweeps,
        "guarantee": verdict.guarantee,
        "why": verdict.why,
        "not taken": dict(parts[0].passed) if parts else {},
        "complete": verdict.complete,
        **verdict.more,
    }
