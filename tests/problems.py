"""Problems with exact answers, shared by all tests.

Formulas come with what is known of them: the law P_theta(x | C) by enumeration, its marginals, and
a chi-square test of samples against that law. Everything here is small, plain and slow on purpose:
it judges the package, so it uses as little of it as possible.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from nelson.formula import Formula

Law = tuple[np.ndarray, np.ndarray]


# --- formulas ------------------------------------------------------------------------------------


def random_ksat(n: int, n_clauses: int, k: int = 5, seed: int = 0) -> Formula:
    """Random k-SAT: each clause has k distinct variables, each negated by a fair coin."""
    rng = np.random.default_rng(seed)
    if n_clauses * n > 10_000_000:  # large: rejection of repeated variables, vectorised
        variables = rng.integers(1, n + 1, size=(n_clauses, k))
        while True:
            ordered = np.sort(variables, axis=1)
            bad = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
            if bad.size == 0:
                break
            variables[bad] = rng.integers(1, n + 1, size=(bad.size, k))
    else:
        variables = np.argsort(rng.random((n_clauses, n)), axis=1)[:, :k] + 1
    signs = rng.integers(0, 2, size=(n_clauses, k)) * 2 - 1
    return Formula((variables * signs).astype(np.int32), n_vars=n)


def cycle_edges(n: int) -> list[tuple[int, int]]:
    """Edges of the cycle C_n."""
    return [(i, (i + 1) % n) for i in range(n)]


def complete_edges(n: int) -> list[tuple[int, int]]:
    """Edges of the complete graph K_n."""
    return [(i, j) for i in range(n) for j in range(i + 1, n)]


def sink_free(edges: Sequence[tuple[int, int]], n_vertices: int | None = None) -> Formula:
    """Sink-free orientations: edge e = (u, v) is variable e+1, true for u -> v.

    Vertex w has one clause, "some edge leaves w". Two vertices joined by an edge hold that edge
    with opposite signs, so the formula is extremal.
    """
    if n_vertices is None:
        n_vertices = 1 + max(max(e) for e in edges)
    clauses: list[list[int]] = [[] for _ in range(n_vertices)]
    for e, (u, v) in enumerate(edges):
        clauses[u].append(e + 1)
        clauses[v].append(-(e + 1))
    return Formula(clauses, n_vars=len(edges))


def example1() -> Formula:
    """Example 1 of the paper: (X1 or X2) and (not X1 or X3). Extremal, four solutions."""
    return Formula([[1, 2], [-1, 3]], n_vars=3)


def decision_tree(depth: int, width: int = 1) -> Formula:
    """Leaves of a full binary decision tree, each with `width` private variables: extremal.

    2^depth clauses; any two paths part at some inner node, where they hold opposite literals.
    """
    inner, clauses = 2**depth - 1, []
    for leaf in range(2**depth):
        node, clause = 1, []
        for level in range(depth - 1, -1, -1):
            right = leaf >> level & 1
            clause.append(node if right else -node)
            node = 2 * node + right
        clauses.append(clause + [inner + leaf * width + i + 1 for i in range(width)])
    return Formula(clauses, n_vars=inner + 2**depth * width)


def pigeonhole(holes: int) -> Formula:
    """holes + 1 pigeons into `holes` holes: unsatisfiable, hard for resolution."""
    pigeons = holes + 1
    clauses = [[p * holes + h + 1 for h in range(holes)] for p in range(pigeons)]
    for h in range(holes):
        for p in range(pigeons):
            clauses += [[-(p * holes + h + 1), -(q * holes + h + 1)] for q in range(p)]
    return Formula(clauses, n_vars=pigeons * holes)


def errata3(ratio: int = 1, seed: int = 0, n: int = 18) -> tuple[Formula, np.ndarray]:
    """Random 5-SAT with L = ratio * n and theta ~ N(0, 1): plain resampling is biased here."""
    theta = np.random.default_rng([seed, 1]).normal(size=n)
    return random_ksat(n, ratio * n, 5, seed=seed), theta


def extremal() -> dict[str, Formula]:
    """Small satisfiable formulas that satisfy Condition 1."""
    petal = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 2)]  # two triangles, one shared corner
    return {
        "example1": example1(),
        "cycle3": sink_free(cycle_edges(3)),
        "cycle6": sink_free(cycle_edges(6)),
        "complete4": sink_free(complete_edges(4)),
        "bowtie": sink_free(petal),
        "triangles": sink_free([*cycle_edges(3), (3, 4), (4, 5), (5, 3)]),  # two components
        "double edge": sink_free([(0, 1), (0, 1), (1, 2)]),
        "tree": decision_tree(2),
        "free variable": Formula([[1, 2], [-2, 3, 4]], n_vars=5),
    }


def non_extremal() -> dict[str, Formula]:
    """Small satisfiable formulas that break Condition 1, so that plain resampling is biased."""
    return {
        "shared literal": Formula([[1, 2], [1, 3]], n_vars=3),
        "path": Formula([[1, 2], [2, 3], [3, 4], [4, 5]], n_vars=5),
        "horn": Formula([[-1, 2], [-1, 3], [-2, -3, 4]], n_vars=4),
        "random 3-SAT": random_ksat(8, 16, 3, seed=1),
        "random 5-SAT": random_ksat(10, 20, 5, seed=2),
    }


def weights(f: Formula, seed: int = 0) -> np.ndarray:
    """theta ~ N(0, 1), one per visible variable."""
    return np.random.default_rng([seed, 2]).normal(size=f.n_vars)


def encoded() -> dict[str, Formula]:
    """Formulas with XOR, cardinality and linear constraints, which have auxiliary variables."""
    return {
        "xor": random_ksat(9, 6, 3, seed=4).xor(range(1, 10)),
        "exactly": Formula([[1, 2, -3]], 9).exactly(range(1, 10), 4),
        "linear": Formula([[-1, 2]], 8).linear([3, 1, 4, 1, 5, 9, 2, 6], range(1, 9), "<=", 15),
        "both": Formula([], 10).xor([1, -2, 3, 4, 5, 6, 7]).at_least([2, 4, 6, 8, 10], 2),
    }


# --- exact answers -------------------------------------------------------------------------------


def all_states(n: int) -> np.ndarray:
    """(2^n, n) bool, in the order of the paper's s_1 .. s_8: the first variable is slowest."""
    return (np.arange(2**n)[:, None] >> np.arange(n - 1, -1, -1) & 1).astype(bool)


