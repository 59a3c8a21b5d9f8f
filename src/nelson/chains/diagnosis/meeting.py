"""Do samples come together equally often? A test that needs no choice of what to look at.

Take S samples as starts of new chains, and give chain k of every start the same random numbers. Two
chains that meet stay together. Let d_abk be the distance of the chains of starts a and b under the
random numbers k: the number of variables in which they differ, summed over a group of 16 chains. If
the samples are independent draws of one law that the chains have no further memory of, no pair
(a, b) is closer than another after T sweeps. Without the mean of each k, which all pairs share,

    spread = std over pairs of mean_k d_abk / (std of d_abk / sqrt(number of k))  <=  about 1

The same holds for the share p_ab of the k for which the two have met (d_abk = 0), q = mean p_ab:

    spread = std over pairs of p_ab / sqrt(q (1 - q) / number of k)

If the valid space has regions that chains seldom leave, or a quantity that they keep, starts of one
region come together and others do not: a spread is large, whatever tells the regions apart. The
shares say more, but they are silent where chains never meet (on dense formulas), and so is any
other count of rare events. The distances speak there: silence is no pass. If nearly all pairs have
met, their starts are forgotten, and there is nothing left to compare.

Measured at T equal to the sweeps of a draw and twice that, on the families of `python -m lab
labels`: at most 1.1 where chains mix, 1.7 to 16 where they do not and other tests see nothing.
"""

from __future__ import annotations

import numpy as np

from nelson.chains.chain import Chains
from nelson.chains.diagnosis.compare import Comparison

#: The spread may be this large.
LIMIT = 1.5
#: Shares of pairs that have met outside of this range are too few to compare, or all there are.
_TELLING = (0.02, 0.98)


def meetings(chains: Chains, variables: np.ndarray, sweeps: int) -> tuple[Comparison, float]:
    """(the answer after `sweeps` and after twice as many, the share of pairs that met by then).

    chains: states (starts, words, n); lane k has the same random numbers for every start.
    """
    worst, share = 0.0, 0.0
    for after in (sweeps, 2 * sweeps):
        chains.sweep_to(after)
        if not chains.complete:
            return Comparison(np.inf, "the distance of pairs of samples"), share
        met, distance = compared(chains.words[:, :, variables])
        share = float(met.mean())
        if share > _TELLING[1]:
            break
        worst = max(worst, spread(distance))
        if share > _TELLING[0]:
            lanes = 64 * chains.words.shape[1]
            worst = max(worst, float(met.std() / np.sqrt(share * (1 - share) / lanes)))
    return Comparison(worst / LIMIT, "the distance of pairs of samples"), share


def compared(states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """States (starts, words, variables) -> for each pair of starts, the share of equal lanes, and
    its distances, (pairs, 4 words): the sum over 16 lanes, which is quicker than each by itself.
    """
    states, lanes = np.ascontiguousarray(states), 64 * states.shape[1]
    met, apart = [], []
    for k in range(len(states) - 1):
        shape = len(states) - k - 1, states.shape[1]
        differ, distance = np.zeros(shape, np.uint64), np.zeros((*shape, 4), np.int64)
        for first in range(0, states.shape[2], 1024):
            some = slice(first, first + 1024)
            unlike = np.ascontiguousarray(states[k, :, some] ^ states[k + 1 :, :, some])
            differ |= np.bitwise_or.reduce(unlike, axis=2)
            quarters = np.bitwise_count(unlike.view(np.uint16)).reshape(*unlike.shape, 4)
            distance += quarters.sum(axis=2, dtype=np.int32)
        met.append(1 - np.bitwise_count(differ).sum(axis=1) / lanes)
        apart.append(distance.reshape(len(distance), -1))
    return np.concatenate(met), np.concatenate(apart).astype(float)


def spread(distance: np.ndarray) -> float:
    """Of distances (pairs, groups of lanes): how much the means of pairs vary, relative to chance.

    It is infinite if chance moves nothing, since then nothing can be told.
    """
    pairs, groups = distance.shape
    rest = distance - distance.mean(axis=0)
    means = rest.mean(axis=1)
    free = pairs * (groups - 1)  # the means of pairs are estimated, too
    noise = np.sqrt(((rest - means[:, None]) ** 2).sum() / free)
    return float(means.std() * np.sqrt(groups) / noise) if noise > 0 else np.inf
