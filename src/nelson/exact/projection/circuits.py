"""A circuit whose solutions are the projected solutions of a formula, each once.

Component by component, the first that works within its limits:

    listed     a CDCL solver enumerates the projected solutions: each one found is excluded by a
               clause over the projected variables
    compiled   D4 decides the projected variables before all others. Below them only the question is
               left whether a solution exists

The second is checked, not believed: the branches of a node must differ in a projected variable.
"""

from __future__ import annotations

import numpy as np

from nelson.budget import Budget
from nelson.errors import Unsatisfiable
from nelson.exact.circuit.attempts import EFFORT, effort_of, safety_seconds
from nelson.exact.circuit.build import compile_parts, missing
from nelson.exact.circuit.decisions import DecisionCircuit, NnfCircuit, decisions_of, joined
from nelson.exact.circuit.frontier import circuit_of_rows
from nelson.exact.compile_guess import estimate
from nelson.formula import Formula
from nelson.formula.components import Component, split
from nelson.formula.flat import lists
from nelson.io.progress import phase
from nelson.kernels.circuit import nnf

#: Projected solutions that are listed before D4 is tried, and after it has failed.
FEW, MANY = 1 << 10, 1 << 14
#: Most values in a list: solutions times projected variables.
MAX_CELLS = 1 << 22
#: Conflicts and propagations of the solver that lists the solutions of a component.
CONFLICTS, PROPAGATIONS = 100_000, 5_000_000


class NoCircuit(Exception):
    """No circuit of a component was found; the message says why."""


def projected_circuit(
    literals: np.ndarray,
    offsets: np.ndarray,
    fixed: np.ndarray,
    shown: np.ndarray,
    budget: Budget,
) -> tuple[DecisionCircuit | None, str]:
    """(circuit, how it was found), or (None, why there is none). Raises Unsatisfiable.

    shown: (n,) bool, the projected variables. fixed: literals that the circuit holds besides.
    """
    circuits, how = [], dict[str, int]()
    for part in split(literals, offsets, len(shown)):
        try:
            circuit, words = _component(part, shown[part.variables], budget)
        except NoCircuit as error:
            projected = int(shown[part.variables].sum())
            size = f"a component of {part.n_vars:,} variables, {projected:,} of them projected"
            return None, f"{size}: {error}"
        how[words] = how.get(words, 0) + 1
        circuits += [] if circuit is None else [circuit]
    words = "; ".join(f"{times} x {what}" if times > 1 else what for what, times in how.items())
    return joined(circuits, fixed, len(shown)), words


def _component(
    part: Component, shown: np.ndarray, budget: Budget
) -> tuple[DecisionCircuit | None, str]:
    """(circuit, how it was found); None: the component has no projected variable. Raises NoCircuit,
    or Unsatisfiable.
    """
    rows = listed(part, shown, FEW, budget)
    if rows is None and not shown.any():
        raise NoCircuit("a solver could not decide whether there are solutions")
    if rows is None:
        circuit, why = _compiled(part, shown, budget)
        if circuit is not None:
            return circuit, f"a projected d-DNNF of {circuit.decisions:,} decisions (D4)"
        if FEW * shown.sum() < MAX_CELLS:
            rows = listed(part, shown, MANY, budget)
        if rows is None:
            raise NoCircuit(f"{why}; more than {MANY:,} projected solutions, or hard to list")
    variables = part.variables[shown]
    circuit = circuit_of_rows(rows, variables) if len(variables) else None
    return circuit, f"all {len(rows):,} projected solutions were listed"


