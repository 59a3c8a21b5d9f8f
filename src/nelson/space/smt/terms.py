"""Terms of SMT-LIB as expressions of the language of spaces: rules, and vectors of bits.

    (bvult (bvadd x #x01) y)                x + 1 < y
    (ite c ((_ extract 7 4) x) #b0000)      if_else(c, x[7:4], 0)

Arrays are read through: (select (store a i v) j) is (ite (= i j) v (select a j)), and an element of
a declared array is a vector of its own, made when its index appears.

Terms are built without recursion: `_Builder` walks generators with a stack of its own.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, NoReturn

from nelson.errors import FormulaError, shortened
from nelson.space.language import vectors
from nelson.space.language.expressions import Derived, Expression, Rule, if_else, rule
from nelson.space.language.functions import all_of, any_of
from nelson.space.language.vectors import Bits, concat, signed, unsigned
from nelson.space.smt.reader import Misread, Quoted, written

#: Widest index of an array of which all elements are made when a term, not a number, is the index.
WHOLE_ARRAYS = 6


@dataclass(frozen=True)
class Sort:
    """Bool (width 0), a vector of `width` bits, or an array of such; index: bits of its indices."""

    width: int
    index: int = 0

    def __str__(self) -> str:
        if self.index:
            return f"(Array (_ BitVec {self.index}) (_ BitVec {self.width}))"
        return f"(_ BitVec {self.width})" if self.width else "Bool"


BOOL = Sort(0)


@dataclass(frozen=True, eq=False)
class ArrayTerm:
    """A declared array (`name`), a constant one (`value`), or one made from others by `op`."""

    sort: Sort
    op: str  # "declared", "const", "store", "ite"
    args: tuple[Any, ...]


@dataclass(frozen=True)
class Macro:
    """A defined function: its parameters with their sorts, and its body."""

    parameters: tuple[tuple[str, Sort], ...]
    sort: Sort
    body: Any


#: What a name stands for: a term, or a function.
Meaning = Expression | ArrayTerm | Macro
#: (array, index) -> the element of a declared array.
Element = Callable[[ArrayTerm, Bits], Bits]
Steps = Generator[tuple[Any, ...], Any, Any]


def sort_of(term: Any) -> Sort:
    if isinstance(term, ArrayTerm):
        return term.sort
    return Sort(term.width) if isinstance(term, Bits) else BOOL


def read_sort(given: Any, aliases: dict[str, Sort]) -> Sort:
    """The sort that an s-expression names."""
    if isinstance(given, str):
        if given == "Bool":
            return BOOL
        if given in aliases:
            return aliases[given]
    elif len(given) == 3 and given[:2] == ["_", "BitVec"]:
        width = numeral(given[2])
        if not 1 <= width <= vectors.MAX_VECTOR:
            refuse(f"vectors of {given[2]} bits: 1 to {vectors.MAX_VECTOR} are supported")
        return Sort(width)
    elif len(given) == 3 and given[0] == "Array":
        index, element = (read_sort(each, aliases) for each in given[1:])
        if index.index or element.index or not index.width or not element.width:
            unsupported(f"the sort {_shown(given)}: arrays map vectors to vectors")
        return Sort(element.width, index.width)
    return unsupported(f"the sort {_shown(given)}")


def numeral(text: Any) -> int:
    if not isinstance(text, str) or not text.isdecimal() or len(text) > 20:
        refuse(f"{_shown(text)} is no numeral")
    return int(text)


def refuse(why: str) -> NoReturn:
    raise FormulaError(why)


def unsupported(why: str) -> NoReturn:
    """For what this solver does not know, although it may be right SMT-LIB."""
    refuse(f"{why} is not supported")


def _shown(given: Any) -> str:
    return shortened(written(given), 120)


_HEX, _BINARY = re.compile(r"#x[0-9a-fA-F]+"), re.compile(r"#b[01]+")


def literal(atom: str) -> Bits | None:
    """#x1F or #b0101."""
    if _HEX.fullmatch(atom):
        return vectors.constant(int(atom[2:], 16), 4 * (len(atom) - 2))
    if _BINARY.fullmatch(atom):
        return vectors.constant(int(atom[2:], 2), len(atom) - 2)
    return None


