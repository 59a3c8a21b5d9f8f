"""The steps of the ladder on one form of a formula: each takes the components that it can draw.

A form is what preprocessing leaves: with the gates, or with the gates resolved away. A component
that no step takes keeps the reasons in `Part.passed`.
"""

from __future__ import annotations

import copy
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np

from nelson.errors import BudgetExceeded, Unsatisfiable
from nelson.exact.compile_guess import estimate
from nelson.exact.compiled import Compiled
from nelson.exact.listing import MAX_STRUCTURES, structures
from nelson.exact.preprocess import preprocess
from nelson.formula.memo import Recent, Slot
from nelson.io.progress import phase
from nelson.sampling.auto import compiling
from nelson.sampling.auto.chains import by_resampling, from_solver, no_joint_moves
from nelson.sampling.auto.coupling import by_coupling
from nelson.sampling.auto.decision import Decision, Limits, Part, joined, part_of
from nelson.sampling.auto.groups import EXTREMAL, decision_of
from nelson.sampling.auto.rejecting import by_rejection
from nelson.sampling.chain import Chains, share
from nelson.sampling.diagnosis.diagnose import beyond_resolution, pilot_request, pilots
from nelson.sampling.diagnosis.verdict import Verdict
from nelson.sampling.engine import width_for
from nelson.sampling.problem import Problem

#: Does a trial of resampling converge? By evidence, theta, lanes and rounds.
_CONVERGES: Slot[Recent[tuple[Any, ...], bool]] = Slot("trials of resampling")
#: Components with at most this many variables are enumerated.
_ENUMERATE_ALWAYS = 16
#: Up to this many variables enumeration is tried before compiling.
_TRY_TO_ENUMERATE = 64
#: Most structures of such a trial: a circuit is better for more.
_TRIED_STRUCTURES = 1 << 14
#: Most structures times contexts: each context weighs all structures.
_MAX_WEIGHED = 1 << 22
#: Components with their own pilot run or search; the smaller ones beyond share one.
_MAX_SEPARATE = 8
#: The share of a limit in seconds that preprocessing gets.
_PREPROCESSING_SHARE = 0.1
#: The share of the time left that chains from a solver get, starts and all diagnoses included.
_SEARCH_SHARE = 0.8

SLOW = "extremal, but some samples of a trial did not become valid within {} rounds"
ENUMERATED = Verdict(0, "exact", "few structures: all of them are enumerated")


def converges(part: Part, limits: Limits) -> bool:
    """Do 99% of one tile become valid? True if there is no time to tell."""
    if not part.problem.rest.n_clauses:
        return True
    lanes = 64 * width_for(1 << 20 if limits.count is None else limits.count)
    rows = part.theta[pilots(part.theta)]
    known = part.formula.memo.once(_CONVERGES, lambda: Recent(64))
    key = (part.evidence, rows.tobytes(), lanes, limits.max_rounds)
    if (kept := known.get(key)) is not None:
        return kept
    until = share(limits.deadline, 0.3)
    request = pilot_request(rows, lanes, limits.threads, until)
    request = replace(request, max_rounds=limits.max_rounds)
    with phase("trying to resample"):
        chains = Chains.resampled(part.problem, request, rows)
    if not chains.complete:
        return True
    return known.put(key, chains.lanes() >= 0.99 * lanes * len(rows))


