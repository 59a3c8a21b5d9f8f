"""Formulas and spaces for `overruns`: each of another kind, made in a few lines."""

from __future__ import annotations

import functools
import itertools
import operator
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

import nelson
from nelson import Formula, Space
from tests.structured import circuits, kconfig, planning, sequential, words


class NoData(Exception):
    """A published formula is not here; the text says where it was looked for."""


def _published(number: int) -> Formula:
    """One of the authors' 100 formulas."""
    place = os.environ.get("NELSON_BENCH_DATA", "")
    path = Path(place, "authors-5sat-500.tar.xz")
    if not place or not path.exists():
        raise NoData(f"NELSON_BENCH_DATA={place!r} has no file {path.name}")
    with tarfile.open(path) as archive:
        name = next(name for name in archive.getnames() if name.endswith(f"_{number:04}.cnf"))
        text = archive.extractfile(name)
        assert text is not None
        return Formula.from_dimacs(text.read())


def _planted(n: int, ratio: float, seed: int = 1) -> Formula:
    """3-SAT without the clauses that a hidden assignment violates."""
    random = np.random.default_rng(seed)
    hidden = random.integers(0, 2, n) * 2 - 1
    rows = np.empty((0, 3), np.int32)
    while len(rows) < ratio * n:
        more = nelson.random_ksat(n, int(ratio * n), 3, int(random.integers(1 << 30)))
        literals = more.literals.reshape(-1, 3)
        holds = (np.sign(literals) == hidden[np.abs(literals) - 1]).any(1)
        rows = np.concatenate([rows, literals[holds]])
    return Formula(rows[: int(ratio * n)], n_vars=n)