class TermReader:
    """s-expressions -> terms. `names`: what the script has declared and defined."""

    def __init__(
        self, names: dict[str, Meaning], aliases: dict[str, Sort], element: Element
    ) -> None:
        self.names, self.aliases, self.element = names, aliases, element
        self.named: list[tuple[str, Any]] = []  # (! term :named name), in their order
        self._bound: dict[str, list[Any]] = {}  # by `let` and by the parameters of functions

    def read(self, given: Any) -> Any:
        """The term: a Rule, Bits or an ArrayTerm."""
        self._bound = {}
        stack: list[Steps] = [self._term(given)]
        value: Any = None
        while stack:
            try:
                asked = stack[-1].send(value)
            except StopIteration as done:
                stack.pop()
                value = done.value
            else:
                stack.append(self._term(asked))
                value = None
        return value

    def rule(self, given: Any) -> Rule:
        term = self.read(given)
        return term if isinstance(term, Rule) else refuse(f"{_shown(given)} is no Bool")

    # --- the walk ---------------------------------------------------------------------------------

    def _term(self, given: Any) -> Steps:
        if isinstance(given, str):
            return self._atom(given)
        if not given:
            refuse("() is no term")
        head = given[0]
        if head == "let":
            return (yield from self._let(given))
        if head == "!":
            return (yield from self._annotated(given))
        if head in ("forall", "exists", "lambda", "match"):
            unsupported(f"({head} ...)")
        if isinstance(head, list) or head == "_":
            return (yield from self._indexed(given))
        arguments = []
        for each in given[1:]:
            arguments.append((yield each))
        macro = self.names.get(head)
        if isinstance(macro, Macro) and head not in self._bound:
            return (yield from self._called(head, macro, arguments))
        return self._applied(head, arguments)

    def _atom(self, atom: str) -> Any:
        if isinstance(atom, (Quoted, Misread)):
            refuse(f"{_shown(atom)} is no term")
        if bound := self._bound.get(atom):
            return bound[-1]
        if (meaning := self.names.get(atom)) is not None:
            if not isinstance(meaning, Macro):
                return meaning
            if not meaning.parameters:
                return meaning.body
            refuse(f"the function {_shown(atom)} without arguments")
        if atom in ("true", "false"):
            return rule(atom == "true")
        if (constant := literal(atom)) is not None:
            return constant
        if atom[:1].isdigit():
            unsupported(f"the number {_shown(atom)}")
        return refuse(f"unknown constant {_shown(atom)}")

    def _let(self, given: list[Any]) -> Steps:
        pairs = given[1] if len(given) == 3 else None
        if not isinstance(pairs, list) or not all(
            isinstance(p, list) and len(p) == 2 and isinstance(p[0], str) for p in pairs
        ):
            refuse(f"{_shown(given)}: expected (let ((name term) ...) term)")
        values = []
        for _, value in pairs:
            values.append((yield value))
        return (yield from self._within([name for name, _ in pairs], values, given[2]))

    def _within(self, names: list[str], values: list[Any], body: Any) -> Steps:
        for name, value in zip(names, values, strict=True):
            self._bound.setdefault(name, []).append(value)
        term = yield body
        for name in names:
            self._bound[name].pop()
        return term

    def _called(self, name: str, macro: Macro, arguments: list[Any]) -> Steps:
        wanted = [sort for _, sort in macro.parameters]
        if [sort_of(each) for each in arguments] != wanted:
            refuse(f"{name} of {_sorts(arguments)}, expected {' '.join(map(str, wanted))}")
        outside, self._bound = self._bound, {}  # its body sees its parameters only
        term = yield from self._within([n for n, _ in macro.parameters], arguments, macro.body)
        self._bound = outside
        return term

    def _annotated(self, given: list[Any]) -> Steps:
        if len(given) < 2:
            refuse("(!) without a term")
        term = yield given[1]
        for key, value in zip(given[2::2], given[3::2], strict=False):
            if key == ":named" and isinstance(value, str):
                self.named.append((value, term))
        return term

    def _indexed(self, given: list[Any]) -> Steps:
        head = given[0]
        if head == "_":  # (_ bv5 8)
            if len(given) == 3 and re.fullmatch(r"bv\d+", str(given[1])):
                width = read_sort(["_", "BitVec", given[2]], {}).width
                return vectors.constant(int(given[1][2:]), width)
            unsupported(_shown(given))
        if head[:2] == ["as", "const"] and len(head) == 3 and len(given) == 2:
            sort = read_sort(head[2], self.aliases)
            value = yield given[1]
            if not sort.index or sort_of(value) != Sort(sort.width):
                refuse(f"{_shown(given)}: sorts do not agree")
            return ArrayTerm(sort, "const", (value,))
        if head[:1] != ["_"] or len(head) < 3 or len(given) != 2:
            unsupported(_shown(given))
        x = yield given[1]
        if not isinstance(x, Bits):
            refuse(f"({_shown(head)} ...) of {sort_of(x)}")
        return _part(head[1], [numeral(each) for each in head[2:]], x)

    def _applied(self, name: Any, arguments: list[Any]) -> Any:
        if name in ("select", "store"):
            return self._of_array(name, arguments)
        if name == "ite" and len(arguments) == 3 and isinstance(arguments[1], ArrayTerm):
            c, a, b = arguments
            if isinstance(c, Rule) and sort_of(a) == sort_of(b):
                return ArrayTerm(a.sort, "ite", (c, a, b))
        function = _FUNCTIONS.get(name)
        if function is None:
            refuse(f"unknown function {_shown(name)}")
        kind, least, most, apply = function
        if any(isinstance(each, ArrayTerm) for each in arguments):
            unsupported(f"{name} of arrays")
        if not least <= len(arguments) <= most:
            refuse(f"{name} of {len(arguments)} arguments")
        good = {
            "bool": all(isinstance(each, Rule) for each in arguments),
            "bits": all(isinstance(each, Bits) for each in arguments),
            "same": len({sort_of(each) for each in arguments}) == 1,
            "any": True,
        }
        if kind == "bits" and name != "concat":
            good["bits"] = good["bits"] and good["same"]
        if not good[kind]:
            refuse(f"{name} of {_sorts(arguments)}")
        return apply(*arguments)

    # --- arrays -----------------------------------------------------------------------------------

    def _of_array(self, name: str, arguments: list[Any]) -> Any:
        array = arguments[0] if arguments else None
        wanted = {"select": 2, "store": 3}[name]
        if not isinstance(array, ArrayTerm) or len(arguments) != wanted:
            refuse(f"{name} of {_sorts(arguments)}")
        sorts = [Sort(array.sort.index), Sort(array.sort.width)][: wanted - 1]
        if [sort_of(each) for each in arguments[1:]] != sorts:
            refuse(f"{name} of {_sorts(arguments)}")
        if name == "store":
            return ArrayTerm(array.sort, "store", tuple(arguments))
        return self._selected(array, arguments[1])

    def _selected(self, array: ArrayTerm, index: Bits) -> Bits:
        """The element, with all stores on the way as choices."""
        stores: list[tuple[Rule, Bits]] = []
        while array.op == "store":
            array, at, value = array.args
            if at.op == index.op == "bvconst":
                if at.args == index.args:
                    return _choices(stores, value)
                continue
            stores.append((at == index, value))
        if array.op == "const":
            return _choices(stores, array.args[0])
        if array.op == "ite":
            c, a, b = array.args
            element = if_else(c, self._selected(a, index), self._selected(b, index))
            return _choices(stores, element)
        return _choices(stores, self.element(array, index))


