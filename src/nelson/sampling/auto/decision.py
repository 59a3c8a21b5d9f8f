"""What `auto` decided: which method draws which components, with which guarantee and why."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from nelson.chains.guarantee import weakest
from nelson.chains.moves.protocol import Moves
from nelson.chains.moves.single_flips import SINGLE
from nelson.chains.problem import Problem, beyond_resolution, prepare
from nelson.exact.preprocess import Preprocessed, WeightedComponent
from nelson.formula import Formula
from nelson.formula.flat import join
from nelson.formula.memo import Recent, Slot
from nelson.sampling.methods import lovasz
from nelson.sampling.total_variation import MOST, of_group

if TYPE_CHECKING:
    from nelson.sampling.auto.steps.step import Step

_COMPONENTS: Slot[Recent[bytes, Formula]] = Slot("formulas of components")
#: In `Part.passed`: which limit in seconds decided, though the caller had set none.
SAFETY = "safety limit"


@dataclass(frozen=True)
class MethodChoice:
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
    tv_bound: float | None = None  # in a report: how far from P samples may be, if they are exact


@dataclass
class FormulaPart:
    """One component on its way down the ladder."""

    variables: np.ndarray  # its variables in the formula as given, counted from 0
    theta: np.ndarray  # (contexts, k)
    formula: Formula
    evidence: tuple[int, ...] = ()
    passed: dict[str, str] = field(default_factory=dict)  # steps not taken, and why

    @cached_property
    def problem(self) -> Problem:
        """Prepared at first use, then kept with the formula."""
        return prepare(self.formula, self.evidence)

    def pass_by(self, step: str, reason: str) -> None:
        """Take note of why a step does not take this part."""
        if reason:
            self.passed[step] = reason


@dataclass(frozen=True)
class ComponentGroup:
    """Components that are drawn together, as one problem over variables 0..k-1.

    `variables` maps them to the formula as given. A group that is the whole formula holds the
    problem as given.
    """

    step: Step  # draws it
    sweeps: int
    guarantee: str
    why: str
    problem: Problem
    variables: np.ndarray
    theta: np.ndarray
    records: list[dict[str, Any]]  # for `s.info["auto"]`, one for each kind of component
    starts: list[np.ndarray] = field(default_factory=list)  # of chains, found while deciding
    pool: list[np.ndarray] = field(default_factory=list)  # starts to use, once settled
    rows: tuple[str, ...] = ()  # the guarantee of each context
    moves: Moves = SINGLE  # what a sweep is

    @property
    def method(self) -> str:
        return self.step.sampler.name

    @cached_property
    def variation(self) -> np.ndarray:
        """(contexts,): a bound on the distance from P, without coupling, where it is exact."""
        return of_group(self)

    @property
    def theta_decides(self) -> bool:
        """May another theta call for another method? A trial or a diagnosis depends on theta."""
        return bool(self.sweeps) or self.step.sampler.tried_on_theta


@dataclass(frozen=True)
class Decision:
    groups: list[ComponentGroup]
    reduced: Preprocessed | None  # None: one group, which is the problem as given
    steps: list[str] = field(default_factory=list)  # what preprocessing did, in words
    #: The first tile of the draw tells whether its samples become valid. If too few do, the draw
    #: begins again with what `auto` decides next.
    on_trial: bool = False

    @cached_property
    def guarantee(self) -> str:
        """The weakest of all groups."""
        return weakest([group.guarantee for group in self.groups])

    def at(self, theta: np.ndarray, keep: bool) -> Decision | None:
        """The same decision for other rows of theta (contexts, n); None if it may not hold.

        It holds if one method draws the whole formula exactly for every theta, without a trial.
        keep: it holds whenever one method draws the whole formula.
        """
        if self.reduced is not None or len(self.groups) != 1:
            return None
        group = self.groups[0]
        always = group.guarantee == "exact" and not group.theta_decides
        if not keep and (not always or beyond_resolution(theta)):
            return None
        moved = replace(group, theta=theta, rows=(group.guarantee,) * len(theta))
        far = not keep and (moved.variation > MOST).any()
        return None if far else replace(self, groups=[moved])

    @property
    def better(self) -> bool:
        """Better than heuristic?"""
        return self.guarantee != "heuristic"

    def tell(self, step: str, why: str) -> None:
        """Add why a step was not taken to the parts that are heuristic."""
        for record in (record for group in self.groups for record in group.records):
            if record["guarantee"] == "heuristic":
                record["not taken"][step] = why

    @property
    def choice(self) -> MethodChoice:
        # Copies: callers get these, and the decision may serve other calls.
        records = [dict(record) for group in self.groups for record in group.records]
        why = self.groups[0].why if len(self.groups) == 1 else "every variable is fixed"
        if len(records) > 1:
            why = "; ".join(
                f"{record['variables']} variables: {record['method']}, {record['why']}"
                for record in records
            )
        return MethodChoice(
            " + ".join(dict.fromkeys(g.method for g in self.groups)) or lovasz.SAMPLER.name,
            max((g.sweeps for g in self.groups), default=0),
            self.guarantee,
            why,
            self.reduced is None and all(group.moves.in_tiles for group in self.groups),
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
    formulas = owner.memo.recent(_COMPONENTS, 64)
    digest = hashlib.blake2b(literals.tobytes(), digest_size=16)
    digest.update(offsets.tobytes() + n.to_bytes(8, "little"))
    key = digest.digest()
    return formulas.once(key, lambda: Formula.from_arrays(literals, offsets, n_vars=n))


def part_of(owner: Formula, component: WeightedComponent) -> FormulaPart:
    formula = interned(owner, component.literals, component.offsets, component.n_vars)
    return FormulaPart(component.variables, component.theta, formula)


def joined(owner: Formula, parts: Sequence[FormulaPart]) -> FormulaPart:
    """The components as one problem. O(total literals)."""
    if len(parts) == 1:
        return parts[0]
    literals, offsets = join(
        [(part.formula.literals, part.formula.offsets, len(part.variables)) for part in parts]
    )
    variables = np.concatenate([part.variables for part in parts])
    return FormulaPart(
        variables,
        np.concatenate([part.theta for part in parts], axis=1),
        interned(owner, literals, offsets, len(variables)),
        passed=parts[0].passed,
    )
