"""The law of randomize() through each generation of the protocol, against enumeration.

A client writes what Verilator's runtime writes. False alarms: each chi-square at 1e-4.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest

from lab.verilator.client import Client, Inside, Task
from lab.verilator.tasks import cases, p_of
from nelson.verilator.conversation import Conversation

ALARM = 1e-4


def bv(rule: str) -> str:
    return f"(__Vbv {rule})"


def rows_of(task: Task, n: int, seed: int = 1, generation: int = 1, conversation=None):
    client = Client(Inside(conversation or Conversation()), task, seed, generation)
    assert client.greet()
    return [client.randomize() for _ in range(n)]


@pytest.mark.slow
@pytest.mark.parametrize("generation", [1, 2, 3])
def test_eight_problems_have_their_exact_law(generation):
    conversation, n = Conversation(), 300
    for case in cases():
        rows = rows_of(case.task, n, generation, generation, conversation)
        assert p_of(Counter(map(case.bin, rows)), case.shares, n) > ALARM, case.name
    assert conversation.summary().endswith("exact\n")
    assert "heuristic" not in conversation.summary()


def test_a_truthful_solver_would_be_rejected():
    """The twin: the same client and the same test, with a session that obeys the parities."""
    from nelson.space.smt.session import Session

    class Truthful:
        def __init__(self):
            self.session = Session()

        def reply(self, text: bytes) -> bytes:
            return self.session.reply(text.decode()).encode()

    case = next(case for case in cases() if case.name == "a + b <= 50")
    rows = rows_of(case.task, 150, conversation=Truthful())
    assert p_of(Counter(map(case.bin, rows)), case.shares, 150) < ALARM


def test_the_seed_of_the_simulator_is_obeyed():
    case = cases()[3]
    first, again, other = (rows_of(case.task, 40, seed) for seed in (1, 1, 2))
    assert first == again != other


def test_few_random_bits_are_enough():
    """A call has 2^8 different queries at most, but the digest goes on from call to call."""
    rows = rows_of(Task({"x": 2}, [bv("(bvult x #b11)")]), 2000)
    assert p_of(Counter(r["x"] for r in rows), dict.fromkeys(range(3), 1 / 3), 2000) > ALARM


@pytest.mark.parametrize("generation", [1, 2])
def test_solve_before(generation):
    """s is uniform over {0, 1}, and d uniform given s: Table 18-2 of the standard."""
    rule = bv("(=> (__Vbool s) (__Vbool (__Vbv (= d #b0000))))")
    task = Task({"s": 1, "d": 4}, [rule], before=[("s", "d")])
    counts = Counter((r["s"], r["d"]) for r in rows_of(task, 1000, 1, generation))
    shares = {(0, d): 1 / 32 for d in range(16)} | {(1, 0): 1 / 2}
    assert p_of(counts, shares, 1000) > ALARM


def test_solve_before_in_three_layers():
    task = Task(
        dict.fromkeys("abc", 2),
        [bv("(bvule a b)"), bv("(bvule b c)")],
        before=[("a", "b"), ("b", "c")],
    )
    counts = Counter((r["a"], r["b"], r["c"]) for r in rows_of(task, 1000))
    shares = {
        (a, b, c): 1 / 4 / (4 - a) / (4 - b)
        for a, b, c in itertools.product(range(4), repeat=3)
        if a <= b <= c
    }
    assert p_of(counts, shares, 1000) > ALARM


def test_randc_has_every_legal_value_once_in_a_cycle():
    task = Task({"c": 4, "x": 2}, [bv("(bvult c #xd)"), bv("(= x (bvand x #b01))")], cyclic=["c"])
    rows = rows_of(task, 13 * 30)
    cycles = [tuple(r["c"] for r in rows[k : k + 13]) for k in range(0, len(rows), 13)]
    assert all(sorted(cycle) == list(range(13)) for cycle in cycles)
    assert len(set(cycles)) == 30
    firsts = Counter(cycle[0] for cycle in cycles[1:])
    assert p_of(firsts, dict.fromkeys(range(13), 1 / 13), 29) > ALARM


def test_randc_is_chosen_before_the_rest():
    """c < x: c is uniform over what is left of the cycle, then x given c (IEEE 1800, 18.4.2)."""
    task = Task({"c": 2, "x": 2}, [bv("(bvult c x)")], cyclic=["c"])
    rows = rows_of(task, 1503)[3:]
    counts = Counter((r["c"], r["x"]) for r in rows)
    shares = {(c, x): 1 / 3 / (3 - c) for c in range(3) for x in range(c + 1, 4)}
    assert p_of(counts, shares, 1500) > ALARM
    firsts = Counter(r["c"] for r in rows[::3])
    assert p_of(firsts, dict.fromkeys(range(3), 1 / 3), 500) > ALARM


def test_two_cyclic_variables():
    task = Task({"c": 2, "d": 1, "x": 2}, [bv("(bvule c x)")], cyclic=["c", "d"])
    rows = rows_of(task, 400)
    assert {(r["c"], r["d"]) for r in rows} == set(itertools.product(range(4), range(2)))
    assert all(r["c"] <= r["x"] for r in rows)


def _largest(task: Task, soft: list) -> set:
    """Rows that obey the soft rules in order of priority, as far as they can."""
    rows = [x for x in range(16) if x < 13]
    for rule in soft:
        kept = [x for x in rows if rule(x)]
        rows = kept or rows
    return set(rows)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_soft_rules_keep_the_largest_set_in_order(order):
    texts = ["(= x #x3)", "(bvugt x #x9)", "(bvult x #xb)"]
    rules = [lambda x: x == 3, lambda x: x > 9, lambda x: x < 11]
    task = Task({"x": 4}, [bv("(bvult x #xd)")], soft=[bv(texts[k]) for k in order])
    found = {r["x"] for r in rows_of(task, 120)}
    assert found == _largest(task, [rules[k] for k in reversed(order)])


def test_dist_as_verilator_states_it():
    """The simulator draws a range by its weight, and states it as a soft rule."""
    rng, counts = random.Random(1), Counter()
    task = Task({"x": 4}, [bv("(or (= x #x1) (and (bvuge x #x4) (bvule x #x7)))")])
    conversation, n = Conversation(), 600
    client = Client(Inside(conversation), task, 1)
    for _ in range(n):
        single = rng.random() < 0.75
        task.soft[:] = [bv("(= x #x1)" if single else "(and (bvuge x #x4) (bvule x #x7))")]
        counts[client.randomize()["x"]] += 1
    shares = {1: 0.75} | dict.fromkeys(range(4, 8), 0.25 / 4)
    assert p_of(counts, shares, n) > ALARM


def test_state_variables_become_inputs_of_one_circuit():
    conversation, rng = Conversation(), random.Random(3)
    task = Task({"p": 5, "s": 3}, [])
    client = Client(Inside(conversation), task, 1)
    counts, shares, n = Counter(), Counter(), 500
    for _ in range(n):
        limit = rng.randrange(1, 32)
        task.constraints[:] = [
            bv(f"(bvult p #b{limit:05b})"),
            bv("(bvule ((_ zero_extend 2) s) p)"),
        ]
        row = client.randomize()
        counts[limit // 8, row["s"]] += 1
        legal = [(p, s) for p in range(limit) for s in range(8) if s <= p]
        for _, s in legal:
            shares[limit // 8, s] += 1 / len(legal) / n
    assert p_of(counts, shares, n) > ALARM
    templates = conversation._problems._templates._values.values()
    assert [len(template._inputs) for template in templates] == [1]
    assert "heuristic" not in conversation.summary()


def test_arrays():
    conversation = Conversation()
    text = (
        "(set-logic QF_ABV)\n(declare-fun a () (Array (_ BitVec 32) (_ BitVec 4)))\n"
        "(assert (distinct (select a #x00000000) (select a #x00000001)))\n(check-sat)\n"
    )
    assert conversation.reply(text.encode()) == b"sat\n"
    asked = b"(get-value ((select a #x00000000) (select a #x00000001) (select a #x00000002)))\n"
    rows = {conversation.reply(asked) for _ in range(3000)}
    assert len(rows) > 1900  # of 16 * 15 * 16 rows
    assert all(row.startswith(b"(((select a #x00000000) #x") for row in rows)


def test_contradictions_name_their_constraints():
    texts = [bv("(bvult x #x3)"), bv("(bvuge y #x1)"), bv("(bvugt x #x8)")]
    client = Client(Inside(Conversation()), Task({"x": 4, "y": 4}, texts), 1)
    assert client.randomize() is None
    assert client.core == ["cons0", "cons2"]


def test_where_nothing_compiles_a_solver_answers():
    """An element read at a place that is a term has no law of its own: one row, by a solver."""
    wide = "((_ zero_extend 24) {})"
    conversation = Conversation()
    small = f"(= (bvmul {wide.format('p')} {wide.format('q')}) (_ bv{3 * 5 * 7 * 11 * 13} 48))"
    text = "(declare-fun p () (_ BitVec 24))(declare-fun q () (_ BitVec 24))"
    text += "(declare-fun i () (_ BitVec 32))(declare-fun a () (Array (_ BitVec 32) (_ BitVec 4)))"
    text += f"(assert {small})(assert (= (select a i) #x3))(check-sat)\n(get-value (p q))\n"
    sat, row = conversation.reply(text.encode()).splitlines()
    values = [int(each.split(b")")[0], 16) for each in row.split(b"#x")[1:]]
    assert sat == b"sat" and values[0] * values[1] == 15015
    assert "1 heuristic" in conversation.summary()


@pytest.mark.parametrize(
    "garbage",
    [
        b"hello\n",
        b")\n",
        b"\x00\xff\xfe\n",
        b"(assert x)(check-sat)\n",
        b"(get-value (x))\n",
        b"(f)(check-sat)\n",
    ],
)
def test_garbage_is_an_error_and_the_process_goes_on(garbage):
    conversation = Conversation()
    reply = conversation.reply(garbage)
    assert b"error" in reply or b"unsupported" in reply
    assert conversation.reply(b"(reset)(declare-const b Bool)(check-sat)\n") == b"sat\n"


def test_text_in_small_pieces():
    """A pipe may cut text anywhere."""
    whole, pieces = Conversation(), Conversation()
    text = (
        b"(set-logic QF_ABV)\n(check-sat)\n(reset)\n(declare-fun x () (_ BitVec 8))\n"
        b"(assert (bvult x #x05))\n(check-sat)\n(get-value ( x))\n"
        b"(assert (= #b1 (bvxor ((_ extract 3 3) x) ((_ extract 1 1) x))))\n\n(check-sat)\n"
        b"(get-value ( x))\n(reset)\n(check-sat)\n"
    )
    found = b"".join(pieces.reply(bytes([byte])) for byte in text)
    assert found == whole.reply(text)
    assert found.count(b"sat\n") == 4
