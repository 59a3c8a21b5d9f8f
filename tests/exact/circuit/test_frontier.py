"""The frontier compiler: counts and means against enumeration and dynamic programming, its limits,
and when it is used.
"""

from __future__ import annotations

import itertools
import threading

import numpy as np
import pytest

import nelson
from nelson.budget import Budget
from nelson.exact import compile_guess, frontier_order
from nelson.exact.circuit import build, frontier
from nelson.exact.circuit.decisions import DecisionCircuit, decisions_of, joined
from nelson.exact.circuit.solutions import count
from nelson.exact.compiled import compiled, not_worth_a_try, why_not
from nelson.formula.canonical import normalise
from nelson.formula.components import split
from nelson.formula.propagate import propagated
from nelson.process.child import Cancelled, cancelled_by
from nelson.space import Space
from tests.problems import exact_law, random_ksat
from tests.structured.graphs import grid_colouring

SEED = 1986


def narrow_formula(seed: int, n: int | None = None, window: int | None = None) -> nelson.Formula:
    """Random clauses of 2 to 4 neighbouring variables; the variables are then renumbered."""
    random = np.random.default_rng([SEED, seed])
    n = int(random.integers(5, 13)) if n is None else n
    window = int(random.integers(3, 6)) if window is None else window
    names = random.permutation(n) + 1
    clauses = []
    for _ in range(int(random.uniform(0.8, 3.5) * n)):
        size = min(int(random.integers(2, 5)), window)
        at = int(random.integers(0, n - window + 1))
        chosen = names[at + random.choice(window, size, replace=False)]
        clauses.append((chosen * random.choice([-1, 1], size)).tolist())
    return nelson.Formula(clauses, n)


def by_frontier(formula: nelson.Formula, **options) -> build.BuildResult:
    return build.build(formula, Budget.of(60.0), compiler="frontier", cache=False, **options)


def states_of(formula: nelson.Formula) -> np.ndarray:
    grid = np.array(list(itertools.product([False, True], repeat=formula.n_total)))
    return grid[formula.satisfied(grid)]


def along(formula: nelson.Formula, order: np.ndarray) -> int:
    """The number of solutions by a diagram in this order."""
    own = np.arange(formula.n_total)
    circuit = frontier.compiled_along(formula.literals, formula.offsets, order, own, Budget())
    if circuit is None:
        return 0
    whole = joined([circuit], np.zeros(0, np.int32), formula.n_total)
    assert whole.sound()
    return count(whole)


# --- the value ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [range(k, 300, 6) for k in range(6)], ids=lambda s: f"from{s[0]}")
def test_counts_and_means_against_enumeration(seeds):
    """Both to rounding; a third of the formulas has no solution or few."""
    without = 0
    for seed in seeds:
        formula = narrow_formula(seed)
        states = states_of(formula)
        if not len(states):
            without += 1
            with pytest.raises(nelson.Unsatisfiable):
                by_frontier(formula)
            continue
        circuit = by_frontier(formula).circuit
        assert circuit.sound() and count(circuit) == len(states)
        theta = np.random.default_rng(seed).normal(size=(2, formula.n_vars)) * 2
        _, means = circuit.solve(theta, means=True)
        for row, mean in zip(theta, means, strict=True):
            law = exact_law(formula, row)
            np.testing.assert_allclose(mean, law[1] @ law[0], atol=1e-12)
    assert without >= 1


@pytest.mark.slow
def test_any_order_gives_the_same_count():
    for seed in range(60):
        formula = narrow_formula(seed)
        formula = nelson.Formula.from_arrays(*split_off(formula))
        expected = len(states_of(formula))
        for k in range(3):
            order = np.random.default_rng([seed, k]).permutation(formula.n_total)
            assert along(formula, order) == expected


@pytest.mark.slow
def test_a_merge_of_different_states_is_caught(monkeypatch):
    """Twin: states that differ in the lowest bit of their key are merged, and counts change."""
    right = frontier._merged

    def wrong(keys):
        blurred = keys.copy()
        blurred[0] |= np.uint64(1)
        return right(blurred)

    monkeypatch.setattr(frontier, "_merged", wrong)
    off = 0
    for seed in range(60):
        formula = narrow_formula(seed)
        states = states_of(formula)
        if len(states):
            try:
                off += count(by_frontier(formula).circuit) != len(states)
            except nelson.Unsatisfiable:
                off += 1
    assert off >= 10


