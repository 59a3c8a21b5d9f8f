"""Is a script satisfiable? A CDCL solver that keeps what it learned from question to question.

Each asserted rule is a literal that is assumed, so `pop` costs nothing: the literal is no longer
assumed. The clauses that define gates are handed over once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from nelson.space.clauses.encode import Encoder
from nelson.space.clauses.gates import TRUE
from nelson.space.language.expressions import Rule

#: Named by PySAT.
SOLVER = "cadical195"


class IncrementalSolver:
    """Truth of rules over the fields of an encoder."""

    def __init__(self, encoder: Encoder) -> None:
        from pysat.solvers import Solver

        self._encoder = encoder
        self._solver = Solver(SOLVER)
        self._number: dict[int, int] = {}  # variables of the encoder -> of the solver
        self._stated = 0
        self._values: dict[int, bool] | None = None  # of the last solution

    def close(self) -> None:
        self._solver.delete()

    def literal(self, rule: Rule) -> int:
        self._encoder.prepare(rule)
        return self._encoder.literal(rule)

    def solve(self, literals: Iterable[int]) -> tuple[bool, list[int]]:
        """(can all literals be true, if not: some that cannot)."""
        wanted = list(dict.fromkeys(literals))
        if -TRUE in wanted:
            return False, [-TRUE]
        assumed = {self._handed(x): x for x in wanted if x != TRUE}
        gates = self._encoder.gates
        for clause in gates.clauses[self._stated :]:
            self._solver.add_clause([self._handed(x) for x in clause])
        self._stated = len(gates.clauses)
        if self._solver.solve(assumptions=list(assumed)):
            model: list[int] = self._solver.get_model() or []
            self._values = {abs(x): x > 0 for x in model}
            return True, []
        return False, [assumed[x] for x in self._solver.get_core() or ()]

    def prefer(self, coin: Callable[[], bool]) -> None:
        """Try these values of all variables first."""
        self._solver.set_phases([v if coin() else -v for v in self._number.values()])

    def value(self, variable: int) -> bool:
        """The value of a variable of a field in the last solution."""
        assert self._values is not None
        return self._values.get(self._number.get(variable, 0), False)

    def _handed(self, literal: int) -> int:
        """The literal in the solver's numbers, once all clauses that define its gate are there."""
        gates, numbers = self._encoder.gates, self._number
        definitions: list[list[int]] = []
        stack = [abs(literal)]
        while stack:
            v = stack.pop()
            if v not in numbers:
                numbers[v] = len(numbers) + 1
                clauses = gates.defined.get(v, ())
                definitions += clauses
                stack += [abs(x) for clause in clauses for x in clause]
        for clause in definitions:
            self._solver.add_clause([numbers[x] if x > 0 else -numbers[-x] for x in clause])
        return numbers[literal] if literal > 0 else -numbers[-literal]
