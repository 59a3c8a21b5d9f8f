"""How many solutions a formula has, as an exact integer of any size.

    count = sum over x of C(x) E(x),        E(x) = 1 if all literals of the evidence hold

By enumeration if there are few solutions, else by a pass over a circuit, else by ganak, a
model counter, in a child process under limits. Evidence needs no new circuit.

Auxiliary variables are variables like all others here: a structure counts once for each of its
completions. Those that an encoder introduced have exactly one.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from nelson.errors import BudgetExceeded, Unsatisfiable
from nelson.exact.circuit import solutions as circuits
from nelson.exact.circuit.build import not_possible
from nelson.exact.compile_guess import estimate
from nelson.exact.compiled import Compiled, compiled, known_circuits, not_worth_a_try, why_not
from nelson.exact.listing import MAX_STRUCTURES, structures
from nelson.exact.projection import projected
from nelson.formula import Formula
from nelson.formula.checks import duration, evidence_literals
from nelson.formula.propagate import propagated
from nelson.io.progress import phase
from nelson.process.child import MEMORY, run_child

#: The time limit if the caller sets none.
SECONDS = 60.0
#: The compiler's share of the time limit; the rest is for ganak.
_COMPILER_SHARE = 0.5
#: Enumeration is tried for formulas of at most this many variables.
_TRY_TO_ENUMERATE = 64
#: Most structures of such a trial: a circuit is faster for more.
_TRIED_STRUCTURES = 1 << 14
#: The module of ganak, and the script that calls it.
GANAK = "pyganak"
GANAK_SCRIPT = Path(__file__).with_name("ganak_child.py")


@dataclass(frozen=True)
class Solutions:
    """All solutions of a formula under evidence."""

    count: int
    #: Variables from 0 that determine all others -> all solutions on them, (count, columns) bool.
    rows: Callable[[np.ndarray], np.ndarray]


def solutions(formula: Formula, evidence: Sequence[int] = (), seconds: float = SECONDS) -> int:
    """The number of solutions in which all literals of the evidence hold; 0 if there are none.

    seconds: for compiling and counting, together. Raises BudgetExceeded if they were not enough.
    """
    duration(seconds)
    given = tuple(evidence_literals(evidence, formula.n_vars).tolist())
    until = time.monotonic() + seconds
    try:
        found = all_solutions(formula, given, _COMPILER_SHARE * seconds)
        return _by_ganak(formula, given, until) if found is None else found.count
    except Unsatisfiable:
        return 0


def projected_solutions(
    formula: Formula,
    variables: Sequence[int],
    evidence: Sequence[int] = (),
    seconds: float = SECONDS,
) -> int:
    """The number of assignments of these variables that some solution extends, given the evidence.

    Raises BudgetExceeded if the seconds were not enough.
    """
    duration(seconds)
    given = tuple(evidence_literals(evidence, formula.n_vars).tolist())
    until = time.monotonic() + seconds
    try:
        found = projected(formula, variables, given, time.monotonic() + _COMPILER_SHARE * seconds)
    except Unsatisfiable:
        return 0
    if found.formula is None:
        raise BudgetExceeded(
            f"the projected solutions of {formula!r} were not counted: {found.why}; "
            "give it more seconds"
        )
    return solutions(found.formula, given, max(0.0, until - time.monotonic()))


def all_solutions(
    formula: Formula, evidence: Sequence[int] = (), seconds: float = SECONDS
) -> Solutions | None:
    """All solutions, by enumeration or by a circuit; None if the formula is too large for both.

    Raises Unsatisfiable if that was proved.
    """
    given = np.array(evidence, np.int64)
    propagated(formula, evidence)  # raises if the evidence contradicts the formula
    if not known_circuits(formula) and (few := _few(formula)) is not None:
        few = few[(few[:, np.abs(given) - 1] == (given > 0)).all(axis=1)]
        return Solutions(len(few), lambda columns: few[:, columns])
    source = _compiled(formula, seconds * (0.5 if evidence else 1.0))
    if source is None and evidence:
        source = _compiled(formula.given(evidence), seconds * 0.5)
    if source is None:
        return None
    rows = partial(circuits.rows, source.circuit, evidence=evidence)
    return Solutions(circuits.count(source.circuit, evidence), rows)


def _compiled(formula: Formula, seconds: float) -> Compiled | None:
    """The circuit of a formula, unless compiling is hopeless."""
    if not known_circuits(formula) and not_worth_a_try(formula):
        return None
    return compiled(formula, seconds)


def _few(formula: Formula) -> np.ndarray | None:
    """All structures, (m, n_vars) bool, if there are few of them; else None."""
    limit = MAX_STRUCTURES
    if not_possible(formula) is None:
        if formula.n_total > _TRY_TO_ENUMERATE:
            return None
        limit = _TRIED_STRUCTURES
    with phase("enumerating solutions"):
        return structures(formula, limit)


def _by_ganak(formula: Formula, given: tuple[int, ...], until: float) -> int:
    """The count of ganak. Raises Unsatisfiable, or BudgetExceeded."""
    reason = why_not(formula) or str(estimate(formula))
    advice = "give it more seconds"
    if importlib.util.find_spec(GANAK) is None:
        advice = 'or install ganak: pip install "nelson-mrf[samplers]"'
    else:
        task = {"n": formula.n_total, "clauses": [*formula.clauses(), *([a] for a in given)]}
        with phase("ganak counts the solutions"):
            answers, ended = run_child(GANAK_SCRIPT, [task], until - time.monotonic(), MEMORY)
        answer = answers[0] if answers else {"error": ended}
        if answer.get("unsatisfiable"):
            raise Unsatisfiable("a CDCL solver proved that the formula has no solution")
        if "count" in answer:
            return int(answer["count"], 16)
        reason += f"; ganak: {answer['error']}"
    raise BudgetExceeded(f"the solutions of {formula!r} were not counted: {reason}; {advice}")