def _choices(stores: list[tuple[Rule, Bits]], value: Bits) -> Bits:
    for same, stored in reversed(stores):
        value = if_else(same, stored, value)
    return value


def _sorts(arguments: list[Any]) -> str:
    return " ".join(str(sort_of(each)) for each in arguments) or "nothing"


def _part(name: str, numbers: list[int], x: Bits) -> Bits:
    """((_ name numbers) x)."""
    if name == "extract" and len(numbers) == 2:
        high, low = numbers
        if not x.width > high >= low:
            refuse(f"(_ extract {high} {low}) of {x.width} bits")
        return vectors.extract(x, high, low)
    if len(numbers) != 1:
        unsupported(f"(_ {name} {' '.join(map(str, numbers))})")
    n = numbers[0]
    if name in ("zero_extend", "sign_extend", "repeat") and (n + 1) * x.width > 1 << 20:
        refuse(f"(_ {name} {n}) of {x.width} bits is too wide")
    if name == "zero_extend":
        return vectors.zero_extend(x, x.width + n)
    if name == "sign_extend":
        return unsigned(vectors.sign_extend(x, x.width + n))
    if name == "repeat" and n:
        return concat(*[x] * n)
    if name in ("rotate_left", "rotate_right"):
        turned = (n if name == "rotate_left" else -n) % x.width
        if not turned:
            return x
        return concat(x[x.width - 1 - turned : 0], x[x.width - 1 : x.width - turned])
    return unsupported(f"(_ {name} {n})")


