"""A stream is the samples of one call in blocks of any size, and goes on where the call does."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import nelson
from nelson.chains.block import Block
from nelson.sampling import collect, foreign
from nelson.sampling.collect import ValidSamples
from nelson.sampling.options import Options
from nelson.sampling.plan import Plan
from nelson.sampling.registry import get, missing_modules
from tests.problems import pigeonhole, random_ksat, weights

SEED = 11
BLOCKS = [64, 192, 4096]


def joined(blocks, axis=0):
    return np.concatenate([block.to_numpy() for block in blocks], axis=axis)


def narrow(halvings):
    """Two of three variables are true, several times: P(C) = 2^(1-k), and no variable is a gate."""
    threes = [(3 * k + 1, 3 * k + 2, 3 * k + 3) for k in range(halvings - 1)]
    clauses = [list(pair) for three in threes for pair in itertools.combinations(three, 2)]
    return nelson.Formula(clauses, n_vars=3 * halvings)


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("max_rounds", [60, 64, 70, 1000])
def test_rejection_has_one_budget_for_the_whole_stream(block, max_rounds):
    """P(C) = 1/64. With 64 rounds a sample the budget is just what is needed on average."""
    options = {"method": "rejection", "seed": SEED, "max_rounds": max_rounds}
    formula = narrow(7)
    whole = nelson.sample(formula, None, 2000, **options)
    blocks = list(nelson.stream(formula, None, 2000, block=block, **options))
    assert np.array_equal(joined(blocks), whole.to_numpy())
    assert all(b.guarantee == "exact" for b in blocks)
    assert (sum(map(len, blocks)) == 2000) == (whole.status == "ok") == (blocks[-1].status == "ok")
    if max_rounds >= 70:  # 2,000 samples of 2,187 expected, 4 sigma; short blocks would end it
        assert whole.status == "ok"


@pytest.mark.slow
@pytest.mark.parametrize("name", nelson.samplers())
def test_every_sampler_has_the_same_samples_in_blocks_of_any_size(name, monkeypatch):
    """Samplers in child processes draw pieces of 64, 128, .. here. The twin: another seed."""
    monkeypatch.setattr(foreign, "FIRST_PIECE", 64)
    monkeypatch.setattr(collect, "FIRST_PIECE", 64)
    if missing_modules(get(name)):
        pytest.skip("not installed")
    formula = nelson.Formula([[1, 2, 3], [-1, -2, 4], [2, -4, 5], [6, 7]], n_vars=8)
    theta = np.linspace(-1, 1, 8) if get(name).weighted else None
    options = {"method": name, "seed": SEED}
    whole = nelson.sample(formula, theta, 150, **options)
    assert len(whole) == 150
    for block in (64, 100, 1000):
        blocks = list(nelson.stream(formula, theta, 150, block=block, **options))
        assert np.array_equal(joined(blocks), whole.to_numpy()), block
        assert [len(one) for one in blocks[:-1]] == [block] * (len(blocks) - 1)
        assert {one.status for one in blocks} == {"ok"}
    other = nelson.sample(formula, theta, 150, method=name, seed=SEED + 1)
    assert not np.array_equal(other.to_numpy(), whole.to_numpy())


def test_blocks_of_any_size_of_several_thetas_and_without_end():
    formula, rows = random_ksat(20, 20, 3, 1), np.array([np.zeros(20), np.linspace(-1, 1, 20)])
    whole = nelson.sample(formula, rows, 150, seed=SEED)
    blocks = list(nelson.stream(formula, rows, 150, block=40, seed=SEED))
    assert [len(one) for one in blocks] == [40, 40, 40, 30]
    assert np.array_equal(joined(blocks, axis=1), whole.to_numpy())
    endless = list(itertools.islice(nelson.stream(formula, rows, block=50, seed=SEED), 3))
    assert np.array_equal(joined(endless, axis=1), whole.to_numpy())
    distinct = list(nelson.stream(formula, n=90, block=40, unique=True, seed=SEED))
    assert [len(one) for one in distinct] == [40, 40, 10]
    assert len(np.unique(joined(distinct), axis=0)) == 90
    for count, sizes in ((0, []), (40, [40]), (7, [7])):
        ends = list(nelson.stream(formula, n=count, block=40, seed=SEED))
        assert [len(one) for one in ends] == sizes


def test_an_endless_stream_of_rejection_goes_on():
    """Each block alone needs more than its own 64 * 50 proposals on average."""
    formula = narrow(7)
    endless = nelson.stream(formula, block=64, method="rejection", seed=SEED, max_rounds=50)
    blocks = list(itertools.islice(endless, 40))
    assert [len(b) for b in blocks] == [64] * 40
    whole = nelson.sample(formula, n=64 * 40, method="rejection", seed=SEED, max_rounds=1000)
    assert np.array_equal(joined(blocks), whole.to_numpy())


def test_hopeless_rejection_ends_at_the_same_sample_for_any_blocks():
    """P(C) = 2^-13: now and then 64 * 100 proposals in a row bring nothing, which ends it."""
    options = {"method": "rejection", "seed": SEED, "max_rounds": 100}
    formula = narrow(14)
    ends = [joined(nelson.stream(formula, block=block, **options)) for block in BLOCKS]
    assert 0 < len(ends[0]) < 64
    assert all(np.array_equal(x, ends[0]) for x in ends)
    with pytest.raises(nelson.Unsatisfiable):
        list(nelson.stream(pigeonhole(3), block=64, **options))


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("n", [100, 1000])
def test_gibbs_without_its_invalid_rows(block, n):
    """Half of the chains end invalid; n is no multiple of 64."""
    formula = random_ksat(60, 190, 3, 4)
    options = {"method": "gibbs", "sweeps": 20, "seed": SEED}
    whole = nelson.sample(formula, None, n, **options)
    assert len(whole) == n and whole.info["invalid"] > 0
    blocks = list(nelson.stream(formula, None, n, block=block, **options))
    assert np.array_equal(joined(blocks), whole.to_numpy())
    assert np.array_equal(
        whole.to_numpy()[:70], nelson.sample(formula, None, 70, **options).to_numpy()
    )


def test_gibbs_with_several_thetas():
    """Contexts differ in how many rows are valid."""
    formula = random_ksat(60, 190, 3, 4)
    rows = np.array([3 * weights(formula, k) for k in range(3)])
    options = {"method": "gibbs", "sweeps": 20, "seed": SEED}
    whole = nelson.sample(formula, rows, 300, **options).to_numpy()
    blocks = nelson.stream(formula, rows, 300, block=64, **options)
    assert np.array_equal(joined(blocks, axis=1), whole)


@pytest.mark.slow
def test_hopeless_gibbs_ends_for_any_blocks():
    formula = pigeonhole(3)
    for n, block in [(10, 64), (10_000, 64), (10_000, 4096), (None, 64)]:
        with pytest.raises(nelson.Unsatisfiable):
            list(nelson.stream(formula, None, n, block=block, method="gibbs", seed=1))


@pytest.mark.parametrize("contexts", [1, 3])
@pytest.mark.parametrize("max_rounds", [0, 1])
def test_samples_that_did_not_become_valid(contexts, max_rounds):
    """With no round of resampling only some samples are valid, in other lanes for each context;
    some blocks have none."""
    formula = random_ksat(20, 34, 3, 1)
    rows = np.array([weights(formula, k) for k in range(contexts)])
    options = {"method": "lovasz", "seed": SEED, "max_rounds": max_rounds, "sweeps": 0}
    whole = nelson.sample(formula, rows, 6400, **options)
    assert 0 < len(whole) < 6400 and whole.status == "budget"
    blocks = list(nelson.stream(formula, rows, 6400, block=64, **options))
    assert len(blocks) == 100
    assert max_rounds or min(map(len, blocks)) == 0
    assert np.array_equal(joined(blocks, axis=1), whole.to_numpy())


def test_samplers_that_may_be_invalid_promise_nothing():
    """A block may hold valid rows of an earlier draw, whose invalid rows it does not know."""
    for name in nelson.samplers():
        sampler = get(name)
        if sampler.may_be_invalid:
            assert sampler.guarantee(None, 100) == "heuristic", name


def test_what_is_kept_for_the_next_block_stays_small():
    """One theta makes most rows valid, the other few: the first must not pile up rows."""
    formula = random_ksat(60, 190, 3, 4)
    rows = np.array([np.zeros(60), 3 * weights(formula, 1)])
    plan = Plan(formula, rows, Options(method="gibbs", sweeps=20, seed=SEED)).drawing(None)
    [(problem, request)] = plan.parts
    sources = [ValidSamples(plan.sampler, problem, request, c) for c in range(2)]
    for _ in range(5):
        for source in sources:
            source.take(64, request.budget, Block.empty(request))
    assert sources[0].lanes != sources[1].lanes
    assert all(source.left[1] < 3 * 64 for source in sources)
