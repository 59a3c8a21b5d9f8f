"""Bounds on log Z that always hold, and estimates whose chains are caught in one region."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nelson import BudgetExceeded, Formula, Unsatisfiable
from nelson.exact import solver
from nelson.exact.mode import most_likely
from nelson.log_z import LogPartition, bounds, log_partition, stages, telescope
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


def test_bounds_contain_log_z() -> None:
    """theta . mode <= lower bound <= log Z <= log P(G_0); the twin frees every variable."""
    for name, f in (extremal() | non_extremal() | encoded()).items():
        for theta in (np.zeros(f.n_vars), 3 * weights(f)):
            reduced = reduce(f, theta)
            if not reduced.parts:
                continue
            part, truth = merge(reduced.parts), exact_log_z(f, theta) - reduced.constant
            x = bounds.valid_structures(part, 1, 60.0)
            rest = Formula.from_arrays(part.literals, part.offsets, n_vars=part.n)
            assert len(x) and rest.satisfied(x).all(), name
            low, high = bounds.lower_bound(part, x), telescope.ordered(part)[2]
            best = most_likely(rest, part.theta)
            at_mode = part.log_p[np.arange(part.n), best.astype(int)].sum()
            assert at_mode - 1e-9 <= low <= truth + 1e-9 <= high + 2e-9, name
            assert truth < 0.0, name  # log P of all assignments


def test_structures_are_of_several_kinds() -> None:
    """The star has few structures with the centre true; the leaves are all true in the mode."""
    f, theta, _ = star()
    x = bounds.valid_structures(merge(reduce(f, theta).parts), 1, 60.0)
    assert x[:, 0].any() and not x[:, 0].all() and x[:, 1:].all(axis=1).any()


def test_solutions_with_the_other_value_of_a_constant_variable() -> None:
    clauses = [[-1, i] for i in range(2, 9)]  # 1 true needs all others true
    near = np.zeros((3, 8), bool)
    assert not solver.solutions(clauses, near, 0, 60.0, 60.0)[:, 0].any()
    assert solver.solutions(clauses, near, 8, 60.0, 60.0)[:, 0].any()
    with pytest.raises(Unsatisfiable):
        solver.solutions([*map(list, pigeonhole(3))], np.zeros((1, 12), bool), 0, 60.0, 60.0)


# --- estimates -----------------------------------------------------------------------------------


def estimates(case: Case, seeds: range) -> list[LogPartition]:
    f, theta, _ = case
    options = {"method": "telescope", "threads": 1, "half_width": 0.1}
    return [log_partition(f, theta, seed=seed, **options) for seed in seeds]


def covered(found: list[LogPartition], truth: float) -> int:
    return sum(abs(one.value - truth) <= one.half_width + 1e-9 for one in found)


def covered_by_the_old_rule(found: list[LogPartition], truth: float) -> int:
    """The interval that noise, bias and rounding give, whatever the chains do."""
    total = [sum(one.info[k] for k in ("noise", "bias", "rounding")) for one in found]
    return sum(
        abs(one.info["estimate"] - truth) <= half for one, half in zip(found, total, strict=True)
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [star(), bipartite(4, 14, 5.0, 1.0), bipartite(4, 14, 4.0, 2.0)],
    ids=["star", "K(4,14), left side", "K(4,14), right side"],
)
def test_an_interval_that_cannot_be_trusted_is_wide(case: Case) -> None:
    """Bounds always cover. The old rule, an interval from the noise alone, covers on no seed."""
    truth = case[2]
    found = estimates(case, range(3))
    assert covered(found, truth) == 3
    assert covered_by_the_old_rule(found, truth) == 0
    for one in found:
        low, high = one.info["bounds"]
        assert one.info["guarantee"] == "heuristic" and not one.exact
        assert "bounds on log Z that always hold" in one.why and "bounds" in str(one)
        assert low - 1e-9 <= truth <= high and low <= one.value <= high
        assert one.interval[0] <= low + 1e-9 and high - 1e-9 <= one.interval[1]


@pytest.mark.slow
@pytest.mark.parametrize("field", [-0.1, 0.1, 1.0])
def test_a_grid_below_its_transition(field: float) -> None:
    """Independent sets of the 7 x 7 grid at theta = 2.5: two ordered phases."""
    case = grid(7, 2.5, field)
    found = [log_partition(*case[:2], method="telescope", seed=s, threads=1) for s in range(2)]
    assert covered(found, case[2]) == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["5-SAT", "grid"])
def test_intervals_of_chains_that_mix_stay_narrow(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At 95%, at least 6 of 10 intervals cover but for a chance of 6e-5."""
    monkeypatch.setattr(stages, "TRIAL_ROUNDS", 0)  # chains, also where an exact sampler is fast
    if name == "grid":
        case = grid(6, 0.0, 0.0)
    else:
        f = random_ksat(20, 40, 5, seed=3)
        theta = weights(f)
        case = f, theta, log_partition(f, theta, method="enumerate").value
    found = estimates(case, range(10))
    assert all(one.half_width <= 0.1 and one.info["reached"] for one in found)
    assert {one.info["guarantee"] for one in found} == {"asymptotic"}
    assert covered(found, case[2]) >= 6
    assert covered(found, case[2] + 0.3) < 6  # twin: another truth is rejected


def test_known_structures_that_weigh_more_refute_an_interval(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without the check of other starts, the lower bound alone refutes the estimate of the star."""
    f, theta, truth = star()
    agreeing = stages.OtherStarts(True, 0, np.zeros(12, np.int64))
    monkeypatch.setattr(telescope, "from_other_starts", lambda *_: agreeing)
    found = log_partition(f, theta, method="telescope", seed=1, threads=1)
    assert found.info["guarantee"] == "heuristic" and found.info["estimate"] < truth - 10
    assert covered([found], truth) == 1


def test_no_bound_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """If no solver finds a structure in time, an estimate that cannot be trusted is refused."""
    f, theta, _ = star()
    nothing = np.zeros((0, len(theta)), bool)
    monkeypatch.setattr(telescope, "valid_structures", lambda *_: nothing)
    with pytest.raises(BudgetExceeded, match="did not mix"):
        log_partition(f, theta, method="telescope", seed=1, threads=1)


def test_starts_are_compared_variable_by_variable() -> None:
    """The stage of the star after eight leaves: chains from the leaves do not reach the centre.
    The twin has a centre of weight e^-2, which every chain leaves at once.
    """
    f, theta, _ = star()
    for centre, agree in ((10.0, False), (-2.0, True)):
        theta[0] = centre
        part = merge(reduce(f, theta).parts)
        given = stages.Conditional.of(part, 8, 9)
        x = bounds.valid_structures(part, 1, 60.0)
        other = stages.from_other_starts(given, x, 12, 5, 1, math.inf)
        assert other is not None and other.agree is agree
        assert other.count % 64 == 0 and 0 < other.surviving[0] <= other.count