def test_keys_of_several_words():
    """A wide cut in a bad order: more than 64 open clauses, so that a state takes two words."""
    random = np.random.default_rng(SEED)
    clauses = [
        [int(x) for x in (random.integers(1, 8), *random.choice(np.arange(8, 16), 2, False))]
        for _ in range(200)
    ]
    clauses = [[v if random.random() < 0.5 else -v for v in clause] for clause in clauses]
    rows = np.array(list(itertools.product([False, True], repeat=15)))
    model = rows[random.integers(len(rows))]  # clauses that it violates are left out
    clauses = [c for c in clauses if any(model[abs(v) - 1] == (v > 0) for v in c)]
    formula = nelson.Formula(clauses, 15)
    order = np.arange(15)
    plan = frontier.steps(formula.literals, formula.offsets, order)
    assert max(step.words for step in plan) >= 2
    assert along(formula, order) == along(formula, order[::-1].copy()) == len(states_of(formula))


@pytest.mark.process
@pytest.mark.parametrize("seed", range(4))
def test_larger_formulas_against_d4(seed):
    pytest.importorskip("py_d4")
    formula = narrow_formula(seed + 1000, n=120, window=7)
    try:
        by_d4 = build.build(formula, Budget.of(60.0), compiler="d4", cache=False).circuit
    except nelson.Unsatisfiable:
        with pytest.raises(nelson.Unsatisfiable):
            by_frontier(formula)
        return
    circuit = by_frontier(formula).circuit
    assert count(circuit) == count(by_d4)
    theta = np.random.default_rng(seed).normal(size=(3, formula.n_vars))
    for a, b in zip(circuit.solve(theta, True), by_d4.solve(theta, True), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-10)


# --- chains of comparisons ------------------------------------------------------------------------


def transactions(number: int, bits: int) -> tuple[Space, int]:
    """Transactions in order, and the number of their rows by dynamic programming."""
    space, top = Space(), 2**bits
    addr = [space.integer(f"addr{k}", 0, top - 1) for k in range(number)]
    size = [space.integer(f"len{k}", 1, 15) for k in range(number)]
    for k in range(number - 1):
        space.require(addr[k] + size[k] <= addr[k + 1])
    space.require(addr[-1] + size[-1] <= top - 1)
    ways = [1] * top  # ways[a]: ways to place the others if the next may start at a or later
    for _ in range(number):
        start = [0] * (top + 1)
        for a in range(top - 1, -1, -1):
            start[a] = start[a + 1] + sum(ways[a + s] for s in range(1, 16) if a + s < top)
        ways = start[:top]
    return space, ways[0]


def in_order(number: int, high: int, steps: range) -> tuple[Space, int]:
    """f_k + d_k <= f_(k + 1), and the number of rows by dynamic programming."""
    space = Space()
    f = [space.integer(f"f{k}", 0, high) for k in range(number)]
    d = [space.integer(f"d{k}", steps[0], steps[-1]) for k in range(number - 1)]
    for k in range(number - 1):
        space.require(f[k] + d[k] <= f[k + 1])
    ways = [1] * (high + 1)
    for _ in range(number - 1):
        after = [*itertools.accumulate(reversed(ways))][::-1]  # after[a]: the next is at least a
        ways = [
            sum(after[max(a + step, 0)] for step in steps if a + step <= high)
            for a in range(high + 1)
        ]
    return space, sum(ways)


def test_four_transactions():
    space, rows = transactions(4, 10)
    assert count(by_frontier(space.formula).circuit) == rows


@pytest.mark.slow
def test_numbers_in_order():
    for number, high, steps in ((6, 99, range(-5, 7)), (12, 63, range(4))):
        space, rows = in_order(number, high, steps)
        assert count(by_frontier(space.formula).circuit) == rows


@pytest.mark.slow
@pytest.mark.process
def test_eight_transactions():
    """With 6 bits for each address: D4 in our order, and the frontier compiler."""
    pytest.importorskip("py_d4")
    space, rows = transactions(8, 6)
    assert count(along_by_d4(space.formula)) == rows
    assert count(by_frontier(space.formula).circuit) == rows


def along_by_d4(formula: nelson.Formula) -> DecisionCircuit:
    """The circuit of D4, which decides the variables in the order that we give."""
    left = propagated(formula)
    parts = split(*normalise(left.literals, left.offsets), formula.n_total)
    clauses = [(part.literals, part.offsets) for part in parts]
    orders = [frontier_order.best_order(*part, Budget()) for part in clauses]
    answers, ended = build.compile_parts(clauses, 240.0, orders=orders)
    assert not ended
    found = [decisions_of(a, part.variables) for a, part in zip(answers, parts, strict=True)]
    return joined(found, left.fixed, formula.n_total)


