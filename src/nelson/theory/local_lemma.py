"""What theory says about a formula: criteria of the local lemma, and the expected work.

A clause c_j is a bad event: "c_j is violated". Under the product distribution of theta it has
probability p_j, the product over its literals of P(literal is false). Two clauses are neighbours
when they share a variable. Everything here is a question about these events and this graph; nothing
here samples.

References: Erdos and Lovasz 1975; Shearer 1985; Bissacot, Fernandez, Procacci, Scoppola 2011 (the
cluster-expansion criterion); Guo, Jerrum, Liu 2019 (Condition 1, expected work); Moser and
Tardos 2010.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from nelson.formula import Formula
from nelson.formula.checks import checked_theta
from nelson.formula.components import by_component
from nelson.formula.flat import owners
from nelson.kernels.core.deadline import check_time
from nelson.theory.clause_graph import adjacency, degree

#: solve(p, mu, rounds) -> (verdict, rounds used): one criterion by monotone iteration.
Solver = Callable[[np.ndarray, np.ndarray, int], tuple[int, int]]


def violation(f: Formula, theta: np.ndarray | None = None) -> np.ndarray:
    """p_j = prod over the literals of clause j of P_theta(literal is false), float64 (L,)."""
    check_time()
    log_false, log_true = _log_marginals(f, theta)
    variable = np.abs(f.literals) - 1
    log_p = np.where(f.literals > 0, log_false[variable], log_true[variable])
    return np.exp(
        np.bincount(owners(f.offsets), weights=log_p, minlength=f.n_clauses)[: f.n_clauses]
    )


@dataclass(frozen=True)
class Criterion:
    """One sufficient condition for a solution to exist.

    holds    True, False, or None (undecided or not computed; `note` says which)
    slack    the factor by which every p_j could grow before the condition fails; below 1, every p_j
             would have to shrink by it. None if it was not computed
    bound    if the condition holds: sum_j mu_j, which bounds the expected number of resamplings of
             `moser-tardos`
    """

    holds: bool | None
    slack: float | None = None
    bound: float | None = None
    note: str = ""


def symmetric(f: Formula, theta: np.ndarray | None = None) -> Criterion:
    """e p (d + 1) <= 1, with p the largest p_j and d the largest degree."""
    if f.n_clauses == 0:
        return Criterion(True, math.inf, note="no clauses")
    d = degree(f)
    value = math.e * float(violation(f, theta).max()) * (d.max + 1)
    note = f"e p (d+1) = {value:.3g}" + ("" if d.exact else ", d an upper bound")
    return Criterion(value <= 1, math.inf if value == 0 else 1 / value, note=note)


def asymmetric(f: Formula, theta: np.ndarray | None = None, *, slack: bool = True) -> Criterion:
    """Some x in [0, 1)^L has p_j <= x_j prod_(i ~ j) (1 - x_i) for all j (Erdos and Lovasz).

    By monotone iteration (`kernels.reduce.local_lemma.erdos_lovasz`); the verdict is right up to a
    relative change of p of about 1e-9. Not computed if the dependency graph is too large to store.
    """
    from nelson.kernels.reduce import local_lemma

    graph = adjacency(f)
    if graph is None:
        return Criterion(None, note="dependency graph too large")
    degrees, neighbour = graph

    def solve(p: np.ndarray, mu: np.ndarray, rounds: int) -> tuple[int, int]:
        return local_lemma.erdos_lovasz(p, degrees, neighbour, mu, np.zeros_like(p), rounds)

    return _fixpoint(solve, violation(f, theta), neighbour.size + f.n_clauses, slack)


def cluster(f: Formula, theta: np.ndarray | None = None, *, slack: bool = True) -> Criterion:
    """The cluster-expansion criterion, with each neighbourhood covered by one clique per variable.

    Stronger than `asymmetric` if two clauses rarely share more than one variable. A round is linear
    in the formula, whatever the graph (`kernels.reduce.local_lemma.cluster_expansion`).
    """
    from nelson.kernels.reduce import local_lemma

    def solve(p: np.ndarray, mu: np.ndarray, rounds: int) -> tuple[int, int]:
        total = np.zeros(f.n_total)
        return local_lemma.cluster_expansion(p, f.literals, f.offsets, mu, total, rounds)

    return _fixpoint(solve, violation(f, theta), f.literals.size + f.n_clauses, slack)


def shearer(f: Formula, theta: np.ndarray | None = None) -> Criterion:
    """Shearer's condition: the exact limit of what the graph and p alone can prove.

    Computed if every component has at most 20 clauses. For an extremal formula the polynomial is
    P(no clause violated) itself, so there the condition holds if and only if a solution exists.
    """
    # Shearer's polynomial is computed for components with at most this many clauses.
    max_shearer_clauses = 20
    # Subsets of clauses that Shearer's polynomials may have in total.
    max_shearer_subsets = 1 << 28
    from nelson.kernels.reduce import local_lemma

    members, first, _, _ = by_component(f)
    sizes = np.diff(first)
    few = sizes.max(initial=0) <= max_shearer_clauses
    graph = adjacency(f) if few and (2.0**sizes).sum() <= max_shearer_subsets else None
    if graph is None:
        return Criterion(None, note=f"a component has more than {max_shearer_clauses} clauses")
    p, (degrees, neighbour) = violation(f, theta), graph
    smallest = 1.0 if len(members) == f.n_clauses else 0.0  # an empty clause is in no component
    end = np.cumsum(degrees)
    bit = np.zeros(f.n_clauses, np.int64)
    for a, b in pairwise(first):
        clauses = members[a:b]
        bit[clauses] = 1 << np.arange(b - a)
        near = (neighbour[end[j] - degrees[j] : end[j]] for j in clauses)
        closed = bit[clauses] | np.array([bit[i].sum() for i in near], dtype=np.int64)
        smallest = min(smallest, local_lemma.shearer(p[clauses], closed, np.empty(1 << (b - a))))
    return Criterion(smallest > 1e-12, note=f"least polynomial value {smallest:.3g}")


def expected_resamplings(f: Formula, theta: np.ndarray | None = None) -> float | None:
    """Theorem 2: E[resampled clauses] = sum_j q_j / q_empty, or None if that is too much work.

    Under the product distribution of theta, q_empty is the probability that no clause is violated,
    and q_j that clause j alone is violated. If f is extremal, the ratio is the expected number of
    clauses (not rounds) that Algorithm 1 resamples on f *as given*; otherwise it has no such
    meaning. Infinite if f is unsatisfiable.

    A unit clause counts like any other clause here. The sampler `lovasz` never resamples one: unit
    propagation fixes those variables before it starts. For the number that `lovasz` resamples, pass
    the clauses that propagation leaves. Example: [[1], [-1, 2, 3]] gives 5/3, and [[2, 3]], which
    is left of it, gives 1/3.

    q factorises over components, so the ratio adds up over them. Each is enumerated, if it has at
    most 20 variables. O(sum over components of 2^n_c L_c).
    """
    # Components with at most this many variables are enumerated.
    max_enumerated_variables = 20
    # Work that enumerating all components may take, in states times clauses.
    max_enumeration_work = 1_000_000_000
    from nelson.kernels.reduce import local_lemma

    if np.any(np.diff(f.offsets) == 0):
        return math.inf
    members, first, variables, start = by_component(f)
    n, n_clauses = np.diff(start), np.diff(first)
    n = n[n_clauses > 0]
    if n.max(initial=0) > max_enumerated_variables:
        return None
    if 2.0**n @ n_clauses[n_clauses > 0] > max_enumeration_work:
        return None
    log_p = np.stack(_log_marginals(f, theta), axis=1)
    place = np.empty(f.n_total, np.int64)
    tables, out = np.empty((2, 1 << (max_enumerated_variables + 1) // 2)), np.empty(2)
    mask, negative = np.empty((2, int(n_clauses.max(initial=0))), np.int64)
    total = 0.0
    for c in np.flatnonzero(n_clauses):
        part_variables = variables[start[c] : start[c + 1]]
        place[part_variables] = np.arange(len(part_variables))
        clauses = members[first[c] : first[c + 1]]
        local_lemma.component_masks(f.literals, f.offsets, clauses, place, mask, negative)
        local_lemma.enumerate_violations(
            mask, negative, len(clauses), log_p[part_variables], tables, out
        )
        if out[0] == -np.inf:
            return math.inf
        with np.errstate(over="ignore"):
            total += float(np.exp(out[1] - out[0]))
    return total


# --- shared pieces -------------------------------------------------------------------------------


def _log_marginals(f: Formula, theta: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """(log P(x_i = 0), log P(x_i = 1)); auxiliary variables are fair coins."""
    full = np.zeros(f.n_total)
    checked = checked_theta(theta, f.n_vars)
    if checked is not None:
        full[: f.n_vars] = checked
    return -np.logaddexp(0.0, full), -np.logaddexp(0.0, -full)


def _fixpoint(solve: Solver, p: np.ndarray, work: int, slack: bool) -> Criterion:
    """Solve at p, then at scaled p until the slack is known within 1%. work: of one round."""
    # Work of all rounds of one fixpoint iteration, in visits of a literal or a neighbour.
    fixpoint_work = 500_000_000
    # The slack needs dozens of fixpoints: it is computed only if one round takes at most this work.
    max_slack_work = 300_000
    from nelson.kernels.reduce import local_lemma

    if p.size == 0:
        return Criterion(True, math.inf, 0.0, "no clauses")
    if p.max() == 0:
        return Criterion(True, math.inf, 0.0, "no clause can be violated")
    max_rounds = int(min(max(fixpoint_work // work, 50), 10_000))
    mu = np.zeros_like(p)
    verdict, rounds = solve(p, mu, max_rounds)
    holds = {local_lemma.HOLDS: True, local_lemma.FAILS: False}.get(verdict)
    bound = float(mu.sum()) if holds else None
    note = f"{'undecided' if holds is None else 'decided'} after {rounds} rounds"
    if not slack or holds is None or work > max_slack_work:
        return Criterion(holds, None, bound, note)
    low, high = (1.0, 2.0) if holds else (0.5, 1.0)

    def fits(scale: float) -> bool:  # undecided counts as failing, so the slack is a safe one
        return solve(p * scale, np.zeros_like(p), min(max_rounds, 1000))[0] == local_lemma.HOLDS

    while holds and high < 1e6 and fits(high):
        low, high = high, 2 * high
    while not holds and low > 1e-6 and not fits(low):
        low, high = low / 2, low
    while high > 1.01 * low:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if fits(middle) else (low, middle)
    return Criterion(holds, low, bound, note)
