"""Samples as text: the literals of one word of samples, written into a byte buffer.

The text of every literal, "-17 " or "17 ", is stored NUL-padded in `width` 64-bit words, with its
length. The kernel writes a literal with its padding, and starts the next literal where the
characters end. These are eight byte stores, which the compiler merges into one unaligned store, and
no branch depends on the number of digits.
"""

import numpy as np

from nelson.kernels.core.compile import kernel

#: Spare bytes that the buffer needs behind the text: the padding of the last literal.
SLACK = 16


@kernel
def spell(row, tokens, lengths, lanes, out):
    """Write `lanes` lines, each ending in "0\\n", to out (uint8). -> bytes written. O(lanes * n)

    row (n,) uint64; tokens (n, 2, width) uint64 and lengths (n, 2): first the false literal of a
    variable, then the true one.
    """
    at = 0
    for lane in range(lanes):
        for j in range(row.shape[0]):
            value = np.int64((row[j] >> np.uint64(lane)) & np.uint64(1))
            for w in range(tokens.shape[2]):
                token = tokens[j, value, w]
                for byte in range(8):
                    out[at + 8 * w + byte] = np.uint8(
                        (token >> np.uint64(8 * byte)) & np.uint64(255)
                    )
            at += lengths[j, value]
        out[at] = 48
        out[at + 1] = 10
        at += 2
    return at
