"""Phases: what a long call says that it is doing, to a listener."""

from __future__ import annotations

import itertools
import threading

import numpy as np
import pytest

import nelson
from nelson.budget import Budget
from nelson.exact import solver
from nelson.exact.circuit.build import build
from nelson.exact.preprocess import preprocess
from nelson.io.progress import listening, phase
from nelson.kernels.core import kernel_cache
from tests.problems import random_ksat


def test_phases_are_told_and_the_outer_one_comes_back():
    told = []
    with listening(told.append):
        with phase("outer"), phase("inner"):
            pass
        with phase("next"):
            pass
    with phase("nobody listens"):
        pass
    assert told == ["outer", "inner", "outer", "", "next", ""]


def test_a_phase_says_how_long_it_may_take_where_that_is_known():
    told = []
    with listening(told.append), phase("compiling", 4.2), phase("soon", 0.01), phase("waiting"):
        pass
    assert told[:3] == ["compiling (at most 4 s)", "soon (at most 1 s)", "waiting"]


def test_an_error_ends_its_phase():
    told = []
    with listening(told.append):
        with pytest.raises(ValueError, match="x"), phase("outer"), phase("inner"):
            raise ValueError("x")
        with phase("next"):
            pass
    assert told == ["outer", "inner", "outer", "", "next", ""]


def test_other_threads_are_not_heard():
    told = []

    def work():
        with phase("elsewhere"):
            pass

    with listening(told.append):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert told == []


def without_kernels(told):
    """What was told, if no kernel had to be compiled."""
    told = [text for text in told if not text.startswith("compiling kernels")]
    return [text for text, _ in itertools.groupby(told)]


def test_compiling_kernels_is_told_from_any_thread_and_the_phase_comes_back():
    told = []
    with listening(told.append), phase("drawing"):
        thread = threading.Thread(target=lambda: (kernel_cache.tell("k"), kernel_cache.tell("")))
        thread.start()
        thread.join()
    assert told == ["drawing", "k", "drawing", ""]
    kernel_cache.tell("nobody listens")
    kernel_cache.tell("")  # the clock of compiling stands still again
    assert len(told) == 4


def test_the_long_steps_say_what_they_do():
    told = []
    formula = random_ksat(30, 90, 3, 1)
    with listening(told.append):
        preprocess(formula, np.zeros((1, 30)))
        solver.satisfiable(formula)
    steps = ["preprocessing the formula", "", "a solver looks for a solution", ""]
    assert without_kernels(told) == steps


@pytest.mark.process
def test_compiling_says_so():
    pytest.importorskip("py_d4")
    told = []
    with listening(told.append):
        build(random_ksat(30, 90, 3, 1), Budget.of(60.0), cache=False)
    assert without_kernels(told) == ["compiling a circuit with D4 (at most 60 s)", ""]


@pytest.mark.process
def test_auto_says_what_it_is_doing():
    told = []
    with listening(told.append):
        nelson.sample(random_ksat(30, 90, 3, 1), n=5, seed=1)
    assert told[0] == "preparing the formula" and told[-1] == ""
    assert "preprocessing the formula" in told
