"""Round trips: resampling of positions, and moves from route to route.

A route is a row with each of n locations once; after the last comes the first. theta[i * n + j] is
the worth of driving i -> j, theta[i * n + i] = 0. All rows are independent: row c takes its random
numbers from keys(seed, context, c), so a chain is the same on any number of threads.

    resample    counter(round, position, 0)
    advance     counter(SWEEP_ROUND, step, 0..3)        one step = one move
    descend     counter(SWEEP_ROUND + 1, i * n + j, 0)  the noise of the worths (`route_descent`)

`advance`: P(route) ~ exp(beta * sum theta) is stationary under each of three moves.

insert    A segment is cut out and put into a gap of the rest, gap g with probability
          ~ exp(beta * phi(result)): heat bath. From each result the same segment is chosen equally
          often and leads to the same set of results.
reverse   A segment is driven backwards: Metropolis. All its edges turn, so all are summed.
swap      Two locations trade places: Metropolis.

The start and the length of a segment do not depend on the route, so proposals are symmetric. Half
of all segments are short (1 to 3 locations, 2 to 4 for reversals), since a peaked theta rejects
most long ones; the other half have any length.
"""

import math

import numpy as np

from nelson.kernels.core.compile import helper, inline, kernel
from nelson.kernels.core.rng import SWEEP_ROUND, counter, keys, scramble
from nelson.kernels.core.vector import peek_volatile

INSERT, REVERSE, SWAP = 0, 1, 2
_32, _11, _1 = np.uint64(32), np.uint64(11), np.uint64(1)


@inline
def _below(random, k):
    """Uniform on 0..k-1, from the upper 32 bits: each within k / 2^32 of 1 / k, relatively."""
    return np.int64(((random >> _32) * np.uint64(k)) >> _32)


@inline
def unit(random):
    """Uniform on [0, 1), 53 bits."""
    return np.float64(random >> _11) * 2.0**-53


@helper
def _pick(random, cumulative, row, n):
    """By inversion: the first location whose cumulative weight exceeds u * total."""
    low, high = row * n, row * n + n - 1
    u = unit(random) * cumulative[high]
    while low < high:
        middle = (low + high) >> 1
        if u < cumulative[middle]:
            high = middle
        else:
            low = middle + 1
    return low - row * n


@helper
def _clashes(routes, c, n, keep_first, seen):
    """Mark by -1 the positions to be redrawn. -> their number"""
    again = 0
    for k in range(n):
        seen[k] = 0
    if keep_first:
        for p in range(n):
            here = routes[c, p]
            if seen[here]:
                routes[c, p] = -1
                again += 1
            seen[here] = 1
        return again
    for p in range(n):
        seen[routes[c, p]] += 1
    for p in range(n):
        if seen[routes[c, p]] > 1:
            routes[c, p] = -1
            again += 1
    return again


@kernel
def resample(
    cumulative, keep_first, seed, context, first, last, routes, rounds, redrawn, most, seen, stop
):
    """Rows first..last-1 of routes (m, n): positions are drawn, then redrawn where they clash.

    keep_first: of positions that hold the same location all but the first are redrawn; else all.
    cumulative: (n * n) weights of locations, position by position; empty: equal weights.
    rounds: rounds of redrawing, -1 if `most` rounds were not enough. redrawn: positions redrawn.
    """
    n = routes.shape[1]
    for c in range(first, last):
        key0, key1 = keys(seed, context, c)
        for p in range(n):
            routes[c, p] = -1
        rounds[c] = -1
        for t in range(most + 1):
            if peek_volatile(stop, 0) != 0:
                return
            for p in range(n):
                if routes[c, p] < 0:
                    random = scramble(key0 + counter(t, p, 0), key1)
                    if cumulative.size:
                        routes[c, p] = _pick(random, cumulative, p, n)
                    else:
                        routes[c, p] = _below(random, n)
            again = _clashes(routes, c, n, keep_first, seen)
            if again == 0:
                rounds[c] = t
                break
            redrawn[c] += again


@inline
def _length(random, short, low, high):
    """Half of the time one of low..low+short-1, else one of low..high."""
    top = high
    if random & _1:
        top = min(high, low + short - 1)
    return low + _below(random, top - low + 1)


@inline
def wrap(p, n):
    return p - n if p >= n else p


