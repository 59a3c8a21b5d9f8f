"""Kernels that run in the interpreter give the same bits as machine code, end when their budget is
spent, and leave no trace then. A small draw loads neither Numba nor SciPy.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

import nelson
from nelson.exact.preprocess import gates
from nelson.kernels.core import bits, compile, interpret
from nelson.kernels.core.interpret import InterpreterLimits, attempt, counted
from nelson.sampling.registry import get, missing_modules

CLAUSES = [[1, 3], [-1, 2, 4], [-2, 5, -6], [-3, 6], [-4, -6, 7], [-5, -7, 8], [1, -8, 2]]
#: Two fields of three values each, and a clause between them.
FIELDS = [[1, 2, 3], [-1, -2], [-1, -3], [-2, -3], [4, 5], [-4, -5], [-1, -4]]
#: Preprocessing tries to resolve variables of these away.
GATES = [[1, 2], [-1, 3], [2, -4, 5], [-3, 4], [-4, 3]]
RESAMPLING = ["lovasz", "moser-tardos", "prs"]
METHODS = [*RESAMPLING, "gibbs", "cftp", "rejection", "enumerate", "circuit", "auto"]


@pytest.fixture
def fresh(monkeypatch):
    """As in a new process: no kernel is compiled, nothing is spent, Numba is not loaded."""
    monkeypatch.setattr(interpret, "compiler_is_loaded", lambda: False)
    for kernel in compile.kernels:
        monkeypatch.setattr(kernel, "compiled", None)
    for name, value in (("spent", 0), ("mode", "auto")):
        monkeypatch.setattr(interpret._Steps, name, value)
    return monkeypatch


def drawn(clauses, n, **how):
    theta = np.linspace(-1, 1, 8)[: max(abs(v) for clause in clauses for v in clause)]
    s = nelson.sample(nelson.Formula(clauses), theta, n, seed=3, **how)
    return s.packed.tolist(), s.guarantee, s.info["method"], s.info["rounds"]


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("clauses", [CLAUSES, FIELDS], ids=["clauses", "fields"])
def test_both_ways_give_the_same_bits(fresh, method, clauses):
    if method != "auto" and missing_modules(get(method)):
        pytest.skip("its package is not installed")
    if method == "cftp" and clauses is CLAUSES:
        clauses = CLAUSES[:3]  # runs from farther back would take seconds
    fresh.setattr(interpret._Steps, "mode", "compiled")
    machine_code = drawn(clauses, 60, method=method)
    for kernel in compile.kernels:
        fresh.setattr(kernel, "compiled", None)
    fresh.setattr(interpret._Steps, "mode", "interpreted")  # raises what the interpreter cannot do
    assert drawn(clauses, 60, method=method) == machine_code
    assert all(kernel.compiled is None for kernel in compile.kernels)


@pytest.mark.parametrize("steps", [0, 700, 5_000, 12_000])
def test_a_switch_in_the_midst_of_a_draw_keeps_the_bits(fresh, steps):
    """Two threads draw four tiles; the budget ends before, in or between them."""
    how = {"method": "lovasz", "threads": 2, "sweeps": 2}
    fresh.setattr(interpret._Steps, "mode", "compiled")
    expected = drawn(CLAUSES, 4000, **how)
    for kernel in compile.kernels:
        fresh.setattr(kernel, "compiled", None)
    fresh.setattr(interpret._Steps, "mode", "auto")
    for name in ("NEW", "KEPT"):
        fresh.setattr(interpret, name, InterpreterLimits(steps, 1 << 20))
    assert drawn(CLAUSES, 4000, **how) == expected
    assert any(kernel.compiled for kernel in compile.kernels)


def loop(array, stop, rounds):
    for k in range(rounds):
        array[k % 3] += 1
        stop[0] = k
    return array[0] * 3


def test_a_call_that_exceeds_the_budget_is_undone(fresh):
    """Except `stop`, which other threads write."""
    fresh.setattr(interpret, "NEW", InterpreterLimits(1000, 100))
    fresh.setattr(interpret.kernel_cache, "is_kept", lambda function: False)
    function = counted(loop)
    array, stop = np.zeros(3, np.int32), np.zeros(1, np.int32)
    assert attempt(function, (array, stop, 30)) == (True, 30)
    assert array.tolist() == [10, 10, 10] and stop[0] == 29
    assert attempt(function, (array, stop, 10**6)) == (False, None)
    assert array.tolist() == [10, 10, 10] and stop[0] == 29
    many = np.zeros(1000, np.int32)
    assert attempt(function, (many, stop, 1)) == (False, None) and not many.any()


def add(numbers, words, small, out):
    for k in range(2):
        out[k] = numbers[k] + numbers[k] + small[k] * 2
    words[0] = words[0] * words[0] + np.uint64(1)
    return words[0]


def test_numbers_are_computed_as_in_machine_code(fresh):
    """Integers in 64 bits, whatever the arrays hold; words wrap around; a number that does not fit
    its array is no result."""
    fresh.setattr(interpret.kernel_cache, "is_kept", lambda function: False)
    numbers, small = np.full(2, 2**31 - 1, np.int32), np.full(2, 200, np.uint8)
    words, out = np.full(1, 2**63 + 5, np.uint64), np.zeros(2, np.int64)
    done, result = attempt(counted(add), (numbers, words, small, out))
    assert done and type(result) is int and result == (25 + (10 << 63) + 1) % 2**64
    assert out.tolist() == [2**32 + 398] * 2
    before = words.copy()
    assert attempt(counted(add), (numbers, words, small, np.zeros(2, np.int32))) == (False, None)
    assert (words == before).all()


def test_kernels_are_pickled_by_name():
    assert pickle.loads(pickle.dumps(bits._pack)) is bits._pack


def compiled_for(clauses) -> list[str]:
    """The kernels that a small uniform draw compiles."""
    s = nelson.sample(nelson.Formula(clauses), n=60, seed=3)
    assert len(s) == 60 and interpret._Steps.spent > 0
    return [kernel.__name__ for kernel in compile.kernels if kernel.compiled is not None]


@pytest.mark.parametrize("clauses", [CLAUSES, FIELDS, GATES], ids=["clauses", "fields", "gates"])
def test_small_draws_stay_within_the_limits_of_kernels_on_the_disk(fresh, clauses):
    """These are the smaller limits: loading such a kernel takes less time than compiling one."""
    fresh.setattr(interpret.kernel_cache, "is_kept", lambda function: True)
    assert compiled_for(clauses) == []


def test_nothing_that_lies_compiled_is_interpreted_once_the_compiler_is_loaded(fresh):
    fresh.setattr(interpret.kernel_cache, "is_kept", lambda function: True)
    fresh.setattr(interpret, "compiler_is_loaded", lambda: True)
    nelson.sample(nelson.Formula(CLAUSES), n=60, seed=3)
    assert interpret._Steps.spent == 0


def test_arrays_that_are_too_large_would_be_seen(fresh):
    fresh.setattr(interpret.kernel_cache, "is_kept", lambda function: True)
    fresh.setattr(gates, "ROOM_FOR_EACH", gates.ROOM)
    assert "eliminate" in compiled_for(GATES)


TINY = """
import sys
import nelson
s = nelson.sample(nelson.Formula([[1, 2], [-1, 3], [2, -4, 5], [-3, 4], [-4, 3]]), n=60, seed=0)
print(len(s), s.guarantee, sorted({"numba", "scipy", "llvmlite", "torch"} & set(sys.modules)))
"""


@pytest.mark.process
@pytest.mark.parametrize("mode", ["auto", "compiled", "nonsense"])
def test_a_small_draw_loads_no_compiler(mode):
    """The twin "compiled" shows that it would be seen."""
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "NELSON_KERNELS": mode}
    done = subprocess.run(
        [sys.executable, "-c", TINY], capture_output=True, text=True, env=env, timeout=240
    )
    if mode == "nonsense":
        assert "NELSON_KERNELS is 'nonsense'; expected auto, compiled" in done.stderr
        return
    assert done.stdout.startswith("60 exact"), done.stderr
    assert ("numba" in done.stdout) == (mode == "compiled")
    assert mode == "compiled" or "scipy" not in done.stdout
