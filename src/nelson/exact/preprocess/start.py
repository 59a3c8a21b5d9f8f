"""A smaller formula with the same answer to "is there a solution", and a solution from its own.

This does NOT keep a law: a variable that is not a function of the others is resolved away too
(bounded variable elimination), and solutions that differ only there become one. It is for finding
a valid start, nothing else; `preprocess` is for sampling.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nelson.exact.preprocess import gates, simplify
from nelson.exact.preprocess.pipeline import ROUNDS, begin, compile_kernels
from nelson.exact.preprocess.result import Component, Rebuild, split
from nelson.formula import Formula


@dataclass(frozen=True, eq=False)
class Start:
    formula: Formula  # over 1..k
    variables: np.ndarray  # (k,) int64: the original variable of each, from 0
    rebuild: Rebuild  # fills in the variables that were taken out; those left may be anything


def eliminate_for_start(
    formula: Formula, evidence: Sequence[int] = (), *, deadline: float | None = None
) -> Start:
    """Bounded variable elimination (Een and Biere 2005) with equivalences, probing and subsumption.

    `start.rebuild(words)` turns solutions of `start.formula`, in the columns `start.variables`,
    into solutions of `formula`, whatever the columns of variables that no clause is left for hold.
    Raises Unsatisfiable if that is proved on the way.
    """
    compile_kernels()
    state = begin(formula, np.zeros((0, formula.n_vars)), evidence, deadline)
    for _ in range(ROUNDS):
        if state.budget.spent:
            break
        before, share = state.version, max(1, state.budget.left // 3)
        simplify.equal(state)
        if simplify.probe(state, share):
            simplify.equal(state)
        simplify.subsume(state, share)
        gates.any_variable(state, share)
        if state.version == before:
            break
    theta = np.zeros((0, state.n))
    nothing = Component(np.zeros(0, np.int32), np.zeros(1, np.int64), np.zeros(0, np.int64), theta)
    left = (split(state.literals, state.offsets, theta, 1) or [nothing])[0]
    return Start(left.formula, left.variables, Rebuild(*state.taken.program()))
