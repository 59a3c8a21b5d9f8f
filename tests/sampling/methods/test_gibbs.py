"""The Gibbs kernel: bit for bit what a plain loop draws, and the law it says.

Statistical tests reject a right sampler with probability ALPHA each. Seeds are fixed.
"""

from __future__ import annotations

import numpy as np
import pytest

import nelson
from nelson.budget import Budget
from nelson.chains.problem import prepare
from nelson.chains.request import Request
from nelson.kernels.core import reference
from nelson.sampling.methods import gibbs
from tests.problems import all_states, chi_square, exact_law, pigeonhole, random_ksat, weights

ALPHA = 1e-6
SEED = 5

FORMULAS = {
    "3-sat": random_ksat(12, 40, 3, 1),
    "units and long clauses": nelson.Formula(
        [[1], [-1, 2, 3], list(range(3, 22)), [-k for k in range(3, 22)], [5, -6]], n_vars=24
    ),
    "one variable in many clauses": nelson.Formula([[1, k] for k in range(2, 20)]),
    "both signs": nelson.Formula([[1, 2], [1, 3], [-1, 4], [-1, 5], [-1, 6], [-1, -2]]),
    "parity": nelson.Formula([[1, 2]], n_vars=5).xor([1, 2, 3, 4, 5]),
    "no clause": nelson.Formula([], n_vars=3),
    "unsatisfiable": pigeonhole(2),
}


