"""The deadline of a call ends what has no budget of its own. No test waits for a clock."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from nelson import budget as budget_module
from nelson.budget import Budget, TimeUp
from nelson.chains.problem import prepare
from nelson.formula import Formula
from nelson.io.progress import phase
from nelson.kernels.core import deadline, kernel_cache
from nelson.kernels.core.deadline import check_time, without_deadline
from tests.problems import random_ksat


class Clock:
    """Stands for the module `time`."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    for module in (deadline, budget_module):
        monkeypatch.setattr(module, "time", clock)
    return clock


def test_after_the_deadline_a_check_raises_and_before_it_does_not(clock):
    with Budget.of(10.0).enforced():
        clock.now += 9.9
        check_time()
        clock.now += 2.0
        with pytest.raises(TimeUp, match="the time was up"):
            check_time()
    check_time()


def test_the_message_says_what_was_being_done(clock):
    with Budget.of(1.0).enforced(), phase("preparing the formula"):
        clock.now += 5.0
        with pytest.raises(TimeUp, match="while preparing the formula"):
            check_time()


def test_an_inner_call_cannot_put_the_deadline_off(clock):
    with Budget.of(1.0).enforced(), Budget.of(1e6).enforced():
        clock.now += 5.0
        with pytest.raises(TimeUp):
            check_time()


def test_an_inner_share_ends_sooner(clock):
    whole = Budget.of(10.0)
    with whole.enforced():
        with whole.share(0.1).enforced():
            clock.now += 5.0
            with pytest.raises(TimeUp):
                check_time()
        check_time()


def test_what_was_drawn_in_time_is_put_together(clock):
    with Budget.of(1.0).enforced():
        clock.now += 5.0
        with without_deadline():
            check_time()
        with pytest.raises(TimeUp):
            check_time()


def test_without_a_limit_nothing_ends(clock):
    with Budget.of().enforced():
        clock.now += 1e9
        check_time()


def test_compiling_kernels_does_not_count(clock, monkeypatch):
    with Budget.of(1.0).enforced():
        monkeypatch.setattr(deadline._Compiling, "seconds", deadline._Compiling.seconds + 9)
        clock.now += 9.5
        check_time()
        clock.now += 5.0
        with pytest.raises(TimeUp):
            check_time()


def test_the_seconds_of_compiling_are_counted(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(deadline, "time", clock)
    before = deadline.seconds_compiling()
    kernel_cache.tell("compiling")
    clock.now += 7.0
    kernel_cache.tell("")
    clock.now += 7.0
    kernel_cache.tell("")
    assert deadline.seconds_compiling() - before == pytest.approx(7.0)


def test_a_kernel_and_what_prepares_a_formula_look_at_the_deadline(clock):
    formula = random_ksat(50, 100, 3, 1)
    with Budget.of(1.0).enforced():
        clock.now += 5.0
        for work in (
            lambda: prepare(formula),
            lambda: formula.clauses(),
            lambda: Formula([[1, 2], [3, 4]]),
            lambda: formula.given([1]),
        ):
            with pytest.raises(TimeUp):
                work()
    assert prepare(formula).n == 50  # nothing of the broken attempt was kept


def test_threads_that_draw_do_not_see_it(clock):
    raised = []

    def work() -> None:
        try:
            check_time()
        except TimeUp as error:
            raised.append(error)

    with Budget.of(1.0).enforced():
        clock.now += 5.0
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert raised == []


def test_programs_list_occurrences_in_the_order_of_a_sort():
    """The clauses of each variable: those with its positive literal first, each kind in order."""
    program = prepare(random_ksat(40, 200, 3, 7)).program
    for v in range(program.n):
        start, middle, end = program.occ_ptr[v], program.occ_mid[v], program.occ_ptr[v + 1]
        for sign, (a, b) in enumerate(((middle, end), (start, middle))):
            wanted = [
                j
                for j in range(program.n_clauses)
                if 2 * v + sign in program.lits[program.clause_ptr[j] : program.clause_ptr[j + 1]]
            ]
            assert program.occ[a:b].tolist() == wanted
    # A colour class has no two variables of one clause.
    owner = np.full(program.n, -1)
    for k in range(program.n_classes):
        owner[program.order[program.class_ptr[k] : program.class_ptr[k + 1]]] = k
    for j in range(program.n_clauses):
        own = owner[program.lits[program.clause_ptr[j] : program.clause_ptr[j + 1]] >> 1]
        assert len(set(own[own >= 0].tolist())) == (own >= 0).sum()
