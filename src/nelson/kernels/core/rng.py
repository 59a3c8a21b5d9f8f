"""Counter-based randomness: a random word is a function of (seed, context, sample word, variable,
round, bit) and of nothing else.

No state passes from one draw to the next. So sample i of seed s has the same bits whatever the
batch size, the number of threads, the device, or a restart, and `reference == cpu` is an equality
test.

    base    = finish(seed') + (context * 2^40 + word) * ODD        one for each word of 64 samples
    key0    = finish(base + GOLDEN),  key1 = finish(base + 2 GOLDEN)
    counter = round * 2^37 + variable * 2^5 + bit                  27 + 32 + 5 bits
    random  = scramble(key0 + counter * GOLDEN, key1)              finish(x) = scramble(x, 0)

`scramble` is Lea's 64-bit mixer (used in Java's LXM generators), with the second key folded in
between the two multiplications. The mixer shifts by 32 only, which is free where
registers have 32 bits: on a GPU a random word takes 12 instructions, and about 20 with SplitMix64's
finaliser. With one key only, two words whose keys differ by a small multiple of GOLDEN would run
through each other's numbers (by our count about a hundred such pairs in a billion samples); with
128 bits of key they do not. On AVX-512 the fold becomes part of a three-way XOR, one instruction.

Every function works on NumPy arrays, on scalars, and on the rows of `vector.py`.
"""

import numpy as np

from nelson.kernels.core.compile import inline

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_ODD = np.uint64(0xD1342543DE82EF95)
MULTIPLIER = np.uint64(0xDABA0B6EB09322E3)
_S5, _S32, _S37, _S40 = (np.uint64(k) for k in (5, 32, 37, 40))
_ZERO, _ONE, _TWO = np.uint64(0), np.uint64(1), np.uint64(2)

#: Round number of the first sweep. Rounds of resampling count from 0, so the two never share a
#: counter.
SWEEP_ROUND = 1 << 26
#: Round number of the first joint move (`cpu/joint.py`): sweeps have the 2^25 rounds before it.
JOINT_ROUND = SWEEP_ROUND + (1 << 25)
#: Round number of the first sweep over units (`cpu/units.py`): joint moves have the 2^24 rounds
#: before it, and it is followed by as many.
UNIT_ROUND = JOINT_ROUND + (1 << 24)
#: Most sweeps, whatever their moves are.
MAX_SWEEPS = UNIT_ROUND - JOINT_ROUND
#: Stands for a variable in the counter of the word that orders the colour classes, or the units, of
#: a sweep. No draw has this counter: variables are int32, so their numbers are below 2^31.
ORDER = (1 << 32) - 1
#: Lane k of unit u draws with the number FIRST_UNIT + 64 u + k in place of a variable.
FIRST_UNIT = 1 << 31
#: Most units: FIRST_UNIT + 64 u + k stays below ORDER.
MAX_UNITS = (1 << 25) - 1
#: Most rounds of resampling.
MAX_ROUNDS = SWEEP_ROUND - 1
#: Most random words of a Bernoulli draw: probabilities are multiples of 2^-32.
BITS = 32


@inline
def multiply(y):
    """y * MULTIPLIER; a function, so that the GPU can replace it."""
    return y * MULTIPLIER


@inline
def scramble(y, key):
    y = multiply(y ^ (y >> _S32))
    y = multiply(y ^ (y >> _S32) ^ key)
    return y ^ (y >> _S32)


@inline
def counter(round, variable, bit):
    """The counter times GOLDEN, to be added to key0. The next bit adds GOLDEN once more."""
    return ((np.uint64(round) << _S37) | (np.uint64(variable) << _S5) | np.uint64(bit)) * GOLDEN


@inline
def keys(seed, context, word):
    """(key0, key1) of one word of 64 samples; `seed` comes from `spread_seed`."""
    base = seed + ((np.uint64(context) << _S40) | np.uint64(word)) * _ODD
    base = scramble(base, _ZERO)
    return scramble(base + GOLDEN, _ZERO), scramble(base + GOLDEN * _TWO, _ZERO)


@inline
def class_order(seed, context, classes):
    """(first, step): sweeps visit the colour classes first, first + step, .., modulo `classes`.

    The first class is uniform, and step is 1 or classes - 1 (that is, -1) with equal probability.
    Both are functions of (seed, context) only: all samples of a context share them, whatever words
    a tile or a call holds. So the random word is taken from word 0. All sweeps of a draw have the
    same order: drawn anew for each sweep, chains forget their start only 0.76 to 0.82 times as fast
    (eigenvalues of four small formulas), as a class may come last and then first.
    """
    return cyclic_order(seed, context, classes, SWEEP_ROUND)


@inline
def cyclic_order(seed, context, classes, round):
    """As `class_order`, with the random word of a round."""
    key0, key1 = keys(seed, context, 0)
    random = scramble(key0 + counter(round, ORDER, 0), key1)
    first = np.int64(((random >> _S32) * np.uint64(classes)) >> _S32)
    step = np.int64(1) + np.int64(random & _ONE) * np.int64(classes - 2)
    return first, step


def spread_seed(seed: int) -> np.uint64:
    """Any Python integer to 64 well-mixed bits: finish(low + GOLDEN) of its low 64 bits, with
    finish(high + 2 GOLDEN) of the next 64 as the key. In Python's integers: NumPy's single numbers
    take five times as long.
    """
    golden = int(GOLDEN)
    high = _scrambled((seed >> 64) + 2 * golden, 0)
    return np.uint64(_scrambled(seed + golden, high))


def _scrambled(y: int, key: int) -> int:
    """`scramble` of y modulo 2^64."""
    every, multiplier = 2**64 - 1, int(MULTIPLIER)
    y &= every
    y = (y ^ y >> 32) * multiplier & every
    y = (y ^ y >> 32 ^ key) * multiplier & every
    return y ^ y >> 32
