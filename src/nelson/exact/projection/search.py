"""The law of projected solutions as the law of another formula.

    P(y) ~ exp(theta_S . y)    over the assignments y of S that some solution x of C extends

The marginal law of P_theta(x | C) on S is another one: it counts y once for each x that extends it.
Both are the same if each y has one extension. So `projected` looks for a formula with the projected
solutions of C in which S determines all other variables. In this order:

    determined   C itself, if all other variables are proved to be functions of S (Padoa's test)
    eliminated   C after resolution of the variables that are not; those that are stay
    circuit      a circuit over S alone (`circuits`)

Projected solutions of C given evidence are those of the conditioned formula.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nelson.budget import Budget
from nelson.exact.circuit.build import AUTO, BuildResult
from nelson.exact.circuit.decisions import DecisionCircuit
from nelson.exact.compiled import keep_circuits
from nelson.exact.projection.circuits import projected_circuit
from nelson.exact.projection.dependence import Determined, determined
from nelson.exact.projection.quantification import Remainder, by_cases, eliminated, joined
from nelson.exact.routes import CIRCUIT
from nelson.formula import Formula
from nelson.formula.flat import lists, owners, select
from nelson.formula.memo import Recent, Slot
from nelson.formula.propagate import Propagated
from nelson.formula.propagate import propagated as propagated_clauses
from nelson.io.progress import phase

_PROJECTED: Slot[Recent[tuple[tuple[int, ...], ...], Projected]] = Slot("projected solutions")
#: Projections kept with a formula.
_KEPT = 16


@dataclass(frozen=True)
class Projected:
    """Where the projected solutions of a formula can be drawn from.

    The variables of the formula as given have the same numbers in `formula`, auxiliary ones
    included; more may follow. `formula` is None if no route was found.
    """

    formula: Formula | None
    route: str  # "determined", "eliminated", CIRCUIT or ""
    why: str

    @property
    def in_circuit(self) -> bool:
        """Must samples be drawn from the circuit that is kept with `formula`? Its clauses alone
        have more solutions.
        """
        return self.route == CIRCUIT


def projected(
    formula: Formula,
    variables: Sequence[int],
    evidence: Sequence[int] = (),
    budget: Budget | None = None,
) -> Projected:
    """The projected solutions of a formula given evidence; variables are DIMACS numbers.

    Without a deadline limits are counted. Kept with the formula. Raises Unsatisfiable if that was
    proved.
    """
    budget = Budget() if budget is None else budget
    key = tuple(sorted(variables)), tuple(evidence)
    projections = formula.memo.recent(_PROJECTED, _KEPT)
    if (known := projections.get(key)) is None:
        known = _ProjectionSearch(formula, key[0], key[1], budget).result()
        if known.formula is not None or budget.counted:
            projections.put(key, known)
    return known


class _ProjectionSearch:
    def __init__(
        self,
        formula: Formula,
        variables: tuple[int, ...],
        evidence: tuple[int, ...],
        budget: Budget,
    ) -> None:
        self.formula, self.evidence, self.budget = formula, evidence, budget
        self.shown = np.zeros(formula.n_total, bool)
        self.shown[np.array(variables, int) - 1] = True

    def result(self) -> Projected:
        # The share of the caller's time that the test of determined variables may take.
        share = 0.3
        formula, shown = self.formula, self.shown
        defined = not formula.n_aux or bool(formula.constraints)
        if defined and shown[: formula.n_vars].all():
            return Projected(formula, "determined", "all variables are projected")
        rest = propagated_clauses(formula, self.evidence)
        used = _used(rest, len(shown))
        with phase("testing which variables the projected ones determine"):
            clauses = lists(rest.literals, rest.offsets)
            test = determined(clauses, len(shown), np.flatnonzero(shown), self.budget.share(share))
        hidden = used & ~shown
        hidden[test.proved] = False
        if not hidden.any():
            return self._determined(rest, used, test)
        with phase("eliminating variables"):
            done = eliminated((rest.literals, rest.offsets), len(shown), hidden, self.budget)
        done = done._replace(fixed=np.concatenate([rest.fixed, done.fixed]))
        return self._eliminated(done, test, int(hidden.sum())) or self._circuit(done)

    def _determined(self, rest: Propagated, used: np.ndarray, test: Determined) -> Projected:
        why = "all other variables are fixed"
        if number := len(test.proved):
            why = f"{_many(number)} a function of the projected ones (gates, "
            why += f"Padoa's test, {test.conflicts:,} conflicts)"
        free = ~used & ~self.shown
        free[np.abs(rest.fixed) - 1] = False
        if not free.any():
            return Projected(self.formula, "determined", why)
        why += f"; {_many(int(free.sum()))} in no clause"
        return Projected(self._closed(rest.fixed, rest.literals, rest.offsets), "eliminated", why)

    def _eliminated(self, done: Remainder, test: Determined, hidden: int) -> Projected | None:
        """None if resolution and cases do not take all variables."""
        cases = by_cases(done, len(self.shown))
        if cases is None:
            return None
        literals, offsets, new = cases
        resolved = hidden - len(done.left)
        words = [f"{_many(resolved, 'was', 'were')} eliminated by resolution"] if resolved else []
        if len(done.left):
            words.append(f"{_many(len(done.left), 'was', 'were')} eliminated by cases")
        if len(test.proved):
            words.append(
                f"{_many(len(test.proved))} a function of the projected ones (Padoa's test)"
            )
        formula = self._closed(done.fixed, literals, offsets, new)
        return Projected(formula, "eliminated", ", ".join(words))

    def _circuit(self, done: Remainder) -> Projected:
        hidden = np.flatnonzero(~self.shown) + 1
        closed = np.union1d(done.fixed[self.shown[np.abs(done.fixed) - 1]], -hidden)
        closed = self._with_evidence(closed.astype(np.int32))
        circuit, words = projected_circuit(
            done.literals, done.offsets, closed, self.shown, self.budget
        )
        if circuit is None:
            return Projected(None, "", words)
        only = np.bincount(
            owners(done.offsets)[~self.shown[np.abs(done.literals) - 1]],
            minlength=len(done.offsets) - 1,
        )
        clauses = select(done.literals, done.offsets, only == 0)
        formula = self._closed(closed, *clauses)
        _keep(formula, circuit)
        return Projected(formula, CIRCUIT, words)

    def _with_evidence(self, literals: np.ndarray) -> np.ndarray:
        """The literals, with the evidence in place of its negation."""
        given = np.array(self.evidence, np.int32)
        return np.union1d(literals[~np.isin(literals, -given)], given).astype(np.int32)

    def _closed(
        self, fixed: np.ndarray, literals: np.ndarray, offsets: np.ndarray, new: int = 0
    ) -> Formula:
        """Clauses and fixed literals as a formula in which every other variable is false, unless it
        is projected.
        """
        n = len(self.shown)
        known = np.zeros(n + new, bool)
        known[np.abs(literals) - 1] = True
        known[np.abs(fixed) - 1] = True
        known[:n] |= self.shown
        units = np.concatenate([fixed, -(np.flatnonzero(~known) + 1)]).astype(np.int32)
        all_units = units, np.arange(len(units) + 1, dtype=np.int64)
        return Formula.from_arrays(*joined(all_units, (literals, offsets)), n_vars=n + new)


def _used(rest: Propagated, n: int) -> np.ndarray:
    """(n,) bool: variables in some clause."""
    used = np.zeros(n, bool)
    used[np.abs(rest.literals) - 1] = True
    return used


def _many(number: int, singular: str = "is", plural: str = "are each") -> str:
    """ "1 variable is", "2 variables are each" """
    return f"{number:,} variable{f's {plural}' if number != 1 else f' {singular}'}"


def _keep(formula: Formula, circuit: DecisionCircuit) -> None:
    """Make `circuit` the circuit of the formula."""
    built = BuildResult(circuit, 0.0, cached=False)
    keep_circuits(formula, {AUTO: (built, (None, 1 << 62, np.inf))}, alone=True)
