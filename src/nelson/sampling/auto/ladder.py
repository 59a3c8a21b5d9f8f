"""Which method for which component: the first that applies and fits the budget.

    1  preprocess, so that the law is kept; then for each independent component
    2  extremal                                  lovasz         exact
       few structures                            enumerate      exact
    3  a d-DNNF within a share of the budget     circuit        exact
    4  resampling converges in a pilot run       lovasz, sweeps asymptotic if the diagnostics say so
    5  else starts from a CDCL solver            cdcl, sweeps   asymptotic if they say so
    6  else nothing, and no word of "unsatisfiable" unless that was proved

An extremal formula goes no further than its own check and a trial of one tile; another one is
preprocessed, and compiled only if `nelson.exact.compile_guess` does not call that hopeless. Why a step was not
taken is kept with each component. Cost where resampling is right (random 5-SAT, n = L = 1000):
preprocessing 1 ms, the guess on compiling 1.5 ms, and chains as long as those of 6,000 samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from nelson.errors import BudgetExceeded, Unsatisfiable
from nelson.exact.listing import MAX_STRUCTURES, structures
from nelson.exact.preprocess import Preprocessed, preprocess
from nelson.sampling.auto import compiling
from nelson.sampling.auto.chains import Verdict, by_resampling, from_solver
from nelson.sampling.auto.groups import (
    Decision,
    Group,
    Part,
    Terms,
    interned,
    joined,
    part_of,
    record,
)
from nelson.sampling.chain import Chains, share
from nelson.sampling.engine import width_for
from nelson.sampling.guarantee import GUARANTEES
from nelson.sampling.mixing import pilot_request, rows_for
from nelson.sampling.problem import Problem

#: Components of so few variables are listed; up to so many it is tried, for so many structures.
FEW, SOME, ROWS = 16, 64, 1 << 14
#: Structures times contexts that may be weighed.
WEIGHED = 1 << 22
#: Components that have a pilot run, or a search, of their own; more than that share one.
OWN = 8
#: Seconds of preprocessing without a limit, and its share of a limit.
SECONDS, SHARE = 2.0, 0.1

EXTREMAL = Verdict(0, "exact", "extremal (Condition 1 holds): resampling alone is exact")
SLOW = "extremal, but some of a trial did not become valid within {} rounds"
LISTED = Verdict(0, "exact", "few structures: all of them are listed")


def decide(problem: Problem, theta: np.ndarray, terms: Terms) -> Decision:
    """theta (contexts, n) finite. Raises Unsatisfiable if a step proved it."""
    return _Ladder(problem, theta, terms).decide()


class _Ladder:
    def __init__(self, problem: Problem, theta: np.ndarray, terms: Terms) -> None:
        self.problem, self.terms, self.owner = problem, terms, problem.formula
        self.whole = Part(np.arange(self.owner.n_total), theta, self.owner, problem.evidence)
        self.taken: dict[str, list[tuple[Part, Verdict]]] = {
            name: [] for name in ("enumerate", "circuit", "cdcl", "lovasz")
        }

    def decide(self) -> Decision:
        if self.problem.extremal and self.converges(self.whole):
            return Decision([_group("lovasz", self.whole, [(self.whole, EXTREMAL)])], None)
        until = share(self.terms.deadline, SHARE, SECONDS)
        reduced = preprocess(self.owner, self.whole.theta, self.problem.evidence, deadline=until)
        parts = [part_of(self.owner, component) for component in reduced.components]
        # One component of a formula that is not extremal is not either.
        known = len(parts) == 1 and not reduced.changed and not self.problem.extremal
        left = self.listed(self.extremal(parts, known))
        untouched = not reduced.changed and len(left) == len(parts)
        left = self.compiled(left, untouched and not self.problem.evidence)
        exact = self.taken["enumerate"] or self.taken["circuit"]
        left = self.resampled(left, not reduced.changed and not exact)
        self.searched(left)
        return self.decision(reduced)

    # --- the steps: each takes the components that are left, and leaves some ---------------------

    def extremal(self, parts: list[Part], known: bool) -> list[Part]:
        found = [] if known else [part for part in parts if part.problem.extremal]
        self.slow = self.problem.extremal or (
            bool(found) and not self.converges(joined(self.owner, found))
        )
        left = []
        for part in parts:
            if not any(part is one for one in found):
                part.passed["extremal"] = "Condition 1 does not hold"
            elif self.slow:
                part.passed["extremal"] = SLOW.format(self.terms.max_rounds)
            else:
                self.taken["lovasz"].append((part, EXTREMAL))
                continue
            left.append(part)
        return left

    def converges(self, part: Part) -> bool:
        """Does one tile become valid, but for 1%? Yes if there is no time to tell."""
        if not part.problem.rest.n_clauses:
            return True
        lanes = 64 * width_for(1 << 20 if self.terms.count is None else self.terms.count)
        rows = rows_for(part.theta)
        until = share(self.terms.deadline, 0.3)
        request = pilot_request(rows, lanes, self.terms.threads, until)
        request = replace(request, max_rounds=self.terms.max_rounds)
        chains = Chains.resampled(part.problem, request, rows)
        return not chains.complete or chains.lanes() >= 0.99 * lanes * len(rows)

    def listed(self, parts: list[Part]) -> list[Part]:
        left = []
        for part in parts:
            if why := self.unlisted(part):
                part.passed["enumerate"] = why
                left.append(part)
            else:
                self.taken["enumerate"].append((part, LISTED))
        return left

    def unlisted(self, part: Part) -> str:
        """Why the structures of a component are not listed; "" if they are."""
        n, limit = len(part.variables), MAX_STRUCTURES
        until = share(self.terms.deadline, 0.05, 1.0)
        if "enumerate" in self.terms.skip:
            return "left out"
        if n > SOME and compiling.installed():
            return f"{n} variables: more than {SOME} are left to the circuit"
        if n > FEW and compiling.installed():
            limit = ROWS
        try:
            rows = structures(part.formula, limit, until)
        except BudgetExceeded as error:
            return str(error)
        if rows is None:
            return f"more than {limit:,} structures, or no order of search that finds them"
        if not len(rows):
            raise Unsatisfiable("enumeration proved that the formula has no solution")
        if len(rows) * len(part.theta) > WEIGHED:
            return f"{len(rows):,} structures to be weighed for each of {len(part.theta)} contexts"
        return ""

    def compiled(self, parts: list[Part], as_given: bool) -> list[Part]:
        if "circuit" in self.terms.skip:
            for part in parts:
                part.passed["circuit"] = "left out"
            return parts
        some = compiling.promising(parts)
        until = share(self.terms.deadline, compiling.SHARE, compiling.SECONDS)
        whole = self.whole if as_given and len(some) == len(parts) else None
        done, circuit = compiling.circuit(self.owner, some, whole, until)
        if circuit is not None:
            verdict = Verdict(0, "exact", f"a d-DNNF of {circuit.circuit.decisions:,} decisions")
            self.taken["circuit"] += [(part, verdict) for part in done]
        return [part for part in parts if not any(part is one for one in done)]

    def resampled(self, parts: list[Part], as_given: bool) -> list[Part]:
        for part in parts if self.slow else ():
            if part.problem.extremal:
                self.taken["lovasz"].append((part, replace(EXTREMAL, why=part.passed["extremal"])))
        parts = [part for part in parts if not (self.slow and part.problem.extremal)]
        if not parts:
            return []
        if "resampling" in self.terms.skip:
            for part in parts:
                part.passed["resampling"] = "left out"
            return parts
        if as_given and (verdict := by_resampling(self.whole, self.terms)) is not None:
            self.taken["lovasz"] += [(part, verdict) for part in parts]
            return []
        if as_given and len(parts) == 1:
            parts[0].passed |= self.whole.passed
            return parts
        left = []
        for part in self.few(parts):
            verdict = by_resampling(part, self.terms)
            if verdict is None:
                left.append(part)
            else:
                self.taken["lovasz"].append((part, verdict))
        return left

    def searched(self, parts: list[Part]) -> None:
        for k, part in enumerate(some := self.few(parts)):
            until = share(self.terms.deadline, 0.7 / (len(some) - k))
            verdict = from_solver(part, replace(self.terms, deadline=until))
            self.taken["cdcl"].append((part, verdict))

    def few(self, parts: list[Part]) -> list[Part]:
        """As they are, or the smaller ones as one."""
        if len(parts) <= OWN:
            return parts
        return [*parts[: OWN - 1], joined(self.owner, parts[OWN - 1 :])]

    # --- what came out ---------------------------------------------------------------------------

    def decision(self, reduced: Preprocessed) -> Decision:
        used = [name for name, pairs in self.taken.items() if pairs]
        whole = not reduced.changed and len(used) <= 1 and "cdcl" not in used
        if whole and not (used == ["circuit"] and self.problem.evidence):
            name = used[0] if used else "lovasz"
            pairs = self.taken[name] or [(self.whole, replace(EXTREMAL, why="no clause is left"))]
            return Decision([_group(name, self.whole, pairs)], None, reduced.steps)
        groups = []
        for name in ("enumerate", "circuit"):
            if pairs := self.taken[name]:
                groups.append(_group(name, joined(self.owner, [part for part, _ in pairs]), pairs))
        pairs = self.taken["lovasz"]
        if len(reduced.free):
            pairs = [*pairs, (self.free(reduced), replace(EXTREMAL, why="in no clause"))]
        if pairs:
            groups.append(_group("lovasz", joined(self.owner, [part for part, _ in pairs]), pairs))
        # The slowest last: what a deadline leaves of it is all that is lost.
        groups += [_group("cdcl", part, [(part, found)]) for part, found in self.taken["cdcl"]]
        return Decision(groups, reduced, reduced.steps)

    def free(self, reduced: Preprocessed) -> Part:
        none, n = np.zeros(0, np.int32), len(reduced.free)
        formula = interned(self.owner, none, np.zeros(1, np.int64), n)
        return Part(reduced.free, reduced.free_theta, formula)


def _group(method: str, part: Part, pairs: Sequence[tuple[Part, Verdict]]) -> Group:
    """Components that are drawn together; those with the same verdict share a record."""
    verdicts = {id(verdict): verdict for _, verdict in pairs}
    records = []
    for key, verdict in verdicts.items():
        mine = [part for part, own in pairs if id(own) == key]
        sizes = method, verdict.sweeps, verdict.guarantee, verdict.why
        records.append(record(*sizes, mine, **verdict.more))
    worst = min(verdicts.values(), key=lambda verdict: GUARANTEES.index(verdict.guarantee))
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
    )
