"""Expressions over named fields: numbers and rules, as a tree that is never evaluated by Python.

    addr + length <= 0xFFFF           a Rule: true or false for each row
    (burst == "WRAP").implies(r)      rules joined to a rule
    addr % 4                          a Number: a whole number, between `low` and `high`

A node has an operator `op` and its `args`: other nodes or constants. Operators build nodes, so the
rules of a space can be printed (`text`), evaluated on rows (`evaluate`) and translated into clauses
(`encode`). Numbers have no width: `low` and `high` grow with every operation and nothing wraps.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable
from typing import Any, NoReturn

import numpy as np

from nelson.errors import FormulaError, shortened
from nelson.space.language.text import text

#: Most values of one list in a rule.
MAX_LISTED = 1_000_000
#: Widest number, in bits. Python prints numbers of up to 4,300 digits, so messages can show it.
MAX_WIDTH = 14_000
#: Most nodes of one rule as it is printed. `abs`, `min` and `max` use an operand more than once, so
#: the text of such rules within each other doubles with each level.
MAX_NODES = 1_000_000


class Expression:
    """A node of the tree. `==` builds a rule, so nodes are told apart by identity."""

    __slots__ = ("args", "op")
    coded = False  # are values kept as codes in lists and tables?
    chosen: Callable[[Any, Any, Any], Any] | None = None  # `if_else` of a kind of its own

    def __init__(self, op: str, args: tuple[Any, ...]) -> None:
        self.op, self.args = op, args

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> Rule:  # type: ignore[override]
        return NotImplemented

    def __ne__(self, other: object) -> Rule:  # type: ignore[override]
        return NotImplemented

    def __repr__(self) -> str:
        nodes, _ = extent(self)
        return text(self) if nodes <= 10_000 else f"(an expression of {nodes:,} parts)"


def refuse(what: str, expected: str) -> NoReturn:
    raise FormulaError(what, expected=expected)


def _refused(sign: str, expected: str, turned: bool = False) -> Any:
    """An operator that numbers do not have; turned: with the number to its right."""

    def refused(self: Any, other: Any) -> NoReturn:
        left, right = (other, self) if turned else (self, other)
        refuse(f"{left!r} {sign} {right!r}", expected)

    return refused


class Ordered(Expression):
    """What can be compared: `_compared` makes the rule."""

    __slots__ = ()
    __hash__ = Expression.__hash__

    def _compared(self, op: str, other: Any) -> Rule:
        raise NotImplementedError

    def __eq__(self, other: object) -> Rule:  # type: ignore[override]
        return self._compared("==", other)

    def __ne__(self, other: object) -> Rule:  # type: ignore[override]
        return self._compared("!=", other)

    def __lt__(self, other: Any) -> Rule:
        return self._compared("<", other)

    def __le__(self, other: Any) -> Rule:
        return self._compared("<=", other)

    def __gt__(self, other: Any) -> Rule:
        return self._compared(">", other)

    def __ge__(self, other: Any) -> Rule:
        return self._compared(">=", other)

    def __bool__(self) -> NoReturn:
        raise TypeError(f"{self!r} has no truth value in Python: compare it with a number")


class Number(Ordered):
    """A whole number for each row, between low and high."""

    __slots__ = ("high", "low")

    def __init__(self, op: str, args: tuple[Any, ...], low: int, high: int) -> None:
        super().__init__(op, args)
        bits = max(low.bit_length(), high.bit_length())
        if bits > MAX_WIDTH:
            refuse(f"a number of {bits:,} bits", f"at most {MAX_WIDTH:,} bits")
        self.low, self.high = low, high

    # --- arithmetic -------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Number:
        if _is_measure(other):
            return NotImplemented
        a, b = self, number(other)
        return Computed("+", _joined("+", a, b), a.low + b.low, a.high + b.high)

    def __sub__(self, other: Any) -> Number:
        return NotImplemented if _is_measure(other) else self + -number(other)

    def __mul__(self, other: Any) -> Number:
        a, b = self, number(other)
        ends = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
        return Computed("*", (a, b), min(ends), max(ends))

    def __radd__(self, other: Any) -> Number:
        return number(other) + self

    def __rsub__(self, other: Any) -> Number:
        return number(other) - self

    def __rmul__(self, other: Any) -> Number:
        return number(other) * self

    def __neg__(self) -> Number:
        return Computed("neg", (self,), -self.high, -self.low)

    def __pos__(self) -> Number:
        return self

    def __abs__(self) -> Number:
        return self if self.low >= 0 else if_else(self < 0, -self, self)

    def __mod__(self, other: Any) -> Number:
        c = _constant(self, "%", other)
        if self.low // c == self.high // c:
            return Computed("%", (self, c), self.low % c, self.high % c)
        return Computed("%", (self, c), 0, c - 1)

    def __floordiv__(self, other: Any) -> Number:
        c = _constant(self, "//", other)
        return Computed("//", (self, c), self.low // c, self.high // c)

    __truediv__ = _refused("/", "`//`, which rounds down: all numbers are whole")
    __pow__ = _refused("**", "products: powers are not supported")
    __rmod__ = _refused("%", "a positive constant to divide by", turned=True)
    __rfloordiv__ = _refused("//", "a positive constant to divide by", turned=True)
    __rlshift__ = _refused("<<", "a shift by a constant", turned=True)
    __rrshift__ = _refused(">>", "a shift by a constant", turned=True)

    # --- bits, in two's complement without end ----------------------------------------------------

    def __and__(self, other: Any) -> Number:
        a, b = self, _bits(self, "&", other)
        if a.low >= 0 or b.low >= 0:
            return Computed("&", (a, b), 0, min(x.high for x in (a, b) if x.low >= 0))
        return Computed("&", (a, b), *_span(a, b))

    def __or__(self, other: Any) -> Number:
        a, b = self, _bits(self, "|", other)
        low, high = _span(a, b)
        return Computed("|", (a, b), max(a.low, b.low) if low == 0 else low, high)

    def __xor__(self, other: Any) -> Number:
        a, b = self, _bits(self, "^", other)
        return Computed("^", (a, b), *_span(a, b))

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __invert__(self) -> Number:
        return -self - 1

    def __lshift__(self, other: Any) -> Number:
        k = _constant(self, "<<", other)
        return Computed("<<", (self, k), self.low << k, self.high << k)

    def __rshift__(self, other: Any) -> Number:
        k = _constant(self, ">>", other)
        return Computed(">>", (self, k), self.low >> k, self.high >> k)

    # --- comparisons ------------------------------------------------------------------------------

    def _compared(self, op: str, other: Any) -> Rule:
        if _is_measure(other):
            return NotImplemented
        if isinstance(other, (str, bytes)) or other is None:
            refuse(f"{self!r} {op} {other!r}", "a number to compare with")
        return Rule(op, (self, number(other)))

    def isin(self, values: Iterable[Any]) -> Rule:
        """Is the number one of these? A list, a set or a range."""
        return Derived("in", (self, ranges(values, self)))


class Rule(Expression):
    """True or false for each row. In sums and comparisons a rule counts 1 or 0."""

    __slots__ = ()
    __hash__ = Expression.__hash__

    def __and__(self, other: Any) -> Rule:
        return Derived("and", _joined("and", self, _rule(self, "&", other)))

    def __or__(self, other: Any) -> Rule:
        return Derived("or", _joined("or", self, _rule(self, "|", other)))

    def __xor__(self, other: Any) -> Rule:
        return Derived("xor", (self, _rule(self, "^", other)))

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __invert__(self) -> Rule:
        return Derived("not", (self,))

    def implies(self, other: Any) -> Rule:
        """If this rule holds, the other holds."""
        return Derived("implies", (self, _rule(self, "implies", other)))

    def iff(self, other: Any) -> Rule:
        """Both hold or neither."""
        return Derived("iff", (self, _rule(self, "iff", other)))

    def __eq__(self, other: object) -> Rule:  # type: ignore[override]
        if isinstance(other, (Rule, bool, np.bool_)):
            return self.iff(other)
        return number(self) == other

    def __ne__(self, other: object) -> Rule:  # type: ignore[override]
        return ~(self == other)

    def __bool__(self) -> NoReturn:
        raise TypeError(
            f"the rule {self!r} has no truth value in Python: join rules by &, | and ~ in "
            "parentheses instead of `and`, `or`, `not` and chained comparisons"
        )

    def isin(self, values: Iterable[Any]) -> Rule:
        """Is the truth value one of these?"""
        return number(self).isin(members(values, self))


def forward(cls: type, convert: Callable[[Any], Any], *names: str) -> None:
    """Give a class these operators, as they work on what `convert` makes of it."""

    def forwarded(name: str) -> Callable[..., Any]:
        return lambda self, *others: getattr(convert(self), name)(*others)

    for name in names:
        setattr(cls, name, forwarded(name))


forward(
    Rule,
    lambda rule: number(rule),
    *("__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__neg__"),
    *("__mod__", "__floordiv__", "__truediv__", "__lshift__", "__rshift__"),
    *("__lt__", "__le__", "__gt__", "__ge__"),
)


# Python asks the right operand first if its class derives from that of the left one. So that
# `a + b <= c` is not turned into `c >= a + b`, no node class derives from another one's.


class Computed(Number):
    """A number made by an operator."""

    __slots__ = ()


class Derived(Rule):
    """A rule made by an operator."""

    __slots__ = ()


class Category(Expression):
    """One of finitely many values without an order."""

    __slots__ = ()
    __hash__ = Expression.__hash__
    coded = True
    values: tuple[Hashable, ...]

    def code(self, value: Any) -> int:
        """The position of a value; raises FormulaError if there is no such value."""
        raise NotImplementedError

    def __eq__(self, other: object) -> Rule:  # type: ignore[override]
        if isinstance(other, Category):
            return Derived("same", (self, other))
        return self.isin([other])

    def __ne__(self, other: object) -> Rule:  # type: ignore[override]
        return ~(self == other)

    def isin(self, values: Iterable[Any]) -> Rule:
        """Is the value one of these?"""
        return Derived("is", (self, tuple(sorted({self.code(v) for v in members(values, self)}))))

    def __bool__(self) -> NoReturn:
        raise TypeError(f"{self!r} has no truth value in Python: compare it with a value")

    def _unordered(self, other: Any) -> NoReturn:
        refuse(
            f"an order or a sum of {self!r}",
            f"== or isin: its values are not numbers: {self.values}",
        )

    __lt__ = __le__ = __gt__ = __ge__ = __add__ = __radd__ = __sub__ = __rsub__ = _unordered
    __mul__ = __rmul__ = __mod__ = __floordiv__ = __and__ = __or__ = __xor__ = _unordered


# --- functions ----------------------------------------------------------------------------------


def number(value: Any) -> Number:
    """A Number; a rule counts 1 if it holds, else 0."""
    if isinstance(value, Number):
        return value
    if isinstance(value, Rule):
        if value.op == "const":
            return number(int(value.args[0]))
        return Computed("truth", (value,), 0, 1)
    whole = whole_number(value)
    return Computed("const", (whole,), whole, whole)


def rule(value: Any) -> Rule:
    """A Rule; True and False are rules too."""
    if isinstance(value, Rule):
        return value
    if isinstance(value, (bool, np.bool_)):
        return Derived("const", (bool(value),))
    kind = "a number" if isinstance(value, Number) else f"of type {type(value).__name__}"
    shown = shortened(repr(value), 200)
    return refuse(f"the rule {shown}, which is {kind}", "something true or false, as `x <= 3`")


def if_else(condition: Any, then: Any, otherwise: Any) -> Any:
    """`then` where the condition holds, else `otherwise`: two numbers, rules or bit vectors."""
    for branch in (then, otherwise):
        if isinstance(branch, Expression) and branch.chosen is not None:
            return type(branch).chosen(condition, then, otherwise)  # type: ignore[misc]
    c = rule(condition)
    truth = (Rule, bool, np.bool_)
    if isinstance(then, truth) and isinstance(otherwise, truth):
        return Derived("if", (c, rule(then), rule(otherwise)))
    a, b = number(then), number(otherwise)
    return Computed("if", (c, a, b), min(a.low, b.low), max(a.high, b.high))


def any_of_rules(rules: list[Rule]) -> Rule:
    """One or more of the rules hold; false if there are none."""
    return Derived("or", tuple(rules)) if len(rules) > 1 else rules[0] if rules else rule(False)


def runs(values: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Sorted numbers as ranges (first, last) without a gap."""
    ends: list[list[int]] = []
    for value in values:
        if ends and value == ends[-1][1] + 1:
            ends[-1][1] = value
        else:
            ends.append([value, value])
    return tuple((first, last) for first, last in ends)


