"""Barriers: which variables a joint move must leave free to cross one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import nelson
from nelson.formula import Formula
from nelson.kernels.core.bits import unpack
from nelson.sampling import barriers, joint
from nelson.sampling.barriers import Barriers
from nelson.sampling.chain import Chains
from nelson.sampling.diagnosis.diagnose import pilot_request
from nelson.sampling.problem import prepare
from tests.problems import chi_square, exact_law
from tests.sampling.auto.decisions import ALPHA


def two_menus(large: int, small: int, links: tuple[int, int]) -> Formula:
    """Menus 1 and 2 exclude each other; options need the menu above them. `links` is the
    number of clauses "not both" between options of each menu; they make the formula wide.
    """
    n, rng = 2 + large + small, np.random.default_rng(1)
    clauses = [[-1, -2]]
    clauses += [[-v, 1 if v < 3 + large else 2] for v in range(3, n + 1)]
    for first, last, many in ((3, 3 + large, links[0]), (3 + large, n + 1, links[1])):
        for _ in range(many):
            a, b = rng.choice(np.arange(first, last), 2, replace=False).tolist()
            clauses.append([-a, -b])
    return Formula(clauses, n_vars=n)


def test_what_a_literal_forces_is_estimated():
    """At most four standard errors off for each of 2 x 82 literals: 1 / sqrt(32) each."""
    f = two_menus(50, 30, (25, 15))
    found = Barriers.of(f.n_total, f.literals, f.offsets, np.ones(f.n_total, bool))
    for literal in range(2 * f.n_total):
        seen = np.zeros(2 * f.n_total, bool)
        found.force(seen, np.array([literal]))
        assert abs(found.size[literal] / seen.sum() - 1) < 4 / np.sqrt(32)
    assert set(np.argsort(-found.height)[:2].tolist()) == {0, 2}  # "not 1", "not 2"
    assert found.high and 15 < found.height[0] < 60


def test_a_target_ranks_what_must_change_with_it():
    clauses = [[-1, -2], *([-v, 1] for v in range(3, 8)), [-8, 7, 9], [-10, 8]]
    clauses += [[-11, 2], [-12, 2]]
    f = Formula(clauses, n_vars=12)
    found = Barriers.of(12, f.literals, f.offsets, np.ones(12, bool))
    level = found.around(0, np.random.default_rng(0))  # "not 1"
    assert level[0] == 1 and level[1] == 0.9
    assert (level[2:7] == 0.8).all()
    # Without 7, "8 needs 7 or 9" loses a literal: 9 alone repairs it, since it forces nothing.
    assert level[8] == 0.6 and not level[[7, 9, 10, 11]].any()


@pytest.mark.parametrize("targets", [True, False])
def test_moves_cross_a_barrier(targets, monkeypatch):
    """All 64 chains begin in the smaller menu. Measured after 4 moves: 2% are still there with
    targets, all of them without; the random numbers are fixed.
    """
    f = two_menus(150, 60, (250, 70))
    if not targets:
        monkeypatch.setattr(Barriers, "high", False)
    problem = prepare(f, ())
    moves = joint.joint_moves(problem, 5)
    assert moves is not None and moves.number_held > 4
    start = np.zeros((1, f.n_total), bool)
    start[0, 1] = True
    for v in range(152, f.n_total):  # options of menu 2, as many as fit together
        start[0, v] = True
        start[0, v] = all(any(start[0, abs(x) - 1] == (x > 0) for x in c) for c in f.clauses())
    request = replace(pilot_request(np.full((1, f.n_vars), 0.5), 64, 1, None), moves=moves)
    chains = Chains.given(problem, request, [start])
    chains.sweep_to(4)
    stayed = unpack(chains.words[0], 64)[:, 1].mean()
    assert stayed < 0.25 if targets else stayed > 0.75


def test_moves_with_targets_keep_the_law(monkeypatch):
    """Chi-square of 20,000 samples, rate ALPHA; the law of other weights is rejected."""
    monkeypatch.setattr(barriers, "_HIGH", 2)
    monkeypatch.setattr(joint, "_WIDTHS", (1,))
    f = two_menus(5, 4, (8, 5))
    theta = np.random.default_rng(2).normal(size=f.n_vars)
    options = {"method": "lovasz", "sweeps": 24, "moves": "joint", "seed": 3}
    s = nelson.sample(f, theta, 20_000, **options)
    assert s.info["width"] == 1 and s.info["held"] > 0
    assert chi_square(np.asarray(s), exact_law(f, theta)) > ALPHA
    assert chi_square(np.asarray(s), exact_law(f, theta + 0.1)) < ALPHA