def listed(
    part: Component, shown: np.ndarray, most: int, budget: Budget | None = None
) -> np.ndarray | None:
    """All projected solutions, (m, shown) bool, sorted; None if there are more than `most`, or if
    they are hard to find. Raises Unsatisfiable.
    """
    from pysat.solvers import Solver

    variables = np.flatnonzero(shown) + 1
    most = min(most, MAX_CELLS // max(1, len(variables)))
    clauses = lists(part.literals, part.offsets)
    solutions: list[np.ndarray] = []
    with (
        phase("listing the projected solutions"),
        Solver(name="glucose4", bootstrap_with=clauses) as solver,
    ):
        while True:
            used = solver.accum_stats()
            late = budget is not None and budget.spent
            left = CONFLICTS - used["conflicts"], PROPAGATIONS - used["propagations"]
            if late or min(left) <= 0:
                return None
            solver.conf_budget(left[0])
            solver.prop_budget(left[1])
            answer = solver.solve_limited()
            if answer is None or (answer and len(solutions) == most):
                return None
            if not answer:
                break
            model = np.array(solver.get_model(), np.int64)[variables - 1]
            solutions.append(model > 0)
            if not len(variables):
                break
            solver.add_clause((-model).tolist())
    if not solutions:
        raise Unsatisfiable("a CDCL solver proved that the formula has no solution")
    rows = np.array(solutions)
    return rows[np.lexsort(rows.T[::-1])] if len(variables) else rows


def _compiled(
    part: Component, shown: np.ndarray, budget: Budget
) -> tuple[DecisionCircuit | None, str]:
    # The share of the time left that D4 has, if the caller set a limit. Else its effort is counted.
    share = 0.7
    if lacking := missing("d4"):
        return None, lacking
    guess = estimate(Formula.from_arrays(part.literals, part.offsets, n_vars=part.n_vars))
    if guess.hopeless:
        return None, guess.why
    clauses, counted = [(part.literals, part.offsets)], budget.counted
    seconds = safety_seconds(EFFORT) if counted else budget.share(share).left
    with phase("compiling a projected circuit with D4"):
        answers, ended = compile_parts(
            clauses,
            seconds,
            effort=effort_of(clauses, EFFORT) if counted else None,
            cpu=counted,
            shown=[np.flatnonzero(shown) + 1],
        )
    if not answers or isinstance(answers[0], str):
        return None, f"D4 {answers[0] if answers else ended}"
    projected = without_hidden(answers[0], shown)
    if projected is None:
        return None, "D4's branches do not differ in a projected variable"
    circuit = decisions_of(projected, part.variables)
    if circuit is None:
        raise Unsatisfiable("a solver proved that the formula has no solution: D4")
    return circuit, ""


def without_hidden(circuit: NnfCircuit, shown: np.ndarray) -> NnfCircuit | None:
    """The circuit over the shown variables alone, true where some values of the others make it
    true. None if a node has several branches that no shown variable tells apart.

    shown: (n,) bool. O(edges + literals).
    """
    circuit.check_variables(len(shown))
    keep = shown[np.abs(circuit.literals) - 1]
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(keep)])
    start = before[circuit.start]
    literals = circuit.literals[keep]
    kind, parent, child = circuit.kind.copy(), circuit.parent.tolist(), circuit.child.tolist()
    mentions = np.zeros(len(kind), bool)  # is a shown literal at or below the node
    possible = kind != nnf.FALSE
    possible[kind == nnf.OR] = False
    out: dict[int, list[int]] = {}
    for e, (a, b) in enumerate(zip(parent, child, strict=True)):  # children are complete
        if possible[b]:
            mentions[a] |= mentions[b] or start[e] < start[e + 1]
            out.setdefault(a, []).append(e)
        if kind[a] == nnf.OR:
            possible[a] |= possible[b]
        else:
            possible[a] &= possible[b]
    for a, edges in out.items():
        if kind[a] != nnf.OR or len(edges) < 2 or not mentions[a]:
            continue
        if len(edges) > 2:
            return None
        literals_1, literals_2 = (set(literals[start[e] : start[e + 1]].tolist()) for e in edges)
        if not any(-literal in literals_2 for literal in literals_1):
            return None
    kind[possible & ~mentions] = nnf.TRUE
    kind[~possible] = nnf.FALSE
    inner = (kind == nnf.AND) | (kind == nnf.OR)
    held = inner[circuit.parent]
    lengths = np.diff(start)[held]
    return NnfCircuit(
        kind,
        circuit.parent[held],
        circuit.child[held],
        np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]),
        literals[np.repeat(held, np.diff(start))],
    )
