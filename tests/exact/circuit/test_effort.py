"""Counted effort: no clock, no cache and no other limit changes which circuit a formula has."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

from nelson import budget
from nelson.budget import Budget
from nelson.exact import compiled as compiled_module
from nelson.exact.circuit import attempts, build, disk_cache
from nelson.exact.compiled import compiled, was_cut, why_not
from nelson.formula.random_ksat import random_ksat

pytest.importorskip("py_d4")
pytestmark = pytest.mark.process


def middling():
    """D4 needs one unit of effort."""
    return random_ksat(60, 150, 3, seed=1)


def hard():
    """D4 needs more than 40 units."""
    return random_ksat(70, 140, 3, seed=1)


def chain(n):
    """A narrow formula, on which `auto` has several attempts."""
    from tests.structured.random_constraints import xor_chain

    return xor_chain(n, 7, seed=1)


def same(a, b):
    return all(np.array_equal(a.arrays[name], b.arrays[name]) for name in a.ARRAYS)


def test_the_lines_of_d4_add_up_to_its_effort():
    parts = [(np.ones(200_000, np.int32), np.zeros(2, np.int64))]
    spent = attempts.effort_of(parts, 4.0)
    for line in (
        b"c |        time|     #posHit|",
        b"c Number of decision: 7",
        b"c |        0.59|      148202|",
    ):
        spent.add(line)
    assert spent.total == 1.0 and not spent.spent
    spent.add(b"c Allocate a new page for the cache 9 67108876 134217728")
    assert spent.total == 5.0 and spent.spent  # 16 bytes a literal: a page has 4 MiB
    spent.add(b"$done")
    assert spent.done == [5.0] and spent.within == 0


def test_a_limit_of_effort_decides_and_failures_are_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("NELSON_CACHE_DIR", str(tmp_path))
    formula = middling()
    assert compiled(formula, effort=0.5) is None
    assert "gave up after 0.5 units of effort" in why_not(formula) and not was_cut(formula)
    assert compiled(formula, effort=1.0).built.effort == 1.0
    children = []
    monkeypatch.setattr(build, "run_child", lambda *args, **more: children.append(args) or ([], ""))
    assert compiled(formula, effort=0.5) is None and "takes 1 units of effort" in why_not(formula)
    assert compiled(formula, effort=320.0) is not None
    assert compiled(middling(), effort=0.5) is None  # from the disk: as with an empty cache
    assert compiled(middling(), effort=1.0).built.cached
    assert not children


def test_the_limit_does_not_change_the_circuit(monkeypatch):
    """Narrow formulas are tried in several ways. D4 on its own is stopped here after no effort, and
    the frontier compiler is left out, so that the order decides."""
    monkeypatch.setattr(attempts, "FIRST_EFFORTS", (0.0, 1.0))
    monkeypatch.setattr(attempts, "FEW_STATES", -1.0)
    real = build.compile_parts

    def without_the_first(parts, seconds, memory, orders, *more):
        if orders is None:
            return [], build.SPENT
        return real(parts, seconds, memory, orders, *more)

    monkeypatch.setattr(build, "compile_parts", without_the_first)
    found = [build.build(chain(100), cache=False, effort=e) for e in (1.0, 16.0, 320.0)]
    assert found[0].circuit is not None and len({one.effort for one in found}) == 1
    assert same(found[0].circuit, found[1].circuit) and same(found[0].circuit, found[2].circuit)
    assert build.build(chain(100), cache=False, effort=0.0).circuit is None


def test_efforts_of_narrow_formulas_alternate_and_end_at_the_limit(monkeypatch):
    asked = []

    def attempt(parts, attempt, _):
        asked.append((attempt.orders is not None, attempt.effort))
        return [], build.SPENT, attempt.effort

    monkeypatch.setattr(build, "_by_child", attempt)
    monkeypatch.setattr(build, "_by_frontier", attempt)
    monkeypatch.setattr(attempts, "FEW_STATES", -1.0)
    for limit in (16.0, 107.0):
        asked.clear()
        assert build.build(chain(100), cache=False, effort=limit).circuit is None
        assert sum(effort for _, effort in asked) == limit
    assert asked == [(False, 5.0), (True, 11.0), (True, 44.0), (False, 20.0), (True, 27.0)]


@pytest.mark.slow
def test_a_clock_that_runs_fast_changes_nothing(monkeypatch):
    found = [build.build(f, cache=False, effort=1.0) for f in (middling(), hard(), chain(100))]
    begin, real = time.monotonic(), time.monotonic

    class Fast:
        monotonic = staticmethod(lambda: begin + 1e4 * (real() - begin))

    for module in (budget, build):
        monkeypatch.setattr(module, "time", Fast)
    for formula, before in zip((middling(), hard(), chain(100)), found, strict=True):
        after = build.build(formula, cache=False, effort=1.0)
        assert after.effort == before.effort and after.why_not == before.why_not
        assert not after.cut
        assert (after.circuit is None) == (before.circuit is None)
        if after.circuit is not None:
            assert same(after.circuit, before.circuit)
    # A clock decides if the caller asks for one: no child starts in a millisecond.
    assert build.build(middling(), Budget.of(1e-3), cache=False).circuit is None


def test_a_safety_limit_that_cuts_in_is_said(monkeypatch):
    monkeypatch.setattr(attempts, "SAFETY", 0.0)
    monkeypatch.setattr(attempts, "SAFETY_PER_EFFORT", 0.0)
    formula = middling()
    assert compiled(formula) is None and was_cut(formula)
    assert "safety limit" in why_not(formula)


def test_a_clock_and_a_count_do_not_share_failures(monkeypatch, tmp_path):
    monkeypatch.setenv("NELSON_CACHE_DIR", str(tmp_path))
    formula = middling()
    assert compiled(formula, Budget.of(0.0)) is None and "stopped" in why_not(formula)
    assert compiled(formula) is not None  # the clock's failure does not count
    assert compiled(formula, Budget.of(0.0)) is not None  # a circuit is a circuit


def test_a_circuit_that_a_clock_found_elsewhere_does_not_serve_a_count(monkeypatch, tmp_path):
    """Its effort is not known: with an empty cache there might be none, or another."""
    monkeypatch.setenv("NELSON_CACHE_DIR", str(tmp_path))
    formula = chain(60)
    plain = build.build(formula, cache=False)
    arrays = {"n": np.int64(plain.circuit.n), "effort": np.float64(math.inf)}
    disk_cache.save(disk_cache.key(formula, build.AUTO), arrays | plain.circuit.arrays)
    assert build.build(chain(60), Budget.of(5.0)).cached
    found = build.build(chain(60))
    assert not found.cached and found.effort == plain.effort
    assert build.build(chain(60)).cached  # the new one took its place
    assert compiled_module.compiled(chain(60)) is not None
