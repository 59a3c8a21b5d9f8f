"""C(x) for packed samples, 64 at a time."""

import numpy as np

from nelson.kernels.core.compile import kernel


def holds(
    literals: np.ndarray, offsets: np.ndarray, packed: np.ndarray, lanes: np.ndarray
) -> np.ndarray:
    """The lanes (words,), of those given, in which all clauses hold.

    literals, offsets: clauses in CSR form, DIMACS literals. packed: (words, n) uint64, variable v
    in column v - 1. O(words * total literals).
    """
    out = lanes.copy()
    _holds(literals, offsets, np.ascontiguousarray(packed), out)
    return out


@kernel
def _holds(literals, offsets, packed, lanes):
    for w in range(packed.shape[0]):
        good = lanes[w]
        for j in range(offsets.size - 1):
            bad = good
            for e in range(offsets[j], offsets[j + 1]):
                literal = literals[e]
                if literal > 0:
                    bad &= ~packed[w, literal - 1]
                else:
                    bad &= packed[w, -literal - 1]
            good &= ~bad
            if good == np.uint64(0):
                break
        lanes[w] = good
