"""Each variable given all others: a necessary condition that needs no count of anything.

    P(x_i = 1 | x_-i) = 1 / (1 + e^-theta_i)    if both values of x_i are valid; else it is fixed

So among the samples in which variable i is free (flipping it breaks no clause), the number of those
with x_i = 1 is Bin(F_i, sigma(theta_i)), whatever the clauses are. The same holds among those of
them in which x_j = 1, for any j: the full conditional must not depend on x_j. Binomial p-values are
exact; half of the level is for variables, half for pairs, shared evenly (Bonferroni).

This is the condition that heat-bath moves leave the law as it is, tested on indicators: the kernel
Stein test of Yang, Liu, Rao, Neville (2018) with finitely many witnesses. It cannot see how weight
is spread over parts of the valid space between which no single flip leads.

Cost: O(m total literals) to find the free variables, O(m v^2) for pairs of v variables; as many
samples are used as the deadline allows.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from nelson.formula import Formula
from nelson.judging.band import Band
from nelson.judging.tails import two_sided
from nelson.judging.verdict import probability

#: Variables that are tested, and of which pairs are, at most; drawn where there are more.
_TESTED, _PAIRED = 16_384, 256
#: Bytes of literal values at a time.
_BYTES = 1 << 26
#: Flips that are evaluated one by one, in bits, where constraints are not clauses.
_FLIPS = 1 << 34


def conditionals(
    x: np.ndarray,
    formula: Formula,
    theta: np.ndarray,
    band: Band,
    delta: float,
    seed: int,
    deadline: float,
) -> tuple[bool | None, str, dict[str, Any]]:
    """(accept, reason, evidence); accept is None where nothing was found: the test can only reject.

    x: (m, n) valid samples of all variables. Variables of unit clauses are never free: left out.
    """
    m, n = x.shape
    evidence: dict[str, Any] = {"samples": m, "exact": True}
    if formula.n_aux and (not formula.constraints or m * n * len(formula.literals) > _FLIPS):
        return None, "auxiliary variables make single flips too costly to check", evidence
    odds = np.exp(-np.logaddexp(0.0, -theta))  # sigma(theta)
    alone = formula.offsets[:-1][np.diff(formula.offsets) == 1]
    chosen = np.setdiff1d(np.arange(n), np.abs(formula.literals[alone]) - 1)
    if len(chosen) > _PAIRED:
        chosen = np.random.default_rng([seed, 13]).permutation(chosen)
    chosen, paired = np.sort(chosen[:_TESTED]), np.sort(chosen[:_PAIRED])
    free_total, true_total = np.zeros(n, np.int64), np.zeros(n, np.int64)
    free_with = np.zeros((len(paired), len(paired)), np.int64)
    true_with = free_with.copy()
    step = max(1, _BYTES // max(1, len(formula.literals)))
    used = 0
    for first in range(0, m, step):
        if first and time.monotonic() > deadline:
            break
        used = min(m, first + step)
        part = x[first : first + step]
        free = _free(formula, part)
        free_total += free.sum(axis=0)
        true_total += (free & part).sum(axis=0)
        y = part[:, paired].astype(np.float32)
        f = free[:, paired].astype(np.float32)
        free_with += (f.T @ y).astype(np.int64)
        true_with += ((f * y).T @ y).astype(np.int64)
    p = two_sided(true_total[chosen], free_total[chosen], *band.choices(odds[chosen]))
    i, j = np.nonzero(~np.eye(len(paired), dtype=bool))
    q = two_sided(true_with[i, j], free_with[i, j], *band.choices(odds[paired[i]]))
    single = min(1.0, float(p.min(initial=1.0)) * len(p))
    pair = min(1.0, float(q.min(initial=1.0)) * len(q))
    value = min(1.0, 2 * min(single, pair))
    if single <= pair and len(p):
        v = chosen[int(np.argmin(p))]
        worst = (
            f"variable {v + 1} where it is free: {_against(true_total[v], free_total[v], odds[v])}"
        )
    elif len(q):
        k = int(np.argmin(q))
        a, b = paired[i[k]], paired[j[k]]
        told = _against(true_with[i[k], j[k]], free_with[i[k], j[k]], odds[a])
        worst = f"variable {a + 1} where it is free and {b + 1} is true: {told}"
    else:
        worst = "no variable is ever free"
    evidence |= {
        "samples": used,
        "tests": {"variables": len(p), "pairs": len(q)},
        "free": float(free_total[chosen].sum() / max(1, used * len(chosen))),
        "p_value": value,
        "level": delta,
        "worst": worst,
    }
    said = f"the worst of {len(p) + len(q):,} tests has {probability(value, delta)}, corrected"
    if value < delta:
        return False, said, evidence
    return None, f"{said}: nothing found, but this test can only reject", evidence


def _against(count: int, free: int, p: float) -> str:
    return f"true in {count:,} of {free:,}, {p * free:,.1f} expected"


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
