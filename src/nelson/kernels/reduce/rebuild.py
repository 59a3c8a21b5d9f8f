"""Values of eliminated variables, from the variables that stayed.

    x_v = flip_v xor OR over clauses c of v of AND over literals l of c of not l(x)

that is, some clause of the definition of v leaves no other value. A constant has no clause; a copy
of a literal has one clause of one literal. Entries have the order in which variables were
eliminated, so the last one is rebuilt first.
"""

import numpy as np

from nelson.kernels.core.compile import kernel


@kernel
def rebuild(target, flip, first, start, literals, words, lanes):
    """Fill words (W, n) uint64, 64 samples per word, in place; only bits of lanes (W,) are set.

    Clauses of entry i: first[i] .. first[i + 1] - 1; clause c is literals[start[c]:start[c + 1]].
    Four rows at a time, so that the entries are read once for 256 samples. In the last group, the
    last row stands in for missing rows and is written several times with the same value.
    """
    every, none = ~np.uint64(0), np.uint64(0)
    rows = words.shape[0]
    for w in range(0, rows, 4):
        w1, w2, w3 = min(w + 1, rows - 1), min(w + 2, rows - 1), min(w + 3, rows - 1)
        for back in range(target.size):
            i = target.size - 1 - back
            a, b, c, d = none, none, none, none
            for clause in range(first[i], first[i + 1]):
                p, q, r, s = every, every, every, every
                for t in range(start[clause], start[clause + 1]):
                    v = abs(literals[t]) - 1
                    mask = every if literals[t] > 0 else none  # not l(x) = x xor mask
                    p &= words[w, v] ^ mask
                    q &= words[w1, v] ^ mask
                    r &= words[w2, v] ^ mask
                    s &= words[w3, v] ^ mask
                a |= p
                b |= q
                c |= r
                d |= s
            mask = every if flip[i] else none
            words[w, target[i]] = (a ^ mask) & lanes[w]
            words[w1, target[i]] = (b ^ mask) & lanes[w1]
            words[w2, target[i]] = (c ^ mask) & lanes[w2]
            words[w3, target[i]] = (d ^ mask) & lanes[w3]
