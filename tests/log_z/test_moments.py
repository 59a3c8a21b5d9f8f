"""Which source of exact moments is used, and how often a compiler is started for a batch."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from nelson import BudgetExceeded, Formula, NelsonError
from nelson.exact.circuit import build
from nelson.exact.enumerated import Enumerated
from nelson.exact.listing import structures
from nelson.log_z import moments
from nelson.policy import DEFAULT
from tests.problems import exact_log_z, random_ksat, weights


def exactly(k: int, n: int) -> Formula:
    return Formula([], n).exactly(range(1, n + 1), k)


def without_d4(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(build.COMPILERS, "d4", ("no_such_module", "D4"))


def rows_of(f: Formula, count: int) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(count, f.n_vars))


def test_few_structures_start_no_compiler(compilations: list) -> None:
    source = moments.moments_of(random_ksat(16, 16, 3, seed=1), rows=64)
    assert source.routes == ("enumerate",) and source.count() > 1000
    assert not compilations


@pytest.mark.process
def test_many_structures_are_compiled_and_not_enumerated(
    compilations: list, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exactly 5 of 30 has 142,506 structures and a circuit of a few thousand edges."""
    limits = []

    def counted(formula, limit, *more):
        limits.append(limit)
        return structures(formula, limit, *more)

    monkeypatch.setattr("nelson.exact.law.structures", counted)
    f = exactly(5, 30)
    source = moments.moments_of(f)
    assert source.routes == ("circuit",) and source.cost < 10_000
    assert limits[0] == DEFAULT.exact.few_cells // f.n_total and len(compilations) == 1


@pytest.mark.process
def test_a_large_batch_uses_the_smaller_of_the_two() -> None:
    f = exactly(6, 14)  # 3,003 structures of 14 variables, some hundred edges
    assert moments.moments_of(f, rows=1).routes == ("enumerate",)
    assert moments.moments_of(f, rows=10_000).routes == ("circuit",)
    equal = [clause for i in range(1, 20) for clause in ([i, -i - 1], [-i, i + 1])]
    f = Formula(equal, 20)  # all false or all true; a circuit also has 20 literals in each branch
    assert moments.moments_of(f, rows=1 << 28).routes == ("enumerate",)


@pytest.mark.slow
def test_without_d4_all_structures_are_enumerated(
    compilations: list, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_d4(monkeypatch)
    groups = [range(1, 41), range(41, 81), range(81, 91)]  # at most one of each: a wide formula
    f = Formula([[-a, -b] for group in groups for a, b in itertools.combinations(group, 2)], 90)
    source = moments.moments_of(f)  # more structures than are enumerated before a compiler is tried
    assert source.routes == ("enumerate",) and source.count() == 41 * 41 * 11
    assert not compilations
    assert moments.moments_of(random_ksat(200, 400, 3, seed=2)) is None
    assert moments.moments_of(exactly(5, 20)).routes == ("circuit",)  # narrow: no D4 is needed


@pytest.mark.process
def test_one_circuit_for_a_batch(compilations: list) -> None:
    f = random_ksat(12, 20, 3, seed=2)
    theta = rows_of(f, 50)
    found = moments.log_z_rows(f, theta, "circuit", {"seed": 1})
    assert len(compilations) == 1 and {one.method for one in found} == {"circuit"}
    for row, one in zip(theta, found, strict=True):
        assert one.value == pytest.approx(exact_log_z(f, row), abs=1e-11)


def test_a_circuit_that_cannot_be_made_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    f = random_ksat(12, 20, 3, seed=3)
    monkeypatch.setattr("nelson.log_z.exact.compiled", lambda *_, **__: None)
    with pytest.raises(BudgetExceeded, match="not compiled"):
        moments.log_z_rows(f, rows_of(f, 2), "circuit", {})
    without_d4(monkeypatch)
    with pytest.raises(NelsonError, match="samplers"):
        moments.log_z_rows(f, rows_of(f, 2), "circuit", {})


def test_the_rows_of_a_batch_share_the_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row gets its share of the time that is left; equal rows count once."""
    given = []
    monkeypatch.setattr(moments, "log_z", lambda *_, **how: given.append(how["seconds"]))
    f = random_ksat(12, 20, 3, seed=4)
    theta = np.repeat(rows_of(f, 4), 2, axis=0)
    moments.log_z_rows(f, theta, "telescope", {"seconds": 1000.0})
    assert len(given) == 4
    for left, seconds in zip((4, 3, 2, 1), given, strict=True):  # the others used nothing
        assert seconds <= 1000.0 / left
    moments.log_z_rows(f, theta[:1], "telescope", {"seconds": None})
    assert given[-1] is None


def test_structures_come_in_order_for_more_than_one_word() -> None:
    """More than 64 variables, auxiliary ones included: against a brute-force search."""
    f = exactly(2, 70)
    x = structures(f)
    assert x is not None and x.shape == (70 * 69 // 2, 70) and (x.sum(axis=1) == 2).all()
    assert [row.tolist() for row in x] == sorted(row.tolist() for row in x)
    theta = weights(f)
    pairs = [theta[i] + theta[j] for i in range(70) for j in range(i)]
    assert Enumerated(x).log_z(theta[None])[0] == pytest.approx(np.logaddexp.reduce(pairs))
