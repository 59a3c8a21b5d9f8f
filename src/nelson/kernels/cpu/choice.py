"""Draw one row of each table per sample, and pack the rows.

    P(sample s takes row r of table c) = weight_r / (sum of the weights of table c)

By inversion: the first row whose cumulative weight exceeds u * total, with a 53-bit uniform u that
depends on (seed, context, sample, table). Tables lie end to end:

    cumulative[first[c] : first[c + 1]]     cumulative weights of table c
    rows[start[c] + r * width[c] + k]       column k of row r of table c, uint8
    column[place[c] + k]                    output column for column k of table c; -1: none
"""

from typing import NamedTuple

import numpy as np

from nelson.kernels.core.compile import kernel
from nelson.kernels.core.rng import counter, keys, scramble


class Tables(NamedTuple):
    cumulative: np.ndarray  # float64
    first: np.ndarray  # int64, tables + 1
    rows: np.ndarray  # uint8
    start: np.ndarray  # int64
    width: np.ndarray  # int64
    column: np.ndarray  # int64
    place: np.ndarray  # int64


@kernel
def choose(tables, seed, context, first_word, count, packed):
    """OR `count` samples, from word `first_word` on, into packed (words, columns) uint64."""
    t = tables
    for s in range(count):
        word, lane = s >> 6, s & 63
        if lane == 0:
            key0, key1 = keys(seed, context, first_word + word)
        bit = np.uint64(1) << np.uint64(lane)
        for c in range(t.width.size):
            random = scramble(key0 + counter(c, lane, 0), key1)
            low, high = t.first[c], t.first[c + 1] - 1
            u = np.float64(random >> np.uint64(11)) * 2.0**-53 * t.cumulative[high]
            while low < high:  # the first row with u < cumulative
                middle = (low + high) >> 1
                if u < t.cumulative[middle]:
                    high = middle
                else:
                    low = middle + 1
            at = t.start[c] + (low - t.first[c]) * t.width[c]
            for k in range(t.width[c]):
                to = t.column[t.place[c] + k]
                if to >= 0 and t.rows[at + k] != 0:
                    packed[word, to] |= bit
