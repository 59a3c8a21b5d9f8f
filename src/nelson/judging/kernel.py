"""A formula whose solutions are extensions of two given structures, as many of each.

    K = C(x)  and  (x = s  or  x = t)  and, for some literals l of s,
        (l -> psi(y))  and  (not l -> psi(not y))            y new, a fresh block for each l

psi is a chain formula: psi = y_1 o (y_2 o ( ... y_k)), each o an OR or an AND, has exactly c
solutions where c = (o_1 ... o_(k-1) 1) in binary with OR for 1 (Chakraborty, Fried, Meel, Vardi
2015). So s and t have prod c extensions each, and P_theta(x = s | K) = w(s) / (w(s) + w(t)): new
variables weigh 1 either way. A sampler that looks for distinct or diverse solutions has plenty.

The construction is Kernel of Barbarik2 (Meel, Pote, Chakraborty 2020) with these differences:
variables in which s and t agree become unit clauses instead of two binary ones each; the counts c
are drawn (odd, 4 bits) instead of fixed; blocks are added until there are `least` extensions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nelson.formula import Formula

_BITS = 4


@dataclass(frozen=True)
class Kernel:
    formula: Formula  # visible variables: those of the original, then the new ones
    new: int
    extensions: int  # of each of the two


def kernel(f: Formula, s: np.ndarray, t: np.ndarray, least: int, seed: int) -> Kernel:
    """s, t: (n,) bool, two different structures of f. O(total literals + n)."""
    rng = np.random.default_rng([seed, 17])
    n = f.n_vars
    mine = np.arange(1, n + 1) * np.where(s, 1, -1)  # the literals of s
    differ = np.flatnonzero(s != t)
    clauses = [[int(literal)] for literal in mine[s == t]]
    lead = int(rng.choice(differ))
    for i in differ[differ != lead]:
        clauses += [[-int(mine[lead]), int(mine[i])], [int(mine[lead]), -int(mine[i])]]
    # Blocks hang on variables that tell s from t as long as there are any.
    order = np.concatenate([rng.permutation(differ), rng.permutation(np.flatnonzero(s == t))])
    extensions, blocks = 1, 0
    while extensions < least:
        literal = int(mine[order[blocks % n]])
        c = int(rng.integers(1 << (_BITS - 2), 1 << (_BITS - 1))) * 2 + 1
        y = [n + blocks * _BITS + k for k in range(1, _BITS + 1)]
        clauses += [[-literal, *clause] for clause in chain(c, y)]
        clauses += [[literal, *clause] for clause in chain(c, [-v for v in y])]
        extensions, blocks = extensions * c, blocks + 1
    new = blocks * _BITS
    old = f.literals.copy()
    old[old > n] += new  # auxiliary variables come last
    old[old < -n] -= new
    flat = np.array([literal for clause in clauses for literal in clause], np.int32)
    ends = np.cumsum([len(clause) for clause in clauses], dtype=np.int64)
    joined = Formula.from_arrays(
        np.concatenate([old, flat]),
        np.concatenate([f.offsets, f.offsets[-1] + ends]),
        n_vars=n + new,
        n_aux=f.n_aux,
        constraints=f.constraints,
    )
    return Kernel(joined, new, extensions)


def chain(c: int, literals: list[int]) -> list[list[int]]:
    """Clauses over k literals with exactly c solutions; c odd, below 2^k."""
    clauses = [[literals[-1]]]
    for k in range(len(literals) - 2, -1, -1):
        bit = c >> (len(literals) - 1 - k) & 1
        mine = literals[k]
        clauses = [[mine, *clause] for clause in clauses] if bit else [[mine], *clauses]
    return clauses
