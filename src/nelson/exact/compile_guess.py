"""Is it hopeless to compile a formula? A guess from three numbers, in about a millisecond.

    width   of a minimum-degree elimination order of the primal graph: a circuit of n 2^width nodes
            exists. It is small where the formula falls into components after a few decisions.
    depth   decisions after which a random dive of a backtracking search, with unit propagation, has
            satisfied every clause or failed: about 2^depth leaves (Knuth 1975). It is small where
            propagation does the work, whatever the width.

    states  of the frontier compiler, if it decides the variables as they are numbered (an estimate,
            see `frontier_order`). A 3-colouring of a grid has few: the last rows say all.

If one of them is small, a circuit is likely; `hopeless` means that width and depth are above BOUND
and that the states are many. Above BOUND and BOUND / 2, with few states, `by_level` is true: D4 is
not the compiler to begin with.

Calibration: 81 formulas, D4 for 20 s each on a busy core. Of the 48 that compiled, the largest
min(width, depth) were 40 (a feature model of 500 features: width 40, depth 40), 36 (a 3-colouring:
83, 36) and 32 (random 5-SAT, n = L = 60: 34, 32). Width alone does not tell: what compiled had
widths up to 126 (a 3-colouring that is nearly over-constrained: depth 5), 104 (3-SAT near its
threshold: 12), 118 (a feature model of 1000: 13), 97 (a latin square: 12). Nor does depth: XOR
chains, adders and grids compile at depths of 60 to 400 and widths of 2 to 23; multipliers and
sink-free orientations lie between. With BOUND = 45 none of the 48 is called hopeless, and 8 of the
33 that did not compile are: random 5-SAT n = L = 100 (over 24 formulas of n = L = 100 to 200,
widths were at least 53 and depths at least 52), random 3-SAT n = L >= 200, feature models of 3000
and 20,000 features, 4-colourings of 200 vertices, cardinality constraints over 300 variables, a
random circuit of 3000 gates. The other 25 are tried, and use up the compiler's time limit.

Cost: 1 ms for random 5-SAT n = L = 1000; at most about MAX_STEPS steps and a few passes over the
literals, 0.5 s for a million clauses.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nelson.errors import Unsatisfiable
from nelson.exact.frontier_order import MAX_LITERALS, MAX_VARIABLES, given_order
from nelson.formula import Formula
from nelson.formula.components import components
from nelson.formula.flat import check_ahead
from nelson.formula.memo import Slot
from nelson.kernels.circuit import nnf, size_estimates
from nelson.kernels.core.cliques import CliqueGraph

#: Width and depth above which compiling is hopeless; the docstring has the calibration.
BOUND = 45
#: Steps of all dives together, and steps of the elimination of one component.
MAX_STEPS = 4_000_000
#: Steps of the elimination of many components, for each literal: narrow ones take 8 to 40.
STEPS_PER_LITERAL = 64
_ESTIMATE: Slot[CompileGuess] = Slot("guess whether it compiles")


@dataclass(frozen=True)
class CompileGuess:
    width: int  # a lower bound of the order's width unless `complete`
    complete: bool
    depth: float  # at most BOUND + 1
    hopeless: bool
    why: str
    by_level: bool = False  # the frontier compiler first: wide and deep, but with few states

    def __str__(self) -> str:
        return self.why


def estimate(formula: Formula) -> CompileGuess:
    """The guess for a formula, after unit propagation. Kept with the formula."""
    return formula.memo.once(_ESTIMATE, lambda: _estimate(formula))


def _estimate(formula: Formula) -> CompileGuess:
    # Log2 of the states up to which the frontier compiler decides variables as they are numbered.
    few_states = 22.0
    lengths = np.diff(formula.offsets)
    if (lengths <= 1).any():
        try:
            formula = formula.given(())
        except Unsatisfiable as error:
            return CompileGuess(0, True, 0.0, False, str(error))
        lengths = np.diff(formula.offsets)
    literals = formula.literals
    n, m = formula.n_total, formula.n_clauses
    check_ahead(len(literals))
    codes = 2 * (np.abs(literals) - 1) + (literals > 0)
    first, at = np.zeros(2 * n + 1, np.int64), np.empty(len(codes), np.int64)
    nnf.group(codes, first, at)
    check_ahead(m)
    clauses = np.repeat(np.arange(m, dtype=np.int32), lengths)[at]  # by literal code
    depth = _depth(formula, codes, first, clauses)
    ended, width = _width(formula, codes, first[::2], clauses)
    wide, deep = ended != size_estimates.DONE, depth > BOUND
    size = f"width {'>= ' * wide}{width}"
    if ended == size_estimates.TIRED:
        size = f"width not found in {_steps(formula):,} steps"
    size += f", {'more than ' * deep}{min(depth, BOUND):g} decisions deep"
    if wide and depth > BOUND / 2 and (few := _states(formula)) <= few_states:
        why = f"worth compiling: about 2^{few:.0f} states if decided as numbered ({size})"
        return CompileGuess(width, False, depth, False, why, by_level=True)
    if wide and deep:
        return CompileGuess(width, False, depth, True, f"hopeless to compile: {size}")
    reason = "narrow enough" if not wide else "propagation decides most of it"
    return CompileGuess(width, not wide, depth, False, f"worth compiling: {size} ({reason})")


def _states(formula: Formula) -> float:
    """Log2 of the states if the variables are decided as they are numbered; inf: not estimated."""
    if formula.n_total > MAX_VARIABLES or len(formula.literals) > MAX_LITERALS:
        return np.inf
    return given_order(formula.literals, formula.offsets).work


def _depth(formula: Formula, codes: np.ndarray, first: np.ndarray, clauses: np.ndarray) -> float:
    """The median depth of the dives. Variables in many short clauses are decided first."""
    # The depth is the median of this many dives.
    dives = 16
    n, m, lengths = formula.n_total, formula.n_clauses, np.diff(formula.offsets)
    weight = np.repeat(2.0 ** -np.minimum(lengths, 60), lengths)
    check_ahead(len(codes))
    score = np.bincount(codes >> 1, weights=weight, minlength=n)
    check_ahead(5 * n)
    best_first = np.argsort(-score, kind="stable")
    search = size_estimates.DiveState(
        codes,
        formula.offsets,
        first,
        clauses,
        best_first,
        np.full(n, -1, np.int8),
        lengths.astype(np.int32),
        np.full(m, -1, np.int32),
        np.zeros(n, np.int32),
    )
    depth = np.zeros(dives, np.int64)
    size_estimates.dives(search, BOUND + 1, MAX_STEPS, depth)
    return float(np.median(depth[depth >= 0]))


def _width(
    formula: Formula, codes: np.ndarray, first: np.ndarray, clauses: np.ndarray
) -> tuple[int, int]:
    """(how the elimination ended, width so far)."""
    n, m, size = formula.n_total, formula.n_clauses, len(codes)
    members = np.empty(2 * size + 1, np.int32)
    members[:size] = codes >> 1
    chain = np.arange(-1, n + 1, dtype=np.int32)  # at first all variables are in bucket 0
    chain[-1] = -1
    head = np.full(n + 1, -1, np.int32)
    head[0] = 0 if n else -1
    graph = CliqueGraph(
        np.concatenate([formula.offsets[:-1], np.zeros(n, np.int64)]),
        np.concatenate([np.diff(formula.offsets), np.zeros(n, np.int64)]),
        members,
        first,
        np.diff(first),
        clauses.copy(),
        np.zeros(n, np.int64),
        np.zeros(n, np.int32),
        head,
        chain[2:].copy(),
        chain[:n].copy(),
    )
    out = np.zeros(3, np.int64)
    ended = size_estimates.eliminate(graph, m, BOUND, _steps(formula), out)
    return ended, int(out[0])


def _steps(formula: Formula) -> int:
    """Of the elimination: MAX_STEPS for each component, if all were as large as the largest."""
    largest = int(np.bincount(components(formula), minlength=1).max())
    parts = formula.n_total // max(1, largest)
    return max(MAX_STEPS, min(MAX_STEPS * parts, STEPS_PER_LITERAL * len(formula.literals)))
