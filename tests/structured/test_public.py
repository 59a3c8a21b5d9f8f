"""The public-like formulas have the solutions that their docstrings promise: counted one by one."""

from __future__ import annotations

from itertools import combinations, pairwise, product

import numpy as np
import pytest

from nelson.exact.listing import all_structures
from nelson.exact.solver import satisfiable
from nelson.formula import Formula
from tests.structured import public_suite, small_suite, suite
from tests.structured.features import feature_tree
from tests.structured.graphs import grid_colouring, planar_colouring, triangulated
from tests.structured.kconfig import kconfig, product_line
from tests.structured.planning import blocks_world, logistics, timetable
from tests.structured.puzzles import sudoku
from tests.structured.sequential import Netlist, automaton, counter_run, netlist, shift_register
from tests.structured.words import encrypt, feistel, path_condition, path_taken, program_of


def inputs_of(formula: Formula, n: int) -> set[tuple[int, ...]]:
    """The first n variables of all solutions, which determine the others."""
    x = all_structures(formula)[:, :n].astype(int)
    rows = {tuple(row) for row in x.tolist()}
    assert len(rows) == len(x)
    return rows


def number(bits) -> int:
    return sum(int(bit) << k for k, bit in enumerate(bits))


# --- configurations -------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(2))
def test_symbols_of_a_kconfig_can_be_off_and_nearly_all_can_be_on(seed):
    formula = kconfig(80, seed)
    assert formula.satisfied(np.zeros(80, bool))
    assert (
        sum(satisfiable(Formula([*formula.clauses(), [i]], n_vars=80)) for i in range(1, 81)) > 72
    )
    menus = {-c[0] for c in formula.clauses() if len(c) == 2 and c[0] < 0 < c[1] < -c[0]}
    assert len(menus) > 72


def test_a_choice_takes_one_member():
    clauses = {tuple(clause) for clause in kconfig(200, 1).clauses()}
    groups = [c for c in clauses if len(c) > 3 and c[1:] == tuple(range(1 - c[0], len(c) - c[0]))]
    assert len(groups) > 2
    for _, *members in groups:
        assert all((-a, -b) in clauses for a, b in combinations(members, 2))


@pytest.mark.parametrize("seed", range(3))
def test_rules_of_a_product_line_leave_a_configuration(seed):
    tree = feature_tree(14, seed)
    x = all_structures(product_line(14, 6, seed))
    assert 0 < len(x) < tree.count()
    assert Formula(tree.clauses(), n_vars=14).satisfied(x).all()


# --- bounded model checking and circuits ----------------------------------------------------------


def test_runs_of_a_counter():
    bits, steps, final = 2, 3, 2
    expected = set()
    for run in product((0, 1), repeat=steps * (bits + 2)):
        state = 0
        for t in range(steps):
            enable, load, *word = run[4 * t : 4 * t + 4]
            state = number(word) if load else (state + enable) % 4
        if state == final:
            expected.add(run)
    assert inputs_of(counter_run(bits, steps, final), steps * (bits + 2)) == expected


def test_runs_of_a_shift_register():
    bits, steps, taps, seed = 6, 4, 4, 2
    random = np.random.default_rng([seed, 22])
    p, q, r, s = np.sort(random.choice(bits, taps, replace=False)).tolist()
    a, b, c, d, e = random.choice(bits, 5, replace=False).tolist()
    expected = set()
    for run in product((0, 1), repeat=bits + steps):
        state, ok = list(run[:bits]), True
        for given in run[bits:]:
            fed = given ^ (state[p] & state[q]) ^ (state[r] & state[s])
            ok &= fed or not (state[a] and state[b])
            ok &= not given or any((state[c], state[d], state[e]))
            state = [fed, *state[:-1]]
        if ok:
            expected.add(run)
    assert inputs_of(shift_register(bits, steps, taps, seed), bits + steps) == expected


@pytest.mark.parametrize("seed", range(3))
def test_netlists(seed):
    x = all_structures(netlist(6, 14, 0, seed=seed))
    net = Netlist.random(6, 14, 0.05, 0.15, seed)
    assert len(x) == 64 and all(np.array_equal(net.values(row[:6]), row) for row in x)
    fixed = inputs_of(netlist(6, 14, 3, seed=seed), 6)
    assert 0 < len(fixed) < 64


def test_runs_of_an_automaton():
    latches, inputs, gates, steps, seed = 4, 2, 12, 3, 1
    every = inputs_of(automaton(latches, inputs, gates, steps, 0, seed), inputs * steps)
    assert len(every) == 2 ** (inputs * steps)
    net = Netlist.random(latches + inputs, gates, 0.1, 0.45, seed)
    order = np.random.default_rng([seed, 25]).permutation(latches + inputs)
    last = {}
    for run in every:
        state = np.zeros(latches, bool)
        for t in range(steps):
            bits = np.concatenate([state, np.array(run[2 * t : 2 * t + 2], bool)])
            state = net.values(bits[order])[-latches:]
        last[run] = state.tobytes()
    ends = inputs_of(automaton(latches, inputs, gates, steps, latches, seed), inputs * steps)
    assert ends and ends == {run for run in every if last[run] == last[next(iter(ends))]}


# --- plans ----------------------------------------------------------------------------------------


def block_moves(state: tuple[int, ...]):
    """The states after one step: a move of a clear block, or nothing."""
    n = len(state)
    yield state
    for b in range(n):
        for p in range(n + 1):
            clear = p == n or p not in state
            if b not in state and p not in (b, state[b]) and clear:
                yield (*state[:b], p, *state[b + 1 :])


