"""`preprocess`: all steps in turn, until none changes anything or the budget ends."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache

import numpy as np

from nelson.budget import Budget
from nelson.errors import FormulaError, Unsatisfiable
from nelson.exact.preprocess import gates, simplify
from nelson.exact.preprocess.result import Preprocessed, Rebuild, split
from nelson.exact.preprocess.state import State, Visits
from nelson.formula import Formula
from nelson.formula.checks import evidence_literals
from nelson.io.progress import phase

#: All steps except unit propagation, which is always done.
STEPS = ("equal", "probe", "subsume", "gates")
#: Visits (of a literal, a clause, an edge) that any formula is allowed.
VISITS = 20_000_000
#: Further visits for each literal of the formula.
VISITS_PER_LITERAL = 2
#: Seconds that end it in any case if the caller sets no deadline. The visits take about 1 s.
SAFETY_SECONDS = 60.0
#: Components returned, at most: the smallest ones are bundled.
COMPONENTS = 256

_WORDS = {
    "propagated": "{} variables fixed by propagation",
    "failed": "{} failed literals",
    "necessary": "{} literals implied by both values of another",
    "implied": "{} more variables fixed by these",
    "merged": "{} literals merged",
    "subsumed": "{} clauses subsumed",
    "strengthened": "{} literals removed from clauses",
    "gates": "{} gates",
}


def preprocess(
    formula: Formula,
    theta_rows: np.ndarray,
    evidence: Sequence[int] = (),
    *,
    budget: Budget | None = None,
    steps: Collection[str] = STEPS,
) -> Preprocessed:
    """Reduce P_theta(x | C) = exp(theta . x) C(x) / Z to independent smaller problems, exactly.

    x = rebuild(y, z) maps draws y of the components and z of the free variables one-to-one onto the
    solutions of C that agree with the evidence, and keeps their weight up to a constant factor: the
    law over all variables, auxiliary ones included, is kept.

    theta_rows  (contexts, n_vars) finite; auxiliary variables have theta = 0.
    evidence    literals of visible variables.
    budget      its deadline ends it with the reductions made so far. Without one the number of
                visits ends it, and a clock only after a minute; `steps` then says so.
    steps       some of STEPS.

    - units: of the clauses and the evidence, by propagation
    - failed literals: a literal is assumed and propagated; if that fails, its negation holds
    - equivalent literals: x_v = x_u, or not x_u, adds +-theta_v to theta_u
    - subsumption: removes subsumed clauses, and literals by self-subsuming resolution
    - gates: a variable that its clauses define as a function of others, with theta = 0 in every
      context, is resolved away if that adds few clauses

    Raises Unsatisfiable if one of these proves it. O(total literals) per round, and the number of
    visits is bounded: the reduction is the same in every run, unless the deadline ends it.
    """
    # Larger formulas, in literals, use compiled kernels from the beginning: a compiler that starts
    # midway would use up the SAFETY_SECONDS on a slow machine.
    small = 4_000
    unknown = set(steps) - set(STEPS)
    if unknown:
        raise FormulaError(f"no step {min(unknown)!r}", expected="some of " + ", ".join(STEPS))
    with phase("preprocessing the formula"):
        budget = Budget() if budget is None else budget
        if not budget.counted or len(formula.literals) > small:
            compile_kernels()
        return _preprocess(formula, theta_rows, evidence, budget, steps)


@cache
def compile_kernels() -> None:
    """Compile all kernels before a clock starts. The first call on a machine takes seconds."""
    gate = [[-1, 2], [-1, 3], [1, -2, -3]]
    tiny = Formula([[7], *gate, [-4, 5], [4, -5], [4, 6, -3], [2, 6, -3]], n_vars=7)
    patient = Budget.of(
        seconds=3600.0
    )  # on a busy machine compiling takes longer than the safety limit
    reduced = _preprocess(tiny, np.zeros((1, 7)), (), patient, STEPS)
    reduced.rebuild(np.zeros((1, 7), np.uint64))


def _preprocess(
    formula: Formula,
    theta_rows: np.ndarray,
    evidence: Sequence[int],
    budget: Budget,
    steps: Collection[str],
) -> Preprocessed:
    clock = budget.within(SAFETY_SECONDS) if budget.counted else budget
    state = begin(formula, theta_rows, evidence, clock)
    complete = _reduce(state, steps)
    changed = bool(set(state.did) - {"propagated"})
    mentioned = np.zeros(state.n, bool)
    mentioned[np.abs(state.literals) - 1] = True
    theta = np.ascontiguousarray(state.theta.T)
    free = np.flatnonzero(~mentioned & ~state.out)
    components = split(state.literals, state.offsets, theta, COMPONENTS)
    words = [_WORDS[what].format(number) for what, number in state.did.items()]
    if len(components) > 1:
        words.append(f"{len(components)} independent components")
    if len(free):
        words.append(f"{len(free)} free variables")
    if budget.counted and state.visits.late:
        words.append(f"ended by the safety limit of {SAFETY_SECONDS:g} s")
    elif not complete:
        words.append("ended by the budget")
    return Preprocessed(
        changed=changed,
        components=components,
        free=free,
        free_theta=theta[:, free],
        fixed=np.concatenate([np.zeros(0, np.int32), *state.fixed]),
        log_constant=state.log_constant,
        gates=state.did.get("gates", 0),
        steps=words,
        complete=complete,
        rebuild=Rebuild(*state.eliminated.program()),
    )


def begin(
    formula: Formula, theta_rows: np.ndarray, evidence: Sequence[int], budget: Budget
) -> State:
    """The problem as given, after unit propagation."""
    if formula.has_empty_clause:
        raise Unsatisfiable("the formula has an empty clause")
    rows = np.asarray(theta_rows, np.float64)
    if rows.ndim != 2 or rows.shape[1] != formula.n_vars:
        raise FormulaError(f"theta of shape {rows.shape}", expected=f"(contexts, {formula.n_vars})")
    if not np.isfinite(rows).all():
        raise FormulaError(
            "theta is not finite", expected="finite numbers, and evidence as literals"
        )
    theta = np.zeros((formula.n_total, len(rows)))
    theta[: formula.n_vars] = rows.T
    visits = VISITS + VISITS_PER_LITERAL * len(formula.literals)
    state = State(
        n=formula.n_total,
        literals=formula.literals,
        offsets=formula.offsets,
        theta=theta,
        visits=Visits(visits, budget),
        log_constant=np.zeros(len(rows)),
        out=np.zeros(formula.n_total, bool),
    )
    simplify.units(state, "propagated", evidence_literals(evidence, formula.n_vars))
    return state


def _reduce(state: State, steps: Collection[str]) -> bool:
    """Repeat all steps. -> True if none of them can change anything any more"""
    # Times that all steps are repeated, at most.
    rounds = 16
    for _ in range(rounds):
        if state.visits.spent:
            return False
        before, share = state.version, max(1, state.visits.left // 3)
        if "equal" in steps:
            simplify.equal(state)
        if "probe" in steps and simplify.probe(state, share) and "equal" in steps:
            simplify.equal(state)
        if "subsume" in steps:
            simplify.subsume(state, share)
        if "gates" in steps:
            gates.gates(state, share)
        if state.version == before:
            return not state.cut
    return False
