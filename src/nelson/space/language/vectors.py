"""Bit vectors: numbers of fixed width that wrap around, with the operators of SMT-LIB and hardware.

    x + y, x * y        mod 2^w
    x // 0 = 2^w - 1,   x % 0 = x          as SMT-LIB defines them (of bit patterns without sign)
    x[7:4], x[0]        bits 7 to 4, bit 0: vectors again
    x < y               with sign if both are signed, else without

A vector node has the operator of SMT-LIB as its `op`; `space/smt` reads terms into the same nodes.
Their meaning in Python is in `evaluate.py`, their clauses in `clauses/bit_vectors.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any

import numpy as np

from nelson.errors import FormulaError
from nelson.space.language.expressions import (
    Computed,
    Derived,
    Number,
    Ordered,
    Rule,
    any_of_rules,
    ranges,
    refuse,
    rule,
    whole_number,
)
from nelson.space.language.fields import BitField
from nelson.space.language.text import VECTOR_OPERATORS

#: Widest vector, in bits.
MAX_VECTOR = 4096


def _operator(sign: str) -> Callable[[Any, Any], Bits]:
    """An operator on two vectors of one width."""

    def apply(self: Bits, other: Any) -> Bits:
        if isinstance(other, Rule):
            return NotImplemented
        a, b = _pair(self, other)
        is_signed = a.is_signed and b.is_signed
        return Bits(VECTOR_OPERATORS[sign][is_signed], (a, b), a.width, is_signed)

    return apply


class Bits(Ordered):
    """A vector of `width` bits for each row. `is_signed` says how it is compared and extended."""

    __slots__ = ("is_signed", "width")

    def __init__(self, op: str, args: tuple[Any, ...], width: int, is_signed: bool = False) -> None:
        super().__init__(op, args)
        if not 1 <= width <= MAX_VECTOR:
            refuse(f"a vector of {width:,} bits", f"1 to {MAX_VECTOR:,} bits")
        self.width, self.is_signed = width, is_signed

    @property
    def name(self) -> str:
        """The name of a field."""
        if self.op != "bits":
            raise AttributeError(f"{self!r} is no field")
        name: str = self.args[0].name
        return name

    @property
    def field(self) -> BitField:
        """The field that holds the bits."""
        field: BitField = self.args[0]
        return field

    @property
    def number(self) -> Number:
        """The value as a number that does not wrap, to be combined with integers of the space."""
        low, high = span(self.width, self.is_signed)
        return Computed("value", (self,), low, high)

    # --- arithmetic, mod 2^w ----------------------------------------------------------------------

    __add__ = _operator("+")
    __sub__ = _operator("-")
    __mul__ = _operator("*")
    #: The quotient is rounded toward zero, and the remainder has the sign of the dividend.
    __floordiv__ = _operator("//")
    __mod__ = _operator("%")
    __and__ = _operator("&")
    __or__ = _operator("|")
    __xor__ = _operator("^")

    def __neg__(self) -> Bits:
        return Bits("bvneg", (self,), self.width, self.is_signed)

    def __pos__(self) -> Bits:
        return self

    def __invert__(self) -> Bits:
        return Bits("bvnot", (self,), self.width, self.is_signed)

    # --- shifts; the amount is never signed -------------------------------------------------------

    def __lshift__(self, other: Any) -> Bits:
        return Bits("bvshl", (self, self._amount(other)), self.width, self.is_signed)

    def __rshift__(self, other: Any) -> Bits:
        """Arithmetic if the vector is signed."""
        op = "bvashr" if self.is_signed else "bvlshr"
        return Bits(op, (self, self._amount(other)), self.width, self.is_signed)

    def _amount(self, other: Any) -> Bits:
        if isinstance(other, Bits):
            return unsigned(other)
        count = whole_number(other, " as a shift of ", self)
        if count < 0:
            refuse(f"a shift of {self!r} by {count}", "a shift by 0 or more bits")
        return constant(min(count, self.width), max(self.width.bit_length(), 1))

    # --- parts ------------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Bits:
        """x[3]: one bit. x[7:4]: bits 7 down to 4, both included, as in hardware languages."""
        high, low = (key.start, key.stop) if isinstance(key, slice) else (key, key)
        whole = all(isinstance(end, (int, np.integer)) for end in (high, low))
        stepped = isinstance(key, slice) and key.step is not None
        if not whole or stepped or not 0 <= low <= high < self.width:
            asked = f"{high}:{low}" if isinstance(key, slice) else key
            refuse(f"{self!r}[{asked}]", f"x[high:low] with {self.width - 1} >= high >= low >= 0")
        return extract(self, int(high), int(low))

    __iter__ = None  # Python would try x[0], x[1], ... for ever

    # --- comparisons ------------------------------------------------------------------------------

    def _compared(self, op: str, other: Any) -> Rule:
        a, b = _pair(self, other)
        if op == "!=":
            return ~Derived("bv=", (a, b))
        if op in (">", ">="):
            op, a, b = op.replace(">", "<"), b, a
        return Derived(VECTOR_OPERATORS[op][a.is_signed and b.is_signed], (a, b))

    def isin(self, values: Iterable[Any]) -> Rule:
        """Is the value one of these? A list, a set or a range."""
        inside = [
            self == a if a == b else (self >= a) & (self <= b) for a, b in ranges(values, self)
        ]
        return any_of_rules(inside)

    def constant(self, value: Any) -> Bits:
        """A constant of the same width; a vector stays as it is."""
        if isinstance(value, Bits):
            return value
        if isinstance(value, (Rule, Number)):
            refuse(f"{value!r} together with the vector {self!r}", "vectors, or `x.number`")
        whole = whole_number(value, " together with ", self)
        low, high = span(self.width, True)[0], (1 << self.width) - 1
        if not low <= whole <= high:
            refuse(f"{whole} together with {self!r}", f"a number of {self.width} bits")
        return constant(whole, self.width, self.is_signed)


def _turned(name: str) -> Callable[[Bits, Any], Bits]:
    """`constant OP vector`, from `vector OP vector`."""
    return lambda self, other: getattr(self.constant(other), f"__{name}__")(self)


for _name in ("add", "sub", "mul", "floordiv", "mod", "and", "or", "xor", "lshift", "rshift"):
    setattr(Bits, f"__r{_name}__", _turned(_name))


def span(width: int, is_signed: bool) -> tuple[int, int]:
    """The smallest and the largest value of a vector."""
    return (-(1 << width - 1), (1 << width - 1) - 1) if is_signed else (0, (1 << width) - 1)


def constant(value: int, width: int, is_signed: bool = False) -> Bits:
    """A number mod 2^width."""
    value, width = whole_number(value, ""), whole_number(width, " bits")
    if not 1 <= width <= MAX_VECTOR:
        refuse(f"a vector of {width:,} bits", f"1 to {MAX_VECTOR:,} bits")
    return Bits("bvconst", (value % (1 << width),), width, is_signed)


def vector_of(field: BitField) -> Bits:
    return Bits("bits", (field,), field.width, field.is_signed)


# --- functions ----------------------------------------------------------------------------------


def extract(x: Bits, high: int, low: int) -> Bits:
    return Bits("extract", (x, high, low), high - low + 1)


def concat(*parts: Any) -> Bits:
    """The vectors one behind the other, the highest bits first."""
    vectors = [_vector(part, "concat") for part in parts]
    return reduce(lambda a, b: Bits("concat", (a, b), a.width + b.width), vectors)


def zero_extend(x: Any, width: int) -> Bits:
    """The vector in `width` bits, with zeros above."""
    return _extended("zero_extend", _vector(x, "zero_extend"), width)


def sign_extend(x: Any, width: int) -> Bits:
    """The vector in `width` bits, with copies of the highest bit above."""
    return _extended("sign_extend", _vector(x, "sign_extend"), width)


def popcount(x: Any) -> Number:
    """How many bits are 1."""
    v = _vector(x, "popcount")
    return Computed("count", tuple(bit(v, k) for k in range(v.width)), 0, v.width)


def bit(x: Bits, place: int) -> Rule:
    """The rule: this bit is 1."""
    return Derived("bit", (x, place))


def signed(x: Any) -> Bits:
    """The same bits, compared and extended with their sign."""
    v = _vector(x, "signed")
    return v if v.is_signed else Bits("signed", (v,), v.width, True)


def unsigned(x: Any) -> Bits:
    """The same bits, compared and extended without a sign."""
    v = _vector(x, "unsigned")
    return v if not v.is_signed else Bits("unsigned", (v,), v.width, False)


def chosen(condition: Any, then: Any, otherwise: Any) -> Bits:
    """`then` where the condition holds, else `otherwise`; one of them may be a whole number."""
    a, b = _pair(*((then, otherwise) if isinstance(then, Bits) else (otherwise, then)))
    a, b = (a, b) if isinstance(then, Bits) else (b, a)
    return Bits("bvif", (rule(condition), a, b), a.width, a.is_signed and b.is_signed)


Bits.chosen = staticmethod(chosen)


def smod(a: Bits, b: Any) -> Bits:
    """The remainder with the sign of the divisor, of signed patterns: bvsmod."""
    a, b = _pair(a, b)
    return Bits("bvsmod", (a, b), a.width, a.is_signed)


def _extended(op: str, x: Bits, width: int) -> Bits:
    whole = whole_number(width, f" bits of {op}")
    if whole < x.width:
        refuse(f"{op} of {x!r} to {whole} bits", f"{x.width} bits or more")
    return x if whole == x.width else Bits(op, (x, whole - x.width), whole, op == "sign_extend")


def _vector(x: Any, what: str) -> Bits:
    return x if isinstance(x, Bits) else refuse(f"{what} of {x!r}", "a vector of bits")


def _pair(a: Bits, other: Any) -> tuple[Bits, Bits]:
    b = a.constant(other)
    if a.width != b.width:
        raise FormulaError(
            f"{a!r} of {a.width} bits together with {b!r} of {b.width} bits",
            expected="vectors of one width: zero_extend(x, width) or sign_extend(x, width)",
        )
    return a, b
