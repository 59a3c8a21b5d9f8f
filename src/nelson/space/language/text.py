"""An expression as text, in the syntax that `parse` reads back: a safe subset of Python's.

This module knows the nodes of `expressions` by name only, so that expressions can print themselves.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from keyword import iskeyword
from typing import Any

#: The operators with two arguments: what they do, Python's node, and how tightly they bind.
OPERATORS: dict[str, tuple[Callable[[Any, Any], Any], type, int]] = {
    "==": (operator.eq, ast.Eq, 5),
    "!=": (operator.ne, ast.NotEq, 5),
    "<": (operator.lt, ast.Lt, 5),
    "<=": (operator.le, ast.LtE, 5),
    ">": (operator.gt, ast.Gt, 5),
    ">=": (operator.ge, ast.GtE, 5),
    "|": (operator.or_, ast.BitOr, 6),
    "^": (operator.xor, ast.BitXor, 7),
    "&": (operator.and_, ast.BitAnd, 8),
    "<<": (operator.lshift, ast.LShift, 9),
    ">>": (operator.rshift, ast.RShift, 9),
    "+": (operator.add, ast.Add, 10),
    "-": (operator.sub, ast.Sub, 10),
    "*": (operator.mul, ast.Mult, 11),
    "%": (operator.mod, ast.Mod, 11),
    "//": (operator.floordiv, ast.FloorDiv, 11),
    "/": (operator.truediv, ast.Div, 11),
    "**": (operator.pow, ast.Pow, 13),
}
#: The comparisons; with a node on either side they build a rule.
COMPARISONS = {sign: apply for sign, (apply, _, level) in OPERATORS.items() if level == 5}
_BINDING = {"or": 2, "and": 3} | {sign: level for sign, (_, _, level) in OPERATORS.items()}
_TIGHT = 20
#: What is printed as a call of a function on all arguments.
_CALLS = {
    **{op: op for op in ("implies", "iff", "count", "distinct")},
    **{op: op for op in ("concat", "signed", "unsigned", "bvsmod")},
    "value": "number",
}
#: Operators with one argument: their sign, and how tightly they bind.
_PREFIXES = {"not": ("not ", 4), "neg": ("-", 12), "bvneg": ("-", 12), "bvnot": ("~", 12)}
#: The operators of bit vectors: sign -> what they are called in SMT-LIB, without and with a sign.
VECTOR_OPERATORS = {
    "==": ("bv=", "bv="),
    "<": ("bvult", "bvslt"),
    "<=": ("bvule", "bvsle"),
    "+": ("bvadd", "bvadd"),
    "-": ("bvsub", "bvsub"),
    "*": ("bvmul", "bvmul"),
    "//": ("bvudiv", "bvsdiv"),
    "%": ("bvurem", "bvsrem"),
    "&": ("bvand", "bvand"),
    "|": ("bvor", "bvor"),
    "^": ("bvxor", "bvxor"),
    "<<": ("bvshl", "bvshl"),
    ">>": ("bvlshr", "bvashr"),
}
VECTOR_COMPARISONS = {op for sign in ("==", "<", "<=") for op in VECTOR_OPERATORS[sign]}
#: Operators with two arguments that have another name than their sign.
_SIGNS = {"xor": "^"} | {op: sign for sign, ops in VECTOR_OPERATORS.items() for op in ops}
_SHIFTS = ("bvshl", "bvlshr", "bvashr")


def text(expression: Any) -> str:
    """The expression in one line."""
    return _print(expression)[0]


def name_text(name: str) -> str:
    """A field in a rule: its name, or field("its name") if Python could not read that."""
    parts = name.split(".")
    plain = name not in _FUNCTIONS and all(
        part.isidentifier() and not iskeyword(part) for part in parts
    )
    return name if plain and len(parts) <= 2 else f"field({name!r})"


def _print(node: Any) -> tuple[str, int]:
    """The text, and how tightly its outermost operator binds."""
    if not hasattr(node, "op"):
        return repr(node), _TIGHT
    op, args = node.op, node.args
    if op in ("field", "bits"):
        return name_text(node.name), _TIGHT
    if op == "const":
        return repr(args[0]), _TIGHT if not isinstance(args[0], int) or args[0] >= 0 else 12
    if op == "bvconst":
        return f"bits({args[0]}, {node.width})", _TIGHT
    if op in ("truth", "possible"):
        return _print(args[0])
    if op == "measure":  # a comparison has its text; a sum shows its columns
        return (args[2], 5) if len(args) == 3 else (" + ".join(map(text, args[0])) or "0", 10)
    if op == "bit":
        return f"{_inside(args[0], _TIGHT)}[{args[1]}] == 1", 5
    if op == "extract":
        x, high, low = args
        return f"{_inside(x, _TIGHT)}[{high}{f':{low}' if low != high else ''}]", _TIGHT
    if op in ("zero_extend", "sign_extend"):
        return f"{op}({text(args[0])}, {node.width})", _TIGHT
    if op == "count" and _is_popcount(args):
        return f"popcount({text(args[0].args[0])})", _TIGHT
    if op in _CALLS:
        return f"{_CALLS[op]}({', '.join(map(text, args))})", _TIGHT
    if op == "table":
        columns, rows = args
        cells = [tuple(_value(c, v) for c, v in zip(columns, row, strict=True)) for row in rows]
        return f"table([{', '.join(map(text, columns))}], {cells!r})", _TIGHT
    negated = op == "not"
    compared = args[0] if negated else node
    if compared.op in ("is", "in", "same"):
        return _membership(compared, negated)
    if negated and compared.op == "bv=":
        return _infix("bv=", "!=", compared.args)
    if op in _PREFIXES:
        sign, binding = _PREFIXES[op]
        return f"{sign}{_inside(args[0], binding)}", binding
    if op in ("if", "bvif"):
        then, otherwise = _operands(args[1], args[2], 2, 1)
        return f"{then} if {_inside(args[0], 2)} else {otherwise}", 1
    if op == "+":
        return _sum(args), _BINDING[op]
    if op in ("and", "or"):
        return f" {op} ".join(_inside(arg, _BINDING[op] + 1) for arg in args), _BINDING[op]
    return _infix(op, _SIGNS.get(op, op), args)


def _infix(op: str, sign: str, args: tuple[Any, ...]) -> tuple[str, int]:
    binding = _BINDING[sign]
    # A comparison within a comparison takes parentheses on both sides: Python would chain them.
    tight = 6 if binding == 5 else binding
    left, right = _operands(args[0], args[1], tight, binding + 1, op in _SHIFTS)
    return f"{left} {sign} {right}", binding


def _operands(a: Any, b: Any, left: int, right: int, shift: bool = False) -> tuple[str, str]:
    """Two operands. A constant vector beside a vector that is none prints as its number, and so
    does the amount of a shift.
    """

    def shown(x: Any, other: Any, least: int, is_amount: bool) -> str:
        if getattr(x, "op", "") != "bvconst":
            return _inside(x, least)
        beside = other.op != "bvconst" and x.is_signed == other.is_signed
        if not (is_amount or (beside and not shift)):
            return _inside(x, least)
        value = x.args[0]
        if x.is_signed and value >> (x.width - 1):
            value -= 1 << x.width
        return f"({value})" if value < 0 else str(value)

    return shown(a, b, left, False), shown(b, a, right, shift)


def _is_popcount(args: tuple[Any, ...]) -> bool:
    return all(a.op == "bit" and a.args[0] is args[0].args[0] for a in args) and [
        a.args[1] for a in args
    ] == list(range(args[0].args[0].width))


def _sum(terms: tuple[Any, ...], most: int = 50) -> str:
    """a + b - c; sum(a, b, ...) of more terms: Python would nest the additions too deeply."""
    if len(terms) > most:
        zero = terms[0].op == "const" and terms[0].args[0] == 0  # `sum` begins with it
        return f"sum({', '.join(text(term) for term in terms[zero:])})"
    shown = _inside(terms[0], 10)
    for term in terms[1:]:
        if term.op == "neg":
            shown += f" - {_inside(term.args[0], 11)}"
        elif term.op == "const" and term.args[0] < 0:
            shown += f" - {-term.args[0]}"
        else:
            shown += f" + {_inside(term, 11)}"
    return shown


def _inside(node: Any, least: int) -> str:
    shown, binding = _print(node)
    return shown if binding >= least else f"({shown})"


def _membership(node: Any, negated: bool) -> tuple[str, int]:
    left, right = node.args
    if node.op == "in":
        return _in_runs(_inside(left, 6), right, "not in" if negated else "in")
    if node.op == "same":
        return f"{text(left)} {'!=' if negated else '=='} {text(right)}", 5
    values = [_value(left, v) for v in right]
    shown = _inside(left, 6)
    if len(values) == 1:
        return f"{shown} {'!=' if negated else '=='} {values[0]!r}", 5
    return f"{shown} {'not in' if negated else 'in'} {values!r}", 5


def _in_runs(
    left: str, runs: tuple[tuple[int, int], ...], word: str, most: int = 100
) -> tuple[str, int]:
    """Membership in ranges (first, last): one range, a list, or several ranges beyond `most`."""
    if len(runs) == 1 and runs[0][1] - runs[0][0] > 1:
        return f"{left} {word} range({runs[0][0]}, {runs[0][1] + 1})", 5
    if sum(last - first + 1 for first, last in runs) <= most:
        values = [v for first, last in runs for v in range(first, last + 1)]
        return f"{left} {word} {values!r}", 5
    op = "or" if word == "in" else "and"
    return f" {op} ".join(f"{left} {word} range({a}, {b + 1})" for a, b in runs), _BINDING[op]


def _value(column: Any, cell: int) -> Any:
    """The user's value of a cell of a table: categories are kept as codes."""
    return column.values[cell] if column.coded else cell


#: Words of the language that a field may be called, too: such a field is written field("count").
_FUNCTIONS = {
    *("field", "table", "forbidden", "implies", "iff", "count", "distinct", "at_most", "at_least"),
    *("exactly", "if_else", "element", "sum", "range", "abs", "min", "max"),
    *("bits", "number", "concat", "zero_extend", "sign_extend", "popcount", "signed", "unsigned"),
    "bvsmod",
}