def exact_law(f: Formula, theta: np.ndarray | None = None) -> Law:
    """P_theta(x | C) = exp(theta . x) C(x) / Z by enumeration of 2^n states, n <= 20.

    Returns the valid states, (m, n) bool in enumeration order, and their probabilities (m,).
    theta of +-inf is hard evidence.
    """
    n = f.n_vars
    if n > 20:
        raise ValueError(f"{n} variables are too many to enumerate")
    states = all_states(n)
    states = states[np.asarray(f.satisfied(states), dtype=bool)]
    log_weight = np.zeros(len(states))
    for i in range(n if theta is not None else 0):
        t = float(theta[i])
        if np.isinf(t):
            log_weight[states[:, i] != (t > 0)] = -np.inf
        else:
            log_weight += t * states[:, i]
    keep = log_weight > -np.inf
    states, log_weight = states[keep], log_weight[keep]
    if len(states) == 0:
        return states, log_weight
    weight = np.exp(log_weight - log_weight.max())
    return states, weight / weight.sum()


def exact_log_z(formula: Formula, theta: np.ndarray | None = None) -> float:
    """log sum over visible x of exp(theta . x) C(x), by the definition; +-inf is evidence."""
    states = all_states(formula.n_vars)
    keep = np.asarray(formula.satisfied(states), bool)
    total = np.zeros(len(states))
    for i in range(formula.n_vars if theta is not None else 0):
        if np.isinf(theta[i]):
            keep &= states[:, i] == (theta[i] > 0)
        else:
            total += theta[i] * states[:, i]
    return float(np.logaddexp.reduce(total[keep])) if keep.any() else -np.inf


def exact_marginals(f: Formula, theta: np.ndarray | None = None) -> np.ndarray:
    """P_theta(x_i = 1 | C), shape (n,)."""
    states, probability = exact_law(f, theta)
    return probability @ states


def state_codes(x: np.ndarray) -> np.ndarray:
    """One integer a row: its place in `all_states`."""
    x = np.asarray(x, dtype=np.int64)
    return x @ (1 << np.arange(x.shape[1] - 1, -1, -1, dtype=np.int64))


