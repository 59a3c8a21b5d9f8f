"""Families with sectors that local moves keep or seldom leave, and other keys.

    permutations   parity, and how far all rows are shifted around: no change of two rows keeps both
    laps           of a path around a hole, places as fields of which one is true
    clock_torus    clocks on a torus: winding numbers, which only pairs of charges change
    colourings     3-colourings of a torus: the height that a row gains
    rooms          two large rooms and a narrow passage between them: an entropic barrier
    keys           as `golf`, with other keys: every bit, a planted 3-SAT, a sum

The honest twins: colourings with many colours, rooms with a wide passage.
"""

from __future__ import annotations

from itertools import combinations, product

import numpy as np

from lab.labels import blocks
from lab.labels.case import Case, Watch, family
from lab.labels.conserved import tied_to_5sat
from nelson.formula import Formula


def shifted(allowed: np.ndarray) -> np.ndarray:
    """Permutations within `allowed` (n, n) bool by the number of rows that go to a column left of
    their own: (n + 1,), row by row over sets of columns.
    """
    ways = {(0, 0): 1.0}  # (columns taken, rows that went left) -> permutations
    for row in range(len(allowed)):
        after: dict[tuple[int, int], float] = {}
        for (taken, left), count in ways.items():
            for column in np.flatnonzero(allowed[row]).tolist():
                if not taken >> column & 1:
                    key = taken | 1 << column, left + (column < row)
                    after[key] = after.get(key, 0.0) + count
        ways = after
    total = np.zeros(len(allowed) + 1)
    for (_, left), count in ways.items():
        total[left] += count
    return total


@family(
    "adversarial",
    eight={"n": 8, "reach": 8},
    ring_of_three={"n": 14, "reach": 3},
    ring_of_five={"n": 13, "reach": 5},
    ring_tied={"n": 12, "reach": 4, "m": 800},
)
def permutations(seed: int, n: int, reach: int, m: int = 0) -> Case:
    """Row i goes to one of the columns i, .., i + reach - 1, around a ring: parity, and how many
    rows pass the end of the ring. Truth by the determinant, and row by row over sets of columns.
    """
    allowed = np.zeros((n, n), bool)
    for i, k in product(range(n), range(reach)):
        allowed[i, (i + k) % n] = True
    name = np.zeros((n, n), int)
    name[allowed] = np.arange(1, allowed.sum() + 1)
    lines = [line[line > 0].tolist() for line in (*name, *name.T)]
    clauses = [clause for line in lines for clause in blocks.exactly_one(line)]
    passing, free = shifted(allowed), int(allowed.sum())
    even = (1 + np.linalg.det(allowed.astype(float)) / passing.sum()) / 2
    usual = int(passing.argmax())

    def columns(x: np.ndarray) -> np.ndarray:
        where = np.zeros((len(x), n, n), bool)
        where[:, allowed] = x[:, :free]
        chosen: np.ndarray = where.argmax(axis=2)
        return chosen

    def parity(x: np.ndarray) -> np.ndarray:
        chosen = columns(x)
        swaps = sum((chosen[:, a] > chosen[:, b]).astype(int) for a, b in combinations(range(n), 2))
        even_ones: np.ndarray = np.asarray(swaps) % 2 == 0
        return even_ones

    def passes(x: np.ndarray) -> np.ndarray:
        usually: np.ndarray = (columns(x) < np.arange(n)).sum(axis=1) == usual
        return usually

    share = float(passing[usual] / passing.sum())
    watch = (
        Watch("P(even)", parity, float(even)),
        Watch(f"P({usual} pass the end)", passes, share),
    )
    if not m:
        return Case(Formula(clauses, n_vars=free), watch=watch)
    # The tie is a variable of its own, so that the permutations keep their law.
    return Case(tied_to_5sat(clauses, free + 1, 200, m, seed, tie=free + 1), watch=watch)


@family(
    "adversarial",
    six={"steps": 18, "cells": 6},
    eight={"steps": 30, "cells": 8},
    twelve={"steps": 40, "cells": 12, "count": 4096},
    six_tied={"steps": 20, "cells": 6, "m": 800},
)
def laps(seed: int, steps: int, cells: int, m: int = 0) -> Case:
    """A closed path on a ring of cells, each step by one cell at most: how often does it go around?
    Shifting one place at a time never tells. Truth: steps of -1, 0, 1 add up to a multiple.
    """
    at = np.arange(1, steps * cells + 1).reshape(steps, cells)
    clauses = [clause for row in at.tolist() for clause in blocks.exactly_one(row)]
    for t, a in product(range(steps), range(cells)):
        following = at[(t + 1) % steps]
        clauses.append([-int(at[t, a]), *(int(following[(a + d) % cells]) for d in (-1, 0, 1))])
    ways = np.ones(1)
    for _ in range(steps):
        ways = np.convolve(ways, np.ones(3))
    closed = np.where(np.arange(-steps, steps + 1) % cells == 0, ways, 0.0)

    def stays(x: np.ndarray) -> np.ndarray:
        place = x[:, : steps * cells].reshape(len(x), steps, cells).argmax(axis=2)
        step = (np.roll(place, -1, axis=1) - place + 1) % cells - 1
        zero: np.ndarray = step.sum(axis=1) == 0
        return zero

    watch = (Watch("P(no lap)", stays, float(closed[steps] / closed.sum())),)
    n = steps * cells
    if not m:
        return Case(Formula(clauses, n_vars=n), watch=watch, means=np.full(n, 1 / cells))
    return Case(tied_to_5sat(clauses, n + 1, 200, m, seed, tie=n + 1), watch=watch)


