"""Bit vectors as literals: every operator of `language/vectors.py` as gates.

A vector is a list of literals, the lowest bit first, here without a sign: bit k counts 2^k. Sums
and products drop their carries. A quotient is made by long division, so each of its bits is a
function of the operands, also where the divisor is 0:

    for k from the highest bit down:  r = 2 r + a_k;  q_k = (r >= b);  r = r - b if q_k

With b = 0 every q_k is true and r keeps its value: q = 2^w - 1 and r = a, as SMT-LIB wants it.
"""

from __future__ import annotations

from nelson.kernels.core.deadline import check_time
from nelson.space.clauses import vectors
from nelson.space.clauses.gates import FALSE, TRUE, Gates

Vector = list[int]


def constant(value: int, width: int) -> Vector:
    return [TRUE if value >> k & 1 else FALSE for k in range(width)]


def total(gates: Gates, terms: list[Vector], rest: int, width: int) -> Vector:
    """The sum of some vectors and a constant, mod 2^width."""
    parts = [(1, [*term[:width], FALSE]) for term in terms]
    if rest := rest % (1 << width):
        parts.append((1, [*constant(rest, width), FALSE]))
    return vectors.total_mod(gates, parts, width)


def product(gates: Gates, a: Vector, b: Vector) -> Vector:
    """a b mod 2^width."""
    width = len(a)
    if sum(abs(x) != TRUE for x in a) > sum(abs(x) != TRUE for x in b):
        a, b = b, a
    shifted = []
    for j, literal in enumerate(a):
        check_time()
        if literal != FALSE:
            both = [gates.all([literal, other]) for other in b[: width - j]]
            shifted.append((1 << j, [*both, FALSE]))
    return vectors.total_mod(gates, shifted, width)


def negated(gates: Gates, a: Vector) -> Vector:
    """-a mod 2^width."""
    return total(gates, [[-x for x in a]], 1, len(a))


def difference(gates: Gates, a: Vector, b: Vector) -> Vector:
    """a - b mod 2^width."""
    return total(gates, [a, [-x for x in b]], 1, len(a))


def chosen(gates: Gates, condition: int, a: Vector, b: Vector) -> Vector:
    return [gates.mux(condition, p, q) for p, q in zip(a, b, strict=True)]


def at_most(gates: Gates, a: Vector, b: Vector, is_signed: bool = False) -> int:
    """A literal for: a <= b."""
    if is_signed:
        return -gates.any_of_all(vectors.breaches(gates, a, b))
    return -gates.any_of_all(vectors.breaches(gates, [*a, FALSE], [*b, FALSE]))


def equal(gates: Gates, a: Vector, b: Vector) -> int:
    return gates.all(vectors.equal(gates, a, b))


def divided(gates: Gates, a: Vector, b: Vector) -> tuple[Vector, Vector]:
    """(quotient, remainder), without signs."""
    if all(abs(x) == TRUE for x in b) and sum(x == TRUE for x in b) == 1:
        k = b.index(TRUE)  # a power of two
        return a[k:] + [FALSE] * k, a[:k] + [FALSE] * (len(a) - k)
    quotient: Vector = []
    rest: Vector = []  # below b, or below 2^(number of steps)
    for literal in reversed(a):
        rest = [literal, *rest]
        bits = len(rest)
        wide = any(x != FALSE for x in b[bits:])
        low = b[:bits] + [FALSE] * (bits - len(b))
        bit = at_most(gates, low, rest)
        if wide:
            bit = gates.all([bit, *(-x for x in b[bits:])])
        quotient.append(bit)
        rest = chosen(gates, bit, difference(gates, rest, low), rest)[: len(a)]
    return quotient[::-1], rest


def signed_divided(gates: Gates, a: Vector, b: Vector) -> tuple[Vector, Vector]:
    """(quotient rounded toward zero, remainder with the sign of the dividend)."""
    minus_a, minus_b = a[-1], b[-1]
    quotient, rest = divided(gates, magnitude(gates, a), magnitude(gates, b))
    turned = gates.xor(minus_a, minus_b)
    return (
        chosen(gates, turned, negated(gates, quotient), quotient),
        chosen(gates, minus_a, negated(gates, rest), rest),
    )


def modulus(gates: Gates, a: Vector, b: Vector) -> Vector:
    """The remainder with the sign of the divisor (bvsmod)."""
    _, rest = signed_divided(gates, a, b)
    other = gates.all([gates.any(rest), gates.xor(a[-1], b[-1])])
    return chosen(gates, other, total(gates, [rest, b], 0, len(a)), rest)


def magnitude(gates: Gates, a: Vector) -> Vector:
    return chosen(gates, a[-1], negated(gates, a), a)


def shifted(gates: Gates, op: str, a: Vector, amount: Vector) -> Vector:
    """bvshl, bvlshr or bvashr, by a vector of any width without sign."""
    width, fill = len(a), a[-1] if op == "bvashr" else FALSE
    stages = (width - 1).bit_length()
    out = list(a)
    for k, literal in enumerate(amount[:stages]):
        step = min(1 << k, width)
        if op == "bvshl":
            moved = [FALSE] * step + out[: width - step]
        else:
            moved = out[step:] + [fill] * step
        out = chosen(gates, literal, moved, out)
    if beyond := gates.any(amount[stages:]) if amount[stages:] else FALSE:
        out = chosen(gates, beyond, [fill] * width, out)
    return out
