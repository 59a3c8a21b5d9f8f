"""Components that share a method, joined to one problem; and what was decided in all."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nelson.exact.preprocess import Component, Preprocessed
from nelson.formula import Formula
from nelson.formula.memo import Recent, Slot
from nelson.sampling.guarantee import weakest
from nelson.sampling.problem import Problem, prepare
from nelson.sampling.registry import Choice

_PARTS: Slot[Recent[bytes, Formula]] = Slot("formulas of components")
#: Formulas of components kept with the formula they are parts of.
_KEPT = 64


@dataclass(frozen=True)
class Terms:
    """What a decision may use."""

    threads: int = 1
    deadline: float | None = None  # time.monotonic()
    max_rounds: int = 1000
    count: int | None = None  # samples wanted
    skip: frozenset[str] = frozenset()  # steps of the ladder to leave out


@dataclass
class Part:
    """One component on its way down the ladder."""

    variables: np.ndarray  # from 0, of the formula as given
    theta: np.ndarray  # (contexts, k)
    formula: Formula
    evidence: tuple[int, ...] = ()
    passed: dict[str, str] = field(default_factory=dict)  # steps not taken, and why

    @property
    def problem(self) -> Problem:
        """Made when first asked for; kept with the formula."""
        return prepare(self.formula, self.evidence)


@dataclass(frozen=True)
class Group:
    """Components that are drawn together. `problem` is over variables 0..k-1, `variables` says
    which those are in the formula as given; for the whole formula it is the problem as given.
    """

    method: str  # a registered name, or "cdcl"
    sweeps: int
    guarantee: str
    why: str
    problem: Problem
    variables: np.ndarray
    theta: np.ndarray
    records: list[dict[str, Any]]  # for `s.info["auto"]`, one for each kind of component
    starts: list[np.ndarray] = field(default_factory=list)  # cdcl: found while deciding
    pool: list[np.ndarray] = field(default_factory=list)  # cdcl: those to draw from, if settled


@dataclass(frozen=True)
class Decision:
    groups: list[Group]
    reduced: Preprocessed | None  # None: one group, which is the problem as given
    steps: list[str] = field(default_factory=list)  # of preprocessing, in words

    @property
    def choice(self) -> Choice:
        """In short."""
        guarantee = weakest(group.guarantee for group in self.groups)
        records = [record for group in self.groups for record in group.records]
        why = self.groups[0].why if len(self.groups) == 1 else "every variable is fixed"
        if len(records) > 1:
            why = "; ".join(
                f"{record['variables']} variables: {record['method']}, {record['why']}"
                for record in records
            )
        return Choice(
            " + ".join(dict.fromkeys(g.method for g in self.groups)) or "lovasz",
            max((g.sweeps for g in self.groups), default=0),
            guarantee,
            why,
            self.reduced is None,
            records,
            self.steps,
        )


def record(
    method: str, sweeps: int, guarantee: str, why: str, parts: Sequence[Part], **more: Any
) -> dict[str, Any]:
    """What was done with some components, and what was not; plain values. Reasons are those of
    the largest.
    """
    return {
        "components": len(parts),
        "variables": sum(len(part.variables) for part in parts),
        "clauses": sum(part.formula.n_clauses for part in parts),
        "method": method,
        "sweeps": sweeps,
        "guarantee": guarantee,
        "why": why,
        "not taken": dict(parts[0].passed) if parts else {},
        **more,
    }


def interned(owner: Formula, literals: np.ndarray, offsets: np.ndarray, n: int) -> Formula:
    """The formula with these clauses; the same object each time, with all that is kept with it:
    lists, circuits, failures. So a new theta costs no new compilation.
    """
    kept = owner.memo.once(_PARTS, lambda: Recent(_KEPT))
    digest = hashlib.blake2b(literals.tobytes(), digest_size=16)
    digest.update(offsets.tobytes() + n.to_bytes(8, "little"))
    key = digest.digest()
    return kept.once(key, lambda: Formula.from_arrays(literals, offsets, n_vars=n))


def part_of(owner: Formula, component: Component) -> Part:
    formula = interned(owner, component.literals, component.offsets, component.n_vars)
    return Part(component.variables, component.theta, formula)


def joined(owner: Formula, parts: Sequence[Part]) -> Part:
    """All of them as one problem. O(total literals)."""
    if len(parts) == 1:
        return parts[0]
    sizes = np.cumsum([0] + [len(part.variables) for part in parts])
    literals = [
        np.sign(part.formula.literals) * (np.abs(part.formula.literals) + first)
        for part, first in zip(parts, sizes[:-1], strict=True)
    ]
    lengths = np.concatenate([np.diff(part.formula.offsets) for part in parts])
    formula = interned(
        owner,
        np.concatenate(literals).astype(np.int32),
        np.concatenate([[0], np.cumsum(lengths)]),
        int(sizes[-1]),
    )
    return Part(
        np.concatenate([part.variables for part in parts]),
        np.concatenate([part.theta for part in parts], axis=1),
        formula,
        passed=parts[0].passed,
    )
