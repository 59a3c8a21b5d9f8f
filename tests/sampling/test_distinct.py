"""`unique=True`: the law of distinct samples by enumeration, and the guarantee that follows.

A test of a law rejects a right sampler with probability ALPHA. Seeds are fixed.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import nelson
from nelson.kernels.core.bits import pack
from nelson.policy import Policy, UniquePolicy
from nelson.sampling import distinct_samples
from nelson.sampling.distinct_samples import keys_of, keys_of_packed, packed_of, rows_of
from nelson.sampling.options import Options
from nelson.sampling.plan import Plan
from tests.problems import chi_square, exact_law, pigeonhole

ALPHA = 1e-6
RUNS = 3000
FORMULA = nelson.Formula([[1, 2, 3], [-1, -2]])
THETA = np.array([1.5, 0.0, -1.0])
#: 5 solutions; the parity makes auxiliary variables.
PARITY = nelson.Formula([[1, 2]], n_vars=7).xor([1, 2, 3, 4, 5, 6, 7])


def pairs_of(formula, theta):
    """The law of (x_1, x_2) drawn without replacement, and that of two independent draws that
    happen to differ; both as (pairs of states (m, 2 n), probabilities)."""
    states, p = exact_law(formula, theta)
    pairs = np.array(list(itertools.permutations(range(len(p)), 2)))
    joined = np.concatenate([states[pairs[:, 0]], states[pairs[:, 1]]], axis=1)
    first, second = p[pairs[:, 0]], p[pairs[:, 1]]
    independent = first * second / (first * second).sum()
    return (joined, first * second / (1 - first)), (joined, independent)


@pytest.mark.slow
@pytest.mark.parametrize("scale", [0.0, 1.0])
def test_two_distinct_samples_follow_the_law_that_is_stated(scale):
    """The twin, independent draws given that they differ, is rejected if theta is not uniform."""
    stated, twin = pairs_of(FORMULA, scale * THETA)
    options = {"unique": True, "method": "prs", "threads": 1}
    drawn = [nelson.sample(FORMULA, scale * THETA, 2, seed=seed, **options) for seed in range(RUNS)]
    pairs = np.array([s.to_numpy().reshape(-1) for s in drawn])
    assert chi_square(pairs, stated) > ALPHA
    assert (chi_square(pairs, twin) > ALPHA) == (scale == 0.0)
    # Each sample by itself has the law of theta only if theta is uniform: the label must agree.
    alone = chi_square(pairs[:, 3:], exact_law(FORMULA, scale * THETA)) > ALPHA
    assert alone == (scale == 0.0)
    assert {s.guarantee for s in drawn} == {"exact" if alone else "heuristic"}


def test_shares_move_and_the_label_says_so():
    """P = (0.9, 0.1); among two distinct samples each has the share 1/2."""
    formula, theta = nelson.Formula([[1, 2], [-1, -2]]), [np.log(9.0), 0.0]
    plain = nelson.sample(formula, theta, 1000, seed=1)
    assert plain.guarantee == "exact" and "law" not in plain.info
    s = nelson.sample(formula, theta, 2, unique=True, seed=1)
    assert s.mean().tolist() == [0.5, 0.5] and s.guarantee == "heuristic"
    assert "single draws: exact" in s.info["law"] and "shares of theta" in s.info["why"]


@pytest.mark.parametrize(
    ("formula", "options", "guarantee"),
    [
        (FORMULA, {}, "exact"),
        (FORMULA, {"given": [3]}, "exact"),
        (FORMULA, {"theta": [0, 0, np.inf]}, "exact"),  # evidence: uniform over what is left
        (FORMULA, {"theta": THETA, "n": 1}, "exact"),  # the first sample follows P_theta
        (FORMULA, {"project": [3, 1, 2]}, "exact"),
        (FORMULA, {"project": [1, 3]}, "heuristic"),  # 2 solutions for (0, 1), 1 for (0, 0)
        (FORMULA, {"theta": THETA}, "heuristic"),
        (PARITY, {}, "exact"),  # auxiliary variables are functions of the others
        (nelson.Formula([[1, 2, 3]], n_vars=2, n_aux=1), {}, "heuristic"),
    ],
)
def test_the_guarantee_stays_only_if_the_rows_are_uniform(formula, options, guarantee):
    s = nelson.sample(formula, **{"n": 2, "unique": True, "seed": 1, "method": "prs", **options})
    assert s.status == "ok" and s.guarantee == guarantee


def test_sweeps_stay_diagnosed_and_chains_without_promise_heuristic():
    swept = {"method": "lovasz", "sweeps": 5}
    plain = nelson.sample(FORMULA, None, 3, seed=1, **swept).guarantee
    assert nelson.sample(FORMULA, None, 3, unique=True, seed=1, **swept).guarantee == plain
    s = nelson.sample(FORMULA, None, 3, unique=True, seed=1, method="gibbs")
    assert s.guarantee == "heuristic" and "single draws: heuristic" in s.info["law"]


# --- rows and keys -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("columns", [1, 7, 8, 63, 64, 65, 200])
def test_rows_have_keys_of_their_own(columns):
    """Keys of more than 64 columns are strings, of which NumPy drops zeros at the end."""
    random = np.random.default_rng(columns)
    rows = random.random((70_000, columns)) < 0.02
    keys = keys_of(rows)
    assert np.array_equal(rows_of(keys, columns), rows)
    assert len(np.unique(keys)) == len({row.tobytes() for row in np.packbits(rows, axis=1)})
    assert np.array_equal(keys_of_packed(pack(rows), len(rows)), keys)
    assert np.array_equal(packed_of(keys, columns), pack(rows))


@pytest.mark.parametrize("free", [10, 90])
def test_distinct_samples_are_the_first_of_their_kind(free):
    """10 columns and 100 columns; theta makes repeats frequent in both."""
    formula = nelson.Formula([[1, 2, 3], [-1, -2]], n_vars=3 + free)
    theta = np.concatenate([THETA, np.full(free, -4.0)])
    plain = nelson.sample(formula, theta, 64 * 40, seed=5, method="prs").to_numpy()
    right = np.array(list({row.tobytes(): row for row in plain}.values()))
    assert 60 < len(right) < 0.9 * len(plain)
    s = nelson.sample(formula, theta, 60, seed=5, method="prs", unique=True)
    assert np.array_equal(s.to_numpy(), right[:60]) and s.info["enumerated"] == 0


# --- all solutions --------------------------------------------------------------------------------

#: 63 solutions: the first block of 64 draws holds about 40 of them.
MANY = nelson.Formula([[1, 2, 3, 4, 5, 6]])


@pytest.mark.parametrize("n", [63, 64, 1000])
def test_all_solutions(n):
    s = nelson.sample(MANY, None, n, seed=1, method="prs", unique=True)
    assert len(s) == 63 == len(np.unique(s.to_numpy(), axis=0))
    assert MANY.satisfied(s.to_numpy()).all()
    assert s.guarantee == "exact" and s.info["exhausted"] and (s.status == "ok") == (n == 63)
    again = nelson.sample(MANY, None, n, seed=1, method="prs", unique=True)
    assert np.array_equal(s.to_numpy(), again.to_numpy())


def last_of_all(runs):
    drawn = [
        nelson.sample(MANY, None, 63, seed=seed, method="prs", unique=True, threads=1)
        for seed in range(runs)
    ]
    assert sum(s.info["enumerated"] > 5 for s in drawn) > 0.9 * runs
    return np.array([s.to_numpy()[-1] for s in drawn])


@pytest.mark.slow
def test_the_last_of_all_solutions_is_uniform(monkeypatch):
    """Mostly an enumerated one. The twin enumerates in the order of the keys."""
    assert chi_square(last_of_all(RUNS), exact_law(MANY, np.zeros(6))) > ALPHA
    monkeypatch.setattr(distinct_samples, "random_order", lambda count, seed: np.arange(count))
    assert chi_square(last_of_all(300), exact_law(MANY, np.zeros(6))) < ALPHA


def test_two_enumerated_solutions_come_in_either_order():
    """A fair coin, 5 standard deviations: of 400 seeds at most one in a million fails."""
    later = [distinct_samples.random_order(2, seed)[0] for seed in range(400)]
    assert abs(sum(later) - 200) < 5 * 10
    assert sorted(distinct_samples.random_order(1000, 3)) == list(range(1000))


def test_without_enumeration_the_draws_go_on_until_the_last():
    """A uniform law of known size: no limit on stale blocks ends it early."""
    policy = Policy(unique=UniquePolicy(cells=0, stale_blocks=0))
    s = nelson.sample(MANY, None, 63, seed=1, method="prs", unique=True, policy=policy)
    assert (len(s), s.status, s.info["enumerated"]) == (63, "ok", 0)


def test_a_skewed_law_gives_up_and_says_so():
    """The second solution has probability e^-30."""
    formula = nelson.Formula([[1, 2], [-1, -2]])
    s = nelson.sample(formula, [30.0, 0.0], 2, seed=1, method="enumerate", unique=True)
    assert s.status == "budget" and not s.info["exhausted"]
    assert s.info["reason"] == f"1 distinct samples among {64 * 64} drawn"


# --- columns that determine the others ------------------------------------------------------------

#: x_4 = x_1 and x_2, x_5 = x_3 xor x_4: functions of x_1, x_2, x_3. 7 solutions.
GATES = nelson.Formula(
    [[-4, 1], [-4, 2], [4, -1, -2], [-5, 3, 4], [-5, -3, -4], [5, 3, -4], [5, -3, 4], [1, 2, 3]]
)


@pytest.mark.parametrize("n", [4, 20])
def test_columns_that_determine_the_others_keep_the_guarantee(n):
    options = {"unique": True, "seed": 1, "project": (1, 2, 3)}
    known = Plan(GATES, None, Options(**options, determined=True)).sample(n)
    assert known.guarantee == "exact" and len(known) == min(n, 7)
    assert known.info["exhausted"] == (n == 20)
    unknown = Plan(GATES, None, Options(**options)).sample(n)
    assert unknown.guarantee == "heuristic"


# --- streams --------------------------------------------------------------------------------------


def test_a_stream_of_distinct_samples_ends_with_the_last():
    formula = nelson.Formula([[1, 2, 3, 4, 5, 6, 7, 8]])  # 255 solutions
    blocks = list(nelson.stream(formula, block=64, seed=3, method="prs", unique=True))
    assert [len(b) for b in blocks] == [64, 64, 64, 63]
    assert [b.info["exhausted"] for b in blocks] == [False, False, False, True]
    assert blocks[-1].status == "budget" and "only 255 distinct" in blocks[-1].info["reason"]
    assert {b.guarantee for b in blocks} == {"exact"}
    x = np.concatenate([b.to_numpy() for b in blocks])
    assert len(np.unique(x, axis=0)) == 255
    call = nelson.sample(formula, None, 128, seed=3, method="prs", unique=True)
    assert np.array_equal(call.to_numpy()[:120], x[:120])  # less than half: as in one call


def test_a_stream_that_ends_at_the_end_of_a_block():
    formula = nelson.Formula([], n_vars=7)  # 128 solutions
    blocks = list(nelson.stream(formula, block=64, seed=3, unique=True))
    assert [(len(b), b.info["exhausted"]) for b in blocks] == [(64, False), (64, True)]


@pytest.mark.parametrize("n", [0, 1, 64, 100, 255, 300])
def test_a_stream_of_n_distinct_samples(n):
    formula = nelson.Formula([[1, 2, 3, 4, 5, 6, 7, 8]])
    blocks = list(nelson.stream(formula, None, n, block=64, seed=3, method="prs", unique=True))
    assert sum(map(len, blocks)) == min(n, 255)
    assert not blocks or (blocks[-1].status == "ok") == (n <= 255)
    assert all(b.status == "ok" for b in blocks[:-1])


def test_an_endless_stream_of_distinct_samples():
    endless = nelson.stream(nelson.Formula([[1, 2]], n_vars=90), block=64, seed=3, unique=True)
    x = np.concatenate([next(endless).to_numpy() for _ in range(20)])
    assert x.shape == (1280, 90) and len(np.unique(x, axis=0)) == 1280
    with pytest.raises(nelson.FormulaError, match="one theta vector"):
        next(nelson.stream(FORMULA, np.zeros((2, 3)), unique=True))
    assert next(nelson.stream(FORMULA, THETA, unique=True, seed=1)).guarantee == "heuristic"


def test_a_stream_over_a_formula_without_solution():
    with pytest.raises(nelson.Unsatisfiable):
        list(nelson.stream(pigeonhole(3), None, unique=True, method="lovasz", max_rounds=30))


def test_a_stream_whose_time_is_up_says_so():
    blocks = list(nelson.stream(MANY, None, block=64, unique=True, seconds=0))
    assert len(blocks) == 1 and len(blocks[0]) == 0 and blocks[0].status == "budget"