def plans(start, steps, successors, goal) -> int:
    """Paths of that length, counted state by state. Two actions never have the same result."""
    counts = {start: 1}
    for _ in range(steps):
        after: dict = {}
        for state, ways in counts.items():
            for other in successors(state):
                after[other] = after.get(other, 0) + ways
        counts = after
    return sum(ways for state, ways in counts.items() if goal(state))


@pytest.mark.parametrize(("blocks", "steps", "seed"), [(2, 2, 0), (3, 3, 1), (3, 4, 2)])
def test_plans_of_the_blocks_world(blocks, steps, seed):
    tower = np.random.default_rng([seed, 26]).permutation(blocks).tolist()
    half = tower[: (blocks + 1) // 2]

    def goal(state):
        return all(state[a] == b for a, b in pairwise(half))

    x = all_structures(blocks_world(blocks, steps, seed))
    start = tuple(range(1, blocks + 1))
    assert len(x) == plans(start, steps, block_moves, goal) > 0


@pytest.mark.parametrize(("packages", "trucks", "steps"), [(1, 1, 4), (2, 1, 5), (1, 2, 4)])
def test_plans_of_logistics(packages, trucks, steps):
    towns, seed = 3, 3

    def successors(state):
        for drive in product(range(towns), repeat=trucks):  # three towns: all are neighbours
            for move in product(range(towns + trucks), repeat=packages):
                if all(allowed(state, drive, p, move[p]) for p in range(packages)):
                    yield drive, move

    def allowed(state, drive, p, after):
        before = state[1][p]
        if after == before:
            return True
        town, truck = min(before, after), max(before, after) - towns
        return town < towns and truck >= 0 and state[0][truck] == drive[truck] == town

    random = np.random.default_rng([seed, 27])
    trucks_at = tuple(int(random.integers(towns)) for _ in range(trucks))
    ways = [random.choice(towns, 2, replace=False).tolist() for _ in range(packages)]
    start = trucks_at, tuple(a for a, _ in ways)

    def goal(state):
        return state[1] == tuple(b for _, b in ways)

    x = all_structures(logistics(packages, trucks, towns, steps, seed))
    assert len(x) == plans(start, steps, successors, goal) > 0


def test_timetables():
    assert len(all_structures(timetable(2, 2, 2, 0))) == 4 * 3  # two events, four cells
    assert len(all_structures(timetable(2, 2, 2, 1, seed=3))) == 2 * 4  # in different slots
    events, slots, rooms = 5, 3, 2
    x = all_structures(timetable(events, slots, rooms, 3, seed=1))
    at = x[:, : events * slots].reshape(-1, events, slots)
    room = x[:, events * slots :].reshape(-1, events, rooms)
    assert len(x) and (at.sum(axis=2) == 1).all() and (room.sum(axis=2) == 1).all()
    cells = at.argmax(axis=2) * rooms + room.argmax(axis=2)
    assert all(len(set(row)) == events for row in cells.tolist())
    apart = [(a, b) for a, b in combinations(range(events), 2) if not (at[:, a] & at[:, b]).any()]
    assert len(apart) >= 3


# --- colourings, sudoku, words --------------------------------------------------------------------


def test_planar_colourings():
    assert len(triangulated(3, 2)) == 7 + 2
    assert len(all_structures(planar_colouring(2, 2, 4))) == 4 * 3 * 2 * 2
    assert len(all_structures(grid_colouring(2, 2, 3))) == 18


@pytest.mark.parametrize(("given", "count"), [(0, 288), (16, 1)])
def test_sudoku(given, count):
    x = all_structures(sudoku(2, given)).reshape(-1, 4, 4, 4).argmax(axis=3)
    assert len(x) == count
    boxes = x.reshape(-1, 2, 2, 2, 2).transpose(0, 1, 3, 2, 4).reshape(-1, 4, 4)
    for lines in (x, x.transpose(0, 2, 1), boxes):
        assert (np.sort(lines, axis=2) == np.arange(4)).all()


def test_keys_of_a_cipher():
    half, rounds, pairs, known, seed = 4, 2, 2, 5, 4
    random = np.random.default_rng([seed, 29])
    hidden = random.integers(0, 1 << half, rounds).tolist()
    plain = [random.integers(0, 1 << half, 2).tolist() for _ in range(pairs)]

    def seen(keys):
        blocks = [encrypt(*text, keys, half) for text in plain]
        return [(low | high << half) % (1 << known) for low, high in blocks]

    found = inputs_of(feistel(half, rounds, pairs, known, seed), half * rounds)
    keys = {bits: [number(bits[:half]), number(bits[half:])] for bits in product((0, 1), repeat=8)}
    assert found == {bits for bits, pair in keys.items() if seen(pair) == seen(hidden)}
    assert 0 < len(found) < 256


@pytest.mark.parametrize("seed", range(4))
def test_inputs_of_a_path(seed):
    words, bits, branches = 3, 3, 4
    program, hidden = program_of(words, bits, branches, seed)
    wanted = path_taken(program, hidden, bits)
    expected = set()
    for row in product((0, 1), repeat=words * bits):
        inputs = [number(row[w * bits : (w + 1) * bits]) for w in range(words)]
        if path_taken(program, inputs, bits) == wanted:
            expected.add(row)
    assert inputs_of(path_condition(words, bits, branches, seed), words * bits) == expected


# --- the suites -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_public_suite_is_twenty_lazy_formulas():
    entries = [*public_suite(), *small_suite()]
    assert len(public_suite()) == 20
    assert len({name for name, _ in [*entries, *suite()]}) == len(entries) + len(suite())
    for name, make in entries:
        formula, theta = make()
        assert formula.n_clauses > 0 and (theta is not None) == name.endswith("weighted")
    assert entries[0].make()[0] == entries[0].make()[0]
