"""Whole numbers as vectors of literals, in two's complement.

A vector is a list of literals, the lowest bit first; the last literal is the sign. Its bounds are
known before it is made (`Number.low`, `Number.high`), so every result has room: nothing wraps.
"""

from __future__ import annotations

from nelson.kernels.core.deadline import check_time
from nelson.space.clauses.gates import FALSE, TRUE, Gates
from nelson.space.language.expressions import width

Vector = list[int]


def constant(value: int, bits: int | None = None) -> Vector:
    """bits: None: as many as the number needs."""
    return [TRUE if value >> k & 1 else FALSE for k in range(bits or width(value, value))]


def resized(a: Vector, bits: int) -> Vector:
    """The same number in another width, which must be enough."""
    return a[:bits] if bits <= len(a) else a + [a[-1]] * (bits - len(a))


def total(gates: Gates, terms: list[tuple[int, Vector]], low: int, high: int) -> Vector:
    """sum_k c_k a_k for whole numbers c_k, where low <= sum <= high.

    All bits of all terms are put into columns: column j counts 2^j. A bit that counts -2^j is
    turned around: -b = (1 - b) - 1, and the constants are added up. Full adders then turn three
    bits of a column into one of that column and one of the next, from the lowest column on.
    """
    return total_mod(gates, terms, width(low, high))


def total_mod(gates: Gates, terms: list[tuple[int, Vector]], bits: int) -> Vector:
    """The lowest `bits` bits of this sum, whatever its bounds are."""
    columns: list[list[int]] = [[] for _ in range(bits)]
    rest = 0
    for c, vector in terms:
        check_time()
        for j, literal in enumerate(vector):
            sign = -1 if j == len(vector) - 1 else 1  # the sign bit counts -2^j
            weight = c * sign << j
            if literal in (TRUE, FALSE):
                rest += weight if literal == TRUE else 0
                continue
            # c 2^j as few powers of two as possible: 7 = 8 - 1
            while weight:
                power = (weight & -weight).bit_length() - 1
                digit = 1 if (weight >> power) & 3 == 1 else -1
                if digit < 0:
                    rest -= 1 << power
                if power < bits:
                    columns[power].append(digit * literal)
                weight -= digit << power
    for j in range(bits):
        if rest >> j & 1:
            columns[j].append(TRUE)
    out: Vector = []
    for j, column in enumerate(columns):
        check_time()
        carries: list[int] = []
        while len(column) > 1:
            a, b = column.pop(0), column.pop(0)
            c = column.pop(0) if column else FALSE
            column.append(gates.xor3(a, b, c))
            carries.append(gates.majority(a, b, c))
        out.append(column[0] if column else FALSE)
        if j + 1 < bits:
            columns[j + 1] = carries + columns[j + 1]
    return out


def by_unknowns(a: Vector, b: Vector) -> tuple[Vector, Vector]:
    """Two factors, the one with fewer literals that are no constants first."""
    return (b, a) if sum(abs(x) != TRUE for x in a) > sum(abs(x) != TRUE for x in b) else (a, b)


def product(gates: Gates, a: Vector, b: Vector, low: int, high: int) -> Vector:
    """a b, where low <= a b <= high."""
    a, b = by_unknowns(a, b)
    terms = []
    for j, literal in enumerate(a):
        sign = -1 if j == len(a) - 1 else 1
        terms.append((sign << j, [gates.all([literal, other]) for other in b]))
    return total(gates, terms, low, high)


def bitwise(gates: Gates, op: str, a: Vector, b: Vector, low: int, high: int) -> Vector:
    bits = max(len(a), len(b))
    pairs = list(zip(resized(a, bits), resized(b, bits), strict=True))
    if op == "^":
        made = [gates.xor(p, q) for p, q in pairs]
    else:
        made = [(gates.all if op == "&" else gates.any)([p, q]) for p, q in pairs]
    return resized(made, width(low, high))


def chosen(gates: Gates, condition: int, a: Vector, b: Vector) -> Vector:
    """a if the condition is true, else b."""
    bits = max(len(a), len(b))
    return [
        gates.mux(condition, p, q) for p, q in zip(resized(a, bits), resized(b, bits), strict=True)
    ]


def breaches(gates: Gates, a: Vector, b: Vector) -> list[list[int]]:
    """Sets of literals, of which one or more is all true if and only if a > b.

    From the highest bit on: bit k is a breach if all higher bits agree, a has a 1 and b a 0. A
    chain of "all bits from here up agree" compiles to circuits of half the size of a borrow chain.
    """
    bits = max(len(a), len(b))
    a, b = resized(a, bits), resized(b, bits)
    pairs = [(-a[-1], -b[-1]), *zip(a[-2::-1], b[-2::-1], strict=True)]
    while pairs and (pairs[-1][0] == FALSE or pairs[-1][1] == TRUE):
        pairs.pop()  # the lowest bits are no breach
    agree, sets = TRUE, []
    for p, q in pairs:
        if agree == FALSE:
            break
        if p != FALSE and q != TRUE:
            sets.append([agree, p, -q])
        agree = gates.agree(agree, p, q)
    return sets


def equal(gates: Gates, a: Vector, b: Vector) -> list[int]:
    """Literals that are all true if and only if a = b."""
    bits = max(len(a), len(b))
    return [-gates.xor(p, q) for p, q in zip(resized(a, bits), resized(b, bits), strict=True)]
