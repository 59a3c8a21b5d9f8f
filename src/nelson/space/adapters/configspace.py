"""ConfigSpace: configuration spaces with conditions and forbidden clauses (package ConfigSpace).

How a hyperparameter becomes a field:

    categorical, ordinal, constant       a choice
    integer                              an integer
    continuous                           a choice of the values that the user gives (bins)
    ... that a condition may deactivate  a choice with one more value, None. An integer of more than
                                         MAX_NONE values: the integer, pinned to its lowest value
                                         while inactive, and a flag `name.active`.

So each legal configuration is exactly one row. A hyperparameter is active if and only if its
condition holds. What an inactive parent means follows ConfigSpace's own check of configurations:
`!=` holds, every other comparison fails, and a forbidden clause about it is never fulfilled.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from nelson.errors import FormulaError, installed
from nelson.io.json_values import scalar
from nelson.policy import DEFAULT
from nelson.space.language.expressions import Number, Rule, refuse, rule
from nelson.space.language.fields import Integer
from nelson.space.language.functions import all_of, any_of

if TYPE_CHECKING:
    from nelson.space.space import Space

#: Values of the largest integer that gets the value None: with it a choice is still one-hot.
MAX_NONE = DEFAULT.space.one_hot_choice - 1
_ACTIVE = ".active"

Compare = Callable[[Any, Any], Any]
#: What conditions, forbidden clauses and relations are called, without these words.
_COMPARE: dict[str, Compare] = {
    "Equals": operator.eq,
    "NotEquals": operator.ne,
    "LessThan": operator.lt,
    "LessThanEquals": operator.le,
    "GreaterThan": operator.gt,
    "GreaterThanEquals": operator.ge,
}


def fill(space: Space, given: Any, bins: Mapping[str, Any]) -> None:
    """Add the hyperparameters, conditions and forbidden clauses of a ConfigurationSpace."""
    with installed('from_configspace needs ConfigSpace: pip install "nelson-mrf[configspace]"'):
        from ConfigSpace import ConfigurationSpace
    if not isinstance(given, ConfigurationSpace):
        refuse(f"from_configspace of {type(given).__name__}", "a ConfigurationSpace")
    for name in bins:
        if name not in given:
            refuse(f"bins of {name!r}", f"names of hyperparameters: {list(given)}")
    conditional = set(given.conditional_hyperparameters)
    known: dict[str, _Hyperparameter] = {}
    for name, hp in given.items():
        known[name] = _Hyperparameter(space, hp, name in conditional, bins.get(name))
        weights = known[name].weights()
        if weights:
            space.weights[name] = weights
    for condition in given.conditions:
        child = known[condition.child.name]
        holds = _holds(condition, known)
        space.require(child.active.iff(holds), name=f"condition {condition}")
    for hyper in known.values():
        if hyper.pinned is not None:
            space.require(hyper.active | (hyper.field == hyper.pinned))
    for clause in given.forbidden_clauses:
        space.require(~_holds(clause, known), name=str(clause))


def configurations(given: Any, rows: Any) -> Iterator[Any]:
    """The rows of a space made by `fill` as Configurations of the ConfigurationSpace `given`.

    ConfigSpace checks each of them and raises if it is not legal.
    """
    from ConfigSpace import Configuration

    for row in rows:
        values = {
            name: row[name]
            for name in given
            if row[name] is not None and row.get(name + _ACTIVE, True)
        }
        yield Configuration(given, values=values)


class _Hyperparameter:
    """A hyperparameter as a field, and what can be said about it."""

    def __init__(self, space: Space, hp: Any, conditional: bool, bins: Any) -> None:
        kind = type(hp).__name__
        self.hp, self.active = hp, rule(True)
        self.pinned: int | None = None
        self.ordinal = kind == "OrdinalHyperparameter"
        #: All values in the order of the hyperparameter; None for an integer.
        self.values: list[Hashable] | None = None
        if kind.endswith("FloatHyperparameter"):
            self.values = _binned(hp, bins)
        elif bins is not None:
            refuse(f"bins of {hp}", "bins of continuous hyperparameters only")
        elif kind == "CategoricalHyperparameter":
            self.values = [scalar(v) for v in hp.choices]
        elif self.ordinal:
            self.values = [scalar(v) for v in hp.sequence]
        elif kind == "Constant":
            self.values = [scalar(hp.value)]
        elif not kind.endswith("IntegerHyperparameter"):
            refuse(f"the hyperparameter {hp}", "a kind that ConfigSpace has")
        elif conditional and hp.upper - hp.lower < MAX_NONE:
            self.values = list(range(int(hp.lower), int(hp.upper) + 1))
        self.field: Any
        if self.values is None:
            self.field = space.integer(hp.name, int(hp.lower), int(hp.upper))
            if conditional:
                self.active = space.flag(hp.name + _ACTIVE)
                self.pinned = self.field.low
        else:
            self.field = space.choice(hp.name, [*self.values, *([None] if conditional else [])])
            if conditional:
                self.active = self.field != None  # noqa: E711 (builds a rule)

    def weights(self) -> dict[Any, float]:
        """Weights of the values of a categorical, if it has any."""
        if getattr(self.hp, "weights", None) is None or self.values is None:
            return {}
        return {
            value: float(share)
            for value, share in zip(self.values, self.hp.probabilities, strict=True)
        }

    def _and_active(self, made: Rule) -> Rule:
        """The rule, and active; for an integer. A choice that is inactive is None."""
        return made if self.pinned is None else made & self.active

    def where(self, test: Callable[[Any], bool]) -> Rule:
        """The rule: active, and with a value for which the test holds."""
        assert self.values is not None
        values = [value for value in self.values if test(value)]
        return self.field.isin(values) if values else rule(False)

    def compared(self, compare: Compare, value: Any) -> Rule:
        """The rule: active, and `compare(its value, value)`. Ordinals compare by position."""
        value = scalar(value)
        if self.values is None:
            return self._and_active(compare(self.field, value))
        if self.ordinal:
            place = self.values.index(value)
            return self.where(lambda v: compare(self.values.index(v), place))  # type: ignore[union-attr]
        return self.where(lambda v: bool(compare(v, value)))

    def isin(self, values: Any) -> Rule:
        """The rule: active, and one of these values."""
        wanted = [scalar(v) for v in values]
        if self.values is None:
            return self._and_active(self.field.isin(wanted))
        return self.where(lambda v: v in wanted)

    def related(self, compare: Compare, other: _Hyperparameter) -> Rule:
        """The rule: both are active, and `compare` holds for their values."""
        if isinstance(self.field, Number) and isinstance(other.field, Number):
            return other._and_active(self._and_active(compare(self.field, other.field)))
        if self.values is None:
            return other.related(_SWAPPED.get(compare, compare), self)
        pairs = []
        for value in self.values:
            if other.values is None:
                holds = other._and_active(_against(compare, value, other.field))
            else:
                holds = other.where(lambda w, value=value: bool(compare(value, w)))  # type: ignore[misc]
            pairs.append((self.field == value) & holds)
        return any_of(pairs)


def _against(compare: Compare, value: Any, field: Integer) -> Rule:
    """compare(value, field), for a value that need not be a whole number."""
    if isinstance(value, float) and not value.is_integer():
        below = math.floor(value)
        if compare is operator.eq:
            return rule(False)
        return field > below if compare in (operator.lt, operator.le) else field <= below
    if isinstance(value, (int, float)):
        return compare(value, field)
    if compare is operator.eq:
        return rule(False)
    raise TypeError(f"{value!r} and whole numbers have no order")


_SWAPPED: dict[Compare, Compare] = {
    operator.lt: operator.gt,
    operator.gt: operator.lt,
    operator.le: operator.ge,
    operator.ge: operator.le,
}


def _holds(clause: Any, known: Mapping[str, _Hyperparameter]) -> Rule:
    """The rule: a condition holds, or a forbidden clause is fulfilled."""
    kind = type(clause).__name__
    if kind.endswith("Conjunction"):
        parts = [_holds(c, known) for c in clause.components]
        return any_of(parts) if "Or" in kind else all_of(parts)
    name = re.sub("^Forbidden|Condition$|Clause$|Relation$", "", kind)
    if name != "In" and name not in _COMPARE:
        refuse(f"the condition or clause {clause}", "a kind that ConfigSpace has")
    try:
        if kind.endswith("Relation"):
            left, right = known[clause.left.name], known[clause.right.name]
            return left.related(_COMPARE[name], right)
        of = clause.parent if kind.endswith("Condition") else clause.hyperparameter
        if name == "In":
            return known[of.name].isin(clause.values)
        if name == "NotEquals":  # holds for an inactive parent
            return ~known[of.name].compared(operator.eq, clause.value)
        return known[of.name].compared(_COMPARE[name], clause.value)
    except TypeError as error:
        what = f"the condition or clause {clause}: {error}"
        raise FormulaError(what, expected="values with an order") from None


def _binned(hp: Any, bins: Any) -> list[Hashable]:
    """The values that stand for a continuous hyperparameter."""
    if bins is None:
        refuse(
            f"the continuous hyperparameter {hp.name!r}",
            f"bins={{{hp.name!r}: [...]}}, the values to take, or their number",
        )
    if isinstance(bins, (int, np.integer)) and not isinstance(bins, bool):
        if bins < 1:
            refuse(f"bins of {hp.name!r} = {bins}", "1 or more")
        # The middles of equal parts of the unit interval, on the scale of the hyperparameter.
        values = hp.to_value((np.arange(bins) + 0.5) / bins)
    else:
        values = list(bins)
    middles = sorted({float(v) for v in values})
    for value in middles:
        if not hp.legal_value(value):
            refuse(f"{value!r} in the bins of {hp.name!r}", str(hp))
    if not middles:
        refuse(f"bins of {hp.name!r} without values", "one or more")
    return list(middles)
