"""Which functions of a state are slowest? Found on one half of the chains, judged on the other.

Chains go on for `LOOKS` looks, half a lag apart. y1 and y2 are the means of a chain over the first
and over the second half of the looks, for all watched variables and for products of neighbours
(pairs that share a clause). On one half of the chains the slowest linear functions v . y solve

    cov(y1, y2) v = lambda cov(y, y) v        (within the leading directions of cov(y1, y2))

and on the other half the correlation of v . y1 and v . y2 must be small. So a conserved or slow
quantity is seen that nobody listed, if it is nearly a sum over variables or over such products: the
winding number of a matching or of a ring of clocks, a charge, the size of one side.

If no watched function varies, this test says nothing. It then rests on the rare values: for each
value that no chain takes, a solver was asked for a solution that has it, chains began there, and
left it (`alternative_starts.py`). If nothing was asked, silence is no pass (`diagnose.py`).

The mean over looks makes it visible: a quantity that stays keeps its variance in the mean, while
the noise of thousands of quick functions goes down.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from nelson.chains.diagnosis.features import Features
from nelson.chains.diagnosis.mixing import mixing
from nelson.kernels.core.bits import unpack

#: States of each chain that are looked at, an even number.
LOOKS = 8
#: Correlation of the two halves of a chain, at most. With correlation 0.1 over a lag it is 0.1.
LIMIT = 0.25
#: Directions of the search, steps of its power iteration, and functions that are judged.
_DIRECTIONS, _STEPS, _JUDGED = 16, 5, 3
#: Values that fewer chains take than this are rare, and judged elsewhere (`compare.memory`).
_RARE = 16


class Slowest(NamedTuple):
    """Of the slowest functions found, on chains that did not choose them."""

    rho: float  # the largest correlation of the two halves of a chain
    rhat: float  # the largest split R-hat, rank-normalised
    ess: float  # the least effective sample size of the states looked at,
    states: int  # and their number
    silent: bool = False  # no watched function varies

    @property
    def yes(self) -> bool:
        return self.rho <= LIMIT


def slowest(look: Callable[[int], np.ndarray], features: Features) -> Slowest:
    """look(k): the states (words, n) of the same chains at look k, for k = 0 .. LOOKS - 1."""
    looks = [_bits(features, look(k)) for k in range(LOOKS)]
    half, chains = LOOKS // 2, 64 * len(looks[0])
    first, last = _mean(looks[:half]), _mean(looks[half:])
    p = (first.mean(0) + last.mean(0)) / 2
    varies = np.minimum(p, 1 - p) * chains >= _RARE
    if not varies.any():
        return Slowest(0.0, 1.0, float(LOOKS * chains), LOOKS * chains, silent=True)
    p, varied = p[varies], np.flatnonzero(varies)
    scale = 1 / np.sqrt(p * (1 - p))
    # Whole words are picked: the replicas of a start stay together.
    picked = np.arange(chains) // 64 % 2 == 0
    ways = _directions(*((y[picked][:, varied] - p) * scale for y in (first, last)))
    ways *= scale[:, None]
    values = np.stack([_rows(bits[1::2][:, varied]) @ ways for bits in looks])  # (looks, chains, k)
    half_1, half_2 = values[:half].mean(0), values[half:].mean(0)
    rho = max(_correlation(a, b) for a, b in zip(half_1.T, half_2.T, strict=True))
    states = values.shape[0] * values.shape[1]
    mixed = [mixing(values[:, :, k].T) for k in range(ways.shape[1])]
    rhat, ess = max(r for r, _ in mixed), min([states, *(e for _, e in mixed)])
    return Slowest(rho, rhat, ess, states)


def _correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Its size; 1 if a function that varies in the other chains is constant in these."""
    if not a.std() or not b.std():
        return 1.0
    return float(abs(np.corrcoef(a, b)[0, 1]))


def _bits(features: Features, words: np.ndarray) -> np.ndarray:
    a, b = features.neighbours.T
    return np.concatenate([words[:, features.columns], words[:, a] ^ words[:, b]], axis=1)


def _mean(looks: Sequence[np.ndarray]) -> np.ndarray:
    total = _rows(looks[0])
    for bits in looks[1:]:
        total += _rows(bits)
    return total / np.float32(len(looks))


def _rows(bits: np.ndarray) -> np.ndarray:
    return unpack(bits, 64 * len(bits)).astype(np.float32)


def _directions(half_1: np.ndarray, half_2: np.ndarray) -> np.ndarray:
    """(features, k): the functions whose values in `half_1` and `half_2` (chains, features)
    correlate most.
    """
    half_1, half_2 = half_1 - half_1.mean(0), half_2 - half_2.mean(0)
    k = min(_DIRECTIONS, *half_1.shape)
    basis: np.ndarray = (
        np.random.default_rng(k).normal(size=(half_1.shape[1], k)).astype(np.float32)
    )
    for _ in range(_STEPS):
        basis = half_1.T @ (half_2 @ basis) + half_2.T @ (half_1 @ basis)
        basis /= np.maximum(np.linalg.norm(basis, axis=0), 1e-30)
    basis, _ = np.linalg.qr(basis)
    a, b = (half_1 @ basis).astype(float), (half_2 @ basis).astype(float)
    total = a.T @ a + b.T @ b
    root = np.linalg.cholesky(total + 1e-6 * np.trace(total) * np.eye(k))
    inverse = np.linalg.inv(root)
    rho, turned = np.linalg.eigh(inverse @ (a.T @ b + b.T @ a) @ inverse.T)
    best = np.argsort(-np.abs(rho))[:_JUDGED]
    ways: np.ndarray = basis @ (inverse.T @ turned[:, best])
    return ways
