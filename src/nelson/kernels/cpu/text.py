"""Samples as text: literals of one word of samples, spelled into a byte buffer.

Every literal is a constant, "-17 " or "17 ", kept NUL-padded in `width` 64-bit words, with its
length. A literal is written whole, padding included, and the next one starts where its characters
end: eight byte stores, which the compiler merges into one unaligned store, and no branch on the
number of digits.
"""

import numpy as np

from nelson.kernels.core.compile import kernel

SLACK = 16  # bytes of padding that the last literal may leave behind the end


@kernel
def spell(row, tokens, lengths, lanes, out):
    """row (n,) uint64; tokens (n, 2, width) uint64 and lengths (n, 2), false then true; out: bytes.

    Writes `lanes` lines, each ending in "0\\n"; returns the number of bytes. O(lanes * n).
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
