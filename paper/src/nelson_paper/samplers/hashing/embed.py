"""Weights as extra bits: from P(x) ~ exp(sum_i theta_i x_i) C(x) to (nearly) equal elements.

A variable with log-odds theta gets b bits y, and x = [y < a] for y read as a number: of the 2^b
values of y, a make x true. Counted over y, C then carries the log-odds log(a / (2^b - a)), and

    residual e = theta - log(a / (2^b - a))

is the weight that remains. The weights exp(sum_i e_i x_i) of two elements differ at most by the
factor exp(sum_i |e_i|), the *tilt*: bits are added until it is small. b = 1 means no extra bit
(x is y itself), so theta = 0 costs nothing.

Chakraborty, Fried, Meel, Vardi: From weighted to unweighted model counting, IJCAI 2015.
"""

from __future__ import annotations

import math
from typing import NamedTuple

#: Most bits of one variable: enough for |theta| up to about 700, where exp overflows.
MAX_BITS = 1024


class Chain(NamedTuple):
    """x = [y < above], y of `bits` bits."""

    bits: int
    above: int
    residual: float


def chain(theta: float, tolerance: float) -> Chain:
    """The chain with the fewest bits whose residual is at most `tolerance` in absolute value."""
    small = math.exp(-abs(theta)) / (1 + math.exp(-abs(theta)))  # the less likely value
    for bits in range(1, MAX_BITS + 1):
        above = max(1, round(math.ldexp(small, bits)))
        odds = math.log(above) - math.log((1 << bits) - above)
        residual = -abs(theta) - odds
        if abs(residual) <= tolerance:
            if theta > 0:
                return Chain(bits, (1 << bits) - above, -residual)
            return Chain(bits, above, residual)
    raise ValueError(f"a log-odds of {theta:g} needs more than {MAX_BITS} bits")


def embed(theta: list[float], tilt: float) -> list[Chain]:
    """Chains of residuals with exp(sum_i |e_i|) <= tilt; tilt > 1. inf: no extra bits."""
    allowed = math.log(tilt)
    tolerance = allowed
    while True:
        chains = [chain(value, tolerance) for value in theta]
        if sum(abs(link.residual) for link in chains) <= allowed:
            return chains
        tolerance *= 0.8


def comparator(x: int, y: list[int], above: int) -> list[list[int]]:
    """Clauses of x <=> [y < above]; y: variables, most significant first, 0 < above < 2^len(y).

    y <= c for c = above - 1: where c has a 0, y has a 0 too, unless y is below c in a more
    significant bit. The same for y >= above, where `above` has a 1. O(len(y)) clauses.
    """
    clauses = []
    below, c = [], above - 1
    for place, bit in enumerate(y):
        weight = len(y) - 1 - place
        if c >> weight & 1:
            below.append(-bit)
        else:
            clauses.append([-x, -bit, *below])
    over: list[int] = []
    for place, bit in enumerate(y):
        weight = len(y) - 1 - place
        if above >> weight & 1:
            clauses.append([x, bit, *over])
        else:
            over.append(bit)
    return clauses