def ring_states(size: int, values: int, allowed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(states (k, size) of a ring whose neighbours are allowed (values, values), winding of each):
    steps are the differences modulo `values`, nearest to 0.
    """
    states = np.array(list(product(range(values), repeat=size)))
    after = np.roll(states, -1, axis=1)
    states = states[allowed[states, after].all(axis=1)]
    step = (np.roll(states, -1, axis=1) - states + values // 2) % values - values // 2
    return states, step.sum(axis=1) // values


def torus_law(rows: int, columns: int, values: int, allowed: np.ndarray) -> float:
    """P(winding of a row is 0) on a torus: the trace of powers of the transfer matrix."""
    states, winding = ring_states(columns, values, allowed)
    move = np.ones((len(states), len(states)))
    for k in range(columns):
        move *= allowed[states[:, k][:, None], states[:, k]]
    weight = np.linalg.matrix_power(move / move.sum(1).max(), rows).diagonal()
    return float(weight[winding == 0].sum() / weight.sum())


@family(
    "adversarial",
    narrow={"rows": 2, "columns": 7},
    wide={"rows": 3, "columns": 7},
    square={"rows": 5, "columns": 5},
    disguised={"rows": 3, "columns": 6, "disguise": True},
)
def clock_torus(seed: int, rows: int, columns: int) -> Case:
    """Clocks of four states on a torus, neighbours not opposite. A winding number changes only if
    a charge (four clocks in a turn) and its opposite are made and go around.
    """
    gray = ((-1, -1), (-1, 1), (1, 1), (1, -1))
    clauses = []
    for u, v in blocks.grid(rows, columns, torus=True):
        for (a, b), (c, d) in zip(gray, gray[2:] + gray[:2], strict=True):
            clauses.append([-a * (2 * u + 1), -b * (2 * u + 2), -c * (2 * v + 1), -d * (2 * v + 2)])
    opposite = np.array([[(a - b) % 4 == 2 for b in range(4)] for a in range(4)])
    truth = torus_law(rows, columns, 4, ~opposite)

    def zero(x: np.ndarray) -> np.ndarray:
        row = 2 * x[:, : 2 * columns].astype(int) - 1
        a, b = row[:, ::2], row[:, 1::2]
        cross = a * np.roll(b, -1, axis=1) - b * np.roll(a, -1, axis=1)
        still: np.ndarray = cross.sum(axis=1) == 0
        return still

    n = 2 * rows * columns
    watch = (Watch("P(winding 0)", zero, truth),)
    return Case(Formula(clauses, n_vars=n), watch=watch, means=np.full(n, 0.5))


def coloured(rows: int, columns: int, colours: int) -> tuple[Formula, np.ndarray]:
    """(proper colourings of a torus, names (rows, columns, colours) of the variables)."""
    at = np.arange(1, rows * columns * colours + 1).reshape(rows * columns, colours)
    clauses = [clause for row in at.tolist() for clause in blocks.exactly_one(row)]
    for u, v in blocks.grid(rows, columns, torus=True):
        clauses += [[-int(a), -int(b)] for a, b in zip(at[u], at[v], strict=True)]
    return Formula(clauses, n_vars=at.size), at.reshape(rows, columns, colours)


@family(
    "adversarial",
    narrow={"rows": 2, "columns": 10},
    wide={"rows": 4, "columns": 10},
    disguised={"rows": 2, "columns": 10, "disguise": True},
    wide_auto={"rows": 4, "columns": 10, "call": "auto"},
)
def colourings(seed: int, rows: int, columns: int) -> Case:
    """3-colourings of a torus with even sides: neighbours differ by one in height. What a row gains
    is a multiple of 6, which no change of one vertex changes. Truth by a transfer matrix.
    """
    formula, at = coloured(rows, columns, 3)

    def level(x: np.ndarray) -> np.ndarray:
        row = x[:, at[0].ravel() - 1].reshape(len(x), columns, 3).argmax(axis=2)
        step = (np.roll(row, -1, axis=1) - row + 1) % 3 - 1
        flat: np.ndarray = step.sum(axis=1) == 0
        return flat

    truth = torus_law(rows, columns, 3, ~np.eye(3, dtype=bool))
    watch = (Watch("P(flat)", level, truth),)
    return Case(formula, watch=watch, means=np.full(formula.n_vars, 1 / 3))


@family("honest", five={"size": 5, "colours": 5}, six={"size": 6, "colours": 6})
def many_colours(seed: int, size: int, colours: int) -> Case:
    """Colourings of a torus with many colours: every colour is as likely, and nothing is kept."""
    formula, _ = coloured(size, size, colours)
    return Case(formula, means=np.full(formula.n_vars, 1 / colours))


def rooms_case(left: int, right: int, step: int) -> Case:
    """A height 0 .. m in unary; at height h only v(h) of all bits are free, the others are 0. v
    falls from `left` to 0 by `step` and rises to `right`: P(h) is proportional to 2^v(h).
    """
    free = [*range(left, 0, -step), 0, *range(right, 0, -step)[::-1]]
    heights, bits = len(free) - 1, max(free)
    clauses = [[h, -h - 1] for h in range(1, heights)]  # true up to the height
    for h, volume in enumerate(free):
        low, high = ([-h] if h else []), ([h + 1] if h < heights else [])
        clauses += [[*low, *high, -(heights + 1 + b)] for b in range(volume, bits)]
    weight = 2.0 ** np.array(free, float)
    low = range(left, 0, -step)
    truth = float(weight[: len(low)].sum() / weight.sum())
    watch = Watch("P(left room)", lambda x: x[:, :heights].sum(axis=1) < len(low), truth)
    return Case(Formula(clauses, n_vars=heights + bits), watch=(watch,))


@family(
    "adversarial",
    low={"left": 8, "right": 9, "step": 1},
    middle={"left": 14, "right": 15, "step": 2},
    high={"left": 40, "right": 41, "step": 4},
    uneven={"left": 20, "right": 23, "step": 2, "disguise": True},
    tied={"left": 24, "right": 25, "step": 3, "m": 600},
)
def rooms(seed: int, left: int, right: int, step: int, m: int = 0) -> Case:
    """Two rooms and a passage: every step is open, but nearly all states lead back."""
    case = rooms_case(left, right, step)
    if not m:
        return case
    n = case.formula.n_vars
    clauses = [list(clause) for clause in case.formula]
    return Case(tied_to_5sat(clauses, n + 1, 200, m, seed, tie=n + 1), watch=case.watch)


@family("honest", shallow={"left": 2, "right": 3, "step": 1})
def wide_rooms(seed: int, left: int, right: int, step: int) -> Case:
    """The same with a wide passage."""
    return rooms_case(left, right, step)


@family(
    "adversarial",
    bits={"kind": "bits", "size": 20, "call": "auto"},
    planted={"kind": "planted", "size": 10, "m": 300, "call": "auto"},
    sum={"kind": "sum", "size": 12, "call": "auto"},
    disguised={"kind": "bits", "size": 17, "call": "auto", "disguise": True},
)
def keys(seed: int, kind: str, size: int, n: int = 400, m: int = 600) -> Case:
    """Each clause of random 5-SAT, or the key is right; what is right says the kind: each of its
    bits, a planted 3-SAT with one solution, or that the first half of the bits is the second half
    turned over. Right keys are one in 2^size, or in 2^(size / 2), and without clauses there are
    (32 / 31)^m as many solutions, on average.
    """
    random = np.random.default_rng([seed, size, m])
    key = random.random(size) < 0.5
    names = n + 1 + np.arange(size)
    if kind == "bits":
        right = [[int(v)] for v in np.where(key, names, -names)]
    elif kind == "sum":
        half = size // 2
        pairs = list(zip(names[:half].tolist(), names[half:].tolist(), strict=True))
        right = [[s * a, s * b] for a, b in pairs for s in (1, -1)]
    else:
        right = one_solution(key, n + 1, random)
    plain = blocks.planted(n, m, 5, seed)
    clauses = [[*clause, *part] for clause in plain for part in right]

    def holds(x: np.ndarray) -> np.ndarray:
        given = x[:, n : n + size]
        same = given[:, : size // 2] != given[:, size // 2 :] if kind == "sum" else given == key
        opened: np.ndarray = same.all(axis=1)
        return opened

    more = 2.0 ** -(size // 2 if kind == "sum" else size) * (32 / 31) ** m
    truth = more / (1 + more)
    return Case(Formula(clauses, n_vars=n + size), watch=(Watch("P(key)", holds, truth),))


def one_solution(key: np.ndarray, first: int, random: np.random.Generator) -> blocks.Clauses:
    """Random 3-clauses that hold for this key, until they hold for no other."""
    every, clauses = blocks.cube(len(key)), []
    while len(every) > 1:
        chosen = random.choice(len(key), 3, replace=False)
        signs = random.random(3) < 0.5
        if (key[chosen] == signs).any():
            kept = (every[:, chosen] == signs).any(axis=1)
            if not kept.all():
                every = every[kept]
                clauses.append((np.where(signs, 1, -1) * (first + chosen)).tolist())
    return clauses
