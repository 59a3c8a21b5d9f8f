"""CPMpy: constraint models (package cpmpy). No solver is called; expressions are walked.

A Boolean variable becomes a flag, an integer variable an integer, with the same names. Operators
and the common global constraints are translated one by one. Any other global constraint is
replaced by its own decomposition, as long as that needs no new variables: a new variable may be
free in some solutions, and then rows would no longer be solutions.

`//` and `%` round toward zero, as in CPMpy. A division by zero or an index outside of its list
makes the nearest Boolean expression around it false, as in CPMpy ("relational semantics").
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from nelson.errors import FormulaError, installed, shortened
from nelson.space.language import expressions, functions
from nelson.space.language.expressions import Number, Rule, if_else
from nelson.space.language.functions import all_of, any_of, count, distinct, parity
from nelson.space.language.text import COMPARISONS

if TYPE_CHECKING:
    from nelson.space.space import Space


def fill(space: Space, model: Any) -> None:
    """Add the variables and constraints of a CPMpy model."""
    with installed('from_cpmpy needs cpmpy: pip install "nelson-mrf[cpmpy]"'):
        import cpmpy
        from cpmpy.transformations.get_variables import get_variables_model
    if not isinstance(model, cpmpy.Model):
        raise FormulaError(f"from_cpmpy of {type(model).__name__}", expected="a cpmpy.Model")
    if model.has_objective():
        raise FormulaError(
            f"a CPMpy model with the objective {_short(model.objective_)}",
            expected="constraints only, as cpmpy.Model(model.constraints): all solutions are drawn",
        )
    for variable in get_variables_model(model):
        if variable.is_bool():
            space.flag(variable.name)
        else:
            space.integer(variable.name, int(variable.lb), int(variable.ub))
    reader = _ModelReader(space)
    for constraint in _flat(model.constraints):
        try:
            space.require(reader.rule(constraint), name=_name(constraint))
        except RecursionError:
            raise FormulaError(
                f"the CPMpy expression {_short(constraint)}, which is nested too deeply",
                expected="several smaller constraints",
            ) from None


class _ModelReader:
    """CPMpy expressions as rules and numbers of a space."""

    def __init__(self, space: Space) -> None:
        self.space = space
        #: For each Boolean expression that is being read: what must hold for it to be defined.
        self.guards: list[list[Rule]] = []

    # --- rules ------------------------------------------------------------------------------------

    def rule(self, e: Any) -> Rule:
        """A Boolean expression. It is false where a part of it is undefined."""
        if _is_constant(e):
            value = _constant(e)
            if value not in (0, 1):
                raise _unsupported(e, "something true or false")
            return expressions.rule(bool(value))
        if not e.is_bool():
            raise _unsupported(e, "something true or false")
        if hasattr(e, "_bv"):
            return ~self.space[e._bv.name]
        if _is_variable(e):
            return self.space[e.name]
        self.guards.append([])
        made = self._rule(e)
        return all_of([made, *self.guards.pop()])

    def rules(self, items: Any) -> list[Rule]:
        return [self.rule(item) for item in _flat(items)]

    def _rule(self, e: Any) -> Rule:
        if e.name in COMPARISONS:
            return self._comparison(e.name, *e.args)
        read = _RULES.get(e.name)
        return self._decomposed(e) if read is None else read(self, e)

    def _comparison(self, name: str, a: Any, b: Any) -> Rule:
        if name in ("==", "!=") and _is_truth(a) and _is_truth(b):
            same = self.rule(a).iff(self.rule(b))
            return same if name == "==" else ~same
        return COMPARISONS[name](self.number(a), self.number(b))

    def _decomposed(self, e: Any) -> Rule:
        """The decomposition that CPMpy has for a global constraint."""
        parts, defining = self._decomposition(e)
        for constraint in _flat(defining):
            self.space.require(self.rule(constraint), name=_name(e))
        return all_of(self.rules(parts))

    def _decomposition(self, e: Any) -> tuple[Any, Any]:
        from cpmpy.transformations.get_variables import get_variables

        if not hasattr(e, "decompose"):
            raise _unsupported(e, "an operator or a global constraint that has a decomposition")
        parts, defining = e.decompose()
        if new := [v.name for v in get_variables([parts, defining]) if v.name not in self.space]:
            raise _unsupported(
                e, "another constraint: the decomposition of this one has new variables", new
            )
        return parts, defining

    def _alldifferent_except(self, e: Any) -> Rule:
        items, free = self.numbers(e.args[0]), _constants(e.args[1])
        pairs = itertools.combinations(items, 2)
        return all_of((a != b) | a.isin(free) for a, b in pairs)

    def _chain(self, e: Any, compare: Callable[[Number, Number], Rule]) -> Rule:
        return all_of(itertools.starmap(compare, itertools.pairwise(self.numbers(e.args))))

    def _table(self, e: Any) -> Rule:
        return functions.table(self.numbers(e.args[0]), [_constants(row) for row in e.args[1]])

    def _gcc(self, e: Any) -> Rule:
        items, values = self.numbers(e.args[0]), _constants(e.args[1])
        times = self.numbers(e.args[2])
        rules = [count([a == v for a in items]) == n for v, n in zip(values, times, strict=True)]
        if e.closed:
            rules += [a.isin(values) for a in items]
        return all_of(rules)

    def _inverse(self, e: Any) -> Rule:
        there, back = self.numbers(e.args[0]), self.numbers(e.args[1])
        n = len(there)
        rules = [a.isin(range(n)) for a in there]
        for (i, a), (j, b) in itertools.product(enumerate(there), enumerate(back)):
            rules.append((a == j).implies(b == i))
        return all_of(rules)

    def _circuit(self, e: Any, most: int = 10) -> Rule:
        """A permutation of which no part is closed: no set of nodes without node 0 is.

        most: nodes; n nodes take 2^(n-1) clauses.
        """
        nodes = self.numbers(e.args)
        n = len(nodes)
        if n > most:
            raise _unsupported(e, f"a circuit of at most {most} nodes")
        rules = [distinct(*nodes), *(a.isin(range(n)) for a in nodes)]
        for size in range(1, n):
            for part in itertools.combinations(range(1, n), size):
                rules.append(any_of(~nodes[i].isin(part) for i in part))
        return all_of(rules)

    def _before(self, e: Any, equal: bool) -> Rule:
        """The first list comes before the second one in the order of a dictionary."""
        before = expressions.rule(equal)
        for x, y in zip(*(reversed(self.numbers(each)) for each in e.args[:2]), strict=True):
            before = (x < y) | ((x == y) & before)
        return before

    # --- numbers ----------------------------------------------------------------------------------

    def number(self, e: Any) -> Number:
        """A numerical expression; a Boolean one counts 1 or 0."""
        if _is_constant(e):
            return expressions.number(_constant(e))
        if e.is_bool():
            return expressions.number(self.rule(e))
        if _is_variable(e):
            return self.space[e.name]
        return self._number(e)

    def numbers(self, items: Any) -> list[Number]:
        return [self.number(item) for item in _flat(items)]

    def _number(self, e: Any) -> Number:
        if (read := _NUMBERS.get(e.name)) is not None:
            return expressions.number(read(self, e))
        value, defining = self._decomposition(e)
        for constraint in _flat(defining):
            self.space.require(self.rule(constraint))
        return self.number(value)

    def _weighted(self, e: Any) -> Any:
        pairs = zip(_constants(e.args[0]), self.numbers(e.args[1]), strict=True)
        return sum(w * a for w, a in pairs)

    def _divided(self, e: Any, by: Callable[[Number, int], Number], most: int = 256) -> Number:
        """One quotient for each value of the divisor, which may have only a few."""
        a, b = self.number(e.args[0]), self.number(e.args[1])
        if b.high - b.low >= most:
            raise _unsupported(e, f"a divisor of at most {most} values")
        if b.low <= 0 <= b.high:
            self.guards[-1].append(b != 0)
        results = [by(a, c) if c else expressions.number(0) for c in range(b.low, b.high + 1)]
        return _chosen(results, b, b.low)

    def _power(self, e: Any) -> Number:
        if not _is_constant(e.args[1]) or _constant(e.args[1]) < 0:
            raise _unsupported(e, "a power with a constant exponent, 0 or more")
        base, product = self.number(e.args[0]), expressions.number(1)
        for k in range(_constant(e.args[1])):
            product = product * base if k else base
        return product

    def _count(self, items: Any, value: Number) -> Number:
        return count([a == value for a in self.numbers(items)])

    def _picked(self, of: Any, at_each: Any, shape: list[int]) -> Number:
        """of[at_each]; with a guard if an index may be outside of its range."""
        items, indices, at = self.numbers(of), self.numbers(at_each), expressions.number(0)
        for index, size in zip(indices, shape, strict=True):
            if index.low < 0 or index.high >= size:
                self.guards[-1].append((index >= 0) & (index < size))
            at = at * size + index if len(shape) > 1 else index
        first, last = max(at.low, 0), min(at.high, len(items) - 1)
        return _chosen(items[first : last + 1] or [expressions.number(0)], at, first)

    def _values(self, e: Any, items: list[Number], without: set[int], most: int = 4096) -> Number:
        """How many values occur; of at most so many that can."""
        low, high = min(a.low for a in items), max(a.high for a in items)
        if high - low >= most:
            raise _unsupported(e, f"arguments of at most {most} values")
        return count(
            [any_of(a == v for a in items) for v in range(low, high + 1) if v not in without]
            or [False]
        )


# --- pieces -------------------------------------------------------------------------------------


def _quotient(a: Number, c: int) -> Number:
    """a / c, rounded toward zero."""
    k = abs(c)
    quotient = a // k if a.low >= 0 else -(-a // k)
    if a.low < 0 < a.high:
        quotient = if_else(a < 0, -(-a // k), a // k)
    return quotient if c > 0 else -quotient


def _remainder(a: Number, c: int) -> Number:
    """a - c (a / c): it has the sign of a."""
    k = abs(c)
    if a.low < 0 < a.high:
        return if_else(a < 0, -(-a % k), a % k)
    return a % k if a.low >= 0 else -(-a % k)


def _chosen(items: list[Number], at: Number, first: int) -> Number:
    """items[at - first], by bisection: not deep even for long lists."""
    if len(items) == 1:
        return items[0]
    half = len(items) // 2
    left, right = _chosen(items[:half], at, first), _chosen(items[half:], at, first + half)
    return if_else(at < first + half, left, right)


def _flat(items: Any) -> list[Any]:
    """The items of nested lists and arrays."""
    if isinstance(items, np.ndarray):
        items = items.flat
    elif not isinstance(items, (list, tuple, set, frozenset, range)):
        return [items]
    return [item for part in items for item in _flat(part)]


def _is_constant(e: Any) -> bool:
    return not hasattr(e, "is_bool") or type(e).__name__ == "BoolVal"


def _is_variable(e: Any) -> bool:
    return hasattr(e, "lb") and hasattr(e, "ub")


def _is_truth(e: Any) -> bool:
    return e.is_bool() if hasattr(e, "is_bool") else isinstance(e, (bool, np.bool_))


def _constant(e: Any) -> int:
    """A whole number."""
    value = e.args[0] if type(e).__name__ == "BoolVal" else e
    whole = isinstance(value, (bool, np.bool_, int, np.integer))
    if not whole and not (isinstance(value, (float, np.floating)) and float(value).is_integer()):
        raise _unsupported(e, "whole numbers")
    return int(value)


def _constants(items: Any) -> list[int]:
    return [_constant(item) for item in _flat(items)]


def _name(constraint: Any) -> str | None:
    """A global constraint as CPMpy prints it, which is shorter than the rule; else None."""
    known = _is_constant(constraint) or constraint.name in (*COMPARISONS, "and", "or", "not", "->")
    return None if known or _is_variable(constraint) else _short(constraint)


def _unsupported(e: Any, expected: str, new: list[str] | None = None) -> FormulaError:
    what = f"the CPMpy expression {_short(e)}"
    if new:
        what += f" (new variables: {', '.join(new[:4])}{', ...' if len(new) > 4 else ''})"
    return FormulaError(what, expected=expected)


def _short(e: Any) -> str:
    return shortened(" ".join(str(e).split()), 200)


#: Name of a Boolean expression, besides comparisons -> how it is read.
_RULES: dict[str, Callable[[_ModelReader, Any], Rule]] = {
    "and": lambda r, e: all_of(r.rules(e.args)),
    "or": lambda r, e: any_of(r.rules(e.args)),
    "not": lambda r, e: ~r.rule(e.args[0]),
    "->": lambda r, e: r.rule(e.args[0]).implies(r.rule(e.args[1])),
    "xor": lambda r, e: parity(*r.rules(e.args)),
    "ite": lambda r, e: if_else(*r.rules(e.args)),
    "alldifferent": lambda r, e: distinct(*r.numbers(e.args)),
    "alldifferent_except_n": _ModelReader._alldifferent_except,
    "alldifferent_except_0": _ModelReader._alldifferent_except,
    "alldifferent_except0": _ModelReader._alldifferent_except,
    "increasing": lambda r, e: r._chain(e, operator.le),
    "decreasing": lambda r, e: r._chain(e, operator.ge),
    "strictly_increasing": lambda r, e: r._chain(e, operator.lt),
    "strictly_decreasing": lambda r, e: r._chain(e, operator.gt),
    "allequal": lambda r, e: r._chain(e, operator.eq),
    "indomain": lambda r, e: r.number(e.args[0]).isin(_constants(e.args[1])),
    "table": _ModelReader._table,
    "negative_table": lambda r, e: ~r._table(e),
    "gcc": _ModelReader._gcc,
    "inverse": _ModelReader._inverse,
    "circuit": _ModelReader._circuit,
    "lex_less": lambda r, e: r._before(e, equal=False),
    "lex_lesseq": lambda r, e: r._before(e, equal=True),
}
#: Name of a numerical expression -> how it is read.
_NUMBERS: dict[str, Callable[[_ModelReader, Any], Any]] = {
    "sum": lambda r, e: sum(r.numbers(e.args)),
    "wsum": _ModelReader._weighted,
    "sub": lambda r, e: r.number(e.args[0]) - r.number(e.args[1]),
    "-": lambda r, e: -r.number(e.args[0]),
    "mul": lambda r, e: r.number(e.args[0]) * r.number(e.args[1]),
    "div": lambda r, e: r._divided(e, _quotient),
    "mod": lambda r, e: r._divided(e, _remainder),
    "pow": _ModelReader._power,
    "abs": lambda r, e: abs(r.number(e.args[0])),
    "min": lambda r, e: functions.minimum(r.numbers(e.args)),
    "max": lambda r, e: functions.maximum(r.numbers(e.args)),
    "element": lambda r, e: r._picked(e.args[0], e.args[1:], [len(e.args[0])]),
    "nd_element": lambda r, e: r._picked(e.args[0], e.args[1:], list(e.args[0].shape)),
    "count": lambda r, e: r._count(e.args[0], r.number(e.args[1])),
    "among": lambda r, e: count([a.isin(_constants(e.args[1])) for a in r.numbers(e.args[0])]),
    "nvalue": lambda r, e: r._values(e, r.numbers(e.args), set()),
    "nvalue_except": lambda r, e: r._values(e, r.numbers(e.args[0]), {_constant(e.args[1])}),
}