def chi_square(samples: np.ndarray, law: Law) -> float:
    """p-value of Pearson's chi-square test of samples (m, n) against a law from `exact_law`.

    Rare states are merged, least likely first, until each bin expects at least 5 samples. A sample
    outside the support gives 0. A test that asks p > alpha rejects a right sampler with
    probability alpha.
    """
    from scipy.stats import chi2

    states, probability = law
    codes, count = np.unique(state_codes(samples), return_counts=True)
    known = state_codes(states)
    order = np.argsort(known)
    place = np.minimum(np.searchsorted(known[order], codes), len(known) - 1)
    if np.any(known[order][place] != codes):
        return 0.0
    observed = np.zeros(len(known))
    observed[order[place]] = count
    expected = probability * len(samples)
    bins: list[list[float]] = [[0.0, 0.0]]
    for i in np.argsort(expected, kind="stable"):
        if bins[-1][1] >= 5:
            bins.append([0.0, 0.0])
        bins[-1][0] += observed[i]
        bins[-1][1] += expected[i]
    if len(bins) < 2:
        return 1.0
    o, e = np.array(bins).T
    return float(chi2.sf(((o - e) ** 2 / e).sum(), len(bins) - 1))


def one_way_graph():
    """Not symmetric; parallel arcs, an arc that leaves the root "r", a loop that does not count."""
    import networkx as nx

    arcs = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "r"), ("a", "r"), ("d", "a"), ("d", "d")]
    return nx.MultiDiGraph([*arcs, ("b", "d"), ("d", "a"), ("r", "a")])


def house_graph():
    import networkx as nx

    return nx.Graph([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (3, 4), (2, 4)])


def hubs_and_leaves(
    hubs: int = 40, leaves: int = 300, each: int = 14, seed: int = 0
) -> tuple[Formula, np.ndarray]:
    """Each hub is in conflict with some leaves, and theta is 12 for hubs, 2 for leaves. All leaves
    and no hub weigh most, but resampling keeps the hubs and drops their leaves: the wrong phase.
    """
    rng = np.random.default_rng(seed)
    clauses = [
        [-hub, -(hubs + 1 + int(leaf))]
        for hub in range(1, hubs + 1)
        for leaf in rng.choice(leaves, each, replace=False)
    ]
    theta = np.concatenate([np.full(hubs, 12.0), np.full(leaves, 2.0)])
    return Formula(clauses, n_vars=hubs + leaves), theta


def entropic_switch(seed: int = 0, n: int = 150, ratio: float = 3.5) -> Formula:
    """x1 implies a 3-SAT formula with many solutions; not x1 implies that n + 15 further variables
    are true. Nearly all solutions have x1 = 1, but resampling satisfies the second half first.
    """
    rng = np.random.default_rng(seed)
    hidden, inside = rng.integers(0, 2, n), []
    while len(inside) < ratio * n:
        variables = rng.choice(n, 3, replace=False)
        signs = rng.integers(0, 2, 3)
        if (signs == hidden[variables]).any():
            inside.append([-1, *np.where(signs, variables + 2, -variables - 2).tolist()])
    others = [[1, v] for v in range(n + 2, 2 * n + 17)]
    return Formula([*inside, *others], n_vars=2 * n + 16)


def hard_core(rows: int, columns: int) -> Formula:
    """Independent sets of a grid: no two neighbours are both true."""
    number = np.arange(1, rows * columns + 1).reshape(rows, columns)
    edges = [*zip(number[:, :-1].ravel(), number[:, 1:].ravel(), strict=True)]
    edges += [*zip(number[:-1].ravel(), number[1:].ravel(), strict=True)]
    return Formula([[-int(a), -int(b)] for a, b in edges], n_vars=rows * columns)


def xor_gates(inputs, gates, seed, extra=()):
    """Each gate is the sum modulo 2 of three variables before it; `extra`: clauses at the end."""
    rng, clauses = np.random.default_rng(seed), []
    for gate in range(inputs + 1, inputs + gates + 1):
        scope = [*(int(v) + 1 for v in rng.choice(gate - 1, 3, replace=False)), gate]
        for signs in itertools.product([1, -1], repeat=4):
            if signs.count(-1) % 2:  # false where the variables sum up to 1
                clauses.append([sign * v for sign, v in zip(signs, scope, strict=True)])
    return Formula([*clauses, *extra], n_vars=inputs + gates)
