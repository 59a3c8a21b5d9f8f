"""Partial rejection sampling (prs) on the GPU: growing the set of clauses to resample."""

import numpy as np

from nelson.kernels.cuda.clauses import and_false, flip, gather, literals, place_of, variable
from nelson.kernels.cuda.setup import atomic_add, device, peek, peek2, poke2, popcount, sync
from nelson.kernels.cuda.team import EVERY, HITS, LANES, ZERO, cell_of, int32, set_cell


@device
def mask_of(p):
    """Where in `bad` the lanes begin in which each variable is redrawn, in pairs of words."""
    return int32(p.n_clauses + 2)


@device
def _look(mask, false, meets, inside, holds):
    """Bring the three masks of a clause up to date with one literal."""
    return meets | mask, inside & mask, holds | (mask & ~false)


@device
def _grown(p, w, turn):
    """Add to the resample set, all at once, each clause that shares a variable with it and does not
    hold by its variables inside it. Counts clauses and lanes in the cells of this turn.
    """
    added, lanes, j = int32(0), int32(0), w.me
    while j < p.n_clauses:
        meets, inside, holds = ZERO, EVERY, ZERO
        meets_too, inside_too, holds_too = ZERO, EVERY, ZERO
        at, number = literals(p, w, j)
        q = 0
        while q < number:
            pair = peek(w.clauses, at + 32 * q)
            q += 1
            k = 0
            while k < (2 if len(w.narrow) else 1):
                mask, mask_too = peek2(w.bad, int32(mask_of(p) + variable(w, pair, k)))
                place, negation = place_of(w, pair, k), flip(w, pair, k)
                false, false_too = and_false(w, place, negation, EVERY, EVERY)
                meets, inside, holds = _look(mask, false, meets, inside, holds)
                meets_too, inside_too, holds_too = _look(
                    mask_too, false_too, meets_too, inside_too, holds_too
                )
                k += 1
        add, add_too = meets & ~inside & ~holds, meets_too & ~inside_too & ~holds_too
        if (add | add_too) != ZERO:
            first, second = peek2(w.bad, j)
            poke2(w.bad, j, first | add, second | add_too)
            added = int32(added + 1)
            lanes = int32(lanes + popcount(add) + popcount(add_too))
        j = int32(j + w.size)
    if added:
        atomic_add(w.cells, np.uint32(HITS + turn), np.uint32(added))
        atomic_add(w.cells, np.uint32(LANES + turn), np.uint32(lanes))


@device
def grow(p, w, turn):
    """Grow the resample set and write its lanes for each variable. -> lanes added

    Leaves the cells of this turn at zero.
    """
    resampled, hits = 0, int32(1)
    while hits > 0:
        v = w.me
        while v < p.n:
            first, second = gather(p, w, v)
            poke2(w.bad, int32(mask_of(p) + v), first, second)
            v = int32(v + w.size)
        set_cell(w, int32(HITS + turn), 0)
        set_cell(w, int32(LANES + turn), 0)
        sync(w.size, w.which)
        _grown(p, w, turn)
        sync(w.size, w.which)
        hits = cell_of(w, int32(HITS + turn))
        resampled += cell_of(w, int32(LANES + turn))
        sync(w.size, w.which)
    return resampled
