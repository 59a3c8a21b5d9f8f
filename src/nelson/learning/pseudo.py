"""Pseudo-likelihood: a first point for laws with pairs, without a single sample.

    sum over units u of log P(x_u | all other variables)           (Besag 1975)

A unit is a field (variables of which at most one is true) or a lone variable. Its conditional law
is a softmax over the patterns that the rules allow, given the rest:

    log P(pattern k | rest) = h_k - log sum over allowed j of exp(h_j),     h = theta + table x

so the sum is concave in theta and the table of pairs, exact, and costs two products of matrices. An
L1 penalty on the pairs selects them. It is maximised by accelerated proximal steps (FISTA: Beck,
Teboulle 2009), scaled by the variance of each feature; weaker and weaker penalties begin where the
last one ended, and validation rows choose among them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nelson.chains.term_chains import Fields
from nelson.formula import Formula
from nelson.formula.flat import owners, select
from nelson.io.progress import phase


class Conditionals:
    """The conditional laws of the units in each of N rows."""

    def __init__(self, formula: Formula, fields: Fields, x: np.ndarray) -> None:
        self.fields = fields
        self.x = x.astype(np.float32)
        self.allowed, self.none = _allowed(formula, fields, x)

    def __call__(self, theta: np.ndarray, table: np.ndarray) -> tuple[np.ndarray, float]:
        """(P(x_v = 1 | rest) of each row (N, n), mean pseudo-likelihood). table: symmetric."""
        fields = self.fields
        order, first, unit = fields.order, fields.first, fields.unit
        h = np.where(self.allowed, self.x @ table + theta, -np.inf)
        top = np.maximum.reduceat(h[:, order], first, axis=1)
        top = np.maximum(top, np.where(self.none, 0.0, -np.inf)).astype(np.float32)
        weight = np.exp(h - top[:, unit])
        total = np.add.reduceat(weight[:, order], first, axis=1)
        total += np.where(self.none, np.exp(-top), 0.0)
        chosen = np.where(self.x > 0, h, 0.0).sum(axis=1, dtype=np.float64)
        value = chosen - (np.log(total) + top).sum(axis=1, dtype=np.float64)
        return weight / total[:, unit], float(value.mean())


def _allowed(formula: Formula, fields: Fields, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which values the rules allow, given the rest of each row: (N, n) for x_v = 1, and (N, units)
    for no true variable in the unit."""
    units = len(fields.first)
    allowed, none = np.ones(x.shape, bool), np.ones((len(x), units), bool)
    variable = np.abs(formula.literals) - 1
    clause = owners(formula.offsets)
    whole = formula.n_aux > 0
    for u in range(units):
        members = np.flatnonzero(fields.unit == u)
        part = formula
        if not whole:
            mine = np.zeros(formula.n_clauses, bool)
            mine[clause[np.isin(variable, members)]] = True
            if not mine.any():
                continue
            part = Formula.from_arrays(
                *select(formula.literals, formula.offsets, mine), n_vars=formula.n_vars
            )
        y = x.copy()
        y[:, members] = False
        none[:, u] = part.satisfied(y)
        for v in members:
            y[:, v] = True
            allowed[:, v] = part.satisfied(y)
            y[:, v] = False
    return allowed, none


@dataclass(frozen=True)
class Start:
    """theta (n,), the symmetric table of pairs (n, n), and the penalty that was chosen."""

    theta: np.ndarray
    table: np.ndarray
    l1: float


