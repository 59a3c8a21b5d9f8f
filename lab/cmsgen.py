"""Peer: CMSGen through its Python interface pycmsgen, used in its fastest way.

The clauses are loaded once, as one flat array, and the weights P(x_i = 1) are set by
`set_var_weight`. Then `solve()` is called in a loop: each call restarts the search with new random
decisions and polarities and returns one sample. CMSGen gives no guarantee on the law of its
samples.
"""

from __future__ import annotations

import time
from array import array
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from nelson.formula import Formula


def cmsgen_rate(
    f: Formula, theta: np.ndarray | None = None, *, seconds: float = 3.0, seed: int = 1
) -> float:
    """Valid samples per second. The time of loading and of checking the samples is excluded."""
    from pycmsgen import Solver

    solver = Solver(seed=seed)
    solver.add_clauses(array("i", np.insert(f.literals, f.offsets[1:], 0).tolist()))
    if theta is not None:
        for i, p in enumerate((1 / (1 + np.exp(-np.asarray(theta)))).tolist()):
            solver.set_var_weight(i + 1, p)
    solve, clock = solver.solve, time.perf_counter
    solve()  # warm up
    count, spent = 0, 0.0
    while spent < seconds:
        start = clock()
        models = [solve()[1] for _ in range(64)]
        spent += clock() - start
        x = np.zeros((len(models), f.n_vars), dtype=bool)
        given = min(f.n_vars, len(models[0]) - 1)  # variables in no clause may be missing
        x[:, :given] = np.array(models, dtype=object)[:, 1 : given + 1].astype(bool)
        if not f.satisfied(x).all():
            raise AssertionError("pycmsgen returned an invalid sample")
        count += len(models)
    return count / spent
