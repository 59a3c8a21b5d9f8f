"""Small models with exact answers by enumeration: draws, likelihood, divergence, the maximum."""

from __future__ import annotations

import numpy as np

from nelson import Formula
from tests.problems import complete_edges, exact_law, sink_free

SEED = 20230207


def mesh(edges: int) -> Formula:
    """Sink-free orientations of a small graph: extremal, with many solutions."""
    return sink_free(complete_edges({6: 4, 10: 5}[edges]) if edges != 5 else FIVE)


FIVE = [(0, 1), (1, 2), (2, 0), (0, 3), (3, 1)]


def draws(f: Formula, theta: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Exact draws from P_theta by enumeration: not by the sampler that learning uses."""
    states, p = exact_law(f, theta)
    return states[np.random.default_rng([SEED, seed]).choice(len(states), count, p=p)]


def log_likelihood(f: Formula, theta: np.ndarray, x: np.ndarray) -> float:
    states, _ = exact_law(f)
    phi = states @ theta
    return float((x @ theta).mean() - np.log(np.exp(phi - phi.max()).sum()) - phi.max())


def exact_kl(f: Formula, a: np.ndarray, b: np.ndarray) -> float:
    states, p = exact_law(f, a)
    y = states @ (b - a)
    return float(np.log(p @ np.exp(y - p @ y)))


def enumerated_maximum(f: Formula, mu: np.ndarray) -> np.ndarray:
    """argmax theta . mu - log Z(theta), by Newton's method on the enumerated law."""
    theta = np.zeros(f.n_vars)
    for _ in range(100):
        states, p = exact_law(f, theta)
        mean = p @ states
        covariance = (states * p[:, None]).T @ states - np.outer(mean, mean)
        step = np.linalg.lstsq(covariance + 1e-12 * np.eye(f.n_vars), mu - mean, rcond=None)[0]
        theta = theta + np.clip(step, -1, 1)
    return theta
