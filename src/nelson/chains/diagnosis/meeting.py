"""Do samples meet each other equally often? A test that needs no choice of what to look at.

Take S samples as starts of new chains, and give chain k of every start the same random numbers. Two
chains that meet stay together. If the samples are independent draws of one law that the chains have
no further memory of, any two starts meet with the same probability q after T sweeps, so the shares
p_ab among m chains vary like binomial numbers:

    factor = std of p_ab over pairs / sqrt(q (1 - q) / m)  <=  about 1

If the valid space has regions that chains seldom leave, starts in one region meet soon and others
do not: the factor is large, whatever tells the regions apart. It says nothing while no chains meet
(on dense formulas they never do), or once all have met.

Measured at T equal to the sweeps of a draw and twice that, on the families of `nelson bench
labels`: at most 1.1 where chains mix, 1.7 to 16 where they do not and other tests see nothing.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from nelson.chains.diagnosis.compare import Comparison

#: The factor may be this large.
LIMIT = 1.5
#: Shares of pairs that have met outside of this range say nothing.
_TELLING = (0.02, 0.98)


class Coupled(Protocol):
    """Chains (starts, words, n) of which lane k has the same random numbers for every start."""

    words: np.ndarray
    complete: bool

    def sweep_to(self, sweeps: int) -> None: ...


def meetings(chains: Coupled, variables: np.ndarray, sweeps: int) -> tuple[Comparison, float]:
    """(the answer after `sweeps` and after twice as many, the share of pairs that met by then)."""
    worst, share = 0.0, 0.0
    for after in (sweeps, 2 * sweeps):
        chains.sweep_to(after)
        if not chains.complete:
            break
        met = shares(chains.words[:, :, variables])
        share = float(met.mean())
        if share > _TELLING[1]:
            break
        if share > _TELLING[0]:
            lanes = 64 * chains.words.shape[1]
            worst = max(worst, float(met.std() / np.sqrt(share * (1 - share) / lanes)))
    return Comparison(worst / LIMIT, "how often pairs of samples meet"), share


def shares(states: np.ndarray) -> np.ndarray:
    """States (starts, words, variables) -> for each pair of starts, the share of equal lanes."""
    lanes = 64 * states.shape[1]
    parts = []
    for k in range(len(states) - 1):
        differ = np.zeros((len(states) - k - 1, states.shape[1]), np.uint64)
        for first in range(0, states.shape[2], 1024):
            some = slice(first, first + 1024)
            differ |= np.bitwise_or.reduce(states[k, :, some] ^ states[k + 1 :, :, some], axis=2)
        parts.append(1 - np.bitwise_count(differ).sum(axis=1) / lanes)
    return np.concatenate(parts)
