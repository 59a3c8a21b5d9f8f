"""Which chains are called diagnosed, and which are not."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import nelson
from nelson.budget import Budget
from nelson.chains import engine
from nelson.chains.chain import Chains, resumed
from nelson.chains.diagnosis import alternative_starts
from nelson.chains.diagnosis.alternative_starts import AlternativeStarts
from nelson.chains.diagnosis.diagnose import diagnose, for_rows, pilot_request, pilots
from nelson.chains.diagnosis.slowest import Slowest
from nelson.chains.diagnosis.solver import Finder
from nelson.chains.diagnosis.verdict import StepVerdict
from nelson.chains.problem import prepare
from nelson.formula import Formula
from tests.problems import entropic_switch, hard_core, hubs_and_leaves, random_ksat, weights
from tests.sampling.auto.decisions import decided, xor3

# --- chains ---------------------------------------------------------------------------------------


def test_j_sweeps_and_k_more_are_j_plus_k():
    f = random_ksat(100, 150, 5, seed=1)
    theta = np.random.default_rng(0).normal(size=(2, 100))
    problem = prepare(f)
    for count in (50, 64 * 16 + 7):
        request = pilot_request(theta, count, Budget(threads=1))
        request = replace(request, columns=np.arange(100))
        early = next(engine.blocks(0, problem, replace(request, sweeps=3)))
        late = next(engine.blocks(0, problem, replace(request, sweeps=8)))
        block = resumed(problem, replace(request, sweeps=5), early.packed, 3, 0, count)
        assert np.array_equal(block.packed, late.packed)
        assert np.array_equal(block.filled, late.filled)


def test_a_start_that_is_not_valid_is_not_handed_out():
    f = random_ksat(20, 40, 3, seed=1)
    request = pilot_request(np.zeros((1, 20)), 64, Budget(threads=1))
    bad = np.zeros((1, 20), bool)
    bad[0] = ~f.satisfied(bad)[0]
    chains = Chains.given(prepare(f), request, [np.vstack([bad, ~bad])])
    right = f.satisfied(np.vstack([bad, ~bad]))
    chains.sweep_to(3)
    assert chains.lanes() == 32 * right.sum()


@pytest.mark.parametrize("skip", [(), ("resampling",)])
@pytest.mark.process
def test_chains_that_are_cut_off_are_called_heuristic(skip):
    """Two parities with a shared variable; 3-SAT whose space falls apart. The twin is connected."""
    for f in (xor3(), random_ksat(12, 24, 3, seed=3)):
        steps = "enumerate", "circuit", "cftp", "joint", *skip
        choice = decided(f, *steps, theta=weights(f)).choice
        assert choice.guarantee == "heuristic", choice
    free = random_ksat(12, 12, 5, seed=3)
    choice = decided(free, "enumerate", "circuit", "cftp", *skip).choice
    assert choice.guarantee == "diagnosed", choice


# --- the cases that once were called diagnosed ---------------------------------------------------


def verdict_of(formula: Formula, theta: np.ndarray | None = None):
    rows = np.zeros((1, formula.n_vars)) if theta is None else np.atleast_2d(theta)
    return diagnose(prepare(formula), rows, Budget(threads=1))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_an_entropic_switch_is_seen(seed):
    """P(x1 = 1) > 0.9999 by counting, and no chain from resampling has x1 = 1."""
    formula = entropic_switch(seed)
    verdict = verdict_of(formula)
    assert verdict.guarantee == "heuristic", verdict.why
    x = nelson.sample(formula, None, 640, method="lovasz", sweeps=8, seed=seed).mean()
    assert x[0] < 0.01


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_a_wrong_phase_is_seen(seed):
    assert verdict_of(*hubs_and_leaves(seed=seed)).guarantee == "heuristic"
    few = hubs_and_leaves(hubs=8, leaves=60, seed=seed)
    assert verdict_of(*few).guarantee == "heuristic"
    # The same graph where no phase is favoured.
    assert verdict_of(few[0], np.full(68, -1.0)).guarantee == "diagnosed"


@pytest.mark.slow
def test_a_slow_collective_mode_gets_the_sweeps_it_needs():
    """Independent sets of a 20 x 16 grid, theta = 0.9: E[sum of (-1)^(i+j) x] = 0 by reflection.

    Of 8,192 samples after the measured sweeps the sum is within 5 standard errors of 0 (false
    alarm 6e-7); after the 24 sweeps that single variables alone would ask for it is not.
    """
    formula, theta = hard_core(20, 16), np.full(320, 0.9)
    signs = np.where(np.add.outer(np.arange(20), np.arange(16)) % 2, -1.0, 1.0).ravel()
    verdict = verdict_of(formula, theta)
    assert verdict.guarantee == "diagnosed" and verdict.sweeps > 96

    def score(sweeps: int) -> float:
        s = nelson.sample(formula, theta, 8192, method="lovasz", sweeps=sweeps, seed=5)
        stagger = s.to_numpy() @ signs
        return abs(stagger.mean()) / (stagger.std() / np.sqrt(len(stagger)))

    assert score(verdict.sweeps) < 5
    assert score(6) > 5


def test_clusters_with_equal_means_are_seen():
    """x1..x6 are all equal to y1..y6, or all different from them, beside a 5-SAT formula. Every
    variable has mean 1/2 in both clusters.
    """
    clauses = [[s * (v + 1), -s * (v + 7), 13 * t] for v in range(6) for s in (1, -1) for t in (1,)]
    clauses += [[s * (v + 1), s * (v + 7), -13] for v in range(6) for s in (1, -1)]
    other = [[a + 13 if a > 0 else a - 13 for a in c] for c in random_ksat(50, 50, 5, 1).clauses()]
    whole = Formula([*clauses, *other, [13, 14, 15, 16, 17], [-13, -18, -19]], n_vars=63)
    verdict = verdict_of(whole)
    assert verdict.guarantee == "heuristic", verdict.why


def test_two_cubes_far_apart_are_seen():
    """{x1..x4 = 0} and {x1..x4 = 1}: chains mix at once within a cube. The twin has one cube."""
    clauses = [[-1, 2], [-2, 3], [-3, 4], [-4, 1], [1, 5, 6], [-1, 7, 8]]
    assert verdict_of(Formula(clauses, n_vars=8)).guarantee == "heuristic"
    one = Formula([[1, 5, 6], [-1, 7, 8], [5, 7]], n_vars=8)
    assert verdict_of(one).guarantee == "diagnosed"


def test_contexts_have_their_own_labels():
    formula, theta = hubs_and_leaves(hubs=8, leaves=60)
    zero = np.zeros(68)
    verdict = verdict_of(formula, np.stack([zero, theta, zero, theta, zero]))
    labels = ["diagnosed", "heuristic", "diagnosed", "heuristic", "diagnosed"]
    assert list(verdict.rows) == labels and verdict.guarantee == "heuristic"


def test_the_contexts_of_largest_theta_are_diagnosed():
    """Of 100 contexts with small weights, three have large ones: they are among the eight, and so
    is the one of smallest weights.
    """
    theta = np.random.default_rng(0).normal(size=(100, 1000)) * 0.1
    theta[[13, 57, 90]] *= 50
    theta[31] = 0
    assert {13, 31, 57, 90} <= set(pilots(theta).tolist()) and len(pilots(theta)) == 8
    assert len(pilots(theta[:, :100])) == 64 and len(pilots(theta[:50, :100])) == 50


@pytest.mark.parametrize(("variables", "most"), [(1100, 8), (100, 64)])
def test_a_row_of_theta_that_nobody_diagnosed_is_heuristic(variables, most):
    """The hard row hides behind a larger one that is close to it. The twin has no more different
    rows than are diagnosed."""
    theta = np.random.default_rng(0).normal(size=(most + 6, variables))
    theta[0] *= 3
    theta[most] = 0.99 * theta[0]
    asked = []

    def one(row):
        asked.append(row)
        hard = np.array_equal(row, theta[most])
        return StepVerdict(3, "heuristic" if hard else "diagnosed", "told")

    verdict = for_rows(theta, one)
    assert len(asked) == most and not any(np.array_equal(row, theta[most]) for row in asked)
    labels = {row.tobytes(): label for row, label in zip(theta, verdict.rows, strict=True)}
    assert labels[theta[most].tobytes()] == verdict.guarantee == "heuristic"
    assert all(labels[row.tobytes()] == "diagnosed" for row in asked)
    assert verdict.rows.count("heuristic") == 6 and verdict.sweeps == 3
    assert f"6 of {most + 6} rows of theta were not diagnosed" in verdict.why
    few = np.concatenate([theta[2:most], theta[2:most], 0.0 * theta[:2], -0.0 * theta[:2]])
    twin = for_rows(few, one)
    assert set(twin.rows) == {"diagnosed"} and twin.guarantee == "diagnosed" and twin.why == "told"


def test_samples_of_a_row_that_nobody_diagnosed_are_heuristic(monkeypatch):
    """Alone the row is heuristic; in a batch it had the label of the others."""
    formula, hard = hubs_and_leaves(hubs=8, leaves=60)
    rows = np.stack([np.zeros(68), hard, np.full(68, 1e-3)])
    monkeypatch.setattr("nelson.chains.diagnosis.diagnose.pilots", lambda theta: np.array([0, 2]))
    labels = ("diagnosed", "heuristic", "diagnosed")
    verdict = verdict_of(formula, rows)
    assert verdict.rows == labels and verdict.guarantee == "heuristic"
    assert verdict_of(formula, rows[[0, 0, 2]]).guarantee == "diagnosed"


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 63, 64])
def test_a_frozen_variable_is_seen_for_any_number_of_samples_and_before_projection(count):
    """x1 xor x2 xor x3 is fixed, twice: no variable moves alone. The free variables 6, 7 do."""
    formula = Formula([*xor3().clauses(), [6, 7]], n_vars=7)
    steps = "enumerate", "circuit", "cftp", "joint"
    choice = decided(formula, *steps, theta=weights(formula)).choice
    assert choice.guarantee == "heuristic"
    for options in ({"sweeps": 5}, {"sweeps": 5, "project": [6, 7]}):
        s = nelson.sample(formula, None, count, method="lovasz", seed=1, **options)
        assert s.guarantee == "heuristic"


def test_weights_beyond_the_resolution_are_not_called_exact():
    """theta = 30 and 26: the kernels' probabilities are multiples of 2^-32, so both are drawn as
    22.2. Enumeration and circuits are exact; resampling says what it cannot do.
    """
    formula, theta = Formula([[-1, -2]]), np.array([30.0, 26.0])
    s = nelson.sample(formula, theta, 1000, seed=1)
    assert s.guarantee == "exact" and s.mean()[0] > 0.9
    s = nelson.sample(formula, theta - 20, 1000, method="lovasz", max_rounds=10**6, seed=1)
    assert s.guarantee == "exact"
    options = {"method": "lovasz", "max_rounds": 10, "seed": 1}
    s = nelson.sample(formula, theta, 1000, **options)
    assert s.guarantee == "heuristic" and "2^-32" in s.info["why"]


def test_a_question_that_stays_open_counts_against_the_chains(monkeypatch):
    formula = random_ksat(60, 60, 5, seed=1)
    theta = np.where(np.arange(60) % 10, 0.0, 6.0)  # some variables are nearly constant
    assert verdict_of(formula, theta).guarantee == "diagnosed"
    monkeypatch.setattr(Finder, "near", lambda self, values, given=(): None)
    verdict = verdict_of(Formula(formula.clauses(), n_vars=60), theta)
    assert verdict.guarantee == "heuristic" and "could not decide" in verdict.why


@pytest.mark.slow
def test_honest_chains_keep_their_label():
    """Of twelve formulas on which single flips mix, all are called diagnosed."""
    rng = np.random.default_rng(7)
    for n, k, ratio, scale in product((60, 300), (3, 5, 7), (0.8, 1.0), (1.0,)):
        formula = random_ksat(n, int(ratio * n), k, seed=n + k)
        verdict = verdict_of(formula, scale * rng.normal(size=n))
        assert verdict.guarantee == "diagnosed", (n, k, ratio, verdict.why)


# --- quantities that chains keep, and regions that no start enters -------------------------------


def ring_of_clocks(sites: int, n: int, closed: bool = True) -> Formula:
    """Sites of four states in Gray code, neighbours not opposite, tied to random 5-SAT. On a closed
    ring no flip changes the winding number.
    """
    gray = [(-1, -1), (-1, 1), (1, 1), (1, -1)]
    clauses = [
        [-a * (2 * i + 1), -b * (2 * i + 2), -c * (2 * j + 1), -d * (2 * j + 2)]
        for i in range(sites if closed else sites - 1)
        for j in [(i + 1) % sites]
        for (a, b), (c, d) in zip(gray, gray[2:] + gray[:2], strict=True)
    ]
    other = [[v + 2 * sites if v > 0 else v - 2 * sites for v in c] for c in random_ksat(n, 4 * n)]
    for k in range(4):
        other[k][0] = 2 * k + 1
    return Formula(clauses + other, n_vars=2 * sites + n)


@pytest.mark.slow
def test_a_winding_number_is_seen_though_no_pair_of_chains_meets(monkeypatch):
    """Two tests see it, each by itself. The twin is an open chain: it has no winding number."""
    closed = ring_of_clocks(20, 80)
    verdict = verdict_of(closed)
    assert (
        verdict.guarantee == "heuristic" and "function of the state changes slowly" in verdict.why
    )
    assert verdict_of(ring_of_clocks(20, 80, closed=False)).guarantee == "diagnosed"
    monkeypatch.setattr("nelson.chains.diagnosis.diagnose.slowest", lambda *_: BLIND)
    verdict = verdict_of(ring_of_clocks(20, 80))
    assert verdict.guarantee == "heuristic" and "far more often than others" in verdict.why
    assert verdict.more["met"] < 0.1


#: No function is slow.
BLIND = Slowest(0.0, 1.0, 64.0, 64)


def golf_hole(bits: int, first: bool, n: int = 120, m: int = 220) -> Formula:
    """Each clause of random 5-SAT, or the key is right: x_i xor x_(i+1) has a given value for all
    bits of the key but the last, which is true. P(key) is about (32/31)^m 2^-bits.
    """
    shift, key = (bits, 0) if first else (0, n)
    right = [[s * (key + i), -s * (key + i + 1)] for i in range(1, bits) for s in (1, -1)]
    right.append([key + bits])
    clauses = [
        [*(v + shift if v > 0 else v - shift for v in clause), *part]
        for clause in random_ksat(n, m, 5, seed=2)
        for part in right
    ]
    return Formula(clauses, n_vars=n + bits)


@pytest.mark.slow
@pytest.mark.parametrize("first", [True, False])
def test_a_golf_hole_is_entered_whatever_its_number(first, monkeypatch):
    """A solution in which one clause is not satisfied by its own literals has the right key. The
    twin does not ask for it, and sees nothing.
    """
    verdict = verdict_of(golf_hole(11, first))
    assert verdict.guarantee == "heuristic" and "rare values" in verdict.why, verdict.why
    monkeypatch.setattr(alternative_starts, "rare_patterns", lambda *_: [])
    assert "rare values" not in verdict_of(golf_hole(11, first)).why


def test_questions_to_a_solver_do_not_depend_on_names():
    """The solver knows x_v under another number, and its answers are solutions in our numbers."""
    formula = Formula([*random_ksat(30, 60, 3, seed=4).clauses(), [7]], n_vars=30)
    with Finder(prepare(formula)) as finder:
        rows = finder.solutions(np.random.default_rng(0).random((20, 30)) < 0.5)
        near = finder.near(rows[0], [-3 if rows[0, 2] else 3])
        assert finder.near(rows[0], [-7]) is False
        literals = finder.compatible([7, -7, 5])
    assert len(rows) == 20 and formula.satisfied(rows).all()
    assert isinstance(near, np.ndarray) and near[2] != rows[0, 2] and formula.satisfied(near)[()]
    assert literals == [7, 5]
    assert finder.number.tolist() != list(range(1, 31))


def test_chains_that_no_other_start_was_found_for_are_heuristic(monkeypatch):
    """Nothing was compared, which is no agreement."""
    formula = random_ksat(60, 60, 5, seed=3)
    assert verdict_of(formula).guarantee == "diagnosed"
    monkeypatch.setattr(AlternativeStarts, "probes", lambda *_: [])
    verdict = verdict_of(Formula(formula.clauses(), n_vars=60))
    assert verdict.guarantee == "heuristic" and "no other start" in verdict.why


def test_why_names_tests_starts_sizes_and_what_is_not_seen():
    formula = random_ksat(60, 60, 5, seed=1)
    why = verdict_of(formula).why
    for text in (
        "correlations fall to", "solutions of a solver with no preference", "split R-hat",
        "effective sample size", "all pairs of chains meet about equally often",
        "the tests cannot see regions that none of these starts enters",
    ):  # fmt: skip
        assert text in why, why


def test_weights_of_negative_zero_are_weights_of_zero():
    """`-0.0` and `0.0` are one theta: chains from a solver looked for the wrong one."""
    formula = random_ksat(20, 20, 3, seed=1)
    theta = np.where(np.arange(20) % 2, 0.0, -0.0)
    steps = "enumerate", "circuit", "cftp", "rejection", "resampling"
    assert decided(formula, *steps, theta=theta[None]).choice.guarantee == "diagnosed"