def first_point(
    formula: Formula,
    x: np.ndarray,
    valid: np.ndarray | None,
    wanted: np.ndarray,
    l1: float | None,
    stronger: float = 40.0,
    max_rows: int = 4096,
    penalties: int = 20,
) -> Start:
    """Fit rows x (N, n) bool. wanted: pairs that may differ from 0, (n, n) bool, symmetric.

    l1: the penalty; None: the validation rows choose it. The result is then the point that has a
    penalty `stronger` times as large: a law of weaker couplings, where chains move.
    max_rows: rows that are used, at most. penalties: how many the path has, the first 0.2 nats for
    each example, each other 0.7 of the one before.
    """
    fields = Fields(formula)
    with phase("fitting the pseudo-likelihood"):
        data = Conditionals(formula, fields, x[:: max(1, len(x) // max_rows)])
        check = None
        if valid is not None and len(valid):
            check = Conditionals(formula, fields, valid[:: max(1, len(valid) // max_rows)])
        climb = _Climb(data, wanted & fields.apart())
        path_of_l1 = 0.2 * 0.7 ** np.arange(penalties)
        if l1 is not None:
            path_of_l1 = np.append(path_of_l1[path_of_l1 > 2 * l1], l1)
        path: list[Start] = []
        best, score = float(path_of_l1[0]), -np.inf
        for penalty in path_of_l1.tolist():
            climb(penalty)
            path.append(Start(climb.theta, climb.table, penalty))
            now = -penalty if check is None else check(climb.theta, climb.table)[1]
            if now > score or l1 is not None:
                best, score = penalty, now
            elif now < score - 0.05:  # nats for each validation row
                break
    wanted_l1 = best if l1 is not None else stronger * best
    at = min(path, key=lambda start: abs(np.log(start.l1 / wanted_l1)))
    return Start(at.theta, at.table, wanted_l1)


class _Climb:
    """Proximal steps; the point is kept from one penalty to the next."""

    def __init__(self, data: Conditionals, wanted: np.ndarray) -> None:
        self.data, self.wanted = data, wanted
        mean = data.x.mean(axis=0, dtype=np.float64).clip(0.25 / len(data.x), 1)
        spread = np.maximum(mean * (1 - mean), 0.25 / len(data.x))
        self.slope = (spread + 1 / len(data.x)).astype(np.float32)
        table = np.outer(mean, spread)
        self.slopes = (table + table.T + 1 / len(data.x)).astype(np.float32)
        self.theta = np.log(mean / (1 - mean).clip(1e-3)).astype(np.float32)
        self.table = np.zeros(wanted.shape, np.float32)
        self.curve = 2.0  # the curvature, relative to the scales

    def _gradient(
        self, theta: np.ndarray, table: np.ndarray
    ) -> tuple[float, np.ndarray, np.ndarray]:
        p, value = self.data(theta, table)
        gap = (self.data.x - p) / np.float32(len(p))
        pairs = self.data.x.T @ gap
        return value, gap.sum(axis=0), (pairs + pairs.T) * self.wanted

    def __call__(self, penalty: float, steps: int = 60, small_gain: float = 2e-3) -> None:
        """At most `steps`, until ten of them gain less than `small_gain` nats. A first point need
        not be exact: of 300 steps most would be spent on the last digits."""
        theta, table, speed = self.theta, self.table, 1.0
        at, around = theta, table
        values: list[float] = []
        for k in range(steps):
            value, g, pairs = self._gradient(at, around)
            while True:
                new = at + g / (self.curve * self.slope)
                moved = around + pairs / (self.curve * self.slopes)
                limit = penalty / (self.curve * self.slopes)
                moved = np.sign(moved) * np.maximum(np.abs(moved) - limit, 0) * self.wanted
                a, b = new - at, moved - around
                least = value + float((g * a).sum()) + float((pairs * b).sum()) / 2
                least -= self.curve / 2 * float((self.slope * a * a).sum())
                least -= self.curve / 4 * float((self.slopes * b * b).sum())
                reached = self.data(new, moved)[1]
                if reached >= least - 1e-4 or self.curve > 1e9:
                    break
                self.curve *= 1.6
            self.curve *= 0.97
            faster = (1 + np.sqrt(1 + 4 * speed * speed)) / 2
            turn = float((self.slope * (at - new) * (new - theta)).sum())
            turn += float((self.slopes * (around - moved) * (moved - table)).sum()) / 2
            if turn > 0:
                faster = 1.0
            along = np.float32((speed - 1) / faster)
            at, around = new + along * (new - theta), moved + along * (moved - table)
            theta, table, speed = new, moved, faster
            values.append(reached - penalty * float(np.abs(table).sum()) / 2)
            if k >= 10 and values[-1] - values[-11] < small_gain:
                break
        self.theta, self.table = theta, table
