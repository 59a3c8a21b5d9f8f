"""The exact number of solutions."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from nelson.errors import BudgetExceeded, Unsatisfiable
from nelson.exact.compiled import compiled
from nelson.formula import Formula


def solutions(formula: Formula, evidence: Iterable[int] = (), seconds: float = 3.0) -> int:
    try:
        circuit = compiled(formula, seconds)
        if circuit is None:
            raise BudgetExceeded("the space was not counted")
        theta = np.zeros(formula.n_vars)
        for x in evidence:
            theta[abs(x) - 1] = math.inf if x > 0 else -math.inf
        fixed = int(np.isinf(theta).sum())
        return round(math.exp(circuit.log_z(theta[None])[0])) if fixed >= 0 else 0
    except Unsatisfiable:
        return 0
