"""Ranks share the samples of an iteration: the same theta as one process, bit for bit.

Ranks add up integers, and the one sum of floats has one order (`Draw.spread`), so equalities here
are of bytes and not up to a tolerance. Ranks are threads: only the arithmetic matters.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import nelson
from nelson import Formula
from nelson.budget import Budget
from nelson.kernels.core.bits import pack, unpack
from nelson.learning import PAPER, Run, shares
from nelson.learning.draw import Draw, Drawer
from nelson.learning.group import ALONE, ProcessGroup, span
from nelson.learning.rank_examples import file_digest, load_share
from nelson.sampling.device.gpu import available
from tests.learning.ranks import MIXED, STREETS, THETA, Threads


@pytest.mark.parametrize("unit", [1, 64])
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_spans_hold_everything_once_and_are_even(size, unit):
    for count in (0, 1, 63, 64, 65, 1000, 4096):
        cuts = [span(count, Threads.Rank(Threads(size), rank), unit) for rank in range(size)]
        assert cuts[0][0] == 0
        assert cuts[-1][1] == count
        assert all(a[1] == b[0] for a, b in pairwise(cuts))
        assert all(first % unit == 0 for first, last in cuts if first < last)
        units = [-(-(last - first) // unit) for first, last in cuts]
        assert max(units) - min(units) <= 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("clauses", "method", "m"),
    [(None, "lovasz", 1000), (None, "prs", 100), (MIXED, "enumerate", 999), (MIXED, "auto", 1000)],
)
def test_shares_are_the_samples_of_one_process(clauses, method, m):
    """The union over the ranks, in their order, is what one process draws; m is no multiple of 64,
    and small enough that some ranks draw nothing."""

    def formula() -> Formula:
        return Formula.from_dimacs(STREETS) if clauses is None else Formula(clauses)

    theta = np.linspace(-1, 1, formula().n_vars)

    def draw(group: ProcessGroup) -> Draw:
        drawer = Drawer(formula(), method, None, 5, budget=Budget.of(threads=1), group=group)
        drawer.method = method
        return drawer(theta, m, 3)

    alone = draw(ALONE)
    columns = np.arange(len(theta))
    for size in (2, 3, 4):
        drawn = Threads(size).run(draw)
        x = [unpack(d.packed, d.held) for d in drawn]
        np.testing.assert_array_equal(np.concatenate(x), unpack(alone.packed, alone.count))
        assert all(d.mean.tobytes() == alone.mean.tobytes() for d in drawn)
        assert all(d.count == m for d in drawn)
        pairs = Threads(size).run(lambda g, drawn=drawn: _pairs(drawn, g))
        for counts, used in pairs:
            assert used == min(m, 130)
            np.testing.assert_array_equal(counts, alone.pair_counts(columns, 130)[0])


def _pairs(drawn: list[Draw], group: ProcessGroup) -> tuple[np.ndarray, int]:
    mine = replace(drawn[group.rank], group=group)
    return mine.pair_counts(np.arange(len(mine.mean)), 130)  # 130: cuts a word, and a share


def test_samplers_without_numbers_are_left_to_rank_0():
    def draw(group: ProcessGroup) -> Draw:
        drawer = Drawer(
            Formula.from_dimacs(STREETS),
            "rejection",
            None,
            5,
            budget=Budget.of(threads=1),
            group=group,
        )
        return drawer(np.array(THETA), 300, 1)

    alone = draw(ALONE)
    for d in (drawn := Threads(3).run(draw)):
        assert d.mean.tobytes() == alone.mean.tobytes()
    assert [d.held for d in drawn] == [300, 0, 0]


def test_the_spread_is_the_same_bits_for_any_number_of_ranks():
    """A sum of floats, so order matters: ranks hand their terms around, rank 0 adds them up."""
    rng = np.random.default_rng(0)
    x, weights = rng.random((1000, 9)) < 0.3, rng.normal(size=9)
    alone = Draw(x.mean(0), pack(x), 1000, 0, 0.0, "exact")

    def spread(group: ProcessGroup) -> float:
        first, last = span(1000, group, 64)
        mine = Draw(x.mean(0), pack(x[first:last]), 1000, 0, 0.0, "exact", first, last - first)
        return replace(mine, group=group).spread(weights)

    for size in (2, 3, 5):
        assert set(Threads(size).run(spread)) == {alone.spread(weights)}
    np.testing.assert_allclose(alone.spread(weights), (x @ weights).std(), rtol=1e-12)
    assert alone.spread(weights) != alone.spread(weights[::-1].copy())


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"optimizer": replace(PAPER, iterations=30, m=100)}])
def test_theta_does_not_depend_on_the_number_of_ranks(data, examples, options, monkeypatch):
    alone = nelson.learn(Formula.from_dimacs(STREETS), examples, seed=3, **options)

    def learn(group: ProcessGroup):
        formula = Formula.from_dimacs(STREETS)
        share = load_share(formula, str(data), group, "digest")
        assert share.held < 1001 or group.size == 1
        return nelson.learn(formula, share, seed=3, threads=1, run=Run(group=group), **options)

    for size in (1, 3):
        for fit in Threads(size).run(learn):
            assert fit.theta.tobytes() == alone.theta.tobytes()
            assert fit.why == alone.why
            assert fit.model.metadata["examples"] == 1001

    # The twin: ranks that all draw from the first sample on find something else.
    def from_the_first(m: int, group: ProcessGroup, unit: int) -> tuple[int, int]:
        first, last = span(m, group, unit)
        return 0, last - first

    monkeypatch.setattr(shares, "span", from_the_first)
    wrong = Threads(3).run(learn)[0]
    assert wrong.theta.tobytes() != alone.theta.tobytes()


@pytest.mark.slow
def test_a_run_goes_on_with_another_number_of_ranks(tmp_path, data):
    def learn(group: ProcessGroup, iterations: int, folder: Path):
        formula = Formula.from_dimacs(STREETS)
        share = load_share(formula, str(data), group, file_digest(str(data)))
        return nelson.learn(
            formula,
            share,
            seed=3,
            optimizer=replace(PAPER, iterations=iterations),
            run=Run(group=group, checkpoint=folder),
        )

    whole = learn(ALONE, 20, tmp_path / "whole")
    Threads(3).run(lambda group: learn(group, 10, tmp_path / "cut"))
    for fit in Threads(2).run(lambda group: learn(group, 20, tmp_path / "cut")):
        assert len(fit.history) == 20
        assert fit.theta.tobytes() == whole.theta.tobytes()
    ten = learn(ALONE, 10, tmp_path / "ten")
    assert ten.theta.tobytes() != whole.theta.tobytes()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_a_share_on_the_gpu_begins_at_its_first_sample():
    """In Numba's simulator where there is no GPU."""
    if not available():
        pytest.skip("numba-cuda is not installed")

    def draw(group: ProcessGroup) -> Draw:
        drawer = Drawer(Formula.from_dimacs(STREETS), "lovasz", 0, 5, device="cuda", group=group)
        return drawer(np.array(THETA), 192, 1)

    whole = Drawer(Formula.from_dimacs(STREETS), "lovasz", 0, 5)(np.array(THETA), 192, 1)
    first = replace(draw(rank0 := _Alone(0)), group=ALONE)
    second = draw(_Alone(1))
    assert rank0.size == 2
    np.testing.assert_array_equal(np.concatenate([first.packed, second.packed]), whole.packed)


class _Alone(ProcessGroup):
    """One of two ranks, with nobody to talk to."""

    size = 2

    def __init__(self, rank: int) -> None:
        self.rank = rank
