"""A toy sampler of a limited domain: it takes chains of implications x1 -> x2 -> .. -> xn only."""

from __future__ import annotations

from functools import partial

import numpy as np

from nelson.sampling import foreign, total_variation
from nelson.sampling.sampler import Sampler


def draw(problem, theta, count, seed, budget):
    """The first true variable is drawn, and all behind it are true. n + 1 structures."""
    n = problem.formula.n_vars
    tails = np.concatenate([np.cumsum(theta[::-1])[::-1], [0.0]])  # the weight of each structure
    p = np.exp(tails - tails.max())
    first = np.random.default_rng(seed).choice(n + 1, count, p=p / p.sum())
    return np.arange(n) >= first[:, None]


def refuses(problem):
    n = problem.formula.n_vars
    chain = sorted([[-v, v + 1] for v in range(1, n)])
    clauses = sorted(sorted(clause) for clause in problem.formula.clauses())
    return "" if clauses == chain and not problem.evidence else "no chain of implications"


SAMPLER = Sampler(
    name="implications",
    summary="the first true variable of a chain, then all behind it",
    citation="",
    weighted=True,
    guarantee=lambda problem, sweeps: "exact",
    variation=lambda problem, theta: total_variation.rows_error(problem.formula.n_vars + 1, theta),
    blocks=partial(foreign.blocks, draw),
    refuses=refuses,
)