class Form:
    """A form of a formula: its parts that are left, and those that a method has taken."""

    def __init__(
        self, problem: Problem, whole: Part, limits: Limits, steps: Collection[str]
    ) -> None:
        """Preprocess with these steps, and take the parts that are extremal or small."""
        self.problem, self.whole, self.limits = problem, whole, limits
        self.owner = problem.formula
        self.beyond = beyond_resolution(whole.theta)
        self.taken: dict[str, list[tuple[Part, Verdict]]] = {
            name: [] for name in ("enumerate", "circuit", "cftp", "rejection", "cdcl", "lovasz")
        }
        until = share(limits.deadline, _PREPROCESSING_SHARE)
        evidence = problem.evidence
        self.reduced = preprocess(self.owner, whole.theta, evidence, deadline=until, steps=steps)
        parts = [part_of(self.owner, component) for component in self.reduced.components]
        # The only component of a formula that is not extremal is not extremal.
        known = len(parts) == 1 and not self.reduced.changed and not problem.extremal
        self.left = self.enumerated(self.extremal(parts, known))
        untouched = not self.reduced.changed and len(self.left) == len(parts)
        self.untouched = untouched and not evidence

    def copy(self, limits: Limits) -> Form:
        """The form as it is now, for other steps."""
        other = copy.copy(self)
        other.limits = limits
        other.taken = {name: list(pairs) for name, pairs in self.taken.items()}
        return other

    @property
    def width(self) -> int:
        """The largest width of a part that is left, as far as it is known."""
        return max((estimate(part.formula).width for part in self.left), default=0)

    @property
    def hopeless(self) -> bool:
        """Is it hopeless to compile some part that is left?"""
        return any(estimate(part.formula).hopeless for part in self.left)

    @property
    def implications(self) -> float:
        """The share of clauses of two literals in the parts that are left."""
        lengths = [np.diff(part.formula.offsets) for part in self.left]
        return float(np.mean(np.concatenate(lengths) == 2)) if lengths else 0.0

    def decision(self) -> Decision:
        return decision_of(self.whole, self.taken, self.reduced)

    def joined(self) -> Part:
        """All parts that are left, as one problem."""
        return joined(self.owner, self.left)

    def leave(self, *steps: str) -> None:
        """Leave these steps out from now on."""
        self.limits = replace(self.limits, skip=self.limits.skip | set(steps))

    def spare_a_core(self) -> None:
        """Leave a core to the compiler from now on: it decides how soon there is a circuit."""
        self.limits = replace(self.limits, threads=max(1, self.limits.threads - 1))

    def extremal(self, parts: list[Part], known: bool) -> list[Part]:
        extremal = [] if known else [part for part in parts if part.problem.extremal]
        self.slow = bool(self.problem.extremal or self.beyond) or (
            bool(extremal) and not converges(joined(self.owner, extremal), self.limits)
        )
        left = []
        for part in parts:
            if not any(part is one for one in extremal):
                part.passed["extremal"] = "Condition 1 does not hold"
            elif self.slow:
                part.passed["extremal"] = self.beyond or SLOW.format(self.limits.max_rounds)
            else:
                self.taken["lovasz"].append((part, EXTREMAL))
                continue
            left.append(part)
        return left

    def enumerated(self, parts: list[Part]) -> list[Part]:
        left = []
        for part in parts:
            if why := self.not_enumerated(part):
                part.passed["enumerate"] = why
                left.append(part)
            else:
                self.taken["enumerate"].append((part, ENUMERATED))
        return left

    def not_enumerated(self, part: Part) -> str:
        """Why the structures of a component are not enumerated; "" if they are."""
        n, limit = len(part.variables), MAX_STRUCTURES
        until = share(self.limits.deadline, 0.05)
        if "enumerate" in self.limits.skip:
            return "left out"
        if n > _TRY_TO_ENUMERATE and compiling.installed():
            return f"{n} variables: more than {_TRY_TO_ENUMERATE} are left to the circuit"
        if n > _ENUMERATE_ALWAYS and compiling.installed():
            limit = _TRIED_STRUCTURES
        try:
            with phase("enumerating solutions"):
                rows = structures(part.formula, limit, until)
        except BudgetExceeded as error:
            return str(error)
        if rows is None:
            return f"more than {limit:,} structures, or no order of search that finds them"
        if not len(rows):
            raise Unsatisfiable("enumeration proved that the formula has no solution")
        if len(rows) * len(part.theta) > _MAX_WEIGHED:
            return f"{len(rows):,} structures for each of {len(part.theta)} contexts are too many"
        return ""

    def compile(self) -> compiling.Running | None:
        """Take the parts that compile. With a limit in seconds, a compiler that is not done within
        its share goes on while other steps are tried, if all parts are worth a try: -> that one.
        """
        if "circuit" in self.limits.skip:
            for part in self.left:
                part.passed["circuit"] = "left out"
            return None
        promising = compiling.promising(self.left)
        every = len(promising) == len(self.left)
        whole = self.whole if every and self.untouched else None
        done, circuit, running = compiling.compile_parts(
            self.owner, promising, whole, self.limits.deadline, every
        )
        if circuit is not None:
            self.take(done, circuit)
        return running

    def take(self, parts: list[Part], circuit: Compiled) -> None:
        """Draw these parts from their circuit."""
        verdict = Verdict(0, "exact", f"a d-DNNF of {circuit.circuit.decisions:,} decisions")
        self.taken["circuit"] += [(part, verdict) for part in parts]
        self.left = [part for part in self.left if not any(part is one for one in parts)]

    def couple(self) -> None:
        left = []
        # With one component and no change, the formula as given has the same clauses, and is
        # prepared already.
        alone = len(self.left) == 1 and not self.reduced.changed and not any(self.taken.values())
        for part in self.left:
            drawn = self.whole if alone else part
            if self.beyond or "cftp" in self.limits.skip:
                part.passed["cftp"] = self.beyond or "left out"
            elif (verdict := by_coupling(drawn, self.limits)) is not None:
                self.taken["cftp"].append((part, verdict))
                continue
            else:
                part.passed["cftp"] = drawn.passed["cftp"]
            left.append(part)
        self.left = left

    def reject(self) -> None:
        left = []
        for part in self.left:
            if (verdict := by_rejection(part, self.limits)) is not None:
                self.taken["rejection"].append((part, verdict))
            else:
                left.append(part)
        self.left = left

    def resample(self) -> None:
        parts, self.left = self.left, []
        for part in parts if self.slow else ():
            if part.problem.extremal:
                why = part.passed["extremal"]
                guarantee = "heuristic" if self.beyond else "exact"
                slow = replace(EXTREMAL, why=why, guarantee=guarantee)
                self.taken["lovasz"].append((part, slow))
        parts = [part for part in parts if not (self.slow and part.problem.extremal)]
        if not parts:
            return
        if "resampling" in self.limits.skip:
            for part in parts:
                part.passed["resampling"] = "left out"
            self.left = parts
            return
        exact = any(self.taken[name] for name in ("enumerate", "circuit", "cftp"))
        if not self.reduced.changed and not exact:  # all parts at once: the formula as given
            if (verdict := by_resampling(self.whole, self.limits)) is not None:
                for part in parts:
                    part.passed |= self.whole.passed
                self.taken["lovasz"] += [(part, verdict) for part in parts]
                return
            if len(parts) == 1:
                parts[0].passed |= self.whole.passed
                self.left = parts
                return
        for part in self.few(parts):
            if (verdict := by_resampling(part, self.limits)) is None:
                self.left.append(part)
            else:
                self.taken["lovasz"].append((part, verdict))

    def search(self) -> None:
        """Take what is left with chains from a solver."""
        some, self.left = self.few(self.left), []
        for k, part in enumerate(some):
            until = share(self.limits.deadline, _SEARCH_SHARE / (len(some) - k))
            verdict = from_solver(part, replace(self.limits, deadline=until))
            self.taken["cdcl"].append((part, verdict))

    def search_jointly(self) -> str:
        """Take all that is left with joint moves from a solver; -> why not, "" if all is taken."""
        parts = self.few(self.left)
        for part in parts:
            if why := no_joint_moves(part, self.limits):
                return why
        for part in parts:
            verdict = from_solver(part, self.limits)
            if verdict.guarantee == "heuristic":
                return part.passed.get("joint moves", verdict.why)
            self.taken["cdcl"].append((part, verdict))
        return ""

    def few(self, parts: list[Part]) -> list[Part]:
        """The parts, the smaller ones joined if there are many."""
        if len(parts) <= _MAX_SEPARATE:
            return parts
        first = _MAX_SEPARATE - 1
        return [*parts[:first], joined(self.owner, parts[first:])]
