"""Which method for which component: the first that applies and fits the budget.

    1  preprocess, keeping the law; then for each independent component
    2  extremal                                  lovasz         exact
       few structures                            enumerate      exact
    3  a d-DNNF within a share of the budget     circuit        exact
    4  coupled chains of all starts meet         cftp           exact
       gates, and inputs that are often valid    rejection      exact
    5  resampling converges in a pilot run       lovasz, sweeps asymptotic if the diagnostics pass
    6  else starts from a CDCL solver            cdcl, sweeps   asymptotic if the diagnostics pass
    7  else no samples; "unsatisfiable" only if it was proved

A gate that is resolved away leaves longer clauses behind. For sums and comparisons of binary
numbers this makes the formula wider and its circuit larger: four numbers of 16 bits in order, with
gaps of 4 bits, have width 16 with their carries and 29 without; D4 compiles them in 0.4 s with the
carries, and not in 20 s without. So gates stay if the formula is narrower with them and compiles.

An extremal formula pays for the check of Condition 1 and a trial of one tile. Any other formula is
preprocessed, and compiled unless `nelson.exact.compile_guess` calls that hopeless. Each component
keeps the reasons why steps were not taken. Cost where resampling is the right method (random 5-SAT,
n = L = 1000): preprocessing 1 ms, the guess on compiling 1.5 ms, and chains as long as those of
6,000 samples.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nelson.errors import BudgetExceeded, Unsatisfiable
from nelson.exact.compile_guess import estimate
from nelson.exact.listing import MAX_STRUCTURES, structures
from nelson.exact.preprocess import STEPS, Preprocessed, preprocess
from nelson.formula.memo import Recent, Slot
from nelson.io.progress import phase
from nelson.sampling.auto import compiling
from nelson.sampling.auto.chains import by_resampling, from_solver, no_joint_moves
from nelson.sampling.auto.coupling import by_coupling
from nelson.sampling.auto.decision import Decision, Group, Limits, Part, interned, joined, part_of
from nelson.sampling.auto.rejecting import by_rejection
from nelson.sampling.chain import Chains, share
from nelson.sampling.diagnosis.diagnose import beyond_resolution, pilot_request, pilots
from nelson.sampling.diagnosis.verdict import Verdict
from nelson.sampling.engine import width_for
from nelson.sampling.guarantee import GUARANTEES, weakest
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
#: Formulas of more variables are not compiled late.
_LATE_VARIABLES = 5000
#: The steps of a preprocessing that keeps the gates.
_KEEPING_GATES = tuple(step for step in STEPS if step != "gates")

EXTREMAL = Verdict(0, "exact", "extremal (Condition 1 holds): resampling alone is exact")
SLOW = "extremal, but some samples of a trial did not become valid within {} rounds"
ENUMERATED = Verdict(0, "exact", "few structures: all of them are enumerated")


def decide(problem: Problem, theta: np.ndarray, limits: Limits) -> Decision:
    """theta (contexts, n) finite. Raises Unsatisfiable if a step proved it."""
    return _Ladder(problem, theta, limits).decide()


class _Ladder:
    def __init__(self, problem: Problem, theta: np.ndarray, limits: Limits) -> None:
        self.problem, self.limits, self.owner = problem, limits, problem.formula
        self.asked = limits
        self.whole = Part(np.arange(self.owner.n_total), theta, self.owner, problem.evidence)
        self.taken: dict[str, list[tuple[Part, Verdict]]] = {
            name: [] for name in ("enumerate", "circuit", "cftp", "rejection", "cdcl", "lovasz")
        }

    def decide(self) -> Decision:
        self.beyond = beyond_resolution(self.whole.theta)
        if self.problem.extremal and not self.beyond and self.converges(self.whole):
            return Decision([_group("lovasz", self.whole, [(self.whole, EXTREMAL)])], None)
        if "circuit" not in self.limits.skip and (kept := compiling.kept_verdict(self.owner)):
            return Decision([_group("circuit", self.whole, [(self.whole, kept)])], None)
        reduced, left = self.reduced(STEPS)
        if reduced.gates and (decision := self.decided_with_gates(left)) is not None:
            return decision
        left = self.coupled(self.compiled(left, self.untouched))
        if left and (decision := self.decided_by_rejection(left)) is not None:
            return decision
        exact = any(self.taken[name] for name in ("enumerate", "circuit", "cftp"))
        if reduced.gates:  # joint moves hold fewer variables if the gates are there
            self.limits = replace(self.limits, skip=self.limits.skip | {"joint"})
        left = self.resampled(left, not reduced.changed and not exact)
        self.searched(left)
        decision = self.decision(reduced)
        if reduced.gates and decision.choice.guarantee == "heuristic":
            decision = self.decided_jointly(decision)
        if decision.choice.guarantee == "heuristic":
            decision = self.compiled_late(decision)
        return decision

    def reduced(self, steps: Collection[str]) -> tuple[Preprocessed, list[Part]]:
        """Preprocess. -> the result, and the components that are neither extremal nor small"""
        until = share(self.limits.deadline, _PREPROCESSING_SHARE)
        theta, evidence = self.whole.theta, self.problem.evidence
        reduced = preprocess(self.owner, theta, evidence, deadline=until, steps=steps)
        parts = [part_of(self.owner, component) for component in reduced.components]
        # The only component of a formula that is not extremal is not extremal.
        known = len(parts) == 1 and not reduced.changed and not self.problem.extremal
        left = self.enumerated(self.extremal(parts, known))
        untouched = not reduced.changed and len(left) == len(parts)
        self.untouched = untouched and not evidence
        return reduced, left

    def decided_with_gates(self, left: Sequence[Part]) -> Decision | None:
        """The decision for the formula with its gates, if it is narrower with them and each of its
        components has an exact method. left: the components without the gates.
        """
        if not left or "circuit" in self.limits.skip or not compiling.installed():
            return None
        other = _Ladder(self.problem, self.whole.theta, self.limits)
        other.beyond = self.beyond
        reduced, parts = other.reduced(_KEEPING_GATES)
        if _width(parts) >= _width(left) or other.compiled(parts, other.untouched):
            return None
        return other.decision(reduced)

    def decided_by_rejection(self, left: Sequence[Part]) -> Decision | None:
        """The decision for the formula with its gates, if proposals of inputs are often valid and
        all other components have an exact method. left: the components without the gates.
        """
        if "rejection" in self.limits.skip or self.beyond:
            return None
        other = _Ladder(self.problem, self.whole.theta, self.limits)
        other.beyond = self.beyond
        reduced, parts = other.reduced(_KEEPING_GATES)
        open_parts = other.rejected(parts)
        if other.taken["rejection"] and not other.coupled(other.compiled(open_parts, False)):
            return other.decision(reduced)
        told = [part.passed["rejection"] for part in open_parts if "rejection" in part.passed]
        for part in left if told else ():
            part.passed["rejection"] = told[0]
        return None

    def decided_jointly(self, single: Decision) -> Decision:
        """Joint moves on the formula with its gates, if they make the heuristic decision `single`
        asymptotic; else `single`.
        """
        if "joint" in self.asked.skip or self.beyond:
            return single
        skip = self.asked.skip | {"single"}
        other = _Ladder(self.problem, self.whole.theta, replace(self.asked, skip=skip))
        other.beyond = self.beyond
        reduced, parts = other.reduced(_KEEPING_GATES)
        if not (why := other.joint(other.few(parts))):
            return other.decision(reduced)
        for record in (record for group in single.groups for record in group.records):
            if record["guarantee"] == "heuristic":
                record["not taken"]["joint moves"] = why
        return single

    def compiled_late(self, heuristic: Decision) -> Decision:
        """A circuit of a formula that looked hopeless, in what is left of the caller's time; else
        the decision as it is.
        """
        small = len(self.whole.variables) <= _LATE_VARIABLES
        if self.asked.deadline is None or not small or not compiling.installed():
            return heuristic
        other = _Ladder(self.problem, self.whole.theta, self.asked)
        other.beyond = self.beyond
        reduced, parts = other.reduced(_KEEPING_GATES)
        if not any(estimate(part.formula).hopeless for part in parts):
            return heuristic  # it was tried
        return heuristic if other.compiled(parts, False, late=True) else other.decision(reduced)

    def joint(self, parts: list[Part]) -> str:
        """Take the parts with joint moves from a solver; -> why not, "" if all are taken."""
        for part in parts:
            if why := no_joint_moves(part, self.limits):
                return why
        for part in parts:
            verdict = from_solver(part, self.limits)
            if verdict.guarantee == "heuristic":
                return part.passed.get("joint moves", verdict.why)
            self.taken["cdcl"].append((part, verdict))
        return ""

    # --- the steps: each gets the remaining components and returns those it does not take ---------

    def extremal(self, parts: list[Part], known: bool) -> list[Part]:
        extremal = [] if known else [part for part in parts if part.problem.extremal]
        self.slow = bool(self.problem.extremal or self.beyond) or (
            bool(extremal) and not self.converges(joined(self.owner, extremal))
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

    def converges(self, part: Part) -> bool:
        """Do 99% of one tile become valid? True if there is no time to tell."""
        if not part.problem.rest.n_clauses:
            return True
        lanes = 64 * width_for(1 << 20 if self.limits.count is None else self.limits.count)
        rows = part.theta[pilots(part.theta)]
        known = part.formula.memo.once(_CONVERGES, lambda: Recent(64))
        key = (part.evidence, rows.tobytes(), lanes, self.limits.max_rounds)
        if (kept := known.get(key)) is not None:
            return kept
        until = share(self.limits.deadline, 0.3)
        request = pilot_request(rows, lanes, self.limits.threads, until)
        request = replace(request, max_rounds=self.limits.max_rounds)
        with phase("trying to resample"):
            chains = Chains.resampled(part.problem, request, rows)
        if not chains.complete:
            return True
        return known.put(key, chains.lanes() >= 0.99 * lanes * len(rows))

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

    def compiled(self, parts: list[Part], as_given: bool, late: bool = False) -> list[Part]:
        """late: all parts are tried, however hopeless, for most of the time left."""
        if "circuit" in self.limits.skip:
            for part in parts:
                part.passed["circuit"] = "left out"
            return parts
        promising = parts if late else compiling.promising(parts)
        until = share(self.limits.deadline, compiling.LATE_SHARE if late else compiling.SHARE)
        whole = self.whole if as_given and len(promising) == len(parts) else None
        done, circuit = compiling.compile_parts(self.owner, promising, whole, until)
        if circuit is not None:
            verdict = Verdict(0, "exact", f"a d-DNNF of {circuit.circuit.decisions:,} decisions")
            self.taken["circuit"] += [(part, verdict) for part in done]
        return [part for part in parts if not any(part is one for one in done)]

    def coupled(self, parts: list[Part]) -> list[Part]:
        left = []
        for part in parts:
            if self.beyond or "cftp" in self.limits.skip:
                part.passed["cftp"] = self.beyond or "left out"
            elif (verdict := by_coupling(part, self.limits)) is not None:
                self.taken["cftp"].append((part, verdict))
                continue
            left.append(part)
        return left

    def rejected(self, parts: list[Part]) -> list[Part]:
        left = []
        for part in parts:
            if (verdict := by_rejection(part, self.limits)) is not None:
                self.taken["rejection"].append((part, verdict))
            else:
                left.append(part)
        return left

    def resampled(self, parts: list[Part], as_given: bool) -> list[Part]:
        for part in parts if self.slow else ():
            if part.problem.extremal:
                why = part.passed["extremal"]
                guarantee = "heuristic" if self.beyond else "exact"
                slow = replace(EXTREMAL, why=why, guarantee=guarantee)
                self.taken["lovasz"].append((part, slow))
        parts = [part for part in parts if not (self.slow and part.problem.extremal)]
        if not parts:
            return []
        if "resampling" in self.limits.skip:
            for part in parts:
                part.passed["resampling"] = "left out"
            return parts
        if as_given and (verdict := by_resampling(self.whole, self.limits)) is not None:
            for part in parts:
                part.passed |= self.whole.passed
            self.taken["lovasz"] += [(part, verdict) for part in parts]
            return []
        if as_given and len(parts) == 1:
            parts[0].passed |= self.whole.passed
            return parts
        left = []
        for part in self.few(parts):
            verdict = by_resampling(part, self.limits)
            if verdict is None:
                left.append(part)
            else:
                self.taken["lovasz"].append((part, verdict))
        return left

    def searched(self, parts: list[Part]) -> None:
        for k, part in enumerate(some := self.few(parts)):
            until = share(self.limits.deadline, 0.7 / (len(some) - k))
            verdict = from_solver(part, replace(self.limits, deadline=until))
            self.taken["cdcl"].append((part, verdict))

    def few(self, parts: list[Part]) -> list[Part]:
        """The parts, the smaller ones joined if there are many."""
        if len(parts) <= _MAX_SEPARATE:
            return parts
        first = _MAX_SEPARATE - 1
        return [*parts[:first], joined(self.owner, parts[first:])]

    # --- the decision ----------------------------------------------------------------------------

    def decision(self, reduced: Preprocessed) -> Decision:
        used = [name for name, pairs in self.taken.items() if pairs]
        whole = not reduced.changed and len(used) <= 1 and "cdcl" not in used
        whole &= len({id(v.moves) for _, v in self.taken["lovasz"]}) <= 1
        whole &= len(self.taken["rejection"]) <= 1  # the product of acceptances would be small
        if whole and not (used == ["circuit"] and self.problem.evidence):
            name = used[0] if used else "lovasz"
            pairs = self.taken[name] or [(self.whole, replace(EXTREMAL, why="no clause is left"))]
            return Decision([_group(name, self.whole, pairs)], None, reduced.steps)
        groups = []
        for name in ("enumerate", "circuit", "cftp"):
            if pairs := self.taken[name]:
                groups.append(_group(name, joined(self.owner, [part for part, _ in pairs]), pairs))
        # Joint moves cost much more than sweeps of single variables: parts that need none get none.
        joint = [pair for pair in self.taken["lovasz"] if pair[1].moves]
        pairs = [pair for pair in self.taken["lovasz"] if not pair[1].moves]
        if len(reduced.free):
            pairs = [*pairs, (self.free(reduced), replace(EXTREMAL, why="in no clause"))]
        if pairs:
            groups.append(_group("lovasz", joined(self.owner, [part for part, _ in pairs]), pairs))
        groups += [_group("lovasz", part, [(part, verdict)]) for part, verdict in joint]
        # The slowest groups are drawn last: a deadline cuts them and no other.
        for name in ("rejection", "cdcl"):
            groups += [_group(name, part, [(part, verdict)]) for part, verdict in self.taken[name]]
        return Decision(groups, reduced, reduced.steps)

    def free(self, reduced: Preprocessed) -> Part:
        none, n = np.zeros(0, np.int32), len(reduced.free)
        formula = interned(self.owner, none, np.zeros(1, np.int64), n)
        return Part(reduced.free, reduced.free_theta, formula)


def _width(parts: Sequence[Part]) -> int:
    """The largest width of a component, as far as it is known."""
    return max((estimate(part.formula).width for part in parts), default=0)


def _group(method: str, part: Part, pairs: Sequence[tuple[Part, Verdict]]) -> Group:
    """Components that are drawn together; components with the same verdict share a record."""
    verdicts = {id(verdict): verdict for _, verdict in pairs}
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
