"""An expression as text, in the syntax that `parse` reads back: a safe subset of Python's.

This module knows the operators of `expressions` by name only, so that expressions can print
themselves.
"""

from __future__ import annotations

from keyword import iskeyword
from typing import Any

#: How tightly operators bind, as in Python: a larger number binds tighter.
_LEVELS = (
    ("if",),
    ("or",),
    ("and",),
    ("not",),
    ("==", "!=", "<", "<=", ">", ">=", "in", "is", "same"),
    ("|",),
    ("^", "xor"),
    ("&",),
    ("<<", ">>"),
    ("+",),
    ("*", "%", "//"),
    ("neg",),
)
_BINDING = {op: level for level, ops in enumerate(_LEVELS, start=1) for op in ops}
_CALLS = {"implies", "iff", "count", "distinct"}
_TIGHT = 20


#: Operators of bit vectors that print as those of numbers.
_VECTOR_SIGNS = {
    "bvadd": "+",
    "bvsub": "-",
    "bvmul": "*",
    "bvudiv": "//",
    "bvsdiv": "//",
    "bvurem": "%",
    "bvsrem": "%",
    "bvand": "&",
    "bvor": "|",
    "bvxor": "^",
    "bvshl": "<<",
    "bvlshr": ">>",
    "bvashr": ">>",
    "bv=": "==",
    "bvult": "<",
    "bvslt": "<",
    "bvule": "<=",
    "bvsle": "<=",
}
_VECTOR_CALLS = {"concat", "signed", "unsigned", "bvsmod"}
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
    if op == "field":
        return name_text(node.name), _TIGHT
    if op == "const":
        return repr(args[0]), _TIGHT if not isinstance(args[0], int) or args[0] >= 0 else 12
    if op == "truth":
        return _print(args[0])
    if op == "measure":  # a comparison has its text; a sum shows its columns
        return (args[2], 5) if len(args) == 3 else (" + ".join(map(text, args[0])) or "0", 10)
    if op == "possible":
        return _print(args[0])
    if (shown := _vector(node)) is not None:
        return shown
    if op in _CALLS:
        return f"{op}({', '.join(text(arg) for arg in args)})", _TIGHT
    if op == "table":
        columns, rows = args
        cells = [tuple(_value(c, v) for c, v in zip(columns, row, strict=True)) for row in rows]
        return f"table([{', '.join(map(text, columns))}], {cells!r})", _TIGHT
    if op == "not" and args[0].op in ("is", "in", "same"):
        return _membership(args[0], negated=True)
    if op in ("is", "in", "same"):
        return _membership(node, negated=False)
    if op == "not":
        return f"not {_inside(args[0], 4)}", 4
    if op == "neg":
        return f"-{_inside(args[0], 12)}", 12
    if op == "if":
        return f"{_inside(args[1], 2)} if {_inside(args[0], 2)} else {_inside(args[2], 1)}", 1
    binding = _BINDING[op]
    if op == "+":
        return _sum(args), binding
    if op in ("and", "or"):
        return f" {op} ".join(_inside(arg, binding + 1) for arg in args), binding
    # A comparison within a comparison takes parentheses on both sides: Python would chain them.
    left = _inside(args[0], binding if binding != 5 else 6)
    return f"{left} {'^' if op == 'xor' else op} {_inside(args[1], binding + 1)}", binding


def _vector(node: Any) -> tuple[str, int] | None:
    """An expression over bit vectors; None if it is none."""
    op, args = node.op, node.args
    if op == "bits":
        return name_text(args[0].name), _TIGHT
    if op == "bvconst":
        return f"bits({args[0]}, {node.width})", _TIGHT
    if op == "value":
        return f"number({text(args[0])})", _TIGHT
    if op == "bit":
        return f"{_inside(args[0], _TIGHT)}[{args[1]}] == 1", 5
    if op == "count" and _is_popcount(args):
        return f"popcount({text(args[0].args[0])})", _TIGHT
    if op == "extract":
        x, high, low = args
        return f"{_inside(x, _TIGHT)}[{high}{f':{low}' if low != high else ''}]", _TIGHT
    if op in ("zero_extend", "sign_extend"):
        return f"{op}({text(args[0])}, {node.width})", _TIGHT
    if op in _VECTOR_CALLS:
        return f"{op}({', '.join(text(arg) for arg in args)})", _TIGHT
    if op in ("bvneg", "bvnot"):
        return f"{'-' if op == 'bvneg' else '~'}{_inside(args[0], 12)}", 12
    if op == "bvif":
        then, otherwise = _operands(args[1], args[2], 2, 1)
        return f"{then} if {_inside(args[0], 2)} else {otherwise}", 1
    unequal = op == "not" and args[0].op == "bv="
    op, args = ("bv=", args[0].args) if unequal else (op, args)
    if op not in _VECTOR_SIGNS:
        return None
    sign = "!=" if unequal else _VECTOR_SIGNS[op]
    binding = _BINDING["+" if sign == "-" else sign]
    tight = binding if binding != 5 else 6
    left, right = _operands(args[0], args[1], tight, binding + 1, op in _SHIFTS)
    return f"{left} {sign} {right}", binding


def _operands(a: Any, b: Any, left: int, right: int, shift: bool = False) -> tuple[str, str]:
    """Two operands of one width: a constant beside a vector that is none prints as its number."""
    shown = []
    for x, other, least in ((a, b, left), (b, a, right)):
        plain = x.op == "bvconst" and other.op != "bvconst" and x.is_signed == other.is_signed
        first = x is a
        if x.op == "bvconst" and (plain or shift) and not (shift and first):
            value = x.args[0]
            if x.is_signed and value >> (x.width - 1):
                value -= 1 << x.width
            shown.append(f"({value})" if value < 0 else str(value))
        else:
            shown.append(_inside(x, least))
    return shown[0], shown[1]


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
