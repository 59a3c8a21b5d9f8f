"""Formulas for the tests of `auto`, and decisions made by hand."""

from __future__ import annotations

import numpy as np
import pytest

from nelson.budget import Budget
from nelson.chains.problem import prepare
from nelson.chains.request import Request
from nelson.formula import Formula
from nelson.kernels.core.bits import compact, unpack
from nelson.policy import Policy
from nelson.sampling import auto
from nelson.sampling.auto.steps import circuit
from tests.problems import example1

#: A right sampler fails a chi-square test with this probability; seeds are fixed.
ALPHA = 1e-4

needs_d4 = pytest.mark.skipif(not circuit.installed(), reason="D4 is not installed")


def decided(formula: Formula, *skip: str, theta=None, rejection=False) -> auto.Decision:
    """What `auto` decides if some steps of its ladder are left out; rejection is, unless asked for:
    it would take most small formulas that have gates.
    """
    skip += () if rejection else ("rejection",)
    rows = np.zeros((1, formula.n_vars)) if theta is None else np.atleast_2d(theta)
    return auto.decide(prepare(formula), rows, Budget(threads=1), Policy().without(*skip))


def drawn(formula: Formula, decision: auto.Decision, count: int, seed: int = 1) -> np.ndarray:
    """Samples of a decision that was made by hand."""
    n = formula.n_vars
    request = Request(
        theta=decision.groups[0].theta if decision.reduced is None else np.zeros((1, n)),
        contexts=np.zeros(1, np.int64),
        count=count,
        block=count,
        seed=seed,
        columns=np.arange(n),
        sweeps=decision.choice.sweeps,
        max_rounds=1000,
        budget=Budget(threads=1),
    )
    block = next(auto.sampler({(): decision}).blocks(prepare(formula), request))
    good = block.filled if block.valid is None else block.filled & block.valid
    return unpack(*compact(block.packed[0], good[0]))


def joined(*formulas: Formula) -> Formula:
    """Side by side, over variables of their own."""
    clauses, first = [], 0
    for f in formulas:
        clauses += [[int(np.sign(a)) * (abs(a) + first) for a in c] for c in f.clauses()]
        first += f.n_vars
    return Formula(clauses, n_vars=first)


def xor3() -> Formula:
    """x1 xor x2 xor x3 = 0, twice, over five variables: no single flip stays valid."""
    return Formula([], n_vars=5).xor([1, 2, 3], False).xor([3, 4, 5], False)


def mixed() -> Formula:
    """A component that is listed, one that is extremal, equal literals, a free variable."""
    f = joined(Formula([[1, 2], [1, 3]]), example1())
    return Formula([*f.clauses(), [7, -8], [-7, 8]], n_vars=9)