@helper
def _insert(n, theta, beta, routes, c, start, length, u, space, weight):
    """-> 1 if the route changed. space: n locations; weight: n numbers."""
    rest = n - length
    head, tail = routes[c, start], routes[c, wrap(start + length - 1, n)]
    for k in range(rest):
        space[k] = routes[c, wrap(start + length + k, n)]
    best = -np.inf
    for g in range(rest):
        a, b = space[g], space[g + 1 if g + 1 < rest else 0]
        gain = beta * (theta[a * n + head] + theta[tail * n + b] - theta[a * n + b])
        weight[g] = gain
        best = max(best, gain)
    total = 0.0
    for g in range(rest):
        total += math.exp(weight[g] - best)
        weight[g] = total
    u *= total
    chosen = 0
    while chosen < rest - 1 and u >= weight[chosen]:
        chosen += 1
    if chosen == rest - 1:  # between the last and the first: where the segment was
        return 0
    # Locations before the gap keep their positions; those behind it move `length` positions on.
    for k in range(length):
        space[rest + k] = routes[c, wrap(start + k, n)]
    at = wrap(start + length, n)
    for k in range(chosen + 1):
        routes[c, at] = space[k]
        at = wrap(at + 1, n)
    for k in range(length):
        routes[c, at] = space[rest + k]
        at = wrap(at + 1, n)
    for k in range(chosen + 1, rest):
        routes[c, at] = space[k]
        at = wrap(at + 1, n)
    return 1


@helper
def _turned(n, theta, routes, c, start, length):
    """The route's gain if the segment is driven backwards."""
    a = routes[c, wrap(start, n)]
    first, gain = a, 0.0
    for k in range(1, length):
        b = routes[c, wrap(start + k, n)]
        gain += theta[b * n + a] - theta[a * n + b]
        a = b
    before = routes[c, start - 1 if start else n - 1]
    after = routes[c, wrap(start + length, n)]
    gain += theta[before * n + a] - theta[before * n + first]
    return gain + theta[first * n + after] - theta[a * n + after]


@helper
def turn(n, routes, c, start, length):
    i, j = start, wrap(start + length - 1, n)
    for _ in range(length >> 1):
        routes[c, i], routes[c, j] = routes[c, j], routes[c, i]
        i = wrap(i + 1, n)
        j = j - 1 if j else n - 1


@helper
def _around(n, theta, routes, c, p, q):
    """The worth of all edges at positions p and q, each edge once."""
    before_p, before_q = p - 1 if p else n - 1, q - 1 if q else n - 1
    after_p, after_q = wrap(p + 1, n), wrap(q + 1, n)
    a, b = routes[c, p], routes[c, q]
    total = theta[a * n + routes[c, after_p]] + theta[b * n + routes[c, after_q]]
    if before_p != q:
        total += theta[routes[c, before_p] * n + a]
    if before_q != p:
        total += theta[routes[c, before_q] * n + b]
    return total


@kernel
def advance(
    theta, betas, mix, seed, context, step, first, last, routes, moved, space, weight, stop
):
    """betas.size sweeps of n moves on each of the chains first..last-1.

    mix: (2,) a move is an insertion if u < mix[0], a reversal if u < mix[1], else a swap.
    step: moves that each chain has made before; moved: (m, 3) moves of each kind that changed the
    route.
    """
    n = routes.shape[1]
    for c in range(first, last):
        if peek_volatile(stop, 0) != 0:
            return
        key0, key1 = keys(seed, context, c)
        now = step
        for s in range(betas.size):
            beta = betas[s]
            for _ in range(n):
                kind = unit(scramble(key0 + counter(SWEEP_ROUND, now, 0), key1))
                where = scramble(key0 + counter(SWEEP_ROUND, now, 1), key1)
                what = scramble(key0 + counter(SWEEP_ROUND, now, 2), key1)
                u = unit(scramble(key0 + counter(SWEEP_ROUND, now, 3), key1))
                now += 1
                p = _below(where, n)
                if kind < mix[0]:
                    length = _length(what, 3, 1, n - 2)
                    moved[c, INSERT] += _insert(
                        n, theta, beta, routes, c, p, length, u, space, weight
                    )
                elif kind < mix[1]:
                    length = _length(what, 3, 2, n - 1)
                    gain = beta * _turned(n, theta, routes, c, p, length)
                    if gain >= 0.0 or u < math.exp(gain):
                        turn(n, routes, c, p, length)
                        moved[c, REVERSE] += 1
                else:
                    q = wrap(p + 1 + _below(what, n - 1), n)
                    gain = -_around(n, theta, routes, c, p, q)
                    routes[c, p], routes[c, q] = routes[c, q], routes[c, p]
                    gain = beta * (gain + _around(n, theta, routes, c, p, q))
                    if gain >= 0.0 or u < math.exp(gain):
                        moved[c, SWAP] += 1
                    else:
                        routes[c, p], routes[c, q] = routes[c, q], routes[c, p]
