"""Rows of foreign samplers become blocks: every row is checked, large draws come in pieces."""

from __future__ import annotations

import numpy as np

import nelson
from nelson.budget import Budget
from nelson.chains.problem import prepare
from nelson.chains.request import Request
from nelson.kernels.core.bits import unpack
from nelson.sampling import foreign
from tests.problems import exact_law, extremal


def request_for(problem, contexts=1, **options):
    defaults = {"count": 100, "block": 100, "columns": np.arange(problem.n)}
    return Request(
        theta=np.zeros((contexts, problem.n)),
        contexts=np.arange(contexts),
        seed=1,
        sweeps=0,
        max_rounds=0,
        budget=Budget(threads=1),
        **{**defaults, **options},
    )


def test_block_of_checks_every_row():
    formula = extremal()["complete4"]
    problem = prepare(formula)
    states, _ = exact_law(formula)
    rows = [np.concatenate([states, np.zeros((40, 6), bool)]), states[:5].astype(np.uint8)]
    block = foreign.block_of(problem, request_for(problem, 2, columns=np.array([4, 0])), rows)
    assert block.packed.shape == (2, 2, 2) and block.filled.shape == (2, 2)
    assert np.bitwise_count(block.filled).sum(1).tolist() == [72, 5]
    assert np.bitwise_count(block.valid).sum(1).tolist() == [32, 5]
    unpacked = unpack(block.packed[0], 72)
    assert np.array_equal(unpacked, rows[0][:, [4, 0]])


def test_auxiliary_variables_may_be_left_out():
    formula = nelson.Formula([[1, 2]], n_vars=4).xor([1, 2, 3, 4], True)
    problem = prepare(formula)
    x = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0]], bool)
    block = foreign.block_of(problem, request_for(problem), [x])
    assert block.valid.tolist() == [[0b001]] and block.filled.tolist() == [[0b111]]


def test_draws_are_asked_in_turn_and_cut_short(monkeypatch):
    """Pieces of 64, 128 and 256 rows, whatever the blocks."""
    monkeypatch.setattr(foreign, "FIRST_PIECE", 64)
    problem = prepare(nelson.Formula([], n_vars=2))
    asked = []

    def draw(problem, theta, count, seed, budget):
        asked.append((count, seed, budget))
        if len(asked) > 5:
            return foreign.DrawnRows(np.zeros((10, 2), bool), "tired", {"mood": "bad"})
        return np.zeros((count + 7, 2), bool)

    request = request_for(problem, 2, count=None, block=64)
    blocks = list(foreign.blocks(draw, problem, request))
    assert [count for count, _, _ in asked] == [64, 64, 128, 128, 256, 256]
    assert len({seed for _, seed, _ in asked}) == 6
    assert (
        asked[0][2].deadline < asked[1][2].deadline
    )  # the first context leaves its share to the second
    assert [block.stopped for block in blocks] == [False, False, False, True]
    assert blocks[-1].info == {"mood": "bad", "ended": "tired"}
    assert np.bitwise_count(blocks[-1].filled).sum(1).tolist() == [64, 10]
    first = [foreign.seed_of(1, c, k) for k in (0, 64, 192) for c in range(2)]
    assert first == [seed for _, seed, _ in asked]


def test_large_rows_come_in_several_draws(monkeypatch):
    monkeypatch.setattr(foreign, "_MAX_CELLS", 1000)
    problem = prepare(nelson.Formula([], n_vars=10))
    sizes = []

    def draw(problem, theta, count, seed, budget):
        sizes.append(count)
        return np.random.default_rng(seed).integers(0, 2, (count, 10), np.uint8)

    [block] = foreign.blocks(draw, problem, request_for(problem, count=200, block=200))
    assert sizes == [64, 64, 64, 8] and np.bitwise_count(block.filled).sum() == 200


def test_clauses_for_a_solver():
    problem = prepare(nelson.Formula([[1], [-1, 2], [3, 4], [-3, 5, -6]]))
    assert foreign.flat_clauses(problem).tolist() == [1, 0, 2, 0, 3, 4, 0, -3, 5, -6, 0]
    assert foreign.flat_clauses(problem, fixed=False).tolist() == [3, 4, 0, -3, 5, -6, 0]
