"""K-SAT with preferences: learn from examples which solutions of a random formula are preferred.

    C = clauses of K distinct variables, each negated by a fair coin      (K = 5, L = n)
    P_theta(x) = exp(sum_i theta_i x_i) C(x) / Z

There are two kinds of examples. "planted": drawn from a known theta* ~ N(0, 1), so that the learned
theta can be compared with the truth. "paper": models enumerated by Glucose4 through PySAT, as in
the paper. From one model to the next the solver changes few variables: in a large formula most
variables are constant over such a dataset, and the prior alone keeps their theta finite
(docs/errata.md, 16).

Random 5-SAT is not extremal. `nelson.sample` says which guarantee the samples have: exact if the
formula can be enumerated or compiled, else diagnosed.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Self

import numpy as np

from nelson.errors import BudgetExceeded, FormulaError, Unsatisfiable
from nelson.exact.solver import satisfiable, solve_within
from nelson.formula import Formula
from nelson.formula.checks import duration
from nelson.formula.random_ksat import random_ksat
from nelson_paper.tasks.base import FormulaTask, data_seed
from nelson_paper.tasks.drawing import AnyPath
from nelson_paper.tasks.ksat.picture import draw_assignment, draw_overview

#: Random formulas tried; if none is satisfiable, there are too many clauses.
_MAX_TRIES = 100
#: The solver's budget to decide one formula, or to enumerate one dataset.
_SOLVER_SECONDS = 60.0


class KSat(FormulaTask):
    """Preferred solutions of a formula; `KSat.random(100)` draws one.

    planted  theta* ~ N(0, scale^2), (n_vars,): examples of kind "planted" are drawn from it
    """

    name = "ksat"
    heading = "Solutions of a logical formula"
    caption = (
        "above, examples and new assignments, a row each; below, learned against hidden weights, "
        "and how often each variable is true in new assignments against examples"
    )
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

        Formulas are drawn until one is satisfiable. A clause that is drawn twice counts once.
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
        seconds: float = _SOLVER_SECONDS,
    ) -> np.ndarray:
        """(n, n_vars) bool. `seconds` is the solver's budget, for kind "paper".

        Rows of "planted" are independent draws of `nelson.sample`; each seed gives other draws from
        the same law. Rows of "paper" are the first n models that Glucose4 enumerates, in random
        order. A seed other than 0 starts the solver with random phases, so elsewhere in the space
        of solutions. To hold some rows out, split one dataset: data[:200], data[200:].
        """
        if n < 0:
            raise FormulaError(f"{n} examples", expected="0 or more")
        if self.checked_kind(kind) == "planted":
            return self.sample(self.planted, n, seed=data_seed(seed)).x
        rows = first_models(self.formula, n, seed=seed, seconds=seconds)
        return rows[np.random.default_rng([abs(seed), 62]).permutation(n)]

    def draw(self, x: Any, path: AnyPath, *, theta: Any = None, title: str | None = None) -> Path:
        """One assignment as a table: columns are variables, rows are clauses, dots are literals."""
        [row] = self.checked(x)
        weights = None if theta is None else self.checked_weights(theta)
        return draw_assignment(self.formula, self.names, row, weights, path, title)

    def picture(
        self, data: Any, theta: Any, generated: Any, path: AnyPath, *, kind: str | None = None
    ) -> Path:
        """Examples and new assignments as rasters, weights, frequencies.

        kind: the kind of `data`; the hidden theta* is shown if it is "planted".
        """
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
    for attempt in range(_MAX_TRIES):
        # The first formula is `random_ksat(n, m, k, seed)` itself; later ones have derived seeds.
        own = abs(seed) if attempt == 0 else data_seed(seed, 100 + attempt)
        formula = random_ksat(n, m, k, own)
        answer = satisfiable(formula, seconds=_SOLVER_SECONDS)
        if answer is None:
            raise BudgetExceeded(
                f"no solver decided within {_SOLVER_SECONDS:.0f} s whether {m} clauses of {k} "
                f"literals over {n} variables can be satisfied"
            )
        if answer:
            return formula
    raise Unsatisfiable(
        f"{_MAX_TRIES} random formulas with {m} clauses of {k} literals over {n} variables: "
        "none is satisfiable; take fewer clauses"
    )


def first_models(
    formula: Formula, n: int, *, seed: int = 0, seconds: float = _SOLVER_SECONDS
) -> np.ndarray:
    """The first n models that Glucose4 enumerates, (n, n_vars) bool, all different.

    A clause forbids each model before the solver is asked for the next. A variable that the solver
    leaves open (no clause has it) is false. seed 0: the solver's default phases; others: random.
    """
    try:
        from pysat.solvers import Solver
    except ImportError as error:
        raise FormulaError(
            'PySAT enumerates the models, and it is not installed: pip install "python-sat"'
        ) from error
    variables = formula.n_vars
    rows = np.zeros((n, variables), bool)
    deadline = time.monotonic() + duration(seconds)
    with Solver(name="glucose4", bootstrap_with=list(formula.clauses())) as solver:
        if seed:
            coins = np.random.default_rng([abs(seed), 63]).integers(0, 2, variables) * 2 - 1
            solver.set_phases((np.arange(1, variables + 1) * coins).tolist())
        for k in range(n):
            left = deadline - time.monotonic()
            answer = solve_within(solver, left) if left > 0 else None
            if answer is None:
                raise BudgetExceeded(f"{k} of {n} models enumerated in {seconds:g} s")
            if not answer:
                if not k:
                    raise Unsatisfiable("the formula has no model")
                raise FormulaError(
                    f"{n} different examples", expected=f"{k}: the formula has no more models"
                )
            for v in solver.get_model():
                if abs(v) <= variables:
                    rows[k, abs(v) - 1] = v > 0
            sign = np.where(rows[k], -1, 1)  # all variables, also those that no clause has
            solver.add_clause((sign * np.arange(1, variables + 1)).tolist())
    return rows