@pytest.mark.process
@pytest.mark.parametrize("seed", range(4))
def test_d4_in_a_given_order(seed):
    """The number of solutions stays; the circuit is another one in the opposite order."""
    pytest.importorskip("py_d4")
    formula = independent_sets(seed)
    ways = np.arange(formula.n_total), np.arange(formula.n_total)[::-1]
    orders = [frontier_order.Order(order, 0.0, 0.0) for order in ways]
    clauses = formula.literals, formula.offsets
    found, _ = build.compile_parts([clauses] * 2, 240.0, orders=orders)
    own = np.arange(formula.n_total)
    circuits = [joined([decisions_of(c, own)], np.zeros(0, np.int32), len(own)) for c in found]
    assert count(circuits[0]) == count(circuits[1]) == count(by_frontier(formula).circuit)
    assert not all(map(np.array_equal, *(list(c.arrays.values()) for c in circuits)))


@pytest.mark.process
def test_d4_begins_with_the_first_variable_of_an_order():
    """Not with the last one, as it would if places were its numbers."""
    pytest.importorskip("py_d4")
    formula = random_ksat(30, 60, 3, seed=1)
    ways = [np.random.default_rng(seed).permutation(30) for seed in range(3)]
    orders = [frontier_order.Order(order, 0.0, 0.0) for order in ways]
    clauses = formula.literals, formula.offsets
    found, _ = build.compile_parts([clauses] * 3, 240.0, orders=orders)
    assert [_first_decision(circuit) for circuit in found] == [order[0] + 1 for order in ways]


def _first_decision(circuit) -> int:
    """The variable that is decided first: D4 writes it first on both branches."""
    node = 1
    while len(edges := np.flatnonzero(circuit.parent == node)) == 1:
        node = circuit.child[edges[0]]
    one, two = (circuit.literals[circuit.start[e] : circuit.start[e + 1]] for e in edges)
    assert one[0] == -two[0]
    return abs(int(one[0]))


def independent_sets(seed: int) -> nelson.Formula:
    """Independent sets of a ladder with some diagonals."""
    random, n = np.random.default_rng(seed), 15
    pairs = [(i, i + 1) for i in range(1, n)] + [(n + i, n + i + 1) for i in range(1, n)]
    pairs += [(i, n + i) for i in range(1, n + 1)]
    pairs += [(i, n + i + 1) for i in range(1, n) if random.random() < 0.5]
    return nelson.Formula([[-a, -b] for a, b in pairs], 2 * n)


@pytest.mark.slow
@pytest.mark.process
def test_ten_integers_to_999_in_order():
    """D4 on its own takes about 20 seconds for this. Rows are counted and drawn."""
    space, rows = in_order(10, 999, range(-5, 7))
    assert nelson.count(space.formula, seconds=240.0) == rows
    drawn = space.sample(1000, seed=1)
    assert drawn.guarantee == "exact" and space.satisfied(drawn).all()


# --- limits ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_wide_formula_is_refused():
    found = by_frontier(random_ksat(120, 240, 3, seed=1))
    assert found.circuit is None and "too wide" in found.why_not


def test_time_and_states_are_bounded(monkeypatch):
    formula = narrow_formula(3, n=60, window=6)
    own = order = np.arange(60)
    clauses = formula.literals, formula.offsets
    with pytest.raises(frontier.TooLarge, match="stopped at level 0"):
        frontier.compiled_along(*clauses, order, own, Budget.of(0.0))
    with pytest.raises(frontier.TooLarge, match="more than 40 states"):
        frontier.compiled_along(*clauses, order, own, Budget(), 40)
    monkeypatch.setattr(frontier, "MAX_LEVEL", 20)
    with pytest.raises(frontier.TooLarge, match="20 states at level"):
        frontier.compiled_along(*clauses, order, own, Budget())


def test_a_contradiction_is_proved():
    with pytest.raises(nelson.Unsatisfiable):
        by_frontier(nelson.Formula([[1, 2], [1, -2], [-1, 2], [-1, -2]]))


