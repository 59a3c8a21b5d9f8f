"""Rankings of n items as structures of a formula, and weights on them with an exact log Z.

Variables x[item, position], n^2 of them, and for each position which items are used so far:

    used[a, i] = used[a, i - 1] or x[a, i]          x[a, i] excludes used[a, i - 1]

A compiler turns these into a circuit with about 2^n n / 2 decisions, one for each set of used items
and next item: the dynamic programme over sets. (Without `used`, as plain exactly-one rules for rows
and columns, the same compilers need a hundred times as much for ten items.) Besides,
above[a, b, i] = used[a, i - 1] and x[b, i] tells whether a stands above b, which is at position i.

    P(ranking) ~ exp(sum of theta[item, position] + sum of phi[a, b] over a above b)

Both parts are linear in the variables, so that log Z and its gradient are one pass over the
circuit.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from nelson.budget import Budget
from nelson.errors import FormulaError, NelsonError
from nelson.exact.compiled import Compiled, compiled, why_not
from nelson.formula import Formula
from nelson.io.streams import text_lines

#: Seconds that the compiler has; ten items take some.
_SECONDS = 120.0
#: Factor on the weights for which all probability is on the most likely ranking.
_COLD = 1e5


# --- data -----------------------------------------------------------------------------------------


def read_soc(path: str | Path) -> tuple[list[str], np.ndarray]:
    """(names of items, rankings (rows, n)) of a PrefLib file of complete strict orders.

    A row has the items, numbered from 0, from the best to the worst. A line `3,5,1,2` of the file
    stands for three equal rows.
    """
    with text_lines(str(path)) as file:
        lines = [line.strip() for line in file if line.strip()]
    try:
        n = int(lines[0])
        names = [line.partition(",")[2].strip() for line in lines[1 : n + 1]]
        rows: list[list[int]] = []
        for line in lines[n + 2 :]:
            count, *ranking = [int(part) for part in line.split(",")]
            if sorted(ranking) != list(range(1, n + 1)) or count < 1:
                raise ValueError
            rows += [[item - 1 for item in ranking]] * count
        if not rows or len(names) < n:
            raise ValueError
    except (ValueError, IndexError):
        raise FormulaError(
            "a file that is no list of complete rankings",
            expected="the number of items, their names, a line of totals, then count,ranking",
            source=str(path),
        ) from None
    return names, np.array(rows)


def split(rankings: np.ndarray, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(70% to train, 10% to choose by, 20% to test), in random order."""
    order = np.random.default_rng(seed).permutation(len(rankings))
    first, second = round(0.7 * len(order)), round(0.8 * len(order))
    return rankings[order[:first]], rankings[order[first:second]], rankings[order[second:]]