def _features(n: int, seed: int = 1) -> Formula:
    """A tree of features with groups, and implications across it: a model of a product line."""
    random = np.random.default_rng(seed)
    parent = np.array([0, 0, *(random.integers(max(1, k // 4), k) for k in range(2, n + 1))])
    clauses = [[1], *([-k, int(parent[k])] for k in range(2, n + 1))]
    children = np.argsort(parent[2:], kind="stable") + 2
    for group in np.split(children, np.flatnonzero(np.diff(parent[children])) + 1):
        kind = random.random()
        if kind < 0.3:  # one of them if the parent is selected
            clauses.append([-int(parent[group[0]]), *group.tolist()])
        if kind < 0.15:
            clauses += [[-a, -b] for a, b in itertools.combinations(group[:12].tolist(), 2)]
    a, b = random.integers(2, n + 1, (2, n // 5))
    signs = random.choice([-1, 1], n // 5, p=[0.2, 0.8])
    clauses += [[-int(x), int(y * s)] for x, y, s in zip(a, b, signs, strict=True) if x != y]
    return Formula(clauses, n_vars=n)


def _grid_colours(side: int, colours: int) -> Formula:
    def at(i: int, j: int, c: int) -> int:
        return (i * side + j) * colours + c + 1

    clauses: list[list[int]] = []
    for i, j in itertools.product(range(side), repeat=2):
        clauses.append([at(i, j, c) for c in range(colours)])
        clauses += [[-at(i, j, a), -at(i, j, b)] for b in range(colours) for a in range(b)]
        for c in range(colours):
            clauses += [[-at(i, j, c), -at(i + 1, j, c)]] if i + 1 < side else []
            clauses += [[-at(i, j, c), -at(i, j + 1, c)]] if j + 1 < side else []
    return Formula(clauses)


def _latin(n: int) -> Formula:
    def at(i: int, j: int, c: int) -> int:
        return (i * n + j) * n + c + 1

    clauses: list[list[int]] = []
    for p, q in itertools.product(range(n), repeat=2):
        for line in (
            [at(p, q, c) for c in range(n)],
            [at(p, c, q) for c in range(n)],
            [at(c, p, q) for c in range(n)],
        ):
            clauses.append(line)
            clauses += [[-a, -b] for a, b in itertools.combinations(line, 2)]
    return Formula(clauses)


def _pigeons(n: int, holes: int) -> Formula:
    at = np.arange(1, n * holes + 1).reshape(n, holes)
    clauses = at.tolist()
    for hole in at.T.tolist():
        clauses += [[-a, -b] for a, b in itertools.combinations(hole, 2)]
    return Formula(clauses)


def _parities(n: int, count: int, width: int, seed: int = 1) -> Formula:
    random = np.random.default_rng(seed)
    formula = Formula([], n_vars=n)
    for _ in range(count):
        chosen = random.choice(n, width, replace=False) + 1
        formula = formula.xor(chosen.tolist(), bool(random.integers(2)))
    return formula


def _cardinalities(n: int) -> Formula:
    """Wide sums, half of the variables each, over random clauses."""
    formula = nelson.random_ksat(n, n, 3, 1)
    return formula.exactly(range(1, n // 2), n // 5).at_most(range(n // 3, n + 1), n // 4)


def _knapsack(n: int, seed: int = 1) -> Formula:
    weights = np.random.default_rng(seed).integers(1, 1000, n).tolist()
    return Formula([], n_vars=n).linear(weights, range(1, n + 1), "<=", sum(weights) // 4)


def _independent_sets(side: int) -> Formula:
    at = np.arange(1, side * side + 1).reshape(side, side)
    edges = [np.stack([at, np.roll(at, 1, axis)], -1).reshape(-1, 2) for axis in (0, 1)]
    return Formula(-np.concatenate(edges).astype(np.int32))


def _long_clauses(n: int, count: int, length: int, seed: int = 1) -> Formula:
    random = np.random.default_rng(seed)
    rows = np.stack([random.choice(n, length, replace=False) + 1 for _ in range(count)])
    return Formula((rows * random.choice([-1, 1], rows.shape)).astype(np.int32), n_vars=n)


def _islands(count: int, size: int) -> Formula:
    """Independent components, each a random 3-SAT of its own."""
    rows = [
        nelson.random_ksat(size, 3 * size, 3, k % 50).literals.reshape(-1, 3) for k in range(count)
    ]
    shifted = [np.sign(r) * (np.abs(r) + k * size) for k, r in enumerate(rows)]
    return Formula(np.concatenate(shifted).astype(np.int32), n_vars=count * size)


def _in_rows(size: int, *groups: np.ndarray) -> Formula:
    """Exactly one variable of each row of each group."""
    formula = Formula([], n_vars=size)
    for row in itertools.chain(*groups):
        formula = formula.exactly(row.tolist(), 1)
    return formula


def _permutations(n: int) -> Formula:
    at = np.arange(1, n * n + 1).reshape(n, n)
    return _in_rows(n * n, at, at.T)


def _torus_matchings(side: int) -> Formula:
    at = np.arange(side * side).reshape(side, side)
    right, down = 1 + at, 1 + side * side + at
    edges = [right, np.roll(right, 1, 1), down, np.roll(down, 1, 0)]
    return _in_rows(2 * side * side, np.stack(edges, -1).reshape(-1, 4))


def _queens(n: int) -> Formula:
    at = np.arange(1, n * n + 1).reshape(n, n)
    clauses = [*at.tolist(), *at.T.tolist()]
    lines = [*at, *at.T]
    for board in (at, at[::-1]):
        lines += [np.diagonal(board, k) for k in range(2 - n, n - 1)]
    for line in lines:
        clauses += [[-a, -b] for a, b in itertools.combinations(line.tolist(), 2)]
    return Formula(clauses)


def _order(n: int) -> Formula:
    """A total order of n things that has no smallest: unsatisfiable, n^3 clauses."""
    at = np.zeros((n, n), int)
    upper = np.triu_indices(n, 1)
    at[upper] = np.arange(1, len(upper[0]) + 1)
    at -= at.T
    clauses = [[-at[i, j], -at[j, k], at[i, k]] for i, j, k in itertools.permutations(range(n), 3)]
    return Formula(clauses + [[at[j, i] for j in range(n) if j != i] for i in range(n)])


def _graph_parities(n: int, seed: int = 1) -> Formula:
    """Tseitin's: the edges at each vertex of a cubic graph have a parity; the sum is odd."""
    random = np.random.default_rng(seed)
    ends = random.permutation(np.repeat(np.arange(n), 3)).reshape(-1, 2)
    formula = Formula([], n_vars=len(ends))
    for vertex in range(n):
        edges = (np.flatnonzero((ends == vertex).sum(1) == 1) + 1).tolist()
        if edges:
            formula = formula.xor(edges, vertex == 0)
    return formula


def _vertex_covers(n: int, seed: int = 1) -> Formula:
    """Of a graph with a few hubs, as networks have them: preferential attachment."""
    random, ends = np.random.default_rng(seed), [1, 2]
    for vertex in range(3, n + 1):
        chosen = {ends[k] for k in random.integers(0, len(ends), 3)}
        for other in chosen:
            ends += [vertex, other]
    return Formula(np.array(ends).reshape(-1, 2).astype(np.int32), n_vars=n)


def _star(leaves: int, roots: int) -> Formula:
    """Each root implies its leaves; one of the roots holds."""
    leaf = roots + 1 + np.arange(roots * leaves)
    implied = np.stack([-(np.arange(roots * leaves) % roots + 1), leaf], 1)
    return Formula([*implied.tolist(), list(range(1, roots + 1))])


def _chain(n: int) -> Formula:
    first = np.arange(1, n)
    return Formula(np.stack([-first, first + 1], 1).astype(np.int32), n_vars=n)


def _horn(n: int, seed: int = 1) -> Formula:
    rows = nelson.random_ksat(n, 2 * n, 3, seed).literals.reshape(-1, 3)
    heads = np.random.default_rng(seed).random(len(rows)) < 0.8
    signs = np.array([-1, -1, 1]) * np.where(heads[:, None], 1, [[1, 1, -1]])
    return Formula((np.abs(rows) * signs).astype(np.int32), n_vars=n)


def _one_at_most(n: int) -> Formula:
    a, b = np.triu_indices(n, 1)
    return Formula(-np.stack([a + 1, b + 1], 1).astype(np.int32), n_vars=n)


def _keyed(n: int, bits: int, seed: int = 1) -> Formula:
    """Dense 5-SAT: each clause may be broken by whoever has all `bits` bits of a key right."""
    right = n + bits + 1
    clauses = [[*row, right] for row in nelson.random_ksat(n, 15 * n, 5, seed).clauses()]
    return Formula([*clauses, *([-right, n + k] for k in range(1, bits + 1))])


def _colouring(n: int, edges: int, colours: int, seed: int = 1) -> Formula:
    random = np.random.default_rng(seed)
    a, b = random.integers(0, n, (2, edges))
    at = np.arange(1, n * colours + 1).reshape(n, colours)
    clauses = [row for k in range(n) for row in _one_of(at[k].tolist())]
    clauses += [
        [-int(at[x, c]), -int(at[y, c])]
        for x, y in zip(a, b, strict=True)
        if x != y
        for c in range(colours)
    ]
    return Formula(clauses)


def _one_of(literals: list[int]) -> list[list[int]]:
    return [literals, *([-a, -b] for a, b in itertools.combinations(literals, 2))]


FORMULAS: dict[str, Callable[[], Formula]] = {
    "10^6 variables, 4*10^6 clauses": lambda: nelson.random_ksat(10**6, 4 * 10**6, 3, 1),
    "10^6 variables, 10^6 clauses of 5": lambda: nelson.random_ksat(10**6, 10**6, 5, 1),
    "2-SAT of 100,000": lambda: nelson.random_ksat(100_000, 80_000, 2, 1),
    "threshold 3-SAT of 400": lambda: nelson.random_ksat(400, 1680, 3, 1),
    "3-SAT of 20,000": lambda: nelson.random_ksat(20_000, 60_000, 3, 1),
    "planted 3-SAT of 50,000": lambda: _planted(50_000, 5.0),
    "planted 3-SAT of 300,000": lambda: _planted(300_000, 6.0),
    "features of 20,000": lambda: _features(20_000),
    "features of 100,000": lambda: _features(100_000),
    "colours of a grid of 60": lambda: _grid_colours(60, 4),
    "Latin squares of 40": lambda: _latin(40),
    "12 pigeons in 11 holes": lambda: _pigeons(12, 11),
    "60 pigeons in 60 holes": lambda: _pigeons(60, 60),
    "parities of 8 of 200": lambda: _parities(200, 100, 8),
    "wide cardinalities of 600": lambda: _cardinalities(600),
    "a knapsack of 100": lambda: _knapsack(100),
    "independent sets of a torus of 300": lambda: _independent_sets(300),
    "clauses of 5,000 literals": lambda: _long_clauses(20_000, 1000, 5000),
    "20,000 islands": lambda: _islands(20_000, 20),
    "5-SAT of 100": lambda: nelson.random_ksat(100, 100, 5, 1),
    "the authors' file 0066": lambda: _published(66),
    "5-SAT of 100,000": lambda: nelson.random_ksat(100_000, 100_000, 5, 1),
    "7-SAT of 1,000, dense": lambda: nelson.random_ksat(1000, 60_000, 7, 1),
    "3-SAT of 250, unsatisfiable": lambda: nelson.random_ksat(250, 1500, 3, 1),
    "keys of 16 bits beside 5-SAT": lambda: _keyed(400, 16),
    "permutations of 60": lambda: _permutations(60),
    "perfect matchings of a torus of 40": lambda: _torus_matchings(40),
    "30 queens": lambda: _queens(30),
    "order of 60 without a smallest": lambda: _order(60),
    "parities of a graph of 300, odd": lambda: _graph_parities(300),
    "vertex covers of a network of 50,000": lambda: _vertex_covers(50_000),
    "50 roots with 4,000 leaves each": lambda: _star(4000, 50),
    "a chain of 300,000 implications": lambda: _chain(300_000),
    "Horn clauses of 100,000": lambda: _horn(100_000),
    "one at most of 1,500": lambda: _one_at_most(1500),
    "10^6 variables, no clause": lambda: Formula([], n_vars=10**6),
    "3-colourings of 2,000, dense": lambda: _colouring(2000, 4500, 3),
    "a multiplier of 16 bits": lambda: circuits.multiplier(16),
    "a circuit of 30,000 gates": lambda: circuits.random_circuit(300, 30_000, 40),
    "Kconfig of 6,000": lambda: kconfig.kconfig(6000, 1),
    "automaton of 60 latches, 30 steps": lambda: sequential.automaton(60, 20, 300, 30, 30, seed=1),
    "blocks world of 8, 14 steps": lambda: planning.blocks_world(8, 14, 1),
    "cipher of 6 rounds": lambda: words.feistel(16, 6, 3, 14, 1),
}


# --- spaces ---------------------------------------------------------------------------------------


def _different(n: int, values: int) -> Space:
    space = Space()
    fields = [space.integer(f"x{k}", 1, values) for k in range(n)]
    space.require(nelson.space.distinct(*fields))
    return space


def _product(bits: int) -> Space:
    space = Space()
    a, b = (space.integer(name, 2, (1 << bits // 2) - 1) for name in "ab")
    space.require(a * b > (1 << bits - 3), a < b, (a * b) % 7 == 3)
    return space


def _dense(fields: int, values: int, rules: int, seed: int = 1) -> Space:
    """Choices, and rules of three of them each."""
    random, space = np.random.default_rng(seed), Space()
    made = [space.choice(f"f{k}", [f"v{j}" for j in range(values)]) for k in range(fields)]
    for _ in range(rules):
        a, b, c = (made[k] for k in random.choice(fields, 3, replace=False))
        x, y, z = (f"v{j}" for j in random.integers(0, values, 3))
        space.require((a == x).implies((b != y) | (c == z)))
    return space


def _rota(people: int, days: int) -> Space:
    space = Space()
    shifts = [
        [space.choice(f"p{p}.d{d}", ["off", "early", "late", "night"]) for d in range(days)]
        for p in range(people)
    ]
    for d in range(days):
        for shift in ("early", "late", "night"):
            space.require(nelson.space.count(row[d] == shift for row in shifts) >= people // 5)
    for row in shifts:
        space.require(nelson.space.count(x != "off" for x in row) <= 5 * days // 7)
        for a, b in itertools.pairwise(row):
            space.require((a == "night").implies(b != "early"))
    return space


def _sums(n: int, seed: int = 1) -> Space:
    random, space = np.random.default_rng(seed), Space()
    x = [space.integer(f"x{k}", 0, 1000) for k in range(n)]
    for _ in range(n // 2):
        a, b, c, d = (x[k] for k in random.choice(n, 4, replace=False))
        space.require(3 * a + 5 * b > 2 * c + d, a + c != b + 7)
    total = sum(x[1:], x[0])
    space.require(total < 450 * n)
    return space


def _in_order(n: int, bits: int) -> Space:
    space = Space()
    x = [space.integer(f"x{k}", 0, (1 << bits) - 1) for k in range(n)]
    space.require(*(a + 16 < b for a, b in itertools.pairwise(x)))
    return space


def _flags(n: int) -> Space:
    space = Space()
    made = [space.flag(f"f{k}") for k in range(n)]
    features = _features(n)
    for clause in features.clauses():
        literals = [made[abs(x) - 1] if x > 0 else ~made[abs(x) - 1] for x in clause]
        space.require(functools.reduce(operator.or_, literals))
    return space


def _tables(n: int, seed: int = 1) -> Space:
    random, space = np.random.default_rng(seed), Space()
    x = [space.integer(f"x{k}", 0, 29) for k in range(n)]
    for a, b in itertools.pairwise(x):
        allowed = np.unique(random.integers(0, 30, (300, 2)), axis=0).tolist()
        space.require(nelson.space.table([a, b], [tuple(row) for row in allowed]))
    return space


def _wide_choices(n: int, values: int) -> Space:
    space = Space()
    x = [space.choice(f"x{k}", range(values)) for k in range(n)]
    space.require(nelson.space.distinct(*x))
    return space


def _nonlinear(n: int) -> Space:
    space = Space()
    x = [space.integer(f"x{k}", 0, 255) for k in range(n)]
    for a, b, c in zip(x, x[1:], x[2:], strict=False):
        space.require((a * b) % 97 != c, (a ^ b) // 5 < 40 + c)
    return space


SPACES: dict[str, Callable[[], Space]] = {
    "all different of 300": lambda: _different(300, 300),
    "product of 800 bits": lambda: _product(800),
    "product of 48 bits": lambda: _product(48),
    "100 fields, dense rules": lambda: _dense(100, 8, 4000),
    "40 fields, dense rules": lambda: _dense(40, 6, 1500),
    "rota of 20 people": lambda: _rota(20, 28),
    "sums of 200 numbers": lambda: _sums(200),
    "80 numbers of 16 bits in order": lambda: _in_order(80, 16),
    "3,000 flags": lambda: _flags(3000),
    "tables of 200 pairs": lambda: _tables(200),
    "60 wide choices, all different": lambda: _wide_choices(60, 2000),
    "products of 40 bytes": lambda: _nonlinear(40),
}
