"""log P(C) by enumeration, and by what the exact law of a formula knows.

    enumerate   each part by a pass over its 2^n states, as long as that is little work
    law         the whole formula, as `nelson.exact.law` decides: circuits, inputs, a counter
    count       all parts that are left by ganak, a weighted model counter
    circuit     all parts that are left by the d-DNNF that D4 compiles

"auto" asks the law; `count` and `circuit` are for callers who want that one. A counter or a
compiler may need any amount of time and memory. It therefore runs in a child process under limits.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from nelson.budget import Budget
from nelson.errors import BudgetExceeded, NelsonError, Unsatisfiable
from nelson.exact import counter
from nelson.exact.circuit.attempts import SECONDS_PER_EFFORT
from nelson.exact.circuit.build import missing
from nelson.exact.compiled import Compiled, compiled, why_not
from nelson.exact.law import law
from nelson.exact.routes import ENUMERATE, Reason
from nelson.formula import Formula
from nelson.formula.checks import evidence_of, theta_rows
from nelson.kernels.reduce import local_lemma
from nelson.log_z.method import LogProbability, LogZTask, MethodOutcome
from nelson.log_z.parts import WeightedClauses, merge
from nelson.policy import DEFAULT, LogZPolicy

#: The routes of the exact law that methods of log Z have another name for.
_ROUTES = {"inputs": ENUMERATE, "counter": "count"}


def by_enumeration(parts: list[WeightedClauses], task: LogZTask) -> MethodOutcome:
    """Exact, in microseconds for small parts."""
    limits = task.policy.log_z
    solved, left, work = [], [], 0
    most_variables = limits.enumerate_variables
    tables, out = np.empty((2, 1 << (most_variables + 1) // 2)), np.empty(2)
    for part in parts:
        # The size is checked first: 2^n of a large part is beyond the range of a float.
        if part.n > most_variables or work + (part.n_clauses << part.n) > limits.enumerate_work:
            left.append(part)
            continue
        work += part.n_clauses << part.n
        mask, negative = np.empty((2, part.n_clauses), np.int64)
        every, place = np.arange(part.n_clauses), np.arange(part.n)
        local_lemma.component_masks(part.literals, part.offsets, every, place, mask, negative)
        local_lemma.enumerate_violations(mask, negative, part.n_clauses, part.log_p, tables, out)
        if out[0] == -np.inf:
            raise Unsatisfiable("enumeration found no solution")
        solved.append(LogProbability(float(out[0]), exact=True))
    reason = f"a component of {left[-1].n} variables is too large" if left else "done"
    return MethodOutcome(solved, left, reason)


def by_law(parts: list[WeightedClauses], task: LogZTask) -> MethodOutcome:
    """The exact law of the whole formula, which is kept with it and serves every theta."""
    rows, _ = theta_rows(task.formula, task.theta)
    try:
        answer = law(
            task.formula,
            evidence_of(task.formula, None, rows[0]),
            task.exact_budget(),
            task.policy,
            needs=task.needs,
        )
        if isinstance(answer, Reason):
            return MethodOutcome([], parts, str(answer))
        value = float(answer.log_z(np.where(np.isinf(rows), 0.0, rows))[0])
    except BudgetExceeded as error:
        return MethodOutcome([], parts, str(error))
    routes = Counter(_ROUTES.get(part.route, part.route) for part in answer.parts)
    solved = LogProbability(value, source=answer.why, exact=True, routes=routes)
    return MethodOutcome([solved], [], whole=True)


def by_counting(parts: list[WeightedClauses], task: LogZTask) -> MethodOutcome:
    """ganak. A missing package is an error: the caller asked for this method."""
    if lacking := counter.missing():
        raise NelsonError(lacking)
    whole, policy = merge(parts), task.policy
    patient = replace(policy.exact, counter_seconds=policy.log_z.seconds)
    ganak = counter.GanakCounter(whole.formula, task.budget, replace(policy, exact=patient))
    try:
        value = float(ganak.log_z(whole.theta[None])[0] - np.logaddexp(0, whole.theta).sum())
    except BudgetExceeded as error:
        size = f"{whole.n} variables, {whole.n_clauses} clauses"
        return MethodOutcome([], parts, f"{error} at {size}")
    return MethodOutcome([LogProbability(value, exact=True, parts=len(parts))], [], "done")


def by_circuit(parts: list[WeightedClauses], task: LogZTask) -> MethodOutcome:
    """A circuit of all parts together. A missing package is an error, as in `by_counting`."""
    whole = merge(parts)
    try:
        circuit = circuit_of(whole.formula, task.budget, task.policy.log_z)
    except BudgetExceeded as error:
        return MethodOutcome([], parts, str(error))
    value = float(circuit.log_z(whole.theta[None])[0] - np.logaddexp(0, whole.theta).sum())
    return MethodOutcome([LogProbability(value, exact=True, parts=len(parts))], [], "done")


def circuit_of(formula: Formula, budget: Budget, limits: LogZPolicy = DEFAULT.log_z) -> Compiled:
    """The circuit that a caller asked for. Raises NelsonError if D4 is not installed, and
    BudgetExceeded if it did not compile the formula within its limits.
    """
    circuit = compiled(formula, budget, effort=limits.seconds / SECONDS_PER_EFFORT)
    if circuit is None:
        if lacking := missing("d4"):
            raise NelsonError(lacking)
        raise BudgetExceeded(f"{formula!r} was not compiled to a circuit: {why_not(formula)}")
    return circuit
