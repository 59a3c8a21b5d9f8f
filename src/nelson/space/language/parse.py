"""Rules as text, in a safe subset of Python's expression syntax. Text is parsed, never evaluated.

    addr + len <= 0xFFFF
    implies(burst == "WRAP", len in [2, 4, 8])
    0 <= x < 5 and not (a or b)
    count(a, b, c) <= 2
    (x if write else y) % 4 == 0

Names are fields; `field("any name")` stands for a name that Python could not read. `and`, `or`,
`not` and chained comparisons may be written as in Python, and everything that works on expressions
(`&`, `.implies()`, `.isin()`) works here as well.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from functools import reduce
from math import inf
from typing import Any

from nelson.errors import FormulaError, shortened
from nelson.space.language import expressions, functions, vectors
from nelson.space.language.expressions import Category, Expression, Number, Rule, refuse
from nelson.space.language.fields import Bins, Flags
from nelson.space.language.measures import Measure
from nelson.space.language.text import COMPARISONS, OPERATORS
from nelson.space.language.vectors import Bits

#: Longest text of one rule, and deepest nesting.
MAX_TEXT = 100_000
MAX_DEPTH = 200
#: Largest constant, in bits.
MAX_BITS = 8192

_BINARY = {
    node: apply for apply, node, _ in OPERATORS.values() if apply not in COMPARISONS.values()
}
_COMPARE = {OPERATORS[sign][1]: apply for sign, apply in COMPARISONS.items()}


def _sum(*terms: Any) -> Any:
    listed = functions.flattened(terms)
    numbers = [expressions.number(term) for term in listed]
    return sum(numbers) if any(isinstance(t, Expression) for t in listed) else sum(listed)


def _bits(a: Any) -> Bits:
    return a if isinstance(a, Bits) else expressions.refuse(f"{a!r}", "a vector of bits")


#: Name -> (function, fewest and most arguments, how it is called).
_FUNCTIONS: dict[str, tuple[Callable[..., Any], int, float, str]] = {
    "implies": (lambda a, b: expressions.rule(a).implies(b), 2, 2, "implies(rule, rule)"),
    "iff": (lambda a, b: expressions.rule(a).iff(b), 2, 2, "iff(rule, rule)"),
    "count": (functions.count, 0, inf, "count(rule, ...)"),
    "distinct": (functions.distinct, 0, inf, "distinct(number, ...)"),
    "at_most": (functions.at_most, 2, inf, "at_most(k, rule, ...)"),
    "at_least": (functions.at_least, 2, inf, "at_least(k, rule, ...)"),
    "exactly": (functions.exactly, 2, inf, "exactly(k, rule, ...)"),
    "table": (functions.table, 2, 2, "table([field, ...], [(value, ...), ...])"),
    "forbidden": (functions.forbidden, 2, 2, "forbidden([field, ...], [(value, ...), ...])"),
    "if_else": (expressions.if_else, 3, 3, "if_else(rule, number, number)"),
    "element": (functions.element, 2, 2, "element([number, ...], index)"),
    "min": (functions.minimum, 0, inf, "min(number, ...)"),
    "max": (functions.maximum, 0, inf, "max(number, ...)"),
    "abs": (lambda a: abs(expressions.number(a)), 1, 1, "abs(number)"),
    "sum": (_sum, 0, inf, "sum(number, ...)"),
    "bits": (vectors.constant, 2, 2, "bits(number, width)"),
    "number": (lambda a: _bits(a).number, 1, 1, "number(vector)"),
    "concat": (vectors.concat, 1, inf, "concat(vector, ...)"),
    "zero_extend": (vectors.zero_extend, 2, 2, "zero_extend(vector, width)"),
    "sign_extend": (vectors.sign_extend, 2, 2, "sign_extend(vector, width)"),
    "popcount": (vectors.popcount, 1, 1, "popcount(vector)"),
    "signed": (vectors.signed, 1, 1, "signed(vector)"),
    "unsigned": (vectors.unsigned, 1, 1, "unsigned(vector)"),
    "bvsmod": (lambda a, b: vectors.smod(_bits(a), b), 2, 2, "bvsmod(vector, vector)"),
}
#: What has methods -> their names. All but `count` take one argument.
_METHODS: dict[type, tuple[str, ...]] = {
    Rule: ("implies", "iff", "isin"),
    Number: ("isin",),
    Category: ("isin",),
    Bits: ("isin",),
    Flags: ("count",),
}
#: Longest range that stands for a list. In `x in range(...)` it may have any length.
MAX_RANGE = 10_000

#: A name -> the field or the set of flags; raises FormulaError if there is none.
Names = Callable[[str], Any]


def parse(text: str, names: Names) -> Rule:
    """The rule that a text states. Raises FormulaError with the text and the place."""
    if not isinstance(text, str):
        refuse(f"a rule of type {type(text).__name__}", "a string or a rule")
    if len(text) > MAX_TEXT:
        refuse(f"a rule of {len(text)} characters", f"at most {MAX_TEXT}")
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        reason = getattr(error, "msg", None) or str(error)
        raise FormulaError(f"the rule {_cut(text)} cannot be read: {reason}") from None
    try:
        value = _RuleReader(text, names).read(tree.body)
        return expressions.rule(value)
    except FormulaError as error:
        if error.what.startswith("in the rule "):
            raise
        what = f"in the rule {_cut(text)}: {shortened(error.what, 1000)}"
        raise FormulaError(what, expected=error.expected) from None
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise FormulaError(f"in the rule {_cut(text)}: {error}") from None


class _RuleReader:
    def __init__(self, text: str, names: Names) -> None:
        self.text, self.names, self.depth = text, names, 0

    def read(self, node: ast.expr) -> Any:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            refuse("nested too deeply", f"at most {MAX_DEPTH} levels")
        reader = getattr(self, f"_{type(node).__name__}", None)
        if reader is None:
            raise self._unsupported(node)
        value = reader(node)
        self.depth -= 1
        return value

    def _unsupported(self, node: ast.expr) -> FormulaError:
        return FormulaError(f"{self._piece(node)} is not supported", expected="see docs/space.md")

    def _piece(self, node: ast.expr) -> str:
        piece = ast.get_source_segment(self.text.strip(), node) or type(node).__name__
        return _cut(piece)

    def _Constant(self, node: ast.Constant) -> Any:
        if isinstance(node.value, int) and node.value.bit_length() > MAX_BITS:
            refuse(f"a number of {node.value.bit_length():,} bits", f"at most {MAX_BITS:,}")
        if isinstance(node.value, (bool, int, float, str)) or node.value is None:
            return node.value
        raise self._unsupported(node)

    def _Name(self, node: ast.Name) -> Any:
        return self.names(node.id)

    def _Attribute(self, node: ast.Attribute) -> Any:
        if isinstance(node.value, ast.Name):
            return self.names(f"{node.value.id}.{node.attr}")
        raise self._unsupported(node)

    def _Subscript(self, node: ast.Subscript) -> Any:
        of = self.read(node.value)
        if isinstance(of, Bits):
            return of[self._bits_of(node.slice)]
        member = self.read(node.slice)
        if isinstance(of, Flags) and isinstance(member, str):
            return of[member]
        raise self._unsupported(node)

    def _bits_of(self, node: ast.expr) -> Any:
        """The place in x[3], or the places in x[7:4]."""
        if not isinstance(node, ast.Slice):
            return self.read(node)
        high, low, step = (
            None if end is None else self.read(end) for end in (node.lower, node.upper, node.step)
        )
        return slice(high, low, step)

    def _List(self, node: ast.List | ast.Tuple | ast.Set) -> list[Any]:
        return [self.read(item) for item in node.elts]

    _Tuple = _Set = _List

    def _BoolOp(self, node: ast.BoolOp) -> Rule:
        rules = [expressions.rule(self.read(value)) for value in node.values]
        return reduce(operator.and_ if isinstance(node.op, ast.And) else operator.or_, rules)

    def _UnaryOp(self, node: ast.UnaryOp) -> Any:
        value = self.read(node.operand)
        if isinstance(node.op, ast.Not):
            return ~expressions.rule(value)
        if isinstance(node.op, ast.Invert):
            if isinstance(value, (bool, Rule)):
                return ~expressions.rule(value)
            if isinstance(value, Bits):
                return ~value
            return -self._operand(node, value) - 1
        value = self._operand(node, value)
        return -value if isinstance(node.op, ast.USub) else value

    def _operand(self, node: ast.expr, value: Any) -> Any:
        """A number or a rule, of the rows or constant: what arithmetic takes."""
        if isinstance(value, Bins):
            return value.measure
        if isinstance(value, (Number, Rule, Bits, int, float)):
            return value
        choices = "; the values of a choice are not numbers" * isinstance(value, Category)
        shown = shortened(repr(value), 200)
        return refuse(f"{shown} in {self._piece(node)}", f"numbers or rules{choices}")

    def _BinOp(self, node: ast.BinOp) -> Any:
        if type(node.op) not in _BINARY:
            raise self._unsupported(node)
        left, right = self.read(node.left), self.read(node.right)
        if isinstance(node.op, ast.Pow) and any(isinstance(x, Expression) for x in (left, right)):
            raise self._unsupported(node)
        left, right = self._operand(node, left), self._operand(node, right)
        if isinstance(node.op, ast.Div) and not isinstance(left, Measure):
            raise self._unsupported(node)
        bits = isinstance(node.op, (ast.BitAnd, ast.BitOr, ast.BitXor))
        if bits and isinstance(left, bool) and isinstance(right, bool):
            left = expressions.rule(left)
        if not isinstance(left, Expression) and not isinstance(right, Expression):
            a, b = expressions.whole_number(left), expressions.whole_number(right)
            return _folded(_BINARY[type(node.op)], a, b, self._unsupported(node))
        return _BINARY[type(node.op)](left, right)

    def _Compare(self, node: ast.Compare) -> Rule:
        sides = [node.left, *node.comparators]
        values = [self.read(side) for side in sides]
        rules = []
        for op, left, right in zip(node.ops, values, values[1:], strict=False):
            if isinstance(op, (ast.In, ast.NotIn)):
                of = left if isinstance(left, Category) else self._operand(node, left)
                if not isinstance(of, (Category, Rule, Bits)):
                    of = expressions.number(of)
                inside = of.isin(right)
                rules.append(inside if isinstance(op, ast.In) else ~inside)
            elif type(op) in _COMPARE:
                rules.append(self._compared(node, _COMPARE[type(op)], left, right))
            else:
                raise self._unsupported(node)
        return reduce(operator.and_, rules)

    def _compared(
        self, node: ast.expr, op: Callable[[Any, Any], Any], left: Any, right: Any
    ) -> Rule:
        if isinstance(left, Expression) or isinstance(right, Expression):
            if not isinstance(left, Expression) and isinstance(right, Category):
                left, right = right, left  # == and != only; an order is refused either way
            return op(left, right)
        if not (isinstance(left, str) and isinstance(right, str)):
            left, right = self._operand(node, left), self._operand(node, right)
        return expressions.rule(bool(op(left, right)))

    def _IfExp(self, node: ast.IfExp) -> Any:
        return expressions.if_else(
            self.read(node.test), self.read(node.body), self.read(node.orelse)
        )

    def _Call(self, node: ast.Call) -> Any:
        if node.keywords:
            raise self._unsupported(node)
        if isinstance(node.func, ast.Attribute):
            return self._method(node, node.func)
        if not isinstance(node.func, ast.Name):
            raise self._unsupported(node)
        values = [self.read(arg) for arg in node.args]
        name = node.func.id
        if name == "field" and len(values) == 1 and isinstance(values[0], str):
            return self.names(values[0])
        if name == "range" and all(type(v) is int for v in values) and 1 <= len(values) <= 3:
            if len(values) == 3 and values[2] == 0:
                raise self._unsupported(node)
            return range(*values)
        if name not in _FUNCTIONS:
            raise self._unsupported(node)
        function, least, most, form = _FUNCTIONS[name]
        if not least <= len(values) <= most:
            what = f"{self._piece(node)}, with {len(values)} arguments"
            refuse(what, form)
        for k, value in enumerate(values):
            if isinstance(value, range):
                values[k] = expressions.items(value, f"{name} of a range", MAX_RANGE)
        return function(*values)

    def _method(self, node: ast.Call, func: ast.Attribute) -> Any:
        of = self.read(func.value)
        if isinstance(of, (bool, int, float)):
            of = expressions.rule(of) if isinstance(of, bool) else expressions.number(of)
        known = next((names for kind, names in _METHODS.items() if isinstance(of, kind)), ())
        least = 0 if func.attr == "count" else 1
        if func.attr not in known or len(node.args) != least:
            forms = ", ".join(f".{name}({'...' if name != 'count' else ''})" for name in known)
            what = f"{self._piece(node)}, a method of {shortened(repr(of), 200)}"
            refuse(what, forms or "a rule, a number, a choice or a set before it")
        return getattr(of, func.attr)(*map(self.read, node.args))


def _folded(op: Callable[[int, int], int], left: int, right: int, error: FormulaError) -> int:
    """An operation on two constants, of a size that cannot exhaust the memory."""
    least = {operator.mod: 1, operator.floordiv: 1}
    least |= {operator.lshift: 0, operator.rshift: 0, operator.pow: 0}
    bits = {operator.lshift: left.bit_length() + right, operator.pow: left.bit_length() * right}
    if right < least.get(op, right) or not 0 <= bits.get(op, 0) <= MAX_BITS:
        raise error
    value = op(left, right)  # two numbers of at most MAX_BITS: quick, and then checked
    if value.bit_length() > MAX_BITS:
        raise error
    return value


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return f"`{text if len(text) <= 200 else text[:197] + '...'}`"
