"""Counter-based randomness: a random word is a pure function of (seed, context, sample word,
variable, round, bit).

Nothing is carried from one draw to the next, so sample i of seed s is the same bits whatever the
batch size, the number of threads, the device, or a restart, and `reference == cpu` is an equality
test.

    base    = finish(seed') + (context * 2^40 + word) * ODD        one for each word of 64 samples
    key0    = finish(base + GOLDEN),  key1 = finish(base + 2 GOLDEN)
    counter = round * 2^37 + variable * 2^5 + bit                  27 + 32 + 5 bits
    random  = scramble(key0 + counter * GOLDEN, key1)

`scramble` is Lea's 64-bit mixer (that of Java's LXM generators) with the second key folded in
between the two multiplications. It shifts by 32 only, which is free where registers have 32 bits:
on a GPU a random word takes 12 instructions, with SplitMix64's finaliser some 20. With one key, two
words whose keys differ by a small multiple of GOLDEN would run through each other's numbers (by our
count about a hundred such pairs in a billion samples); with 128 bits of key they do not. On AVX-512
the fold becomes part of a three-way XOR, one instruction.

Every function works on NumPy arrays, on scalars, and on the rows of `vector.py`.
"""

import numpy as np
from numba.extending import register_jitable

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_ODD = np.uint64(0xD1342543DE82EF95)
MULTIPLIER = np.uint64(0xDABA0B6EB09322E3)
_S5, _S32, _S37, _S40 = (np.uint64(k) for k in (5, 32, 37, 40))
_ZERO, _TWO = np.uint64(0), np.uint64(2)

#: Rounds of resampling count from 0, sweeps of the valid space from here: the two never share a
#: counter.
SWEEP_ROUND = 1 << 26
MAX_ROUNDS = SWEEP_ROUND - 1
#: Random words a Bernoulli draw may take: probabilities are multiples of 2^-32.
BITS = 32


@register_jitable(forceinline=True)
def multiply(y):
    return y * MULTIPLIER


@register_jitable(forceinline=True)
def scramble(y, key):
    y = multiply(y ^ (y >> _S32))
    y = multiply(y ^ (y >> _S32) ^ key)
    return y ^ (y >> _S32)


@register_jitable(forceinline=True)
def counter(round, variable, bit):
    """The counter times GOLDEN: what is added to key0. One more bit is one more GOLDEN."""
    return ((np.uint64(round) << _S37) | (np.uint64(variable) << _S5) | np.uint64(bit)) * GOLDEN


@register_jitable(forceinline=True)
def keys(seed, context, word):
    """(key0, key1) of one word of 64 samples; `seed` as given by `spread_seed`."""
    base = seed + ((np.uint64(context) << _S40) | np.uint64(word)) * _ODD
    base = scramble(base, _ZERO)
    return scramble(base + GOLDEN, _ZERO), scramble(base + GOLDEN * _TWO, _ZERO)


def spread_seed(seed: int) -> np.uint64:
    """Any Python integer to 64 well-mixed bits."""
    low, high = np.uint64(seed & (2**64 - 1)), np.uint64((seed >> 64) & (2**64 - 1))
    with np.errstate(over="ignore"):
        return scramble(low + GOLDEN, scramble(high + GOLDEN * _TWO, _ZERO))
