"""Routes that no 2-opt or or-opt move improves; arrays and random numbers as in `routes`."""

import math

from nelson.kernels.core.compile import helper, kernel
from nelson.kernels.core.rng import SWEEP_ROUND, counter, keys, scramble
from nelson.kernels.core.vector import peek_volatile
from nelson_paper.tasks.routes.kernels.routes import turn, unit, wrap


@helper
def _improve(n, worth, routes, c, space):
    """Make the first 2-opt or or-opt move that gains. -> whether there was one"""
    least = 1e-9
    for start in range(n):
        first, before = routes[c, start], routes[c, start - 1 if start else n - 1]
        a, inner = first, 0.0  # as in `_turned`; each step adds one edge
        for length in range(2, n):
            b, after = routes[c, wrap(start + length - 1, n)], routes[c, wrap(start + length, n)]
            inner += worth[b * n + a] - worth[a * n + b]
            ends = worth[before * n + b] - worth[before * n + first]
            ends += worth[first * n + after] - worth[b * n + after]
            if inner + ends > least:
                turn(n, routes, c, start, length)
                return True
            a = b
    for start in range(n):
        for length in range(1, min(4, n - 1)):
            rest = n - length
            head, tail = routes[c, start], routes[c, wrap(start + length - 1, n)]
            for k in range(rest):
                space[k] = routes[c, wrap(start + length + k, n)]
            a, b = space[rest - 1], space[0]
            here = worth[a * n + head] + worth[tail * n + b] - worth[a * n + b] + least
            for g in range(rest - 1):
                a, b = space[g], space[g + 1]
                if worth[a * n + head] + worth[tail * n + b] - worth[a * n + b] > here:
                    for k in range(length):
                        space[rest + k] = routes[c, wrap(start + k, n)]
                    for k in range(n):
                        if k <= g:
                            source = k
                        elif k <= g + length:
                            source = rest + k - g - 1
                        else:
                            source = k - length
                        routes[c, k] = space[source]
                    return True
    return False


@kernel
def descend(theta, noise, seed, context, first, last, routes, worth, space, stop):
    """Rows first..last-1: 2-opt and or-opt moves until none gains.

    Each row has its own worths, theta[e] + noise * g_e with a Gumbel draw g_e: the best route under
    them has about the law exp(theta / noise) (perturb and maximise: Papandreou and Yuille 2011).
    """
    n = routes.shape[1]
    for c in range(first, last):
        key0, key1 = keys(seed, context, c)
        for e in range(n * n):
            u = unit(scramble(key0 + counter(SWEEP_ROUND + 1, e, 0), key1))
            worth[e] = theta[e] - noise * math.log(-math.log(max(u, 2.0**-53)))
        while _improve(n, worth, routes, c, space):
            if peek_volatile(stop, 0) != 0:
                return
