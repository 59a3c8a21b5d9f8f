"""All solutions of a circuit: their number as an exact integer, and the solutions themselves.

Number: with fair variables the value of a decision (`nelson.exact.circuit.decisions`) is a dyadic
fraction, an integer over 2^e, where e is the most literals on a way through it. One pass upward in
Python's integers computes the value P(C) of the root, and 2^n P(C) solutions exist. Literals are
only counted, so the pass costs one multiplication for each decision in a branch.

Solutions: a way through the circuit, one branch for each decision it meets, is a partial
assignment; the solutions are all completions of all ways. The ways through a decision are numbered,

    ways(branch) = product over its decisions of ways(decision),    ways(decision) = their sum

and all numbers descend from the root at once: a decision splits its numbers between its branches,
and a branch divides them among its decisions, as the digits of a mixed radix. O(ways x length).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from nelson.exact.circuit.decisions import DecisionCircuit
from nelson.kernels.core.bits import words_for


def count(circuit: DecisionCircuit, evidence: Sequence[int] = ()) -> int:
    """The number of solutions in which the literals of the evidence hold. O(edges)."""
    given = np.array(sorted(set(evidence)), np.int64)
    free, possible = _branches(circuit, given)
    pointers, kids, single = circuit.kid_ptr.tolist(), circuit.kids.tolist(), circuit.single
    value, power = [0] * circuit.decisions, [0] * circuit.decisions
    for i in range(circuit.decisions):
        total = depth = 0  # the value is total / 2^depth
        for b in range(2 * i, 2 * i + 2 - int(single[i])):
            if not possible[b]:
                continue
            product, halvings = 1, free[b]
            for kid in kids[pointers[b] : pointers[b + 1]]:
                product *= value[kid]
                halvings += power[kid]
            if halvings > depth:
                total, depth = total << (halvings - depth), halvings
            total += product << (depth - halvings)
        value[i], power[i] = total, depth
    if _contradict(given):
        return 0
    return value[-1] << (circuit.n - len(given) - power[-1])


def weighted(circuit: DecisionCircuit, weights: Mapping[int, Fraction]) -> Fraction:
    """sum over solutions of the product of w(l) over the literals l that hold, without rounding.

    weights: by literal; others are 1. As P(C) with p(l) = w(l) / (w(v) + w(-v)), times the product
    of the w(v) + w(-v), of which none may be 0.
    """
    share, scale = [Fraction(1, 2)] * (2 * circuit.n), Fraction(1)
    for v in range(circuit.n):
        off, on = weights.get(-v - 1, Fraction(1)), weights.get(v + 1, Fraction(1))
        scale *= off + on
        share[2 * v], share[2 * v + 1] = off / (off + on), on / (off + on)
    literals, ends = circuit.lits.tolist(), circuit.lit_ptr.tolist()
    kids, pointers = circuit.kids.tolist(), circuit.kid_ptr.tolist()
    value: list[Fraction] = []
    for i in range(circuit.decisions):
        total = Fraction(0)
        for b in range(2 * i, 2 * i + 2 - int(circuit.single[i])):
            product = math.prod(
                (share[x] for x in literals[ends[b] : ends[b + 1]]), start=Fraction(1)
            )
            total += math.prod(
                (value[k] for k in kids[pointers[b] : pointers[b + 1]]), start=product
            )
        value.append(total)
    return value[-1] * scale


def best(circuit: DecisionCircuit, weights: Sequence[int]) -> np.ndarray | None:
    """(n,) bool: a solution of greatest weight, sum over true variables of an integer each; None if
    there is no solution. O(edges), without rounding.

    A literal costs what the other value of its variable would gain, so that a variable that no
    branch mentions has the better value and costs nothing.
    """
    cost = [(max(0, weight), max(0, -weight)) for weight in weights]  # of false, of true
    literals, ends = circuit.lits.tolist(), circuit.lit_ptr.tolist()
    pointers, kids, single = circuit.kid_ptr.tolist(), circuit.kids.tolist(), circuit.single
    least: list[int | None] = []  # cost of each decision; None: it has no solution
    chosen: list[int] = []
    for i in range(circuit.decisions):
        value, branch = None, 2 * i
        for b in range(2 * i, 2 * i + 2 - int(single[i])):
            below = [least[kid] for kid in kids[pointers[b] : pointers[b + 1]]]
            if any(part is None for part in below):
                continue
            total = sum(part for part in below if part is not None)
            total += sum(cost[code >> 1][code & 1] for code in literals[ends[b] : ends[b + 1]])
            if value is None or total < value:
                value, branch = total, b
        least.append(value)
        chosen.append(branch)
    if least[-1] is None:
        return None
    x = np.array([weight > 0 for weight in weights], bool)
    waiting = [circuit.decisions - 1]
    while waiting:
        b = chosen[waiting.pop()]
        for code in literals[ends[b] : ends[b + 1]]:
            x[code >> 1] = code & 1
        waiting += kids[pointers[b] : pointers[b + 1]]
    return x


def rows(circuit: DecisionCircuit, columns: np.ndarray, evidence: Sequence[int] = ()) -> np.ndarray:
    """All solutions, (count, columns) bool, in no particular order. O(count x depth) memory.

    columns: variables from 0 that determine all others. Variables outside of them that a way does
    not mention would otherwise be left out, and their solutions returned once.
    """
    given = np.array(sorted(set(evidence)), np.int64)
    if _contradict(given):
        return np.zeros((0, len(columns)), bool)
    _, possible = _branches(circuit, given)
    ways, by_branch = _ways(circuit, possible)
    known, value = _masks(circuit, columns)
    pointers, kids = circuit.kid_ptr.tolist(), circuit.kids.tolist()
    at = _places(circuit.n, columns)[np.abs(given) - 1]
    total = ways[-1]
    seen, bits = np.zeros((2, total, words_for(len(columns))), np.uint64)
    for place, literal in zip(at.tolist(), given.tolist(), strict=True):
        if place >= 0:
            seen[:, place >> 6] |= np.uint64(1 << (place & 63))
            bits[:, place >> 6] |= np.uint64(int(literal > 0) << (place & 63))
    waiting: list[list[tuple[np.ndarray, np.ndarray]]] = [[] for _ in range(circuit.decisions)]
    waiting[-1] = [(np.arange(total), np.arange(total))]  # (row, number of its way from here)
    for i in range(circuit.decisions - 1, -1, -1):
        if not waiting[i]:
            continue
        row, number = (np.concatenate(parts) for parts in zip(*waiting[i], strict=True))
        waiting[i] = []
        second = number >= by_branch[2 * i]
        for b, chosen in ((2 * i, ~second), (2 * i + 1, second)):
            here, left = row[chosen], number[chosen]
            if not len(here):
                continue
            if b & 1:
                left = left - by_branch[2 * i]
            if known[b].any():
                seen[here] |= known[b]
                bits[here] |= value[b]
            for kid in kids[pointers[b] : pointers[b + 1]]:
                left, digit = np.divmod(left, ways[kid])
                waiting[kid].append((here, digit))
    return _completed(seen, bits, len(columns))


def _contradict(given: np.ndarray) -> bool:
    """Do some of these literals contradict each other?"""
    return len(np.unique(np.abs(given))) < len(given)


def _branches(circuit: DecisionCircuit, given: np.ndarray) -> tuple[list[int], list[bool]]:
    """For each branch: its literals whose variable is not given, and whether none of them is
    false.
    """
    free, false = np.ones(2 * circuit.n, np.int64), np.zeros(2 * circuit.n, np.int64)
    true = 2 * (np.abs(given) - 1) + (given > 0)
    free[true], free[true ^ 1], false[true ^ 1] = 0, 0, 1
    return (
        _sums(free[circuit.lits], circuit.lit_ptr).tolist(),
        (_sums(false[circuit.lits], circuit.lit_ptr) == 0).tolist(),
    )


def _sums(items: np.ndarray, pointers: np.ndarray) -> np.ndarray:
    """The sum of items[pointers[b] : pointers[b + 1]] for each b."""
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(items)])
    return before[pointers[1:]] - before[pointers[:-1]]


def _ways(circuit: DecisionCircuit, possible: list[bool]) -> tuple[list[int], list[int]]:
    """The number of ways through each decision, and through each branch."""
    pointers, kids, single = circuit.kid_ptr.tolist(), circuit.kids.tolist(), circuit.single
    ways, by_branch = [0] * circuit.decisions, [0] * (2 * circuit.decisions)
    for i in range(circuit.decisions):
        for b in range(2 * i, 2 * i + 2 - int(single[i])):
            if possible[b]:
                by_branch[b] = 1
                for kid in kids[pointers[b] : pointers[b + 1]]:
                    by_branch[b] *= ways[kid]
        ways[i] = by_branch[2 * i] + by_branch[2 * i + 1]
    return ways, by_branch


def _places(n: int, columns: np.ndarray) -> np.ndarray:
    """The column of each variable, or -1."""
    place = np.full(n, -1)
    place[columns] = np.arange(len(columns))
    return place


def _masks(circuit: DecisionCircuit, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each branch: the columns that its literals set, and their values; bits of words."""
    known, value = np.zeros((2, 2 * circuit.decisions, words_for(len(columns))), np.uint64)
    place = _places(circuit.n, columns)[circuit.lits >> 1]
    branch = np.repeat(np.arange(2 * circuit.decisions), np.diff(circuit.lit_ptr))
    inside = place >= 0
    branch, place, sign = branch[inside], place[inside], circuit.lits[inside] & 1
    bit = np.uint64(1) << (place & 63).astype(np.uint64)
    np.bitwise_or.at(known, (branch, place >> 6), bit)
    np.bitwise_or.at(value, (branch, place >> 6), bit * sign.astype(np.uint64))
    return known, value


def _completed(seen: np.ndarray, bits: np.ndarray, columns: int) -> np.ndarray:
    """Every completion of every row: both values for each column that a row has not seen."""
    for column in range(columns):
        word, bit = column >> 6, np.uint64(1 << (column & 63))
        open_ = np.flatnonzero((seen[:, word] & bit) == 0)
        if len(open_):
            ones = bits[open_]
            ones[:, word] |= bit
            seen, bits = np.concatenate([seen, seen[open_]]), np.concatenate([bits, ones])
    octets = np.ascontiguousarray(bits).astype("<u8").view(np.uint8)
    if not columns:
        return np.zeros((len(bits), 0), bool)
    return np.unpackbits(octets, axis=1, count=columns, bitorder="little").view(bool)
