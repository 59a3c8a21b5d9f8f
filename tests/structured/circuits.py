"""Circuits as clauses (Tseitin 1968): one variable per wire, each gate a full equivalence.

Inputs come first, so that variables 1..k of a formula are its k inputs; every other wire is a
function of them, and a formula has one solution for each input that meets its outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product as tuples

import numpy as np

from nelson.errors import FormulaError
from nelson.formula import Formula

FALSE = 0  # stands for a wire that is always 0


class Circuit:
    """Wires are literals; gates that hold `FALSE` are folded away."""

    def __init__(self, inputs: int) -> None:
        self.n = inputs
        self.clauses: list[list[int]] = []

    def wire(self) -> int:
        self.n += 1
        return self.n

    def both(self, a: int, b: int) -> int:
        """a and b."""
        if FALSE in (a, b):
            return FALSE
        g = self.wire()
        self.clauses += [[-g, a], [-g, b], [g, -a, -b]]
        return g

    def either(self, a: int, b: int) -> int:
        """a or b."""
        if FALSE in (a, b):
            return a or b
        return -self.both(-a, -b)

    def differ(self, *wires: int) -> int:
        """a xor b, or a xor b xor c."""
        wires = tuple(a for a in wires if a != FALSE)
        if len(wires) < 2:
            return wires[0] if wires else FALSE
        g = self.wire()
        for signs in tuples((1, -1), repeat=len(wires)):
            # Where input i is true iff its sign is -1, the gate is true iff there are odd many.
            odd = signs.count(-1) % 2
            clause = [sign * a for sign, a in zip(signs, wires, strict=True)]
            self.clauses.append([*clause, g if odd else -g])
        return g

    def choose(self, c: int, a: int, b: int) -> int:
        """a if c else b."""
        g = self.wire()
        self.clauses += [[-c, -a, g], [-c, a, -g], [c, -b, g], [c, b, -g]]
        return g

    def majority(self, a: int, b: int, c: int) -> int:
        """At least two of three: the carry of a full adder."""
        if FALSE in (a, b, c):
            two = sorted((a, b, c), key=abs)[1:]
            return self.both(*two)
        g = self.wire()
        for x, y in ((a, b), (a, c), (b, c)):
            self.clauses += [[-x, -y, g], [x, y, -g]]
        return g

    def add(self, a: Sequence[int], b: Sequence[int]) -> list[int]:
        """Ripple-carry sum of two numbers, least significant bit first; one bit longer."""
        carry, out = FALSE, []
        for x, y in zip(a, b, strict=True):
            out.append(self.differ(x, y, carry))
            carry = self.majority(x, y, carry)
        return [*out, carry]

    def force(self, wires: Sequence[int], value: int, what: str) -> None:
        if not 0 <= value < 1 << len(wires):
            raise FormulaError(f"{what} = {value}", expected=f"{len(wires)} bits")
        for k, a in enumerate(wires):
            bit = value >> k & 1
            if a != FALSE:
                self.clauses.append([a if bit else -a])
            elif bit:
                self.clauses.append([])

    def formula(self) -> Formula:
        return Formula(self.clauses, n_vars=self.n)


def adder(bits: int, total: int | None = None, seed: int = 0) -> Formula:
    """a + b = s, or = total. a is variables 1..bits, b the next `bits`, low bit first.

    4^bits solutions without a total; min(t, 2^(bits+1) - 2 - t) + 1 with total t.
    """
    circuit = Circuit(2 * bits)
    a, b = range(1, bits + 1), range(bits + 1, 2 * bits + 1)
    out = circuit.add(a, b)
    if total is not None:
        circuit.force(out, total, "total")
    return circuit.formula()


def multiplier(bits: int, product: int | None = None, seed: int = 0) -> Formula:
    """a b = p, or = product: the array multiplier. a is variables 1..bits, b the next `bits`.

    4^bits solutions without a product; with one, the pairs of factors below 2^bits: factoring.
    """
    circuit = Circuit(2 * bits)
    rows = [[circuit.both(a, b) for a in range(1, bits + 1)] for b in range(bits + 1, 2 * bits + 1)]
    total, out = rows[0], []
    for row in rows[1:]:
        out.append(total[0])
        total = circuit.add([*total[1:], FALSE][:bits], row)
    out += total
    if product is not None:
        circuit.force(out, product, "product")
    return circuit.formula()


def random_circuit(inputs: int, gates: int, outputs: int, seed: int = 0) -> Formula:
    """Random gates (and, or, xor, if-then-else) of recent wires; the last `outputs` of them are set
    to what a hidden random input gives, so there is a solution.
    """
    random = np.random.default_rng([seed, 1])
    circuit = Circuit(inputs)
    wires = list(range(1, inputs + 1))
    values = [bool(bit) for bit in random.integers(0, 2, inputs)]
    for _ in range(gates):
        near = max(3, min(len(wires), 2 * inputs))
        picks = len(wires) - 1 - random.choice(near, 3, replace=False)
        signs = random.integers(0, 2, 3)
        (a, p), (b, q), (c, r) = (
            (-wires[k], not values[k]) if flip else (wires[k], values[k])
            for k, flip in zip(picks.tolist(), signs.tolist(), strict=True)
        )
        kind = int(random.integers(0, 4))
        if kind == 0:
            wire, value = circuit.both(a, b), p and q
        elif kind == 1:
            wire, value = circuit.either(a, b), p or q
        elif kind == 2:
            wire, value = circuit.differ(a, b), p != q
        else:
            wire, value = circuit.choose(a, b, c), q if p else r
        wires.append(wire)
        values.append(value)
    for k in range(len(wires) - outputs, len(wires)):
        circuit.clauses.append([wires[k] if values[k] else -wires[k]])
    return circuit.formula()


def ordered(numbers: int, bits: int, gap_bits: int) -> Formula:
    """Numbers a_1, a_2, .. of `bits` bits and gaps g_i of `gap_bits` bits, with a_i + g_i <= a_i+1.

    The inputs are a_1, .., a_numbers, then the gaps, each with its least significant bit first.
    """
    inputs = iter(range(1, numbers * bits + (numbers - 1) * gap_bits + 1))
    a = [[next(inputs) for _ in range(bits)] for _ in range(numbers)]
    gaps = [[next(inputs) for _ in range(gap_bits)] for _ in range(numbers - 1)]
    circuit = Circuit(numbers * bits + (numbers - 1) * gap_bits)
    for i, gap in enumerate(gaps):
        *total, carry = circuit.add(a[i], gap + [FALSE] * (bits - gap_bits))
        circuit.clauses.append([-carry])
        equal: list[int] = []  # are all higher bits equal? no literal: there are none
        for here, after in zip(reversed(total), reversed(a[i + 1]), strict=True):
            circuit.clauses.append([*(-e for e in equal), -here, after])
            same = -circuit.differ(here, after)
            equal = [circuit.both(equal[0], same) if equal else same]
    return Formula(circuit.clauses, n_vars=circuit.n)