def plain(problem, theta, count, sweeps, seed, context=0):
    """One boolean a chain and a variable, one clause after the other."""
    program = problem.program
    n = problem.formula.n_total
    full = np.zeros(n)
    full[: problem.n] = theta
    words = np.arange(-(-count // 64))
    judge = reference.Reference(program, reference.threshold(full))
    fixed = set((program.fixed >> 1).tolist())

    def bernoulli(v, round, thr):
        """thr (count,): each chain has its own probability."""
        value = np.zeros(count, bool)
        name = np.array([program.name[v]])
        for t in np.unique(thr):
            same = np.array([t], np.uint32)
            bits = reference.bernoulli(seed, context, words, name, round, same)
            value |= reference.lanes(bits, count)[:, 0] & (thr == t)
        return value

    x = np.zeros((count, n), bool)
    for v in range(n):
        x[:, v] = bernoulli(v, 0, np.full(count, judge.thr[v]))
    x[:, program.fixed >> 1] = program.fixed & 1
    for sweep in range(sweeps):
        for v in set(range(n)) - fixed:
            x[:, v] = True
            d = judge.violated(x).sum(1)
            x[:, v] = False
            d = d - judge.violated(x).sum(1)
            thr = reference.threshold(full[program.name[v]] - gibbs.PENALTY * d)
            x[:, v] = bernoulli(v, sweep + 1, thr)
    return x[:, program.place]


def run(problem, theta, count, sweeps, **options):
    theta = np.atleast_2d(theta)
    request = Request(
        theta=theta,
        contexts=np.arange(len(theta)),
        count=count,
        block=count,
        seed=SEED,
        columns=np.arange(problem.n),
        sweeps=sweeps,
        max_rounds=0,
        budget=Budget(threads=2),
        **options,
    )
    [block] = gibbs.SAMPLER.blocks(problem, request)
    return block


@pytest.mark.slow
@pytest.mark.parametrize("width", [1, 4, 16])
@pytest.mark.parametrize("name", FORMULAS)
def test_kernel_equals_a_plain_loop(name, width):
    problem = prepare(FORMULAS[name])
    rows = 2 * np.array([weights(problem.formula, k) for k in range(2)])
    for count, sweeps in ((1, 2), (130, 2), (64 * width + 17, 1)):
        block = run(problem, rows, count, sweeps, width=width)
        for c in range(2):
            x = plain(problem, rows[c], count, sweeps, SEED, context=c)
            assert np.array_equal(
                nelson.kernels.core.bits.unpack(block.packed[c], count), x[:, : problem.n]
            )
            sound = nelson.kernels.core.bits.unpack(block.valid[c][:, None], count)[:, 0]
            holds = np.array([problem.formula.satisfied(row) for row in x], bool)
            assert np.array_equal(sound, holds)
            assert np.bitwise_count(block.filled[c]).sum() == count


def soft_law(formula, theta, penalty):
    """exp(theta . x - penalty * violated) / Z over all 2^n states."""
    states = all_states(formula.n_vars)
    violated = np.zeros(len(states))
    for clause in formula:
        literals = np.array(clause)
        violated += (states[:, np.abs(literals) - 1] != (literals > 0)).all(1)
    score = states @ theta - penalty * violated
    weight = np.exp(score - score.max())
    return states, weight / weight.sum()


def test_it_draws_from_the_soft_law(monkeypatch):
    """With a penalty that lets chains move, 30 sweeps reach exp(theta.x - penalty * violated)."""
    monkeypatch.setattr(gibbs, "PENALTY", 1.5)
    formula = random_ksat(7, 14, 3, 2)
    theta = weights(formula)
    s = nelson.sample(formula, theta, 100_000, method="gibbs", sweeps=30, check=False, seed=SEED)
    assert s.info["penalty"] == 1.5 and s.info["sweeps"] == 30
    assert 0.05 < s.info["validity"] < 0.95
    assert chi_square(s.to_numpy(), soft_law(formula, theta, 1.5)) > ALPHA
    assert chi_square(s.to_numpy(), soft_law(formula, theta, 1.6)) < ALPHA
    kept = nelson.sample(formula, theta, 50_000, method="gibbs", sweeps=30, seed=SEED)
    assert chi_square(kept.to_numpy(), exact_law(formula, theta)) > ALPHA  # given validity
    assert kept.guarantee == "heuristic"  # no chain says when it has mixed


def test_chains_that_cannot_cross_are_biased_and_the_test_sees_it():
    """Sink-free orientations of a cycle: two states, far apart. A chain keeps the one it met."""
    formula = nelson.Formula([[1, -3], [2, -1], [3, -2]])
    theta = np.array([0.8, 0.0, 0.3])
    s = nelson.sample(formula, theta, 20_000, method="gibbs", seed=SEED)
    assert s.info["validity"] > 0.99
    assert chi_square(s.to_numpy(), exact_law(formula, theta)) < ALPHA


def test_what_is_invalid_comes_out_only_if_asked_for():
    formula = random_ksat(60, 190, 3, 4)  # chains end in local minima, too
    raw = nelson.sample(formula, None, 2000, method="gibbs", sweeps=20, check=False, seed=SEED)
    valid = formula.satisfied(raw.to_numpy())
    assert len(raw) == 2000 and 0 < valid.mean() < 1
    assert raw.info["validity"] == pytest.approx(valid.mean())
    s = nelson.sample(formula, None, 200, method="gibbs", sweeps=20, seed=SEED)
    assert len(s) == 200 and s.status == "ok" and formula.satisfied(s.to_numpy()).all()
    assert s.info["invalid"] > 0 and s.info["drawn"] >= 200 + s.info["invalid"]
    first = raw.to_numpy()[:200][valid[:200]]
    assert np.array_equal(s.to_numpy()[: len(first)], first)  # the same chains, the bad ones left


@pytest.mark.parametrize("block", [64, 192])
def test_unchecked_streams_are_the_sample(block):
    formula = FORMULAS["3-sat"]
    whole = nelson.sample(formula, None, 500, method="gibbs", sweeps=3, check=False, seed=SEED)
    parts = nelson.stream(
        formula, None, 500, block=block, method="gibbs", sweeps=3, check=False, seed=SEED
    )
    assert np.array_equal(np.concatenate([p.to_numpy() for p in parts]), whole.to_numpy())