# --- the order ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_the_refinement_adds_up_the_states_that_are_estimated(seed):
    """Two ways to the same numbers: the prices along the way, and all levels at once."""
    formula = narrow_formula(seed)
    clauses = frontier_order.clauses_over(*split_off(formula))
    prices = []
    price = frontier_order._Refinement.price
    refinement = frontier_order._Refinement(frontier_order._Tables(clauses))
    order = np.random.default_rng(seed).permutation(clauses.n)
    for v in order.tolist():
        change, retiring = price(refinement, v)
        prices.append(change)
        refinement.decide(v, retiring)
    place = np.empty(clauses.n, np.int64)
    place[order] = np.arange(clauses.n)
    expected = frontier_order._levels(clauses, place)
    np.testing.assert_allclose(np.maximum(np.cumsum(prices), 0), expected, atol=1e-9)


def split_off(formula):
    """The clauses over the variables that have some, renumbered."""
    used, again = np.unique(np.abs(formula.literals), return_inverse=True)
    assert len(used) > 1
    return np.sign(formula.literals) * (again.astype(np.int32) + 1), formula.offsets


def test_orders_are_permutations_and_the_same_every_time():
    formula = narrow_formula(7, n=80, window=6)
    clauses = split_off(formula)
    found = [frontier_order.best_order(*clauses, Budget()) for _ in range(2)]
    assert np.array_equal(found[0].variables, found[1].variables)
    assert np.array_equal(np.sort(found[0].variables), np.arange(len(found[0].variables)))
    given = frontier_order.estimated(
        frontier_order.clauses_over(*clauses), np.arange(len(found[0].variables))
    )
    assert found[0].work < given.work - 3 and found[0].feasible


# --- when it is used ------------------------------------------------------------------------------


def fresh(formula: nelson.Formula) -> nelson.Formula:
    return nelson.Formula(formula.clauses(), formula.n_vars)


def test_where_d4_stops_the_frontier_compiler_goes_on(monkeypatch):
    pytest.importorskip("py_d4")
    monkeypatch.setattr(build, "run_child", lambda *args, **options: ([], "stopped"))
    formula = narrow_formula(11, n=100, window=5)
    found = build.build(formula, Budget.of(60.0), cache=False)
    assert found.circuit is not None
    assert count(found.circuit) == count(by_frontier(formula).circuit)
    wide = build.build(random_ksat(300, 600, 3, seed=1), Budget.of(60.0), cache=False)
    assert wide.circuit is None and wide.why_not.startswith("D4 stopped")
    assert "frontier" not in wide.why_not


def test_what_is_too_much_for_d4_may_have_few_states(monkeypatch):
    """Level by level, the variables as they are numbered: D4 is not started, and no effort counts.

    3-colourings are counted row by row: proper rows, and pairs of rows that differ everywhere.
    """
    monkeypatch.setattr(compile_guess, "BOUND", 4)
    monkeypatch.setattr(build, "run_child", None)
    formula = grid_colouring(5, 8, 3)
    rows = np.array([r for r in itertools.product(range(3), repeat=5) if np.diff(r).all()])
    ways = np.ones(len(rows), np.int64)
    for _ in range(7):
        ways = (rows[:, None] != rows[None]).all(2) @ ways
    for seconds in (None, 60.0):
        found = build.build(formula, Budget.of(seconds), cache=False)
        assert count(found.circuit) == ways.sum() and found.effort == 0.0


def test_the_compiler_can_be_cancelled():
    cancel = threading.Event()
    cancel.set()
    with cancelled_by(cancel), pytest.raises(Cancelled):
        by_frontier(narrow_formula(3, n=60, window=6))


def test_without_d4_narrow_formulas_compile(monkeypatch):
    monkeypatch.setitem(build.COMPILERS, "d4", ("no_such_module", "D4"))
    monkeypatch.setenv("NELSON_CACHE_BYTES", "0")
    formula = narrow_formula(11, n=100, window=5)
    found = compiled(fresh(formula), Budget.of(60.0))
    assert not_worth_a_try(formula) == "" and count(found.circuit) > 0
    s = nelson.sample(formula, None, 200, method="circuit", seed=3)
    assert s.guarantee == "exact" and formula.satisfied(s.to_numpy()).all()
    auto = nelson.sample(fresh(formula), None, 200, seed=3)
    assert auto.guarantee == "exact"
    wide = random_ksat(200, 400, 3, seed=2)
    assert "nelson-mrf[samplers]" in not_worth_a_try(wide)
    assert compiled(wide, Budget.of(60.0)) is None and "nelson-mrf[samplers]" in why_not(wide)
