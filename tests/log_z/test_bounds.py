"""Bounds on log Z that always hold, and estimates whose chains are caught in one region."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nelson import BudgetExceeded, Formula, Unsatisfiable
from nelson.budget import Budget
from nelson.exact import solver
from nelson.exact.mode import most_likely
from nelson.log_z import bounds, log_z
from nelson.log_z.parts import merge, reduce
from tests.problems import (
    encoded,
    exact_log_z,
    extremal,
    non_extremal,
    pigeonhole,
    random_ksat,
    weights,
)

Case = tuple[Formula, np.ndarray, float]  # formula, theta, log Z


def conflicts(pairs: list[tuple[int, int]], theta: np.ndarray) -> Formula:
    """Independent sets of a graph: vertices from 1, no edge with both ends true."""
    return Formula([[-a, -b] for a, b in pairs], n_vars=len(theta))


def star() -> Case:
    """One centre of weight e^10, twelve leaves of weight e^2. All leaves free weigh more than the
    centre, but resampling starts with the centre true, and single flips seldom leave it.
    """
    theta = np.array([10.0] + [2.0] * 12)
    truth = np.logaddexp(10.0, 12 * np.logaddexp(0, 2.0))
    return conflicts([(1, i) for i in range(2, 14)], theta), theta, float(truth)


def bipartite(a: int, b: int, left: float, right: float) -> Case:
    """K(a, b): a set of the left side, or a set of the right side."""
    theta = np.array([left] * a + [right] * b)
    edges = [(i, a + j) for i in range(1, a + 1) for j in range(1, b + 1)]
    one, other = a * np.logaddexp(0, left), b * np.logaddexp(0, right)
    truth = np.logaddexp(one + math.log1p(-math.exp(-one)), other)  # the empty set counts once
    return conflicts(edges, theta), theta, float(truth)


def grid(size: int, theta: float, field: float) -> Case:
    """Independent sets of a size x size grid under theta + field (-1)^(i+j): rows are summed out
    one after the other.
    """
    sign = (-1.0) ** np.add.outer(np.arange(size), np.arange(size))
    weight = theta + field * sign
    cell = np.arange(1, size * size + 1).reshape(size, size)
    edges = [*zip(cell[:, :-1].flat, cell[:, 1:].flat, strict=True)]
    edges += zip(cell[:-1].flat, cell[1:].flat, strict=True)
    codes = np.array([s for s in range(1 << size) if not s & s >> 1])
    rows = (codes[:, None] >> np.arange(size) & 1).astype(float)
    apart = ((codes[:, None] & codes) == 0).astype(float)
    score = rows @ weight[0]
    for row in weight[1:]:
        score = np.log(apart @ np.exp(score - score.max())) + score.max() + rows @ row
    flat = [(int(a), int(b)) for a, b in edges]
    return conflicts(flat, weight.ravel()), weight.ravel(), float(np.logaddexp.reduce(score))


def test_the_exact_answers_of_these_cases() -> None:
    for f, theta, truth in (star(), bipartite(4, 6, 2.0, 1.0), grid(4, 0.5, 0.3)):
        assert truth == pytest.approx(exact_log_z(f, theta), abs=1e-12)


# --- bounds --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_bounds_contain_log_z() -> None:
    """theta . mode <= lower bound <= log Z <= log P(G_0); the twin frees every variable."""
    for name, f in (extremal() | non_extremal() | encoded()).items():
        for theta in (np.zeros(f.n_vars), 3 * weights(f)):
            reduced = reduce(f, theta)
            if not reduced.parts:
                continue
            part, truth = merge(reduced.parts), exact_log_z(f, theta) - reduced.constant
            x = bounds.valid_structures(part, 1, Budget.of(60.0))
            rest = Formula.from_arrays(part.literals, part.offsets, n_vars=part.n)
            assert len(x) and rest.satisfied(x).all(), name
            low, high = bounds.lower_bound(part, x), bounds.upper_bound(part)
            best = most_likely(rest, part.theta)
            at_mode = part.log_p[np.arange(part.n), best.astype(int)].sum()
            assert at_mode - 1e-9 <= low <= truth + 1e-9 <= high + 2e-9, name
            assert truth < 0.0, name  # log P of all assignments


@pytest.mark.slow
def test_structures_are_of_several_kinds() -> None:
    """The star has few structures with the centre true; the leaves are all true in the mode."""
    f, theta, _ = star()
    x = bounds.valid_structures(merge(reduce(f, theta).parts), 1, Budget.of(60.0))
    assert x[:, 0].any() and not x[:, 0].all() and x[:, 1:].all(axis=1).any()


def test_solutions_with_the_other_value_of_a_constant_variable() -> None:
    clauses = [[-1, i] for i in range(2, 9)]  # 1 true needs all others true
    near = np.zeros((3, 8), bool)
    assert not solver.solutions(clauses, near, 0, 60.0, 60.0)[:, 0].any()
    assert solver.solutions(clauses, near, 8, 60.0, 60.0)[:, 0].any()
    with pytest.raises(Unsatisfiable):
        solver.solutions([*map(list, pigeonhole(3))], np.zeros((1, 12), bool), 0, 60.0, 60.0)


# --- bounds as an answer --------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [star(), bipartite(4, 14, 5.0, 1.0), bipartite(4, 14, 4.0, 2.0), grid(7, 2.5, 0.1)],
    ids=["star", "K(4,14), left side", "K(4,14), right side", "grid below its transition"],
)
def test_bounds_are_an_answer(case: Case) -> None:
    """They cover and say what they are. The twin: a narrow interval around their middle misses."""
    f, theta, truth = case
    for seed in range(3):
        z = log_z(f, theta, method="bounds", seed=seed, threads=1)
        low, high = z.info["bounds"]
        assert z.info["guarantee"] == "heuristic" and not z.exact and z.method == "bounds"
        assert "bounds on log Z that always hold" in z.why and "bounds" in str(z)
        assert low - 1e-9 <= truth <= high and low <= z.value <= high
        assert z.interval == pytest.approx((low, high))
        assert abs(z.value - truth) > 0.1


@pytest.mark.slow
def test_bounds_where_the_bridge_is_too_wide() -> None:
    """Random 5-SAT of 9,000 variables: rejection and a bridge refuse, and bounds are the answer.
    Without a structure there is none.
    """
    f = random_ksat(9000, 9000, 5, seed=1)
    part = merge(reduce(f, None).parts)
    result = bounds.bounded(part, 1, Budget.of(60.0))
    low, high = result.info["bounds"]
    assert low < result.log_p < high < 0.0 and not result.trusted


def test_no_bound_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """If no solver finds a structure in time, there is no lower bound."""
    f, theta, _ = star()
    nothing = np.zeros((0, len(theta)), bool)
    monkeypatch.setattr(bounds, "valid_structures", lambda *_: nothing)
    with pytest.raises(BudgetExceeded, match="no lower bound"):
        log_z(f, theta, method="bounds", seed=1, threads=1)