# --- functions ----------------------------------------------------------------------------------


def _equal(*terms: Any) -> Rule:
    return all_of(_same(a, b) for a, b in itertools.pairwise(terms))


def _same(a: Any, b: Any) -> Rule:
    return a.iff(b) if isinstance(a, Rule) else a == b


def _distinct(*terms: Any) -> Rule:
    return all_of(~_same(a, b) for k, a in enumerate(terms) for b in terms[:k])


def _ite(c: Any, a: Any, b: Any) -> Any:
    if not isinstance(c, Rule) or sort_of(a) != sort_of(b):
        refuse(f"ite of {_sorts([c, a, b])}")
    return if_else(c, a, b)


def _folded(join: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def apply(first: Any, *rest: Any) -> Any:
        for each in rest:
            first = join(first, each)
        return first

    return apply


_ANY = 10**9
#: Name -> (what it takes, fewest and most arguments, function).
_FUNCTIONS: dict[Any, tuple[str, int, int, Callable[..., Any]]] = {
    "not": ("bool", 1, 1, lambda a: ~a),
    "and": ("bool", 1, _ANY, lambda *a: all_of(a)),
    "or": ("bool", 1, _ANY, lambda *a: any_of(a)),
    "xor": ("bool", 2, _ANY, _folded(lambda a, b: Derived("xor", (a, b)))),
    "=>": ("bool", 2, _ANY, lambda *a: any_of([*(~each for each in a[:-1]), a[-1]])),
    "=": ("same", 2, _ANY, _equal),
    "distinct": ("same", 2, _ANY, _distinct),
    "ite": ("any", 3, 3, _ite),
    "concat": ("bits", 2, _ANY, concat),
    "bvnot": ("bits", 1, 1, lambda a: ~a),
    "bvneg": ("bits", 1, 1, lambda a: -a),
    "bvand": ("bits", 2, _ANY, _folded(lambda a, b: a & b)),
    "bvor": ("bits", 2, _ANY, _folded(lambda a, b: a | b)),
    "bvxor": ("bits", 2, _ANY, _folded(lambda a, b: a ^ b)),
    "bvadd": ("bits", 2, _ANY, _folded(lambda a, b: a + b)),
    "bvmul": ("bits", 2, _ANY, _folded(lambda a, b: a * b)),
    "bvsub": ("bits", 2, _ANY, _folded(lambda a, b: a - b)),
    "bvnand": ("bits", 2, 2, lambda a, b: ~(a & b)),
    "bvnor": ("bits", 2, 2, lambda a, b: ~(a | b)),
    "bvxnor": ("bits", 2, 2, lambda a, b: ~(a ^ b)),
    "bvcomp": ("bits", 2, 2, lambda a, b: if_else(a == b, vectors.constant(1, 1), 0)),
    "bvudiv": ("bits", 2, 2, lambda a, b: a // b),
    "bvurem": ("bits", 2, 2, lambda a, b: a % b),
    "bvsdiv": ("bits", 2, 2, lambda a, b: unsigned(signed(a) // signed(b))),
    "bvsrem": ("bits", 2, 2, lambda a, b: unsigned(signed(a) % signed(b))),
    "bvsmod": ("bits", 2, 2, vectors.smod),
    "bvshl": ("bits", 2, 2, lambda a, b: a << b),
    "bvlshr": ("bits", 2, 2, lambda a, b: a >> b),
    "bvashr": ("bits", 2, 2, lambda a, b: unsigned(signed(a) >> b)),
    "bvult": ("bits", 2, 2, lambda a, b: a < b),
    "bvule": ("bits", 2, 2, lambda a, b: a <= b),
    "bvugt": ("bits", 2, 2, lambda a, b: a > b),
    "bvuge": ("bits", 2, 2, lambda a, b: a >= b),
    "bvslt": ("bits", 2, 2, lambda a, b: signed(a) < signed(b)),
    "bvsle": ("bits", 2, 2, lambda a, b: signed(a) <= signed(b)),
    "bvsgt": ("bits", 2, 2, lambda a, b: signed(a) > signed(b)),
    "bvsge": ("bits", 2, 2, lambda a, b: signed(a) >= signed(b)),
}
