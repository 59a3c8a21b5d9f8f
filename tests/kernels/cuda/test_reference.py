"""The GPU kernels against the NumPy reference, bit for bit: on a GPU, or in Numba's simulator.

Every choice that must not change a sample is varied (threads per team, teams per block, copies of a
small formula, random rows at once, where state and formula lie, length of the lists), over methods,
tails, contexts, clause lengths and evidence. `test_card.py` adds what only a GPU can show.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from nelson.formula import Formula
from nelson.kernels.core import rng
from nelson.kernels.core.reference import LOVASZ, PRS
from nelson.kernels.cuda import draw as kernels
from nelson.kernels.cuda.banks import GROUP, balance, spread
from nelson.sampling.device import draw
from tests.kernels.cuda.compare import MARKS, SIMULATED, WARP, by_reference, check
from tests.problems import extremal, non_extremal, random_ksat, weights

pytestmark = MARKS

FORMULAS = {
    **{name: f for name, f in (extremal() | non_extremal()).items() if f.n_vars <= 12},
    "no clause": Formula([], n_vars=5),
    "mixed lengths": Formula([[1, 2], [-2, 3, -4, 5, 6, 7], [-1, -7], [4, -5, 6]], n_vars=8),
    "hub": Formula([[1, 2, 3], [1, -4, 5], [1, 6, -7], [-1, 8, 9], [1, -2, 9]], n_vars=9),
}


@pytest.mark.slow
@pytest.mark.parametrize("method", [LOVASZ, PRS], ids=["lovasz", "prs"])
@pytest.mark.parametrize("name", FORMULAS)
def test_equals_the_reference(name, method):
    f = FORMULAS[name]
    check(f, weights(f), 70, method, sweeps=1, max_rounds=5)


CUTS = [
    {"team": 2 * WARP},
    {"team": 3 * WARP, "near": 0},
    {"team": 2 * WARP, "near": 1},
    {"team": 2 * WARP, "shared": False},
    {"team": WARP, "teams": 2},
    {"few": 0},
    {"few": 1000},
    {"few": 1000, "capacity": 3},
    {"few": 1000, "capacity": 0, "team": 2 * WARP},
    {"few": 1000, "capacity": 3, "team": 3 * WARP, "log_copies": 1},
    {"rows": 3},
    {"rows": 2},
    {"log_copies": 1},
    {"log_copies": 3, "team": 2 * WARP},
]


@pytest.mark.slow
@pytest.mark.parametrize("method", [LOVASZ, PRS], ids=["lovasz", "prs"])
@pytest.mark.parametrize("cut", CUTS, ids=str)
def test_how_work_is_cut_never_shows(cut, method):
    f = random_ksat(20, 20, 4, seed=1)
    if method == PRS and "capacity" in cut:
        pytest.skip("prs has no lists")
    check(f, weights(f), 70, method, sweeps=1, max_rounds=4, **{"log_copies": 0, **cut})


@pytest.mark.slow
@pytest.mark.parametrize("cut", [{}, {"few": 1000}, {"team": 2 * WARP, "shared": False}], ids=str)
@pytest.mark.parametrize("method", [LOVASZ, PRS], ids=["lovasz", "prs"])
@pytest.mark.parametrize("kind", ["one length", "mixed"])
def test_entries_of_32_bits(kind, method, cut, monkeypatch):
    """Formulas with more than 4095 variables or clauses have entries of 32 bits."""
    monkeypatch.setattr("nelson.kernels.cuda.program.NARROW", 1)
    f = random_ksat(12, 10, 3, seed=5)  # no other test has cached its layout
    if kind == "mixed":
        f = Formula([[1, 2], [-3, 4, 5, 6, 7], [3, 8, -9], [-1, 10, 11, -12]], n_vars=12)
    check(f, weights(f), 70, method, sweeps=2, max_rounds=5, **{"log_copies": 0, **cut})


LISTED = {
    "one length": random_ksat(24, 24, 4, seed=7),
    "odd length": random_ksat(24, 20, 3, seed=7),
    "mixed": Formula([[v, -v - 1, v + 2, *([v + 3] * (v % 2))] for v in range(1, 20)], n_vars=22),
}


@pytest.mark.slow
@pytest.mark.parametrize("cut", [{}, {"team": 3 * WARP}, {"log_copies": 1}, {"rows": 2}], ids=str)
@pytest.mark.parametrize("name", LISTED)
@pytest.mark.parametrize("uniform", [False, True])
def test_rounds_of_listed_clauses(uniform, name, cut, monkeypatch):
    """Without rounds by events, rounds of listed clauses go on to the end."""
    passes, f = listed_passes(monkeypatch), LISTED[name]
    theta = np.zeros(f.n_vars) if uniform else weights(f)
    check(f, theta, 130, LOVASZ, **{"log_copies": 0, "team": 2 * WARP, "few": 0, **cut})
    assert len(passes) > 2 or not SIMULATED


@pytest.mark.slow
@pytest.mark.skipif(not SIMULATED, reason="a pass is replaced in the simulator")
def test_a_clause_that_is_not_drawn_would_be_seen(monkeypatch):
    listed_passes(monkeypatch, fewer=1)
    f = LISTED["one length"]
    with pytest.raises(AssertionError):
        check(f, weights(f), 130, LOVASZ, log_copies=0, few=0, max_rounds=40)


def listed_passes(monkeypatch, fewer=0):
    """Clauses that each listed pass draws, in the simulator; `fewer` of them are left out."""
    passes, plain = [], kernels.draw_listed

    def counted(p, w, round, count, h):
        passes.append(count)
        plain(p, w, round, count - fewer, h)

    if SIMULATED:
        monkeypatch.setattr(kernels, "draw_listed", counted)
    return passes


@pytest.mark.slow
@pytest.mark.parametrize("few", [0, 1000])
def test_teams_of_a_block(few):
    """Each team has its own barrier; 300 samples are three tiles."""
    f = random_ksat(20, 20, 4, seed=1)
    cut = {"team": 2 * WARP, "teams": 2, "log_copies": 0, "few": few}
    check(f, weights(f), 300, LOVASZ, sweeps=1, max_rounds=4, **cut)


@pytest.mark.parametrize("count", [1, 63, 64, 65, 129, 200])
def test_tails(count):
    f = FORMULAS["hub"]
    check(f, weights(f), count, LOVASZ, sweeps=1)


@pytest.mark.slow
@pytest.mark.parametrize("context", [1, 7])
def test_contexts_have_streams_of_their_own(context):
    f = FORMULAS["hub"]
    check(f, weights(f), 70, LOVASZ, context=context, sweeps=3)


def test_uniform_takes_one_random_row():
    f = random_ksat(15, 12, 3, seed=2)
    check(f, np.zeros(15), 100, LOVASZ, sweeps=1)


def test_evidence_and_fixed_variables():
    f = random_ksat(15, 12, 4, seed=3)
    check(f, weights(f), 70, LOVASZ, sweeps=1, evidence=(1, -5))


def test_another_seed_would_be_seen(monkeypatch):
    """The comparison fails if the seed differs."""
    f = FORMULAS["hub"]
    theta = weights(f)
    right = by_reference(f, theta, 70, LOVASZ, 3, 0, 1000, (), 0)
    wrong = by_reference(f, theta, 70, LOVASZ, 4, 0, 1000, (), 0)
    assert not np.array_equal(right[0], wrong[0])
    other = SimpleNamespace(spread_seed=lambda seed: rng.spread_seed(seed + 1))
    monkeypatch.setattr(draw, "rng", other)
    with pytest.raises(AssertionError):
        check(f, theta, 70, LOVASZ)


def test_banks_and_slots():
    """Reordering keeps the entries of every list, and fewer threads wait for a bank."""
    random = np.random.default_rng(1)
    n, rows, k = 200, 320, 5
    variables = np.array([random.choice(n, k, replace=False) for _ in range(rows)])
    lines = np.zeros((6 * rows // 32, 32), np.int64)
    cubes = lines.reshape(-1, 6, 32)

    def waits(lines):
        groups = (lines >> 4).reshape(-1, 32 // GROUP, GROUP)
        return sum(np.bincount(np.unique(g) % GROUP).max() for line in groups for g in line)

    def fill(order):
        for s in range(rows // 32):
            cubes[s, :k] = 16 * variables[order[32 * s : 32 * s + 32]].T
            cubes[s, k:] = cubes[s, :1]
        return lines.copy()

    order = balance(variables.reshape(-1), np.arange(0, k * rows + 1, k), n, 1)
    assert np.array_equal(np.sort(order), np.arange(rows))
    before, after = fill(np.arange(rows)), fill(order)
    kept = [set(after[6 * (j // 32) :, j % 32][:6].tolist()) for j in range(rows)]
    spread(after, np.arange(0, len(lines) + 1, 6), np.full(rows, k), True)
    assert kept == [set(after[6 * (j // 32) :, j % 32][:6].tolist()) for j in range(rows)]
    assert waits(after) < 0.75 * waits(before)
