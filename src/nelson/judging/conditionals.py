"""Each variable given all others: a necessary condition for which nothing is counted or compiled.

    P(x_i = 1 | x_-i) = 1 / (1 + e^-theta_i)    if both values of x_i are valid; else it is fixed

Variable i is *free* in a sample if flipping it breaks no clause. Among the samples in which it is
free, the number with x_i = 1 is Bin(F_i, sigma(theta_i)), whatever the clauses are. The same holds
among those of them in which x_j = 1, for any j: the full conditional must not depend on x_j.
Binomial p-values are exact. Variables and pairs each get half of the level (`verdict.py`).

This tests, on indicator functions, that heat-bath moves leave the law unchanged: the kernel Stein
test of Yang, Liu, Rao, Neville (2018) with finitely many witnesses. It cannot see how weight is
spread over parts of the valid space that no single flip connects.

Cost: O(m total literals) to find the free variables, O(m v^2) for pairs of v variables. Samples are
processed in chunks until the deadline.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import expit

from nelson.budget import Budget
from nelson.formula import Formula
from nelson.judging.tails import Band, two_sided
from nelson.judging.verdict import Family, Finding, combined, family


def conditionals(
    x: np.ndarray,
    formula: Formula,
    theta: np.ndarray,
    band: Band,
    delta: float,
    seed: int,
    budget: Budget,
    most_paired: int,
) -> Finding:
    """x: (m, n) valid samples of all variables. The test rejects or is undecided: it never accepts.

    Variables of unit clauses are never free, and not tested. Pairs are tested among at most
    `most_paired` variables.
    """
    m, n = x.shape
    flip_work = m * n * len(formula.literals)  # if every flip is evaluated on encoded constraints
    evidence: dict[str, Any] = {"samples": m, "exact": True}
    if formula.n_aux and (not formula.constraints or flip_work > 1 << 34):
        reason = "auxiliary variables make single flips too costly to check"
        return Finding(None, reason, evidence)
    tested, paired = _choose(formula, seed, most_paired)
    if not len(tested):
        return Finding(None, "unit clauses fix every variable: nothing to test", evidence)
    used, single, pairs = _count(x, formula, paired, budget)
    chance = expit(theta)
    i, j = np.nonzero(~np.eye(len(paired), dtype=bool))

    def of_variable(k: int) -> str:
        return f"variable {tested[k] + 1} where it is free"

    def of_pair(k: int) -> str:
        return f"variable {paired[i[k]] + 1} where it is free and {paired[j[k]] + 1} is true"

    families = [_family("variables", single[:, tested], chance[tested], band, of_variable)]
    if len(i):
        families.append(_family("pairs", pairs[:, i, j], chance[paired[i]], band, of_pair))
    answer = combined(families, delta)
    free = float(single[0, tested].sum() / max(1, used * len(tested)))
    evidence |= {"samples": used, **answer.evidence, "free": free}
    if answer.accept:
        reason = f"{answer.reason}: nothing found, but this test can only reject"
        return Finding(None, reason, evidence)
    return Finding(False, answer.reason, evidence)


def _choose(
    formula: Formula, seed: int, most_paired: int, most: int = 16_384
) -> tuple[np.ndarray, np.ndarray]:
    """Variables that are tested, and those of them whose pairs are, ascending from 0.

    A random choice of them if there are more than `most`, or `most_paired`.
    """
    units = formula.offsets[:-1][np.diff(formula.offsets) == 1]
    chosen = np.setdiff1d(np.arange(formula.n_vars), np.abs(formula.literals[units]) - 1)
    if len(chosen) > most_paired:
        chosen = np.random.default_rng([seed, 13]).permutation(chosen)
    return np.sort(chosen[:most]), np.sort(chosen[:most_paired])


def _count(
    x: np.ndarray, formula: Formula, paired: np.ndarray, budget: Budget
) -> tuple[int, np.ndarray, np.ndarray]:
    """(samples used, single (2, n), pairs (2, v, v)).

    single[:, i]: in how many samples variable i is free, and in how many of these it is true.
    pairs[:, i, j]: the same for paired[i], among the samples in which paired[j] is true.
    """
    m, n = x.shape
    single = np.zeros((2, n), np.int64)
    pairs = np.zeros((2, len(paired), len(paired)), np.int64)
    step = max(1, (1 << 22) // max(1, len(formula.literals)))  # 4 MiB of literal values
    used = 0
    for first in range(0, m, step):
        if first and budget.spent:
            break
        used = min(m, first + step)
        part = x[first:used]
        free = _free(formula, part)
        y = part[:, paired].astype(np.float32)
        for k, counted in enumerate((free, free & part)):
            single[k] += counted.sum(axis=0)
            pairs[k] += (counted[:, paired].astype(np.float32).T @ y).astype(np.int64)
    return used, single, pairs


def _family(
    name: str, counts: np.ndarray, chance: np.ndarray, band: Band, where: Callable[[int], str]
) -> Family:
    """One test for each entry: true in counts[1] of counts[0] samples, each with probability
    `chance`.
    """
    free, true = counts

    def describe(k: int) -> str:
        expected = f"{chance[k] * free[k]:,.1f} expected"
        return f"{where(k)}: true in {true[k]:,} of {free[k]:,}, {expected}"

    return family(name, two_sided(true, free, *band.choices(chance)), describe)


def _free(formula: Formula, x: np.ndarray) -> np.ndarray:
    """(m, n) bool: is the sample still valid with that variable flipped? x: valid samples.

    A flip breaks a clause exactly if the variable is its only true literal.
    """
    if formula.n_aux:
        out = np.empty(x.shape, bool)
        for i in range(x.shape[1]):
            y = x.copy()
            y[:, i] = ~y[:, i]
            out[:, i] = formula.satisfied(y)
        return out
    variables = np.abs(formula.literals) - 1
    held = np.zeros(x.shape, bool)
    if len(variables):
        true = x[:, variables] == (formula.literals > 0)
        count = np.add.reduceat(true, formula.offsets[:-1], axis=1, dtype=np.int32)
        true &= np.repeat(count == 1, np.diff(formula.offsets), axis=1)
        order = np.argsort(variables, kind="stable")
        first = np.flatnonzero(np.diff(variables[order], prepend=-1))
        held[:, variables[order[first]]] = np.logical_or.reduceat(true[:, order], first, axis=1)
    return ~held
