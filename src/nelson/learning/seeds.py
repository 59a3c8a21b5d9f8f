"""Random streams: sample i of (seed, key) is the same bits, whatever was drawn before it.

Iteration k = 1, 2, ... draws its samples with key k. All other keys are far above.
"""

from __future__ import annotations

import numpy as np

OUTSIDE_ITERATIONS = 1 << 40  # first key of draws that belong to no iteration
MINIBATCHES = 1 << 41  # first key of the random choice of examples
VALIDATION = 1 << 42  # first key of estimates of log Z


def stream_seed(seed: int, key: int) -> int:
    """63 bits from (seed, key)."""
    words = np.random.SeedSequence([abs(seed), int(seed < 0), key]).generate_state(1, np.uint64)
    return int(words[0] >> np.uint64(1))
