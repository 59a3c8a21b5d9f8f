"""Sweeps over units: groups of literals of which at most one is true, and lone variables.

A one-hot group cannot move by single flips. A unit sweep redraws the value of each group at once,
given all else, among the values that keep every clause satisfied (`kernels/cpu/units.py`).
Variables outside of groups move alone, as in single sweeps. P is stationary. With terms over
several variables the moves know them: P(x) ~ exp(theta . x + phi(x)) C(x), see `terms.py`.

With terms, theta and coefficients become multiples of a power of two, which is as small as 32-bit
sums allow, for each context alone: `Units.rounding` says how much that may change the weight of a
state.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from nelson.chains.moves.protocol import InPlaceMoves, in_threads
from nelson.chains.problem import MAX_ROUNDING, Problem, beyond_resolution
from nelson.chains.terms import Terms, checked_coefficients
from nelson.errors import FormulaError
from nelson.formula.flat import lengths_to_offsets, owners, take
from nelson.formula.groups import groups_of
from nelson.formula.memo import Recent, Slot
from nelson.kernels.core import rng
from nelson.kernels.cpu import unit_program as kernel
from nelson.kernels.cpu.units import sweep

if TYPE_CHECKING:
    from nelson.chains.request import Request

#: Most literals of a group; the others of a larger group move alone.
_LARGEST = 4096
#: Most pairs of a clause and a pattern that it spoils besides pattern 0.
_MOST_ALSO = 1 << 25
#: Sums of theta and coefficients stay below 2^30 steps; a step is 2^-40 or more.
_SUM_BITS, _FINEST = 30, 40

_PLANS: Slot[Recent[tuple[Any, ...], Units | None]] = Slot("unit sweeps")


@dataclass(frozen=True, eq=False)
class Units(InPlaceMoves):
    """The unit sweeps of one problem."""

    n: int
    program: kernel.UnitProgram
    groups: int  # units of two literals or more
    varying: np.ndarray  # (terms,) bool: terms that are not always 0
    term: np.ndarray  # (inputs,) int64: the varying term of each input of the program
    local: np.ndarray  # (n,) bool: variables whose unit has terms
    coefficients: np.ndarray | None = None  # (terms,) or (contexts, terms)

    #: Sweeps of fields could be tried for longer, but chains that forget that slowly may also leave
    #: rare starts that slowly: on a configuration of 250 symbols correlations fell below 0.1 within
    #: 512 sweeps, but 3 of 20,000 chains still had values of probability 1e-8 after 1,536.
    lags: ClassVar[tuple[int, ...]] = (1, 2, 4, 8, 16, 32, 64, 128)

    def weighted(self, coefficients: Any) -> Units:
        """The same moves with these coefficients of the terms, (terms,) or (contexts, terms)."""
        checked = checked_coefficients(coefficients, len(self.varying))
        return replace(self, coefficients=checked)

    @property
    def grouped(self) -> int:
        """Variables in units of two literals or more."""
        sizes = np.diff(self.program.unit_at)
        return int(sizes[sizes > 1].sum())

    @property
    def work(self) -> int:
        """What a sweep costs for each lane, in the steps of `Joint.work`."""
        p = self.program
        looked_at = len(p.near) + int(np.diff(p.clause_at)[p.visit].sum())
        with_terms = int((p.kind == kernel.TERMS).sum())
        return 1 + looked_at // 6 + p.n_patterns + 4 * with_terms + p.n_inputs // 4

    @property
    def held(self) -> float:
        """All but one unit."""
        return 1.0

    @property
    def info(self) -> dict[str, object]:
        return {"moves": "fields", "fields": self.groups}

    def beyond_resolution(self, theta: np.ndarray) -> str:
        """As `Moves.beyond_resolution`."""
        if float(self.rounding(theta).max()) > MAX_ROUNDING:
            return "weights are so large that rounding to 32 bits changes the distribution"
        return beyond_resolution(_padded(theta, self.n)[:, ~self.local])

    def rounding(self, theta: np.ndarray) -> np.ndarray:
        """(contexts,): nats by which rounding may change the weight of a state."""
        return self._steps(theta) / 2 * (int(self.local.sum()) + int(self.varying.sum()))

    def _steps(self, theta: np.ndarray) -> np.ndarray:
        """(contexts,): the step of which theta and coefficients become multiples."""
        if not self.local.any():
            return np.full(len(theta), 2.0**-_FINEST)
        most = np.abs(_padded(theta, self.n)) * self.local
        inner = np.abs(self._rows(len(theta)))[:, self.term]
        variable = owners(self.program.input_at)
        for k in range(len(theta)):
            most[k] += np.bincount(variable, inner[k], minlength=self.n)
        bits = np.ceil(np.log2(np.maximum(most.max(axis=1), 1e-300))) - _SUM_BITS
        return 2.0 ** np.maximum(bits, -_FINEST)

    def _rows(self, contexts: int) -> np.ndarray:
        """The coefficients of the varying terms, (contexts, terms)."""
        if self.coefficients is None:
            return np.zeros((contexts, int(self.varying.sum())))
        rows = np.atleast_2d(self.coefficients)[:, self.varying]
        return np.broadcast_to(rows, (contexts, rows.shape[1]))

    def weights(self, problem: Problem, theta: np.ndarray) -> kernel.UnitWeights:
        """For theta (contexts, n_vars)."""
        p, whole = self.program, _padded(theta, self.n)
        step = self._steps(theta)
        return kernel.UnitWeights(
            threshold=problem.thresholds(theta).reshape(-1),
            pattern=_pattern_weights(p, whole).reshape(-1),
            theta=_multiples(whole * self.local, step).reshape(-1),
            coefficient=_multiples(self._rows(len(theta)), step)[:, self.term].reshape(-1),
            step=step.astype(np.float32),
        )

    def move(
        self, problem: Problem, request: Request, states: np.ndarray, done: int, first_word: int
    ) -> bool:
        """As `InPlaceMoves.move`."""
        contexts, words, _ = states.shape
        task = kernel.UnitTask(
            words=states.reshape(-1),
            n_words=words,
            context=np.asarray(request.contexts, np.int64),
            first_word=first_word,
            seed=rng.spread_seed(request.seed),
            done=done,
            sweeps=request.sweeps,
        )
        weights = self.weights(problem, request.theta)

        def work(space: Any, stop: np.ndarray, tiles: tuple[int, int]) -> None:
            sweep(self.program, weights, task, space, stop, tiles)

        return in_threads(
            work,
            kernel.tiles(task),
            lambda threads: kernel.space(self.program, words * request.sweeps // threads),
            request,
            self.work * 64 * words * contexts * request.sweeps,
        )


def unit_moves(problem: Problem, terms: Terms | None = None, fields: bool = True) -> Units | None:
    """The unit sweeps of a problem; fields=False: every variable alone. Kept with the formula.

    None if the formula is too large for them.
    """
    known = problem.formula.memo.recent(_PLANS, 8)
    key = (problem.evidence, b"" if terms is None else terms.key, fields)
    return known.once(key, lambda: _unit_moves(problem, terms, fields))


def _unit_moves(problem: Problem, terms: Terms | None, fields: bool) -> Units | None:
    n = problem.formula.n_total
    terms = Terms.of([]) if terms is None else terms
    if terms.variables.max(initial=-1) >= n:
        raise FormulaError(
            f"a term with variable {terms.variables.max() + 1}", expected=f"variables up to {n}"
        )
    literals, sizes = _units(problem, terms, fields)
    if len(sizes) > rng.MAX_UNITS:
        return None
    unit = np.full(n, -1, np.int64)
    unit[np.abs(literals) - 1] = np.repeat(np.arange(len(sizes)), sizes)
    varies = ~_inside_a_unit(terms, unit)
    parts = take(terms.variables, terms.offsets, np.flatnonzero(varies))
    visits = _visits(problem, literals, sizes, unit)
    if visits is None:
        return None
    inputs, kind, term, local = _inputs(Terms(*parts), unit, sizes)
    program = kernel.UnitProgram(
        n=n,
        n_units=len(sizes),
        most=int(sizes.max(initial=0)),
        n_patterns=int(sizes.sum() + len(sizes)),
        unit_at=lengths_to_offsets(sizes),
        literal=_codes(literals),
        clause_at=problem.rest.offsets.astype(np.int64),
        clause=_codes(problem.rest.literals),
        kind=kind,
        **visits,
        **inputs,
    )
    return Units(n, program, int((sizes > 1).sum()), varies, term, local)


def _codes(literals: np.ndarray) -> np.ndarray:
    """2 v + s, s = 1 for a positive literal."""
    return (2 * (np.abs(literals) - 1) + (literals > 0)).astype(np.int32)


def _padded(theta: np.ndarray, n: int) -> np.ndarray:
    """With zeros for auxiliary variables."""
    whole = np.zeros((len(theta), n))
    whole[:, : theta.shape[1]] = theta
    return whole


def _multiples(values: np.ndarray, step: np.ndarray) -> np.ndarray:
    return np.asarray(np.rint(values / step[:, None]).astype(np.int32))


def _pattern_weights(p: kernel.UnitProgram, theta: np.ndarray) -> np.ndarray:
    """(contexts, patterns) int32: exp(E_k - the largest E of the unit), times 2^31 / (K + 1)."""
    if not p.n_units:
        return np.zeros((len(theta), 0), np.int32)
    sizes = np.diff(p.unit_at)
    energy = np.zeros((len(theta), p.n_patterns))
    place = np.arange(len(p.literal)) + np.repeat(np.arange(p.n_units), sizes) + 1
    sign = np.where(p.literal & 1, 1.0, -1.0)
    energy[:, place] = theta[:, p.literal >> 1] * sign
    most = np.maximum.reduceat(energy, p.unit_at[:-1] + np.arange(p.n_units), axis=1)
    scale = np.repeat(2.0**31 / (sizes + 1), sizes + 1)
    weights = np.rint(scale * np.exp(energy - np.repeat(most, sizes + 1, axis=1)))
    return np.maximum(1, weights).astype(np.int32)


def _units(problem: Problem, terms: Terms, fields: bool) -> tuple[np.ndarray, np.ndarray]:
    """(literals of all units, their sizes): groups first, then the variables that move alone."""
    lone = np.ones(problem.formula.n_total, bool)
    lone[np.abs(problem.fixed) - 1] = False
    literals, sizes = np.zeros(0, np.int32), np.zeros(0, np.int64)
    if fields:
        groups = groups_of(problem.rest)
        owner = owners(groups.offsets)
        keep = np.arange(len(owner)) - groups.offsets[:-1][owner] < _LARGEST
        keep &= ~_tied(terms, groups.literals, owner, len(lone))
        group_sizes = np.bincount(owner[keep], minlength=len(groups.exactly))
        keep &= (group_sizes > 1)[owner]
        literals, sizes = groups.literals[keep], group_sizes[group_sizes > 1]
        lone[np.abs(literals) - 1] = False
    alone = np.flatnonzero(lone).astype(np.int32) + 1
    return np.concatenate([literals, alone]), np.concatenate([sizes, np.ones(len(alone), np.int64)])


def _tied(terms: Terms, literals: np.ndarray, owner: np.ndarray, n: int) -> np.ndarray:
    """Negative literals of a group that share a term with others of the group: they move alone."""
    group, negative = np.full(n, -1, np.int64), np.zeros(n, bool)
    group[np.abs(literals) - 1] = owner
    negative[-literals[literals < 0] - 1] = True
    tied = np.zeros(n, bool)
    shared = _inside_a_unit(terms, group, every=True)
    tied[terms.variables[shared]] = True
    return (tied & negative)[np.abs(literals) - 1]


def _inside_a_unit(terms: Terms, unit: np.ndarray, every: bool = False) -> np.ndarray:
    """(terms,): does a term have two variables of one unit?

    every: for each entry of `variables`, is another variable of its term in its unit?
    """
    term, variable_unit = owners(terms.offsets), unit[terms.variables]
    order = np.lexsort((variable_unit, term))
    same = (
        (np.diff(term[order]) == 0)
        & (np.diff(variable_unit[order]) == 0)
        & (variable_unit[order][1:] >= 0)
    )
    entry = np.zeros(len(variable_unit), bool)
    entry[order[1:][same]] = True
    entry[order[:-1][same]] = True
    if every:
        return entry
    return np.bincount(term[entry], minlength=len(terms)) > 0


def _visits(
    problem: Problem, literals: np.ndarray, sizes: np.ndarray, unit: np.ndarray
) -> dict[str, Any] | None:
    """Which clauses are evaluated at which pattern, and which patterns they spoil besides."""
    rest, n, units = problem.rest, len(unit), len(sizes)
    first = lengths_to_offsets(sizes)[:-1]  # of the literals of a unit
    index, sign = np.zeros(n, np.int64), np.zeros(n, bool)
    index[np.abs(literals) - 1] = np.arange(len(literals)) - np.repeat(first, sizes)
    sign[np.abs(literals) - 1] = literals > 0
    variable, clause = np.abs(rest.literals) - 1, owners(rest.offsets)
    literal_unit, negative = unit[variable], sign[variable] != (rest.literals > 0)
    order = np.lexsort((literal_unit, clause))
    variable, clause, literal_unit, negative = (
        variable[order],
        clause[order],
        literal_unit[order],
        negative[order],
    )
    begins = np.flatnonzero(
        (np.diff(clause, prepend=-1) != 0) | (np.diff(literal_unit, prepend=-1) != 0)
    )
    pair = np.repeat(np.arange(len(begins)), np.diff(begins, append=len(literal_unit)))
    negatives = np.bincount(pair[negative], minlength=len(begins))

    lone_negative = negative & (negatives == 1)[pair]  # alone in their unit
    at_zero = begins[negatives == 0]  # one entry for each clause that holds no negative literal
    own_literal = np.concatenate([np.flatnonzero(lone_negative), at_zero])
    pattern = np.concatenate(
        [
            (first[literal_unit] + literal_unit + index[variable] + 1)[lone_negative],
            (first + np.arange(units))[literal_unit[at_zero]],
        ]
    )
    together = np.bincount(pair, minlength=len(begins))  # literals of a clause in a unit
    spoils = sizes[literal_unit[at_zero]] - together[negatives == 0]
    if spoils.sum() > _MOST_ALSO:
        return None
    also = _others(at_zero[spoils > 0], literal_unit, pair, index[variable], sizes)
    spoiled = np.concatenate([np.zeros(int(lone_negative.sum()), np.int64), spoils])
    visited = clause[own_literal]
    # A clause of two literals, the other outside of the unit: only that one is looked at.
    short = (
        (np.diff(rest.offsets)[visited] == 2) & (spoiled == 0) & (together[pair[own_literal]] == 1)
    )
    by_pattern = np.lexsort((visited, pattern))
    near, visit = by_pattern[short[by_pattern]], by_pattern[~short[by_pattern]]
    also, also_at = take(also, lengths_to_offsets(spoiled), visit)
    both = _codes(rest.literals)[rest.offsets[visited[near]][:, None] + np.arange(2)]
    is_own = both >> 1 == variable[own_literal[near]][:, None]
    patterns = len(literals) + units
    return {
        "near_at": lengths_to_offsets(np.bincount(pattern[near], minlength=patterns)),
        "near": both[~is_own],
        "visit_at": lengths_to_offsets(np.bincount(pattern[visit], minlength=patterns)),
        "visit": visited[visit].astype(np.int32),
        "also_at": also_at,
        "also": also.astype(np.int32),
    }


def _others(
    entries: np.ndarray,
    literal_unit: np.ndarray,
    pair: np.ndarray,
    index: np.ndarray,
    sizes: np.ndarray,
) -> np.ndarray:
    """For each entry, the patterns 1 .. K of its unit whose literal its clause does not hold."""
    size = sizes[literal_unit[entries]]
    ends = lengths_to_offsets(size)
    missing = np.ones(int(ends[-1]), bool)
    number = np.full(int(pair.max(initial=-1)) + 1, -1, np.int64)
    number[pair[entries]] = np.arange(len(entries))
    held = np.flatnonzero(number[pair] >= 0)
    missing[ends[number[pair[held]]] + index[held]] = False
    return (np.arange(len(missing)) - np.repeat(ends[:-1], size) + 1)[missing]


def _inputs(
    terms: Terms, unit: np.ndarray, sizes: np.ndarray
) -> tuple[dict[str, Any], np.ndarray, np.ndarray, np.ndarray]:
    """Which terms add to the field of which variable.

    -> (fields of the program, kinds of the units, term of each input, variables with a field)
    """
    with_terms = np.zeros(len(sizes) + 1, bool)
    with_terms[unit[terms.variables]] = True  # fixed variables mark the last entry
    with_terms[-1] = False
    local = with_terms[unit]
    kind = np.where(
        with_terms[:-1], kernel.TERMS, np.where(sizes > 1, kernel.FIELD, kernel.PLAIN)
    ).astype(np.int8)
    entries = np.flatnonzero(unit[terms.variables] >= 0)  # an input is a variable and its term
    entries = entries[np.argsort(terms.variables[entries], kind="stable")]
    variable, term = terms.variables[entries], owners(terms.offsets)[entries]
    n_inputs = np.bincount(variable, minlength=len(unit))
    whole, ends = take(terms.variables, terms.offsets, term)  # with the variable itself
    others = whole != np.repeat(variable, np.diff(ends))
    inputs = {
        "n_inputs": len(entries),
        "most_inputs": max(int(n_inputs.max(initial=0)), kernel.INDEX),
        "input_at": lengths_to_offsets(n_inputs),
        "rest_at": lengths_to_offsets(np.diff(ends) - 1),
        "rest": whole[others].astype(np.int32),
    }
    return inputs, kind, term, local
