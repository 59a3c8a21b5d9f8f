"""Samples a .. b of a seed, drawn anywhere, are those of one call; rows are packed bits."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

import nelson
from nelson.kernels.core.bits import concatenate, pack
from nelson.kernels.cpu.rows import from_rows, to_rows
from nelson.policy import Policy
from nelson.sampling import shards
from tests.cluster.jobs import LOOSE, QUICK, THETA, TOWN, settled


@pytest.mark.parametrize("n", [0, 1, 8, 63, 65, 130, 1000, 1025, 2100])
@pytest.mark.parametrize("m", [0, 1, 64, 65, 200])
def test_rows_are_packed_bits(n, m):
    """Against NumPy's own packing, and back."""
    x = np.random.default_rng(n + m).integers(0, 2, (m, n)).astype(bool)
    rows = to_rows(pack(x), m)
    assert rows.shape == (m, max(1, -(-n // 8)))
    assert np.array_equal(rows[:, : -(-n // 8)], np.packbits(x, axis=1, bitorder="little"))
    assert np.array_equal(from_rows(rows, n), pack(x))


def in_spans(whole: shards.Settled, n: int, size: int, block: int = 128) -> np.ndarray:
    blocks = []
    for first in range(0, n, size):
        for samples in shards.blocks(whole, first, min(size, n - first), block):
            blocks.append((samples.packed, len(samples)))
    return concatenate(blocks, len(whole.drawing.variables))[0]


@pytest.mark.process
@pytest.mark.parametrize(
    ("method", "formula", "options"),
    [
        ("auto", TOWN, {"theta": THETA}),
        ("auto", TOWN, {"given": [4], "project": [2, 1]}),
        ("auto", LOOSE, {}),
        ("lovasz", LOOSE, {"sweeps": 3}),
        ("prs", LOOSE, {}),
        ("moser-tardos", LOOSE, {}),
        ("enumerate", LOOSE, {"given": [-2]}),
        ("circuit", LOOSE, {"theta": [1, 0, 0, 0, -1]}),
        ("circuit", LOOSE, {"given": [-2]}),
        ("gibbs", LOOSE, {"check": False, "sweeps": 4}),
    ],
)
def test_spans_are_the_samples_of_one_call(method, formula, options):
    if method == "circuit" and find_spec("py_d4") is None:
        pytest.skip("no D4")
    n = 700
    whole = settled(formula, n, method, **options)
    assert whole.numbered
    drawn = nelson.sample(formula, n=n, method=method, seed=5, **options).packed
    for size in (64, 320, 704):
        assert np.array_equal(in_spans(whole, n, size), drawn)
    other = settled(formula, n, method, **(options | {"seed": 6}))
    assert not np.array_equal(in_spans(other, n, 320), drawn)


@pytest.mark.process
@pytest.mark.slow
def test_starts_of_chains_are_found_once(monkeypatch):
    """`auto` on a formula that it gives to a solver: workers look for no starts of their own."""
    from nelson.sampling.auto.steps import solver as starts

    find, calls = starts.find, []
    policy = Policy().without("enumerate", "circuit", "cftp", "rejection", "resampling")

    def counted(*args):
        calls.append(args)
        return find(*args)

    monkeypatch.setattr(starts, "find", counted)
    whole = settled(LOOSE, 500, policy=policy)
    assert "cdcl" in whole.drawing.sampler.name and whole.numbered
    before = len(calls)
    assert before
    drawn = in_spans(whole, 500, 128)
    assert len(calls) == before
    assert np.array_equal(drawn, nelson.sample(LOOSE, n=500, seed=5, policy=policy).packed)
    assert whole.digest != settled(LOOSE, 500, seed=6, policy=policy).digest


def test_what_is_not_keyed_by_the_sample_is_keyed_by_the_span():
    whole = settled(LOOSE, 640, "rejection")
    assert not whole.numbered
    first, again = in_spans(whole, 640, 320), in_spans(whole, 640, 320)
    assert np.array_equal(first, again)
    assert not np.array_equal(first[:5], first[5:])  # the second span does not repeat the first


def test_span_refuses():
    whole = settled(TOWN, 100)
    with pytest.raises(nelson.FormulaError, match="multiple of 64"):
        list(shards.blocks(whole, 1, 64, 64))
    with pytest.raises(nelson.FormulaError, match="one theta vector"):
        settled(TOWN, 100, theta=np.zeros((2, 7)))


def test_a_span_without_a_sample_raises(ksat):
    """Without a round of resampling, a draw of 1000 variables satisfies 1000 clauses of five with
    probability (31/32)^1000 = 2e-14.
    """
    with pytest.raises(nelson.BudgetExceeded, match="samples 0 to 64: no sample became valid"):
        list(shards.blocks(settled(ksat, 64, max_rounds=0, **QUICK), 0, 64, 64))