def ranges(values: Iterable[Any], of: Expression) -> tuple[tuple[int, int], ...]:
    """The whole numbers in a list, a set or a range as ranges (first, last)."""
    if isinstance(values, range) and abs(values.step) == 1:  # any length, without a list
        return ((min(values[0], values[-1]), max(values[0], values[-1])),) if values else ()
    listed = members(values, of)
    return runs(sorted({whole_number(v, " in ", of, ".isin(...)") for v in listed}))


def extent(expression: Expression) -> tuple[int, int]:
    """(how many nodes are printed, how deep they are nested): a node in two places counts twice."""
    known: dict[int, tuple[int, int]] = {}
    stack = [expression]
    while stack:
        below = _below(stack[-1])
        missing = [node for node in below if id(node) not in known]
        if missing:
            stack += missing
            continue
        sizes, depths = zip((0, 0), *(known[id(node)] for node in below), strict=True)
        known[id(stack.pop())] = 1 + sum(sizes), 1 + max(depths)
    return known[id(expression)]


def leaves(expression: Expression) -> list[Expression]:
    """All nodes without nodes below them, each once."""
    seen: set[int] = set()
    ends: list[Expression] = []
    stack = [expression]
    while stack:
        node = stack.pop()
        below = _below(node)
        if not below:
            ends.append(node)
        for arg in below:
            if id(arg) not in seen:
                seen.add(id(arg))
                stack.append(arg)
    return ends


