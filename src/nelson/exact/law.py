"""The exact law of a formula: one object that counts, sums, draws and maximises; or why not.

    P_theta(x | C) = exp(sum_i theta_i x_i) C(x) / Z,      x in {0,1}^n

`law` alone decides how a formula is solved. In this order:

    enumerate   all structures of the formula, if they are few
    circuit     the circuit that is known already: the user asked for it, or a projection made it
    preprocess  units, equal literals, subsumption; then each independent component by itself:
      enumerate   all structures, if they are few
      inputs      all values of the inputs, if all other variables are functions of inputs that are
                  no more than the width of the formula
      circuit     a d-DNNF, unless compiling looks hopeless
      inputs      as above, with more inputs
      enumerate   all structures, up to a larger limit
      counter     ganak, which answers counts and log Z only

Counts of components multiply, log Z and modes add up, means and samples stand side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nelson.budget import Budget
from nelson.errors import BudgetExceeded, Unsatisfiable
from nelson.exact.circuit.build import AUTO
from nelson.exact.compile_guess import estimate
from nelson.exact.compiled import (
    Compiled,
    compiled,
    is_alone,
    kept_on_disk,
    known_circuits,
    not_worth_a_try,
    why_not,
)
from nelson.exact.counter import GanakCounter, missing
from nelson.exact.enumerated import Enumerated
from nelson.exact.listing import structures
from nelson.exact.mode import ModeSearch
from nelson.exact.reduction import Piece, Reduction, joined, reduction
from nelson.exact.routes import CIRCUIT, ENUMERATE, Reason
from nelson.exact.rows_by_inputs import input_count, rows_by_inputs
from nelson.formula import Formula
from nelson.formula.checks import evidence_literals
from nelson.formula.memo import Recent, Slot
from nelson.io.progress import phase
from nelson.policy import DEFAULT, Policy

#: What a law must answer. MOMENTS: everything. COUNT: `count` and `log_z`. MODE: `mode`.
MOMENTS, COUNT, MODE = "moments", "count", "mode"

#: (evidence, policy) -> the preprocessed formula, whose pieces keep their circuits.
_REDUCTIONS: Slot[Recent[Any, Reduction]] = Slot("preprocessed formulas")
#: (evidence, policy, needs) -> a law.
_LAWS: Slot[Recent[Any, Law]] = Slot("exact laws")
#: Laws and preprocessed formulas kept with a formula.
_KEPT = 16


@dataclass(frozen=True, eq=False)
class SolvedPart:
    """Some of the variables that stay after preprocessing, and their law."""

    variables: np.ndarray
    #: `Enumerated` and `Compiled` answer everything, `GanakCounter` only count and log_z,
    #: `ModeSearch` only mode.
    source: Any
    route: str  # ENUMERATE, "inputs", CIRCUIT, "counter" or "search"


@dataclass(frozen=True, eq=False)
class Law:
    """The law of a formula under evidence. theta is (b, n_vars) and may hold +-inf: more evidence.
    A variable with infinite log-odds weighs 1, so that Z stays finite.

    All methods raise Unsatisfiable if no structure agrees with theta and evidence.
    """

    formula: Formula
    reduction: Reduction
    parts: tuple[SolvedPart, ...]
    #: Literals that hold besides those that `reduction` knows.
    evidence: tuple[int, ...] = ()
    exact: bool = True

    # --- what it is ------------------------------------------------------------------------------

    @property
    def routes(self) -> tuple[str, ...]:
        """The routes of the parts, each once."""
        return tuple(dict.fromkeys(part.route for part in self.parts))

    @property
    def method(self) -> str:
        """The sampler that draws in the same way: a circuit if a part needs one."""
        return CIRCUIT if CIRCUIT in self.routes else ENUMERATE

    @property
    def why(self) -> str:
        """In words: "exact: a sum over all 12 structures"."""
        reasons = [part.source.why.removeprefix("exact: ") for part in self.parts]
        if len(reasons) > 3:
            reasons = [*reasons[-2:], f"{len(reasons) - 2} more components"]
        return "exact: " + ("; ".join(reasons) or "no clause is left")

    @property
    def cost(self) -> int:
        """Operations for one row of theta: structures x variables, or edges of the circuit."""
        return sum(_cost(part.source) for part in self.parts) + self.reduction.n

    def given(self, evidence: Sequence[int]) -> Law:
        """The law under more evidence."""
        literals = evidence_literals(evidence, self.formula.n_vars).tolist()
        return replace(self, evidence=(*self.evidence, *literals)) if literals else self

    # --- what it answers -------------------------------------------------------------------------

    def count(self, evidence: Sequence[int] = ()) -> int:
        """The number of solutions, auxiliary variables included; 0 if there are none."""
        more = evidence_literals(evidence, self.formula.n_vars).tolist()
        try:
            given = {self.reduction.literal(a) for a in (*self.evidence, *more)} - {0}
        except Unsatisfiable:
            return 0
        if any(-literal in given for literal in given):
            return 0
        total = 1 << sum(v + 1 not in given and -v - 1 not in given for v in self._free)
        for part in self.parts:
            total *= part.source.count(_within(part.variables, given))
        return total

    def log_z(self, theta: np.ndarray) -> np.ndarray:
        """(b, n) -> (b,)."""
        rows, values = self._weights(theta)
        free = rows[:, self.reduction.free]
        values += np.where(np.isinf(free), 0.0, np.logaddexp(0.0, free)).sum(axis=1)
        for part in self.parts:
            values += part.source.log_z(rows[:, part.variables])
        return values

    def mean(self, theta: np.ndarray) -> np.ndarray:
        """(b, n) -> (b, n): P(x_i = 1)."""
        rows, _ = self._weights(theta)
        y = np.zeros(rows.shape)
        y[:, self.reduction.free] = _logistic(rows[:, self.reduction.free])
        for part in self.parts:
            y[:, part.variables] = part.source.mean(rows[:, part.variables])
        y[rows == np.inf], y[rows == -np.inf] = 1.0, 0.0  # evidence, without rounding
        return self.reduction.means(y)[:, : theta.shape[1]]

    def pull(self, theta: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Cov(x) v for each row: (b, n), (b, n) -> (b, n)."""
        rows, _ = self._weights(theta)
        direction = self.reduction.pulled(self._padded(v))
        y = np.zeros(rows.shape)
        p = _logistic(rows[:, self.reduction.free])
        y[:, self.reduction.free] = p * (1 - p) * direction[:, self.reduction.free]
        for part in self.parts:
            variables = part.variables
            y[:, variables] = part.source.pull(rows[:, variables], direction[:, variables])
        return self.reduction.pushed(y)[:, : theta.shape[1]]

    def covariance(self, theta: np.ndarray) -> np.ndarray:
        """(b, n) -> (b, n, n)."""
        rows, _ = self._weights(theta)
        n = theta.shape[1]
        y = np.zeros((len(rows), self.reduction.n, self.reduction.n))
        p = _logistic(rows[:, self.reduction.free])
        y[:, self.reduction.free, self.reduction.free] = p * (1 - p)
        for part in self.parts:
            variables = part.variables
            y[np.ix_(np.arange(len(y)), variables, variables)] = part.source.covariance(
                rows[:, variables]
            )
        y = self.reduction.pushed(self.reduction.pushed(y, 1), 2)
        return y[:, :n, :n]

    def draw(self, theta: np.ndarray, count: int, seed: int) -> np.ndarray:
        """(b, count, n) bool, independent. The samples are a function of the seed."""
        rows, _ = self._weights(theta)
        y = np.zeros((len(rows), count, self.reduction.n), bool)
        random = np.random.default_rng([seed, 0])
        p = _logistic(rows[:, None, self.reduction.free])
        y[..., self.reduction.free] = random.random((*y.shape[:2], p.shape[2])) < p
        for k, part in enumerate(self.parts):
            part_seed = seed if not k else int(np.random.default_rng([seed, k]).integers(1 << 62))
            y[..., part.variables] = part.source.draw(rows[:, part.variables], count, part_seed)
        return self.reduction.values(y)[..., : theta.shape[1]]

    def mode(self, theta: np.ndarray) -> np.ndarray:
        """(n,) -> (n,) bool: a structure of greatest weight. Nothing is rounded."""
        rows, _ = self._weights(theta[None])
        y = rows[0] > 0  # also where a variable is free
        for part in self.parts:
            y[part.variables] = part.source.mode(rows[0, part.variables])
        return self.reduction.values(y)[: len(theta)]

    def rows(self, most: int, columns: np.ndarray | None = None) -> np.ndarray | None:
        """All solutions (m, columns) bool, in no particular order; None if more than `most`.

        columns: variables from 0 that determine all others; None: all variables.
        """
        columns = np.arange(self.reduction.n) if columns is None else columns
        if (total := self.count()) > most:
            return None
        if not total:
            return np.zeros((0, len(columns)), bool)
        given = {self.reduction.literal(a) for a in self.evidence} - {0}
        wanted = np.zeros(self.reduction.n, bool)
        wanted[self.reduction.root[columns]] = True
        y = np.zeros((1, int(wanted.sum())), bool)
        place = np.cumsum(wanted) - 1
        tables = [(np.array([v]), _coin(v, given)) for v in self._free]
        for part in self.parts:
            places = np.flatnonzero(wanted[part.variables])
            states = part.source.rows(_within(part.variables, given), places)
            tables.append((part.variables[places], states))
        for variables, states in tables:
            y = np.repeat(y, len(states), axis=0)
            y[:, place[variables]] = np.tile(states, (len(y) // len(states), 1))
        sign, offset = self.reduction.sign[columns], self.reduction.offset[columns]
        x = y[:, place[self.reduction.root[columns]]]
        return np.where(sign == 0, offset > 0, x ^ (sign < 0))

    # --- theta of the parts ----------------------------------------------------------------------

    @property
    def _free(self) -> list[int]:
        return self.reduction.free.tolist()

    def _padded(self, rows: np.ndarray) -> np.ndarray:
        """With 0 for auxiliary variables."""
        out = np.zeros((len(rows), self.reduction.n))
        out[:, : rows.shape[1]] = rows
        return out

    def _weights(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(log-odds of the variables that stay, what log Z has besides): (b, n_total), (b,)."""
        rows, constant = self._padded(theta), np.zeros(len(theta))
        if self.evidence:
            given = np.array(self.evidence, np.int64)
            at, value = np.abs(given) - 1, np.where(given > 0, np.inf, -np.inf)
            given_theta = rows[:, at]
            if (np.isinf(given_theta) & (given_theta != value)).any() or len(
                set(self.evidence)
            ) > len(set(at)):
                raise Unsatisfiable("the evidence contradicts itself or the infinite log-odds")
            true = np.unique(at[given > 0])
            constant += np.where(np.isinf(rows[:, true]), 0.0, rows[:, true]).sum(axis=1)
            rows[:, at] = value
        y, more = self.reduction.weights(rows)
        return y, constant + more


def _cost(source: Any) -> int:
    if isinstance(source, Enumerated):
        return int(source.states.size)
    return int(getattr(source, "edges", 0))


def _within(variables: np.ndarray, given: set[int]) -> list[int]:
    """The given literals of these variables, in the numbers of a part."""
    if not given:
        return []
    wanted = {abs(literal) - 1: literal > 0 for literal in given}
    places = np.flatnonzero(np.isin(variables, list(wanted)))
    return [int(k + 1 if wanted[int(variables[k])] else -k - 1) for k in places]


def _coin(v: int, given: set[int]) -> np.ndarray:
    values = [value for value in (False, True) if (-v - 1 if value else v + 1) not in given]
    return np.array(values, bool)[:, None]


def _logistic(theta: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return 1.0 / (1.0 + np.exp(-theta))


# --- which route ----------------------------------------------------------------------------------


def law(
    formula: Formula,
    evidence: Sequence[int] = (),
    budget: Budget | None = None,
    policy: Policy = DEFAULT,
    *,
    needs: str = MOMENTS,
    rows: int = 1,
) -> Law | Reason:
    """The law of a formula given literals, or why there is none within the budget.

    needs   MOMENTS, COUNT or MODE: what the law must answer
    rows    rows of theta that will be asked for: a circuit is better for many

    Kept with the formula. A law of the formula without evidence serves all evidence, and is tried
    first. Raises Unsatisfiable if that was proved.
    """
    budget = Budget() if budget is None else budget
    given = tuple(evidence_literals(evidence, formula.n_vars).tolist())
    if not given:
        return _RouteSearch(formula, (), budget, policy, needs, rows).result()
    share = budget.share(policy.exact.unconditioned_share)
    needed = MOMENTS if needs == COUNT else needs  # a counter is asked about the evidence alone
    plain = _RouteSearch(formula, (), share, policy, needed, rows).result()
    if isinstance(plain, Law):
        return plain.given(given)
    return _RouteSearch(formula, given, budget, policy, needs, rows).result()


def preprocessed(
    formula: Formula, evidence: tuple[int, ...], budget: Budget, policy: Policy
) -> Reduction:
    """The formula as components, given literals. Kept with the formula, and so are the circuits of
    the components. Raises Unsatisfiable if that was proved.
    """
    known = formula.memo.recent(_REDUCTIONS, _KEPT)
    key = evidence, policy
    if (reduced := known.get(key)) is None:
        reduced = known.put(key, _same(reduction(formula, evidence, budget, policy), formula))
    return reduced


class _RouteSearch:
    def __init__(
        self,
        formula: Formula,
        evidence: tuple[int, ...],
        budget: Budget,
        policy: Policy,
        needs: str,
        rows: int,
    ) -> None:
        self.formula, self.evidence, self.budget, self.policy = formula, evidence, budget, policy
        self.needs, self.rows, self.limits = needs, rows, policy.exact
        self.passed: list[str] = []  # why routes were not taken

    def result(self) -> Law | Reason:
        laws = self.formula.memo.recent(_LAWS, _KEPT)
        key = self.evidence, self.policy, self.needs
        law_before = laws.get(key) or laws.get((self.evidence, self.policy, MOMENTS))
        if (
            law_before is not None
            and not self._better_by_circuit(law_before)
            and not self._is_older(law_before)
        ):
            return law_before
        if not self.evidence and (law := self._whole()) is not None:
            return laws.put(key, law)
        answer = self._by_parts()
        if isinstance(answer, Law) and "counter" not in answer.routes and self.needs != MODE:
            laws.put(key, answer)  # a counter and a search end with the budget
        return answer

    def _is_older(self, law: Law) -> bool:
        """Has the formula got a circuit of its own since this law was made from its components?

        Their sums differ in the last digits. What follows a circuit must not depend on which
        questions were asked before it was there.
        """
        in_parts = any(len(part.variables) < self.formula.n_total for part in law.parts)
        if self.evidence or not in_parts or CIRCUIT not in law.routes:
            return False
        return _known_circuit(self.formula) is not None

    def _better_by_circuit(self, law: Law) -> bool:
        """Would sums over structures take longer than a compiler, for this many rows?"""
        listed = sum(p.source.states.size for p in law.parts if isinstance(p.source, Enumerated))
        return listed * self.rows > self.limits.quick_cells and self.rows > 1

    # --- the formula as a whole ------------------------------------------------------------------

    def _whole(self) -> Law | None:
        """By a circuit that is known, or by few structures."""
        whole = Reduction.whole(self.formula)
        rows = None if is_alone(self.formula) else self._few(whole.pieces[0].formula)
        if rows is not None:
            part = SolvedPart(whole.root, Enumerated(rows), ENUMERATE)
            return self._law(whole, [self._or_circuit(whole.pieces[0], part)])
        if (circuit := _known_circuit(self.formula)) is not None:
            return self._law(whole, [SolvedPart(whole.root, circuit, CIRCUIT)])
        return None

    def _few(self, formula: Formula) -> np.ndarray | None:
        """All structures if they are few, else None."""
        limit = min(self.limits.structures, self.limits.few_cells // max(1, formula.n_total))
        return self._structures(formula, limit)

    def _structures(self, formula: Formula, limit: int) -> np.ndarray | None:
        if limit < 1:
            return None
        try:
            with phase("enumerating solutions"):
                return structures(formula, limit, self.budget)
        except BudgetExceeded:
            return None

    def _law(self, whole: Reduction, parts: list[SolvedPart]) -> Law:
        return Law(self.formula, whole, tuple(parts))

    # --- its components --------------------------------------------------------------------------

    def _by_parts(self) -> Law | Reason:
        reduced = preprocessed(self.formula, self.evidence, self.budget, self.policy)
        parts: list[SolvedPart] = []
        left = list(reduced.pieces)
        steps: list[Callable[[list[Piece], list[SolvedPart]], list[Piece]]]
        steps = [self._enumerate, self._few_inputs]
        if self.needs == MODE:
            steps += [self._inputs, self._search]
        else:
            steps += [self._compile, self._inputs, self._enumerate_more]
            if self.needs == COUNT:
                steps += [self._count]
        for step in steps:
            if left:
                left = step(left, parts)
        if not left:
            return self._law(reduced, parts)
        largest = max(left, key=lambda piece: piece.formula.n_total).formula
        size = f"a component of {largest.n_total:,} variables, {largest.n_clauses:,} clauses"
        return Reason(f"{size}: {'; '.join(dict.fromkeys(self.passed))}")

    def _enumerate(self, pieces: list[Piece], parts: list[SolvedPart]) -> list[Piece]:
        left = self._listed(pieces, parts, ENUMERATE, self._few, or_circuit=True)
        if left:
            self.passed.append("too many structures to enumerate")
        return left

    def _listed(
        self,
        pieces: list[Piece],
        parts: list[SolvedPart],
        route: str,
        rows_of: Callable[[Formula], np.ndarray | Reason | None],
        or_circuit: bool = False,
    ) -> list[Piece]:
        """Solve the pieces whose structures `rows_of` lists; -> the others."""
        left = []
        for piece in pieces:
            rows = rows_of(piece.formula)
            if isinstance(rows, np.ndarray):
                part = SolvedPart(piece.variables, Enumerated(rows), route)
                parts.append(self._or_circuit(piece, part) if or_circuit else part)
            else:
                left.append(piece)
                self.passed += [] if rows is None else [rows]
        return left

    def _or_circuit(self, piece: Piece, part: SolvedPart) -> SolvedPart:
        """The circuit instead of a list, if there are many rows of theta and it is smaller."""
        size = part.source.states.size
        if size * self.rows <= self.limits.quick_cells or not_worth_a_try(piece.formula):
            return part
        circuit = self._compiled(piece.formula)
        if circuit is None or size <= circuit.edges:
            return part
        return SolvedPart(piece.variables, circuit, CIRCUIT)

    def _few_inputs(self, pieces: list[Piece], parts: list[SolvedPart]) -> list[Piece]:
        """Pieces whose inputs have no more values than a circuit may have nodes."""
        few: list[Piece] = []
        left: list[Piece] = []
        for piece in pieces:
            inputs = input_count(piece.formula, self.policy)
            is_few = (
                not isinstance(inputs, Reason)
                and inputs <= estimate(piece.formula).width
                and len(piece.formula.literals) << inputs <= self.limits.first_input_work
            )
            (few if is_few else left).append(piece)
        return left + self._inputs(few, parts)

    def _inputs(self, pieces: list[Piece], parts: list[SolvedPart]) -> list[Piece]:
        def rows_of(formula: Formula) -> np.ndarray | Reason:
            return rows_by_inputs(formula, self.budget, self.policy)

        return self._listed(pieces, parts, "inputs", rows_of)

    def _compile(self, pieces: list[Piece], parts: list[SolvedPart]) -> list[Piece]:
        promising, left = [], []
        for piece in pieces:
            if why := not_worth_a_try(piece.formula):
                left.append(piece)
                self.passed.append(why)
            else:
                promising.append(piece)
        if promising:
            whole = joined(promising)
            other = any(self._has_inputs(piece) for piece in promising)
            circuit = self._compiled(whole.formula, last=not other)
            if circuit is None:
                self.passed.append(why_not(whole.formula))
                return [*left, *promising]
            parts.append(SolvedPart(whole.variables, circuit, CIRCUIT))
        return left

    def _has_inputs(self, piece: Piece) -> bool:
        """Are there few enough inputs for another route than a circuit?"""
        return not isinstance(input_count(piece.formula, self.policy), Reason)

    def _compiled(self, formula: Formula, last: bool = True) -> Compiled | None:
        """last: no route that takes long comes after this one, unless it is a counter."""
        share = 1.0 if last and self.needs != COUNT else self.limits.compiler_share
        return compiled(formula, self.budget.share(share), effort=self.limits.effort)

    def _enumerate_more(self, pieces: list[Piece], parts: list[SolvedPart]) -> list[Piece]:
        def rows_of(formula: Formula) -> np.ndarray | None:
            limits = self.limits
            most = min(limits.structures, limits.row_cells // formula.n_total)
            return self._structures(formula, most)

        return self._listed(pieces, parts, ENUMERATE, rows_of)

    def _count(self, pieces: list[Piece], parts: list[SolvedPart]) -> list[Piece]:
        if lacking := missing():
            self.passed.append(lacking)
            return pieces
        whole = joined(pieces)
        counter = GanakCounter(whole.formula, self.budget, self.policy)
        parts.append(SolvedPart(whole.variables, counter, "counter"))
        return []

    def _search(self, pieces: list[Piece], parts: list[SolvedPart]) -> list[Piece]:
        parts += [
            SolvedPart(piece.variables, ModeSearch(piece.formula, self.budget), "search")
            for piece in pieces
        ]
        return []


def _known_circuit(formula: Formula) -> Compiled | None:
    """The circuit that is kept on disk or with the formula, if any."""
    if (circuit := kept_on_disk(formula)) is not None:
        return circuit
    built = known_circuits(formula).get(AUTO)
    if built is None or built[0].circuit is None:
        return None
    return Compiled(formula, built[0].circuit, built[0])


def _same(reduced: Reduction, formula: Formula) -> Reduction:
    """With the formula itself as the only piece if preprocessing changed nothing: its circuit and
    its structures are shared with other callers.
    """
    pieces = reduced.pieces
    if len(pieces) != 1 or len(pieces[0].variables) != formula.n_total or formula.n_aux:
        return reduced
    if not np.array_equal(pieces[0].formula.literals, formula.literals):
        return reduced
    return replace(reduced, pieces=[Piece(pieces[0].variables, formula)])