# --- the formula ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Rankings:
    """All rankings of n items as the solutions of a formula. Build it with `Rankings.of`."""

    n: int
    formula: Formula
    above: dict[tuple[int, int, int], int]  # (a, b, i) with a < b -> its variable

    @classmethod
    def of(cls, n: int, *, above: bool = True) -> Rankings:
        """above: with variables that tell which item stands above which."""
        number = itertools.count(n * n + 1)
        clauses: list[list[int]] = []
        gates: dict[tuple[int, int, int], int] = {}
        used = [cls._variable(n, a, 0) for a in range(n)]
        for i in range(n):
            here = [cls._variable(n, a, i) for a in range(n)]
            clauses.append(here)
            clauses += [[-p, -q] for p, q in itertools.combinations(here, 2)]
            if i == 0:
                continue
            clauses += [[-x, -u] for x, u in zip(here, used, strict=True)]
            if above:
                for a, b in itertools.combinations(range(n), 2):
                    gate = gates[a, b, i] = next(number)
                    x, u = here[b], used[a]
                    clauses += [[-gate, u], [-gate, x], [gate, -u, -x]]
            if i < n - 1:
                before, used = used, [next(number) for _ in range(n)]
                for x, old, new in zip(here, before, used, strict=True):
                    clauses += [[-new, old, x], [new, -old], [new, -x]]
            else:
                clauses += [[x, u] for x, u in zip(here, used, strict=True)]
        formula = Formula(clauses, next(number) - 1, projection=range(1, n * n + 1))
        return cls(n, formula, gates)

    @staticmethod
    def _variable(n: int, item: int, position: int) -> int:
        return position * n + item + 1

    @cached_property
    def circuit(self) -> Compiled:
        found = compiled(self.formula, Budget.of(_SECONDS))
        if found is None:
            raise NelsonError(f"rankings of {self.n} items: {why_not(self.formula)}")
        return found

    @cached_property
    def pairs(self) -> list[tuple[int, int]]:
        """(a, b) with a < b: those that have a phi."""
        return list(itertools.combinations(range(self.n), 2)) if self.above else []

    @property
    def size(self) -> int:
        """How many numbers a model has: theta for each item and position, phi for each pair."""
        return self.n * self.n + len(self.pairs)

    @cached_property
    def _shared(self) -> np.ndarray:
        """The number in a model of each variable of the formula; -1: none."""
        found = np.full(self.formula.n_vars, -1)
        found[: self.n * self.n] = np.arange(self.n * self.n)
        place = {pair: self.n * self.n + k for k, pair in enumerate(self.pairs)}
        for (a, b, _), variable in self.above.items():
            found[variable - 1] = place[a, b]
        return found

    def features(self, rankings: np.ndarray) -> np.ndarray:
        """(rows, size): x[item, position], then whether a stands above b."""
        rows = len(rankings)
        x = np.zeros((rows, self.n, self.n))
        x[np.arange(rows)[:, None], np.arange(self.n)[None, :], rankings] = 1
        place = np.argsort(rankings, axis=1)
        above = [place[:, a] < place[:, b] for a, b in self.pairs]
        return np.concatenate([x.reshape(rows, -1), *(f[:, None] for f in above)], axis=1)

    def on_variables(self, weights: np.ndarray) -> np.ndarray:
        """weights (size,) as theta of the variables of the formula."""
        return np.where(self._shared >= 0, weights[self._shared], 0.0)

    def log_z(self, weights: np.ndarray) -> float:
        return float(self.circuit.log_z(self.on_variables(weights)[None])[0])

    def mean(self, weights: np.ndarray) -> np.ndarray:
        """The mean of each feature, (size,): the gradient of log Z."""
        mean = self.circuit.mean(self.on_variables(weights)[None])[0]
        inside = self._shared >= 0
        return np.bincount(self._shared[inside], weights=mean[inside], minlength=self.size)

    def log_prob(self, weights: np.ndarray, rankings: np.ndarray) -> np.ndarray:
        return self.features(rankings) @ weights - self.log_z(weights)

    def best(self, weights: np.ndarray) -> np.ndarray:
        """A ranking of greatest probability: the law of `_COLD` times the weights.

        Its score is within log(n!) / _COLD of the greatest one, which is checked.
        """
        cold = _COLD * weights
        mean = self.mean(cold)[: self.n * self.n].reshape(self.n, self.n)
        found = mean.argmax(axis=1)
        score = float((self.features(found[None]) @ weights)[0])
        if score < (self.log_z(cold) - math.lgamma(self.n + 1)) / _COLD - 1e-6:
            raise NelsonError("several rankings are equally likely: the most likely one is unclear")
        return found

    def fit(
        self, rankings: np.ndarray, penalty: float, start: np.ndarray | None = None
    ) -> np.ndarray:
        """The weights of greatest likelihood of all rows, less penalty / 2 times their squares."""
        from scipy.optimize import minimize

        rows = len(rankings)
        data = self.features(rankings).mean(axis=0)

        def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
            shrink = penalty / rows * weights
            value = self.log_z(weights) - weights @ data + 0.5 * float(shrink @ weights)
            return value, self.mean(weights) - data + shrink

        close = math.sqrt(1e-3 / rows / self.size)
        options = {"maxiter": 200, "maxcor": 20, "gtol": close, "ftol": 1e-10}
        first = np.zeros(self.size) if start is None else start
        return minimize(loss, first, jac=True, method="L-BFGS-B", options=options).x