def _joined(op: str, a: Expression, b: Expression) -> tuple[Any, ...]:
    """The operands of a + b: those of a sum a are taken over, so that long sums are not deep."""
    return (*a.args, b) if a.op == op else (a, b)


def _below(node: Expression) -> list[Expression]:
    """The nodes among the arguments; those of a table are in a tuple."""
    flat = itertools.chain.from_iterable(a if isinstance(a, tuple) else (a,) for a in node.args)
    return [arg for arg in flat if isinstance(arg, Expression)]


# --- checks of operands -------------------------------------------------------------------------


def whole_number(value: Any, *place: object) -> int:
    """The number; place: what an error says after the value, texts and expressions."""
    if isinstance(value, (bool, np.bool_, int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return int(value)
    what = "".join(
        [shortened(repr(value), 200), *(p if isinstance(p, str) else repr(p) for p in place)]
    )
    if isinstance(value, Category):
        return refuse(f"{what} in arithmetic or as a number", "numbers: compare choices by ==")
    return refuse(f"{what}, of type {type(value).__name__}", "a whole number")


def items(values: Any, what: str, most: int = MAX_LISTED) -> list[Any]:
    """The items of a list, a range or the like; no more than `most` are ever made."""
    if isinstance(values, (str, bytes, Expression)) or not hasattr(values, "__iter__"):
        refuse(f"{what} of {shortened(repr(values), 200)}", "a list")
    listed = list(itertools.islice(values, most + 1))
    if len(listed) > most:
        refuse(f"{what} of more than {most:,} items", f"at most {most:,}")
    return listed


def members(values: Any, of: Expression) -> list[Any]:
    """The values of `of`.isin(values)."""
    if isinstance(values, (str, bytes, Expression)) or not hasattr(values, "__iter__"):
        refuse(f"{of!r}.isin({values!r})", "a list of values, or a range")
    return items(values, f"{of!r}.isin")


def _constant(left: Expression, op: str, right: Any) -> int:
    """The constant that a number is divided or shifted by."""
    shift = op in ("<<", ">>")
    if isinstance(right, Expression):
        what = "a shift by a constant" if shift else "a constant to divide by"
        refuse(f"{left!r} {op} {right!r}", f"{what}: not supported otherwise")
    c = whole_number(right)
    if shift and not 0 <= c <= 4096:
        refuse(f"{left!r} {op} {c}", "a shift by 0 to 4096 bits")
    if not shift and c < 1:
        refuse(f"{left!r} {op} {c}", "a positive constant to divide by")
    return c


def _bits(left: Expression, op: str, right: Any) -> Number:
    if isinstance(right, (Rule, bool, np.bool_)):
        refuse(
            f"{left!r} {op} {right!r}", "two rules or two numbers; in Python `&` binds before `==`"
        )
    return number(right)


def _rule(left: Expression, op: str, right: Any) -> Rule:
    if isinstance(right, (Rule, bool, np.bool_)):
        return rule(right)
    return refuse(
        f"{left!r} {op} {right!r}", "two rules; in Python `&` and `|` bind before comparisons"
    )


def _is_measure(value: Any) -> bool:
    """Numbers that need not be whole (`nelson.space.language.measures`) know what to do."""
    return getattr(value, "op", "") == "measure" or hasattr(value, "measure")


def width(low: int, high: int) -> int:
    """Bits of the smallest two's complement that holds low and high, its sign bit included."""
    return 1 + max(low.bit_length() if low >= 0 else (~low).bit_length(), high.bit_length())


def _span(a: Number, b: Number) -> tuple[int, int]:
    """Bounds of a bitwise operation: all numbers of the wider operand's width."""
    w = max(width(max(x.low, 0), max(x.high, ~x.low, 0)) for x in (a, b)) - 1
    return (0 if a.low >= 0 and b.low >= 0 else -(1 << w)), (1 << w) - 1
