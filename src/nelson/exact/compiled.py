"""log Z, means, covariances and samples of a formula that compiles to a d-DNNF: exact, for any
theta.

    log Z  = sum_i log(1 + e^theta_i) + log P(C)
    E[x_i] = F(i) + (1 - F(i) - F(-i)) p_i,      p_i = 1 / (1 + e^-theta_i)

P(C) is the probability that independent x_i of law p_i satisfy the formula, F(l) the probability
that a draw passes a branch of the circuit that carries literal l (`nelson.kernels.circuit.passes`).
A variable that no branch on the way mentions keeps its own law p_i. The circuit depends on the
clauses alone: it is compiled once and kept with the formula and on disk; each theta then costs
O(edges). Infinite theta, hard evidence, is p_i = 0 or 1: no new circuit.

Cov(x) v is the derivative of E[x] along v, computed as a central difference of exact means: about
nine correct digits.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from nelson.budget import Budget
from nelson.errors import BudgetExceeded, NelsonError, Unsatisfiable
from nelson.exact.circuit import disk_cache, solutions
from nelson.exact.circuit.attempts import EFFORT
from nelson.exact.circuit.build import AUTO, BuildResult, build, load_cached, narrow, not_possible
from nelson.exact.circuit.decisions import DecisionCircuit
from nelson.exact.circuit.draw import Draws, clauses_of
from nelson.exact.compile_guess import estimate
from nelson.exact.enumerated import evidence_in, finite
from nelson.exact.mode import integer_weights
from nelson.formula import Formula
from nelson.formula.memo import Slot
from nelson.kernels.core.bits import unpack

#: What a compiler was given: seconds or None, bytes, effort.
Given = tuple[float | None, int, float]
#: By compiler: its result, and the limits under which it ran.
Circuits = dict[str, tuple[BuildResult, Given]]
#: The mark of results that a clock decided, beside the name of the compiler.
_TIMED = " by the clock"
_REASONS: Slot[dict[str, str]] = Slot("why there is no circuit, by compiler")
_CIRCUITS: Slot[Circuits] = Slot("circuits by compiler")
_ALONE: Slot[bool] = Slot("the clauses have more solutions than the circuit")
_REFUTED: Slot[str] = Slot("proof that there is no solution")
_KEPT: Slot[Compiled] = Slot("circuit that the user asked for")
_KEPT_NAME: Slot[str] = Slot("its name on disk")
#: Seconds of the first try of `keep_on_disk` if the caller sets no limit.
FIRST_TRY = 60.0
#: Change of theta in a central difference.
_STEP = 1e-5


def compiled(
    formula: Formula,
    budget: Budget | None = None,
    compiler: str = AUTO,
    effort: float = EFFORT,
) -> Compiled | None:
    """The circuit of a formula. None if the compiler is not installed or did not finish within its
    limits: `why_not` says which. A failure is remembered, and tried again only with higher limits.
    Raises Unsatisfiable if that was proved.

    Without a deadline `effort` is counted (`nelson.exact.circuit.build`), times the effort of the
    budget, so that the answer depends neither on the machine nor on circuits that other calls have
    compiled with more effort.
    """
    budget = Budget() if budget is None else budget
    effort *= budget.effort
    seconds = None if budget.counted else budget.left
    if (refuted := formula.memo.get(_REFUTED)) is not None:
        raise Unsatisfiable(refuted)
    if compiler == AUTO and AUTO not in known_circuits(formula):
        kept_on_disk(formula)  # it is known then
    circuits, asked = known_circuits(formula), (seconds, budget.memory, effort)
    for name in (compiler,) if seconds is None else (compiler, compiler + _TIMED):
        if name in circuits and _serves(*circuits[name], asked):
            built = circuits[name][0]
            break
    else:
        try:
            built = build(formula, budget, compiler, effort=effort)
        except Unsatisfiable as error:
            formula.memo.put(_REFUTED, str(error))
            raise
        timed = seconds is not None and (built.circuit is None or built.effort == math.inf)
        circuits[compiler + _TIMED * timed] = built, asked
    reason = built.why_not
    if built.circuit is not None and seconds is None and built.effort > effort:
        reason = f"its circuit takes {built.effort:g} units of effort, but the limit is {effort:g}"
    formula.memo.once(_REASONS, dict)[compiler] = reason
    return None if built.circuit is None or reason else Compiled(formula, built.circuit, built)


def _serves(built: BuildResult, ran: Given, asked: Given) -> bool:
    """Does this result tell what a call with other limits would find?"""
    if built.circuit is not None:
        return asked[0] is not None or built.effort < math.inf
    if (ran[0] is None) != (asked[0] is None) or asked[1] > ran[1]:
        return False
    return asked[2] <= ran[2] if asked[0] is None or ran[0] is None else asked[0] <= 1.05 * ran[0]


def keep_on_disk(formula: Formula, budget: Budget | None = None, compiler: str = AUTO) -> Compiled:
    """Compile a formula, and keep the circuit on disk, where `auto` and `kept_on_disk` find it.

    No deadline: no limit. The compiler `auto` tries several ways on narrow formulas; without a
    limit it tries all of them for a minute, then for four minutes, and so on.
    Raises BudgetExceeded if a limit ended it, Unsatisfiable if that was proved, NelsonError if
    there is no compiler or no room for the circuit on disk.
    """
    if (circuit_before := kept_on_disk(formula)) is not None:
        return circuit_before
    if not disk_cache.writable():
        raise NelsonError(
            f"circuits cannot be kept in {disk_cache.folder()}: it cannot be written to, or "
            "NELSON_CACHE_BYTES is 0; choose another folder with NELSON_CACHE_DIR"
        )
    circuit = None
    for limit in _tries(formula, budget or Budget(), compiler):
        seconds = limit.left
        circuit = compiled(formula, limit, compiler)
        if circuit is not None or limit.left > 0.1 * seconds:
            break  # else more time may help
    if circuit is None:
        if lacking := not_possible(formula, compiler):
            raise NelsonError(f"no circuit: {lacking}")
        raise BudgetExceeded(f"no circuit: {why_not(formula, compiler)}")
    name = disk_cache.kept_name(formula)
    arrays = {"n": np.int64(circuit.circuit.n), **circuit.circuit.arrays}
    moved = disk_cache.move(disk_cache.key(formula, compiler), name)
    if not moved and not disk_cache.save(name, arrays):
        size = sum(array.nbytes for array in arrays.values())
        raise NelsonError(
            f"the circuit of {size:,} bytes was not kept: {disk_cache.folder()} is full, or may "
            f"hold at most {disk_cache.bound():,} bytes (NELSON_CACHE_BYTES)"
        )
    return _remember(formula, circuit)


def _remember(formula: Formula, circuit: Compiled) -> Compiled:
    """Whoever asks for a circuit of the formula gets the one that the user asked for, at once."""
    built = BuildResult(circuit.circuit, circuit.built.seconds, circuit.built.cached)
    known_circuits(formula)[AUTO] = built, (None, 0, 0.0)
    return formula.memo.put(_KEPT, circuit)


def _tries(formula: Formula, budget: Budget, compiler: str) -> Iterator[Budget]:
    """The budgets of one try after the other."""
    # Each further try has this many times the seconds of the one before.
    longer = 4.0
    # Seconds that mean "no limit".
    forever = 2e6
    if not budget.counted or compiler != AUTO or not narrow(formula):
        yield budget.within(forever)
        return
    seconds = FIRST_TRY
    while seconds < forever:
        yield budget.within(seconds)
        seconds *= longer


def kept_on_disk(formula: Formula) -> Compiled | None:
    """The circuit that `keep_on_disk` made for these clauses, in this or another process, or None.

    It serves every theta and all evidence.
    """
    if (circuit_before := formula.memo.get(_KEPT)) is not None:
        return circuit_before
    name = formula.memo.once(_KEPT_NAME, lambda: disk_cache.kept_name(formula))
    if not os.path.exists(disk_cache.path_of(name)):
        return None
    started = time.monotonic()
    circuit = load_cached(name, formula.n_total)
    if circuit is None:
        return None
    built = BuildResult(circuit, time.monotonic() - started, cached=True)
    return _remember(formula, Compiled(formula, circuit, built))


def not_worth_a_try(formula: Formula) -> str:
    """Why compiling is not worth a try: no compiler for it is installed, or it is hopeless. "" if
    it is worth a try. About a millisecond, once for each formula.
    """
    if any(built.circuit is not None for built, _ in known_circuits(formula).values()):
        return ""
    if kept_on_disk(formula) is not None:
        return ""
    if lacking := not_possible(formula):
        return lacking
    guess = estimate(formula)
    return guess.why if guess.hopeless else ""


def known_circuits(formula: Formula) -> Circuits:
    """The results of all compilers that have run on the formula, failures included."""
    return formula.memo.once(_CIRCUITS, dict)


def keep_circuits(formula: Formula, circuits: Circuits, alone: bool = False) -> None:
    """Take over circuits that another process compiled, unless the formula has some already.

    alone: the clauses have more solutions than the circuits, as those of a projection.
    """
    formula.memo.once(_CIRCUITS, lambda: circuits)
    if alone:
        formula.memo.put(_ALONE, True)


def is_alone(formula: Formula) -> bool:
    """Must the circuit answer, since the clauses have more solutions?"""
    return formula.memo.get(_ALONE) is True


def why_not(formula: Formula, compiler: str = AUTO) -> str:
    """Why `compiled` returned None."""
    return formula.memo.once(_REASONS, dict).get(compiler, "")


def was_cut(formula: Formula, compiler: str = AUTO) -> bool:
    """Was effort counted, and did a safety limit in seconds end the compiler first?"""
    return compiler in (circuits := known_circuits(formula)) and circuits[compiler][0].cut


@dataclass
class Compiled:
    """The distribution of a formula by its circuit. theta is (b, n); +-inf is hard evidence."""

    formula: Formula
    circuit: DecisionCircuit
    built: BuildResult
    exact: bool = True

    @property
    def edges(self) -> int:
        return self.circuit.edges

    @property
    def why(self) -> str:
        return f"exact: a d-DNNF of {self.circuit.decisions:,} decisions, {self.edges:,} edges"

    def log_z(self, theta: np.ndarray) -> np.ndarray:
        """(b, n) -> (b,). The sum runs over the finite theta_i, as everywhere."""
        rows = self._rows(theta)
        log_p, _ = self.circuit.solve(rows, means=False)
        _check_possible(log_p)
        soft = np.where(np.isinf(rows), -np.inf, rows)
        return log_p + np.logaddexp(0, soft).sum(axis=1)

    def mean(self, theta: np.ndarray) -> np.ndarray:
        """(b, n) -> (b, n)."""
        log_p, mean = self.circuit.solve(self._rows(theta), means=True)
        _check_possible(log_p)
        return mean[:, : theta.shape[1]]

    def pull(self, theta: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Cov(x) v for each row: (b, n), (b, n) -> (b, n)."""
        size = np.abs(v).max(axis=1, keepdims=True)
        step = _STEP * v / np.where(size == 0, 1.0, size)
        return (self.mean(theta + step) - self.mean(theta - step)) * size / (2 * _STEP)

    def covariance(self, theta: np.ndarray) -> np.ndarray:
        """(b, n) -> (b, n, n)."""
        n = theta.shape[1]
        out = np.zeros((len(theta), n, n))
        for b, row in enumerate(theta):
            out[b] = self.pull(np.tile(row, (n, 1)), np.eye(n))
            out[b] = (out[b] + out[b].T) / 2
        return out

    def draw(self, theta: np.ndarray, count: int, seed: int) -> np.ndarray:
        """(b, count, n) bool, independent. Sample k of row b is a function of (seed, b, k)."""
        n = theta.shape[1]
        draws = Draws(
            self.circuit,
            self._rows(theta),
            np.arange(n),
            clauses_of(self.formula),
            seed,
            np.arange(len(theta)),
            expected=count,
        )
        block = draws.block(0, count)
        if block.interrupted:
            raise KeyboardInterrupt
        _check_possible(block.log_p)
        out = np.empty((len(theta), count, n), bool)
        for b, words in enumerate(block.packed):
            out[b] = unpack(words, count)
        return out

    def count(self, evidence: Sequence[int] = ()) -> int:
        """The number of solutions in which all literals of the evidence hold."""
        return solutions.count(self.circuit, evidence)

    def rows(self, evidence: Sequence[int], columns: np.ndarray) -> np.ndarray:
        """These solutions, (m, columns) bool, in no particular order; the columns determine all
        other variables.
        """
        return solutions.rows(self.circuit, columns, evidence)

    def mode(self, theta: np.ndarray) -> np.ndarray:
        """(n,), may be infinite -> (n,) bool: a structure of greatest weight, without rounding."""
        row = self._rows(theta[None])[0]
        weights = integer_weights(finite(row))
        hard = sum(map(abs, weights)) + 1  # outweighs all others together
        for literal in evidence_in(row):
            weights[abs(literal) - 1] = hard if literal > 0 else -hard
        x = solutions.best(self.circuit, weights)
        if x is None or (x[np.isinf(row)] != (row[np.isinf(row)] > 0)).any():
            raise Unsatisfiable("no valid structure agrees with the infinite log-odds")
        return x[: len(theta)]

    def _rows(self, theta: np.ndarray) -> np.ndarray:
        """theta with a 0 for each auxiliary variable."""
        out = np.zeros((len(theta), self.formula.n_total))
        out[:, : theta.shape[1]] = theta
        return out


def _check_possible(log_p: np.ndarray) -> None:
    if np.isneginf(log_p).any():
        raise Unsatisfiable("no valid structure agrees with the infinite log-odds")
