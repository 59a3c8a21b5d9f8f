"""The samplers and problems that the contract tests run over."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest

import nelson
from nelson.sampling.registry import get
from tests.problems import complete_edges, extremal, non_extremal, sink_free, weights

#: A test of a law that must accept rejects a right sampler with this probability. There are fewer
#: than 200 such tests: 2e-4 in all. Seeds are fixed.
ALPHA = 1e-6
SEED = 7
NAMES = nelson.samplers()
#: Samplers that start a child process.
STARTS_A_CHILD = {name for name in NAMES if get(name).modules} | {"quicksampler"}
#: "Some edge leaves the vertex" for three of the four vertices of K4: extremal. With all four, each
#: variable stands in clauses of both signs, and the coupled chains of `cftp` never meet.
THREE_OF_K4 = nelson.Formula(list(sink_free(complete_edges(4)).clauses())[:3], n_vars=6)
#: One parity over visible variables (auxiliary variables behind it), a unit, a free variable.
MIXED = nelson.Formula([[1, 2], [-2, 3, 4], [9], [-9, -3, 8]], n_vars=10).xor([1, 2, 3, 4, 5, 6])
LAWS = {
    "complete4": extremal()["complete4"],
    "free variable": extremal()["free variable"],
    "path": non_extremal()["path"],
    "random 3-SAT": non_extremal()["random 3-SAT"],
    "mixed": MIXED,
}

#: Formulas that a method cannot draw from: it ends with status "budget".
BEYOND = {"cftp": {"complete4", "mixed", "random 3-SAT"}}


def theta_for(name, formula, seed=0):
    return weights(formula, seed) if get(name).weighted else None


def draw(name, formula, theta=None, n=65, **options):
    with skipped_if_refused(name):
        return nelson.sample(formula, theta, n, method=name, **{"seed": SEED, **options})


def stream(name, formula, n=None, **options):
    with skipped_if_refused(name):
        return nelson.stream(formula, None, n, method=name, **options)


@contextmanager
def skipped_if_refused(name):
    """A sampler of a limited domain has to name its reason; the test then ends here."""
    try:
        yield
    except nelson.FormulaError as error:
        if get(name).refuses is None or "cannot draw from this formula: " not in str(error):
            raise
        pytest.skip(str(error))


def assert_good(s, formula, n=None):
    """Valid, and not a bit behind the last sample."""
    assert s.to_numpy().shape[-2] == len(s) and (n is None or len(s) == n), s.info.get("reason")
    assert formula.satisfied(s.to_numpy()).all()
    tail = s.packed[..., -1:, :] >> np.uint64(len(s) % 64)
    assert len(s) % 64 == 0 or not tail.any()
