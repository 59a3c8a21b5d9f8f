"""theta from routes: moment matching with persistent chains.

    maximise  L(theta) = theta . E_data[x] - log Z(theta) - (strength / 2) |r(theta)|^2
    gradient  g = E_data[x] - E_theta[x] - strength * r(theta)

E_theta[x] is estimated from `chains` persistent chains (Tieleman 2008): theta moves little in one
iteration, so a few sweeps keep the chains near P_theta. The step is Newton's with the diagonal of
the Fisher matrix,

    theta <- theta + eta_t g / (v + strength),   v = p (1 - p) >= 1 / chains, p = E_theta[x]
    eta_t = RATE for the first half, then RATE / sqrt(1 + (t - T/2) / SMOOTH),

where no component moves by more than MAX_STEP. The answer is the mean of theta over the second
half, in which the noise of the chains averages out. (Steps that shrink like 1 / t leave the slow
directions, the length of a route above all, where the noise of the first half put them.) p is a
running mean of *earlier* iterations: if it included the present one, g and v would share their
noise, and the frequencies of rare edges would come out too high.

Most edges are never seen in the data (at least half of the 812 between 29 locations): without a
prior their theta goes to -inf. r(theta) is the residual of theta after a fit by the directions
`free`,

    theta = sum_k alpha_k free_k + r,      strength = 1 / (N prior^2),

which is a normal prior of standard deviation `prior` on each r_ij given N examples, and no prior on
alpha. `Routes.learn` frees the distances: the prior for an edge that was never seen comes from its
length; it is not 0. At the optimum the gap is strength * r, and r has no part along a free
direction: the model's mean length of a route equals the data's.

theta_ij + a_i + b_j has the same law as theta_ij, since every location is left once and entered
once; the prior picks the smallest.

theta has *converged* if fresh chains, independent of the training, show a |g| of noise alone: its
L1 norm is at most 1.25 times the expected norm at a perfect theta, for this number of chains.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from nelson.errors import FormulaError
from nelson_paper.gradient_error import gradient_floor
from nelson_paper.tasks.base import JUDGING, LEARNING, Learned
from nelson_paper.tasks.routes.convert import frequencies, to_matrix
from nelson_paper.tasks.routes.moves import Chains, weighted

RATE = 0.5
#: The largest change of one theta_ij in one iteration.
MAX_STEP = 1.0
#: Iterations: how fast the step shrinks, and how far the running mean of p looks back.
SMOOTH = 10
#: Converged: the gap is at most this many times the expected noise.
_SLACK = 1.25


class Prior:
    """The gradient strength * r(theta) of the prior; free: (k, n (n - 1)) or None."""

    def __init__(self, width: int, strength: float, free: Any = None) -> None:
        rows = np.zeros((0, width)) if free is None else np.atleast_2d(np.asarray(free, np.float64))
        if rows.shape[1] != width or not np.isfinite(rows).all():
            raise FormulaError(
                f"free directions of shape {rows.shape}", expected=f"(k, {width}), finite"
            )
        self.strength = strength
        self.basis = np.linalg.qr(rows.T)[0].T

    def pull(self, theta: np.ndarray) -> np.ndarray:
        return self.strength * (theta - self.basis.T @ (self.basis @ theta))


def learn_theta(
    routes: np.ndarray,
    *,
    seed: int = 0,
    prior: float = 3.0,
    iterations: int = 300,
    chains: int = 1000,
    sweeps: int = 4,
    free: Any = None,
    start: Any = None,
    threads: int | None = None,
) -> Learned:
    """theta (n (n - 1),) from routes (N, n). history: one dict per iteration.

    prior: standard deviation of each r_ij; a larger one follows the data more closely.
    """
    if not prior > 0 or min(iterations, chains, sweeps) < 1:
        raise FormulaError(
            f"prior {prior}, iterations {iterations}, chains {chains}, sweeps {sweeps}",
            expected="prior > 0, the others at least 1",
        )
    started = time.perf_counter()
    count, n = routes.shape
    target, width = frequencies(routes), n * (n - 1)
    shrink = Prior(width, 1.0 / (count * prior**2), free)
    theta = np.zeros(width) if start is None else np.array(start, np.float64)
    p, total = np.full(width, 1 / (n - 1)), np.zeros(width)
    walkers = Chains(n, chains, seed=seed, context=LEARNING, threads=threads)
    history: list[dict[str, Any]] = []
    averaged = range(iterations // 2, iterations)
    for t in range(iterations):
        walkers.advance(to_matrix(theta, n), np.ones(sweeps))
        model = frequencies(walkers.routes)
        gap = target - model - shrink.pull(theta)
        rate = RATE / float(np.sqrt(1 + max(0, t - iterations // 2) / SMOOTH))
        v = np.maximum(p * (1 - p), 1 / chains) + shrink.strength
        theta = theta + np.clip(rate * gap / v, -MAX_STEP, MAX_STEP)
        p = p + (model - p) / SMOOTH
        if t in averaged:
            total = total + theta
        history.append(
            {
                "iteration": t,
                "gap_l1": float(np.abs(gap).sum()),
                "gap_max": float(np.abs(gap).max()),
                "floor": gradient_floor(model, chains),
                "rate": rate,
                "norm": float(np.sqrt((theta**2).sum())),
                "seconds": time.perf_counter() - started,
            }
        )
    theta = total / len(averaged)
    fresh = frequencies(
        weighted(to_matrix(theta, n), chains, seed=seed, context=JUDGING, threads=threads).routes
    )
    gap = float(np.abs(target - fresh - shrink.pull(theta)).sum())
    noise = gradient_floor(fresh, chains)
    why = (
        f"frequencies of the training examples and of {chains} fresh chains differ by {gap:.3g} "
        f"(summed over {width} edges); the noise of the chains alone would make it {noise:.3g}"
    )
    return Learned(
        theta,
        history,
        time.perf_counter() - started,
        gap <= _SLACK * noise,
        why,
        "",
        {"prior": prior, "chains": chains, "sweeps": sweeps, "gap_l1": gap, "floor": noise},
    )
