"""From the parts that each method takes to the groups that are drawn together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nelson.exact.preprocess import Preprocessed
from nelson.formula import Formula
from nelson.sampling.auto.decision import Decision, Group, Part, interned, joined
from nelson.sampling.diagnosis.verdict import Verdict
from nelson.sampling.guarantee import GUARANTEES, weakest
from nelson.sampling.methods import cftp

EXTREMAL = Verdict(0, "exact", "extremal (Condition 1 holds): resampling alone is exact")
#: Parts and their verdicts, by method.
Taken = Mapping[str, Sequence[tuple[Part, Verdict]]]


def decision_of(whole: Part, taken: Taken, reduced: Preprocessed) -> Decision:
    """The decision for a formula all parts of which are taken. whole: the formula as given."""
    used = [name for name, pairs in taken.items() if pairs]
    one = not reduced.changed and len(used) <= 1 and "cdcl" not in used
    one &= len({id(v.moves) for _, v in taken["lovasz"]}) <= 1
    one &= len(taken["rejection"]) <= 1  # the product of acceptances would be small
    if one and not (used == ["circuit"] and whole.evidence):
        name = used[0] if used else "lovasz"
        pairs = taken[name] or [(whole, replace(EXTREMAL, why="no clause is left"))]
        return Decision([group_of(name, whole, pairs)], None, reduced.steps)
    owner, groups = whole.formula, []
    for name in ("enumerate", "circuit", "cftp"):
        if pairs := taken[name]:
            groups.append(group_of(name, joined(owner, [part for part, _ in pairs]), pairs))
    # Joint moves cost much more than sweeps of single variables: parts that need none get none.
    joint = [pair for pair in taken["lovasz"] if pair[1].moves]
    pairs = [pair for pair in taken["lovasz"] if not pair[1].moves]
    if len(reduced.free):
        pairs = [*pairs, (_free(owner, reduced), replace(EXTREMAL, why="in no clause"))]
    if pairs:
        groups.append(group_of("lovasz", joined(owner, [part for part, _ in pairs]), pairs))
    groups += [group_of("lovasz", part, [(part, verdict)]) for part, verdict in joint]
    # The slowest groups are drawn last: a deadline cuts them and no other.
    for name in ("rejection", "cdcl"):
        groups += [group_of(name, part, [(part, verdict)]) for part, verdict in taken[name]]
    return Decision(groups, reduced, reduced.steps)


def _free(owner: Formula, reduced: Preprocessed) -> Part:
    none, n = np.zeros(0, np.int32), len(reduced.free)
    formula = interned(owner, none, np.zeros(1, np.int64), n)
    return Part(reduced.free, reduced.free_theta, formula)


def group_of(method: str, part: Part, pairs: Sequence[tuple[Part, Verdict]]) -> Group:
    """Components that are drawn together; components with the same verdict share a record."""
    verdicts = {id(verdict): verdict for _, verdict in pairs}
    if method == "cftp":
        coupled = max(verdict.more["coupled"] for verdict in verdicts.values())
        # A tile has more lanes than a trial: of 400 tiles of random 5-SAT, one took longer than
        # this, and would have been run again; of runs that are an eighth shorter, 11.
        cftp.expect(part.problem, coupled * 8 // 5)
    records = [
        _record(method, verdict, [part for part, own in pairs if own is verdict])
        for verdict in verdicts.values()
    ]
    worst = min(verdicts.values(), key=lambda verdict: GUARANTEES.index(verdict.guarantee))
    contexts = range(len(part.theta))
    labels = [verdict.rows or [verdict.guarantee] * len(contexts) for verdict in verdicts.values()]
    return Group(
        method,
        max(verdict.sweeps for verdict in verdicts.values()),
        worst.guarantee,
        worst.why,
        part.problem,
        part.variables,
        part.theta,
        records,
        worst.starts,
        rows=tuple(weakest(label[k] for label in labels) for k in contexts),
        moves=worst.moves,
    )


def _record(method: str, verdict: Verdict, parts: Sequence[Part]) -> dict[str, Any]:
    """An entry of `s.info["auto"]`; "not taken" holds the reasons of the largest component."""
    return {
        "components": len(parts),
        "variables": sum(len(part.variables) for part in parts),
        "clauses": sum(part.formula.n_clauses for part in parts),
        "method": method,
        "sweeps": verdict.sweeps,
        "guarantee": verdict.guarantee,
        "why": verdict.why,
        "not taken": dict(parts[0].passed) if parts else {},
        "complete": verdict.complete,
        **verdict.more,
    }
