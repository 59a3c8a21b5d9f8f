"""`weightgen` and `xor` on this side of their child process.

Variables that propagation fixed are not hashed, nor those that no clause mentions any more, which
are drawn from their own law. Hashed are the other visible ones; auxiliary ones follow from those.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from nelson.errors import Unsatisfiable
from nelson.process.child import run_child
from nelson.sampling import foreign
from nelson.sampling.foreign import Drawn
from nelson.sampling.problem import Problem

_SCRIPT = Path(__file__).with_name("scripts") / "hashing.py"
#: What the child tells of its work: tries, of which some failed; solutions, where there were so few
#: that all were listed; hash bits, parities over them, and the ratio of weights that were not
#: turned into bits.
_TOLD = ("tries", "structures", "hash_bits", "parities", "tilt")


def draw(
    method: str,
    epsilon: float,
    problem: Problem,
    theta: np.ndarray,
    count: int,
    seed: int,
    deadline: float,
) -> Drawn:
    formula, rest = problem.formula, problem.rest
    x = np.zeros((count, formula.n_total), bool)
    x[:, np.abs(problem.fixed) - 1] = problem.fixed > 0
    own, place = np.unique(np.abs(rest.literals), return_inverse=True)
    known = np.concatenate([own, np.abs(problem.fixed)]) - 1
    free = np.setdiff1d(np.arange(formula.n_vars), known)
    rng = np.random.default_rng([seed, 1])
    for v, p in zip(free, np.exp(-np.logaddexp(0, -theta[free])), strict=True):
        x[:, v] = rng.random(count) < p
    if not rest.n_clauses:
        return Drawn(x, info={"epsilon": 0.0})
    clauses = np.zeros(len(rest.literals) + rest.n_clauses, np.int32)
    at = np.arange(len(place)) + np.repeat(np.arange(rest.n_clauses), np.diff(rest.offsets))
    clauses[at] = np.sign(rest.literals) * (place + 1)
    task = {
        "method": method,
        "n": len(own),
        "clauses": clauses,
        "theta": theta[own[own <= formula.n_vars] - 1],
        "count": count,
        "seed": seed,
    }
    answers, ended = run_child(_SCRIPT, [task], deadline - time.monotonic())
    if any("unsatisfiable" in answer for answer in answers):
        raise Unsatisfiable("a CDCL solver (CryptoMiniSat) proved that there is no solution")
    parts = [answer for answer in answers if "rows" in answer]
    rows = np.frombuffer(b"".join(part["rows"] for part in parts), np.uint8)
    rows = rows.reshape(-1, len(own))
    x = x[: len(rows)]
    x[:, own - 1] = rows
    info = {key: parts[-1][key] for key in _TOLD if parts and key in parts[-1]}
    return Drawn(x, foreign.explained(method, answers, ended), {"epsilon": epsilon, **info})
