"""Sums over tables, against enumeration: what is held, the weights of fields, rules, budgets."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nelson import BudgetExceeded, Formula, Unsatisfiable
from nelson.budget import Budget
from nelson.formula.components import split
from nelson.log_z import log_z, sums
from nelson.log_z.method import LogZTask
from nelson.log_z.parts import WeightedClauses, merge, reduce
from nelson.log_z.sums import Sums, by_tables
from tests.problems import (
    encoded,
    exact_law,
    exact_log_z,
    extremal,
    non_extremal,
    pigeonhole,
    random_ksat,
    weights,
)


def one_hot(vertices: int, colours: int, edges: list[tuple[int, int]]) -> Formula:
    """Colourings: a field for each vertex, so that units have several values."""
    name = np.arange(1, vertices * colours + 1).reshape(vertices, colours)
    clauses = [row.tolist() for row in name]
    clauses += [
        [-int(row[a]), -int(row[b])] for row in name for a in range(colours) for b in range(a)
    ]
    clauses += [[-int(name[u, c]), -int(name[v, c])] for u, v in edges for c in range(colours)]
    return Formula(clauses)


ONE_THREAD = Budget(threads=1)
#: Four vertices in a ring, three colours; the same with every second variable negated, so that
#: fields have negative literals; and clauses of seven literals, which are cut with helpers.
RING = one_hot(4, 3, [(0, 1), (1, 2), (2, 3), (3, 0)])
NEGATED = Formula([[-v if abs(v) % 2 else v for v in clause] for clause in RING.clauses()])
LONG = random_ksat(12, 14, 7, seed=3)
FORMULAS = extremal() | non_extremal() | encoded() | {"ring": RING, "neg": NEGATED, "long": LONG}


def part_of(f: Formula, theta: np.ndarray | None) -> WeightedClauses:
    return merge(reduce(f, theta).parts)


def held_sums(part: WeightedClauses, monkeypatch: pytest.MonkeyPatch, width: int = 1) -> Sums:
    """Sums so narrow that some units are held."""
    monkeypatch.setattr(sums, "_WIDTHS", (width,))
    found = Sums.cheap(part.problem, part.theta)
    assert found is not None
    return found


@pytest.mark.slow
def test_exact_on_every_formula() -> None:
    for name, f in FORMULAS.items():
        for theta in (None, 3 * weights(f)):
            found = log_z(f, theta, method="tables")
            assert found.exact and found.half_width == 0.0
            assert found.value == pytest.approx(exact_log_z(f, theta), abs=1e-10), name


@pytest.mark.parametrize("name", ["ring", "neg", "long"])
def test_w_is_the_weight_of_the_structures_with_these_values(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W(h) for every h that occurs, and 0 for an h that breaks a rule."""
    f = FORMULAS[name]
    theta = weights(f)
    part = part_of(f, theta)
    assert part.n == f.n_vars
    found = held_sums(part, monkeypatch)
    assert 0 < len(found.held) < len(found.graph.moving)
    states, law = exact_law(f, theta)
    values = found.values(states)
    assert (found.states(values)[:, np.abs(part.literals) - 1] <= 1).all()
    log_z = exact_log_z(f, theta) - np.logaddexp(0, theta).sum()
    distinct, place = np.unique(values, axis=0, return_inverse=True)
    truth = log_z + np.log(np.bincount(place.reshape(-1), law))
    assert found.log_w(distinct, ONE_THREAD) == pytest.approx(truth, abs=1e-10)
    assert np.array_equal(found.values(found.states(distinct)), distinct)
    if found.rules:
        broken = distinct[:1].copy()
        for unit, false in found.rules[0]:
            broken[0, unit] = np.flatnonzero(false)[0]
        assert found.log_w(broken, ONE_THREAD)[0] == -np.inf


def test_rules_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: without the clauses between held units the sum over all h is too large."""
    f = one_hot(4, 4, [(u, v) for v in range(4) for u in range(v)])
    found = held_sums(part_of(f, None), monkeypatch, width=0)
    right = found.total(ONE_THREAD)
    assert right == pytest.approx(exact_log_z(f) - f.n_vars * math.log(2), abs=1e-12)
    assert found.rules
    found.__dict__["rules"] = []
    assert found.total(ONE_THREAD) > right + 0.1


@pytest.mark.parametrize("threads", [1, 2])
def test_all_values_of_held_units_are_summed(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With tables of width 5, random 3-SAT of 24 variables holds some: 2^held sums."""
    f = random_ksat(24, 60, 3, seed=4)
    theta = weights(f)
    truth = log_z(f, theta, method="tables").value  # nothing is held
    monkeypatch.setattr(sums, "_WIDTHS", (5,))
    part = part_of(f, theta)
    assert len(Sums.all(part.problem, part.theta, 1 << 40).held) >= 3
    found = log_z(f, theta, method="tables", threads=threads)
    assert found.value == pytest.approx(truth, abs=1e-11)


def test_wide_formulas_are_left_to_others() -> None:
    f = random_ksat(300, 300, 5, seed=1)
    outcome = by_tables(reduce(f, None).parts, LogZTask(f, None))
    assert outcome.left and "too wide" in outcome.reason
    with pytest.raises(BudgetExceeded, match="too wide"):
        log_z(f, method="tables")


def test_no_solution_and_no_time() -> None:
    with pytest.raises(Unsatisfiable):
        log_z(pigeonhole(4), method="tables")
    f = random_ksat(40, 40, 5, seed=1)
    late = LogZTask(f, None, "tables", budget=Budget(deadline=0.0))
    outcome = by_tables(reduce(f, None).parts, late)
    assert outcome.left and "time was up" in outcome.reason


def test_parts_are_summed_one_by_one() -> None:
    f = Formula(
        [*RING.clauses(), *([[v + 12 if v > 0 else v - 12 for v in c] for c in RING.clauses()])]
    )
    assert len(split(f.literals, f.offsets, f.n_vars)) == 2
    found = log_z(f, method="tables")
    assert found.value == pytest.approx(2 * exact_log_z(RING), abs=1e-11)
    assert found.info["components"] == {"tables": 2}


def two_stars(leaves: int, more: int) -> tuple[Formula, float]:
    """s -> `leaves` variables, t -> `more` variables, s or t: log Z by hand."""
    clauses = [[1, 2], *([-1, 3 + k] for k in range(leaves))]
    clauses += [[-2, 3 + leaves + k] for k in range(more)]
    both, one, other = 0.0, more * math.log(2), leaves * math.log(2)
    return Formula(clauses), float(np.logaddexp.reduce([both, one, other]))


@pytest.mark.slow
def test_tables_that_might_lose_entries_are_not_called_exact() -> None:
    """2^-1100 of an entry is below the smallest double: log Z by tables would be 762.46 instead of
    831.78. The twin is small enough for a proof that nothing is lost.
    """
    f, truth = two_stars(1100, 1200)
    with pytest.raises(BudgetExceeded, match="would be lost"):
        log_z(f, method="tables")
    z = log_z(f)
    assert z.value == pytest.approx(truth, rel=1e-12) and z.exact and z.method != "tables"
    f, truth = two_stars(300, 400)
    z = log_z(f, method="tables")
    assert z.exact and z.value == pytest.approx(truth, rel=1e-12)
