"""Building blocks of families: graphs, sets of clauses, and sums that give their truth."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product

import numpy as np

from nelson.formula import Formula

Clauses = list[list[int]]
Edges = list[tuple[int, int]]


# --- clauses over variables 1..n -----------------------------------------------------------------


def planted(n: int, clauses: int, k: int, seed: int) -> Clauses:
    """Random k-SAT around a hidden assignment: each clause is satisfied by it."""
    random = np.random.default_rng([seed, n, clauses])
    hidden = random.random(n) < 0.5
    found: Clauses = []
    while len(found) < clauses:
        v = random.choice(n, k, replace=False)
        sign = random.random(k) < 0.5
        if (sign == hidden[v]).any():
            found.append([int(u + 1) if s else -int(u + 1) for u, s in zip(v, sign, strict=True)])
    return found


def all_equal(n: int) -> Clauses:
    return [[-v, v % n + 1] for v in range(1, n + 1)]


def shifted(clauses: Clauses, by: int) -> Clauses:
    return [[v + by if v > 0 else v - by for v in clause] for clause in clauses]


def exactly_one(variables: Sequence[int]) -> Clauses:
    return [list(variables), *([-a, -b] for a, b in combinations(variables, 2))]


def explicit(states: np.ndarray) -> Clauses:
    """A CNF of a set of assignments (m, k). Each clause forbids a largest subcube outside of the
    set. The subcubes overlap, so the formula is not extremal.
    """
    k = states.shape[1]
    codes = np.arange(1 << k)
    free = np.ones(1 << k, bool)
    free[states @ (1 << np.arange(k))] = False
    covered, clauses = ~free, []
    random = np.random.default_rng(k)
    while not covered.all():
        code, fixed = int(codes[~covered][0]), (1 << k) - 1
        inside = codes[code : code + 1]
        for i in random.permutation(k):
            wider = np.concatenate([inside, inside ^ (1 << int(i))])
            if free[wider].all():
                inside, fixed = wider, fixed & ~(1 << int(i))
        covered[inside] = True
        clauses.append([-(i + 1) if code >> i & 1 else i + 1 for i in range(k) if fixed >> i & 1])
    return clauses


def cube(k: int) -> np.ndarray:
    """All assignments of k variables, (2^k, k) bool."""
    return np.array(list(product((False, True), repeat=k)))


# --- graphs --------------------------------------------------------------------------------------


def grid(rows: int, columns: int, torus: bool = False) -> Edges:
    edges = []
    for i, j in product(range(rows), range(columns)):
        for a, b in ((i + 1, j), (i, j + 1)):
            if torus or (a < rows and b < columns):
                edges.append((i * columns + j, a % rows * columns + b % columns))
    return edges


def checkerboard(rows: int, columns: int) -> np.ndarray:
    """+1 and -1, (rows * columns,)."""
    return np.array([1 - 2 * ((i + j) % 2) for i, j in product(range(rows), range(columns))])


def cycle(n: int) -> Edges:
    return [(i, (i + 1) % n) for i in range(n)]


def regular(n: int, degree: int, seed: int) -> Edges:
    """A random regular graph without loops and double edges, by random swaps of a circulant one."""
    random = np.random.default_rng([seed, n, degree])
    edges = [(i, (i + d) % n) for d in range(1, degree // 2 + 1) for i in range(n)]
    if degree % 2:
        edges += [(i, i + n // 2) for i in range(n // 2)]
    held = {frozenset(edge) for edge in edges}
    for a, b in random.integers(0, len(edges), (20 * len(edges), 2)):
        (s, t), (u, v) = edges[a], edges[b]
        new = frozenset((s, v)), frozenset((u, t))
        if len({s, t, u, v}) == 4 and not held & set(new):
            held -= {frozenset((s, t)), frozenset((u, v))}
            held |= set(new)
            edges[a], edges[b] = (s, v), (u, t)
    return edges


def independent_sets(edges: Edges, n: int) -> Formula:
    return Formula([[-(a + 1), -(b + 1)] for a, b in edges], n_vars=n)


def strip_means(theta: np.ndarray) -> tuple[float, np.ndarray]:
    """log Z and marginals of independent sets of a grid with weights theta (rows, columns), by a
    transfer matrix over the states of a row.
    """
    rows, columns = theta.shape
    codes = np.arange(1 << columns)
    codes = codes[codes & codes >> 1 == 0]  # no two neighbours
    states = codes[:, None] >> np.arange(columns) & 1
    allowed = (codes[:, None] & codes == 0).astype(float)
    weights = np.exp(states @ theta.T)  # (states, rows)
    down, log_z = [weights[:, 0]], 0.0
    for i in range(1, rows):
        log_z += np.log(down[-1].sum())
        down.append((allowed @ (down[-1] / down[-1].sum())) * weights[:, i])
    log_z += np.log(down[-1].sum())
    up, means = np.ones(len(states)), np.zeros(theta.shape)
    for i in range(rows - 1, -1, -1):
        p = down[i] * up
        means[i] = p @ states / p.sum()
        up = allowed @ (up * weights[:, i])
        up /= up.sum()
    return float(log_z), means.ravel()
