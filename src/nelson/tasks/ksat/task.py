"""K-SAT with preferences: which solutions of a random formula somebody likes, by examples.

    C = clauses of K distinct variables, each negated by a fair coin      (K = 5, L = n)
    P_theta(x) = exp(sum_i theta_i x_i) C(x) / Z

Examples are of two kinds. "planted": drawn from a known theta* ~ N(0, 1), so that what was learned
can be held against the truth. "paper": models listed by Glucose4 through PySAT, as in the paper.
A solver that lists models changes as little as it can from one to the next: in large formulas most
variables are constant over that dataset, and the prior alone keeps their theta finite
(docs/errata.md, 16).

Random 5-SAT is not extremal: what the samples are worth is said by `nelson.sample` (exact where the
formula can be listed or compiled, else asymptotic).
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any, Self

import numpy as np

from nelson.errors import BudgetExceeded, FormulaError, Unsatisfiable
from nelson.formula import Formula
from nelson.formula.random_ksat import random_ksat
from nelson.tasks.base import FormulaTask, data_seed

#: Formulas tried before a ratio of clauses to variables is called too high.
TRIES = 100
#: Seconds for the solver: to decide one formula, or to list one dataset.
SECONDS = 60.0


class KSat(FormulaTask):
    """Preferred solutions of a formula; `KSat.random(100)` draws one.

    planted  theta* ~ N(0, scale^2), (n_vars,): what kind "planted" is drawn from
    """

    name = "ksat"
    KINDS = ("planted", "paper")

    def __init__(self, formula: Formula, *, seed: int = 0, scale: float = 1.0) -> None:
        names = [f"x{i}" for i in range(1, formula.n_vars + 1)]
        planted = scale * np.random.default_rng([seed, 61]).standard_normal(formula.n_vars)
        super().__init__(formula, names, planted)

    @classmethod
    def random(
        cls, n: int, clauses: int | None = None, k: int = 5, *, seed: int = 0, scale: float = 1.0
    ) -> Self:
        """A satisfiable random formula: n variables, `clauses` (default n) of k literals.

        The first satisfiable of formulas drawn one after the other. A clause that was drawn twice
        counts once.
        """
        m = n if clauses is None else clauses
        if not 1 <= k <= n:
            raise FormulaError(f"{k} distinct variables of {n}", expected="k from 1 to n")
        if m < 0:
            raise FormulaError(f"{m} clauses", expected="0 or more")
        return cls(_satisfiable(n, m, k, seed), seed=seed, scale=scale)

    @classmethod
    def small(cls, seed: int = 0) -> Self:
        return cls.random(20, seed=seed)

    def describe(self) -> str:
        f = self.formula
        widths = sorted(set(np.diff(f.offsets).tolist())) or [0]
        length = f"{widths[0]}" if len(widths) == 1 else f"{widths[0]} to {widths[-1]}"
        return f"{f.n_vars} variables, {f.n_clauses} clauses of {length} literals"

    def examples(
        self,
        n: int = 200,
        *,
        seed: int = 0,
        kind: str | None = None,
        seconds: float = SECONDS,
    ) -> np.ndarray:
        """(n, n_vars) bool. `seconds` is the solver's budget, for kind "paper".

        "planted" rows are independent draws (as good as `nelson.sample` makes them); another seed,
        other draws of the same law. "paper" rows are the first n models that Glucose4 lists, in
        random order; seeds other than 0 give it random phases to begin with, so another place in
        the space of solutions. To hold some out, split one dataset: data[:200], data[200:].
        """
        if n < 0:
            raise FormulaError(f"{n} examples", expected="0 or more")
        if self.checked_kind(kind) == "planted":
            return self.sample(self.planted, n, seed=data_seed(seed)).x
        rows = listed(self.formula, n, seed=seed, seconds=seconds)
        return rows[np.random.default_rng([abs(seed), 62]).permutation(n)]

    def draw(
        self,
        x: Any,
        path: str | os.PathLike[str],
        *,
        theta: Any = None,
        title: str | None = None,
    ) -> Path:
        """One assignment as a table: a column a variable, a row a clause, a dot a literal."""
        from nelson.tasks.ksat.picture import draw_assignment

        [row] = self.checked(x)
        weights = None if theta is None else self.checked_weights(theta)
        return draw_assignment(self.formula, self.names, row, weights, path, title)

    def picture(
        self,
        data: Any,
        theta: Any,
        generated: Any,
        path: str | os.PathLike[str],
        *,
        kind: str | None = None,
    ) -> Path:
        """Examples and new assignments as rasters, weights, frequencies.

        kind: of `data`; the hidden theta* is shown if that is "planted".
        """
        from nelson.tasks.ksat.picture import draw_overview

        return draw_overview(
            self.describe(),
            self.names,
            self.checked(data),
            self.checked_weights(theta),
            self.checked(generated),
            self.planted if self.checked_kind(kind) == "planted" else None,
            path,
        )


def _satisfiable(n: int, m: int, k: int, seed: int) -> Formula:
    from nelson.exact.solver import satisfiable

    for attempt in range(TRIES):
        # The first is `random_ksat(n, m, k, seed)` itself; later ones have seeds of their own.
        own = abs(seed) if attempt == 0 else data_seed(seed, 100 + attempt)
        formula = random_ksat(n, m, k, own)
        answer = satisfiable(formula, seconds=SECONDS)
        if answer is None:
            raise BudgetExceeded(
                f"no solver decided within {SECONDS:.0f} s whether {m} clauses of {k} over {n} "
                "variables can be satisfied"
            )
        if answer:
            return formula
    raise Unsatisfiable(
        f"{TRIES} formulas with {m} clauses of {k} literals over {n} variables: none is satisfiable"
    )


def listed(formula: Formula, n: int, *, seed: int = 0, seconds: float = SECONDS) -> np.ndarray:
    """The first n models that Glucose4 lists, (n, n_vars) bool, all different.

    Each model is forbidden by a clause and the solver asked again. A variable that it leaves open
    (no clause has it) is false. seed 0: the solver as it comes; others: random phases at first.
    """
    try:
        from pysat.solvers import Solver
    except ImportError as error:
        raise FormulaError(
            'models are listed by PySAT, which is not there: pip install "python-sat"'
        ) from error
    variables = formula.n_vars
    rows = np.zeros((n, variables), bool)
    deadline = time.monotonic() + seconds
    with Solver(name="glucose4", bootstrap_with=list(formula.clauses())) as solver:
        if seed:
            coins = np.random.default_rng([abs(seed), 63]).integers(0, 2, variables) * 2 - 1
            solver.set_phases((np.arange(1, variables + 1) * coins).tolist())
        for found in range(n):
            answer = _ask(solver, deadline - time.monotonic())
            if answer is None:
                raise BudgetExceeded(f"{found} of {n} models listed in {seconds:g} s")
            if not answer:
                if not found:
                    raise Unsatisfiable("the formula has no model")
                raise FormulaError(f"{n} different examples", expected=f"{found}: all models")
            for v in solver.get_model():
                if abs(v) <= variables:
                    rows[found, abs(v) - 1] = v > 0
            sign = np.where(rows[found], -1, 1)  # all of it: also what no clause has
            solver.add_clause((sign * np.arange(1, variables + 1)).tolist())
    return rows


def _ask(solver: Any, seconds: float) -> bool | None:
    """True, False, or None if time was up first."""
    if seconds <= 0:
        return None
    timer = threading.Timer(seconds, solver.interrupt)
    timer.start()
    try:
        answer: bool | None = solver.solve_limited(expect_interrupt=True)
    finally:
        timer.cancel()
        timer.join()
    return answer
