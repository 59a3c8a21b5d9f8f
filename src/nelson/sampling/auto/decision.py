"""What `auto` decided: which method draws which components, with which guarantee and why."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nelson.exact.preprocess import Component, Preprocessed
from nelson.formula import Formula
from nelson.formula.flat import join
from nelson.formula.memo import Recent, Slot
from nelson.sampling.guarantee import weakest
from nelson.sampling.problem import Problem, prepare
from nelson.sampling.sampler import Moves

_COMPONENTS: Slot[Recent[bytes, Formula]] = Slot("formulas of components")
#: In `Part.passed`: which limit in seconds decided, though the caller had set none.
SAFETY = "safety limit"
#: Formulas of components that are kept with the formula they come from.
_MAX_COMPONENTS = 64


@dataclass(frozen=True)
class Limits:
    """What a decision may use, and the draw that it is for."""

    threads: int = 1
    deadline: float | None = None  # time.monotonic()
    max_rounds: int = 1000
    count: int | None = None  # samples wanted; only the width of a tile may depend on it (kept.py)
    skip: frozenset[str] = frozenset()  # steps of the ladder to leave out
    reuse: bool = False  # take the last verdict on a component, whatever theta it was for
    seconds: float | None = None  # what the caller gave for deciding and drawing


@dataclass(frozen=True)
class Choice:
    """A decision in short. Of a method that the caller named, it holds that method."""

    method: str  # several names joined by " + " where components differ
    sweeps: int
    guarantee: str  # the weakest of all components
    why: str
    whole: bool = True  # one method for the whole formula: the same as `method=` and `sweeps=`
    parts: list[dict[str, Any]] = field(default_factory=list)  # how each component is drawn
    steps: list[str] = field(default_factory=list)  # what preprocessing did
    rows: tuple[str, ...] = ()  # the guarantee of each context
    advice: dict[str, str] = field(default_factory=dict)  # what would help (`sampling/advice.py`)


@dataclass
class Part:
    """One component on its way down the ladder."""

    variables: np.ndarray  # its variables in the formula as given, counted from 0
    theta: np.ndarray  # (contexts, k)
    formula: Formula
    evidence: tuple[int, ...] = ()
    passed: dict[str, str] = field(default_factory=dict)  # steps not taken, and why

    @property
    def problem(self) -> Problem:
        """Prepared at first use, then kept with the formula."""
        return prepare(self.formula, self.evidence)


@dataclass(frozen=True)
class Group:
    """Components that are drawn together, as one problem over variables 0..k-1.

    `variables` maps them to the formula as given. A group that is the whole formula holds the
    problem as given.
    """

    method: str  # a registered name, or "cdcl"
    sweeps: int
    guarantee: str
    why: str
    problem: Problem
    variables: np.ndarray
    theta: np.ndarray
    records: list[dict[str, Any]]  # for `s.info["auto"]`, one for each kind of component
    starts: list[np.ndarray] = field(default_factory=list)  # "cdcl": starts found while deciding
    pool: list[np.ndarray] = field(default_factory=list)  # "cdcl": starts to use, once settled
    rows: tuple[str, ...] = ()  # the guarantee of each context
    moves: Moves | None = None  # what a sweep is; None: every variable once, given all others


@dataclass(frozen=True)
class Decision:
    groups: list[Group]
    reduced: Preprocessed | None  # None: one group, which is the problem as given
    steps: list[str] = field(default_factory=list)  # what preprocessing did, in words

    @property
    def guarantee(self) -> str:
        """The weakest of all groups."""
        return weakest(group.guarantee for group in self.groups)

    @property
    def better(self) -> bool:
        """Better than heuristic?"""
        return self.guarantee != "heuristic"

    @property
    def choice(self) -> Choice:
        # Copies: callers get these, and the decision may serve other calls.
        records = [dict(record) for group in self.groups for record in group.records]
        why = self.groups[0].why if len(self.groups) == 1 else "every variable is fixed"
        if len(records) > 1:
            why = "; ".join(
                f"{record['variables']} variables: {record['method']}, {record['why']}"
                for record in records
            )
        return Choice(
            " + ".join(dict.fromkeys(g.method for g in self.groups)) or "lovasz",
            max((g.sweeps for g in self.groups), default=0),
            self.guarantee,
            why,
            self.reduced is None and not any(g.moves for g in self.groups),
            records,
            list(self.steps),
            tuple(weakest(labels) for labels in zip(*(g.rows for g in self.groups), strict=True)),
        )


def interned(owner: Formula, literals: np.ndarray, offsets: np.ndarray, n: int) -> Formula:
    """The formula with these clauses, the same object each time: `owner`, if these are its clauses.
    Tables of structures, circuits and failed attempts are kept with that object, so a new theta
    needs no new compilation.
    """
    same = n == owner.n_vars == owner.n_total and np.array_equal(literals, owner.literals)
    if same and np.array_equal(offsets, owner.offsets):
        return owner
    kept = owner.memo.once(_COMPONENTS, lambda: Recent(_MAX_COMPONENTS))
    digest = hashlib.blake2b(literals.tobytes(), digest_size=16)
    digest.update(offsets.tobytes() + n.to_bytes(8, "little"))
    key = digest.digest()
    return kept.once(key, lambda: Formula.from_arrays(literals, offsets, n_vars=n))


def part_of(owner: Formula, component: Component) -> Part:
    formula = interned(owner, component.literals, component.offsets, component.n_vars)
    return Part(component.variables, component.theta, formula)


def joined(owner: Formula, parts: Sequence[Part]) -> Part:
    """The components as one problem. O(total literals)."""
    if len(parts) == 1:
        return parts[0]
    literals, offsets = join(
        [(part.formula.literals, part.formula.offsets, len(part.variables)) for part in parts]
    )
    variables = np.concatenate([part.variables for part in parts])
    return Part(
        variables,
        np.concatenate([part.theta for part in parts], axis=1),
        interned(owner, literals, offsets, len(variables)),
        passed=parts[0].passed,
    )
