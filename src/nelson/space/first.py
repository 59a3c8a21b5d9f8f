"""Fields that are chosen first: uniform over their legal values, then the rest given these.

With weights 1 / P(a) on the values a of these fields P(a) becomes uniform, and the rest given a
stays uniform.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nelson.errors import BudgetExceeded, FormulaError
from nelson.space.clauses.gates import TRUE
from nelson.space.language.expressions import Rule
from nelson.space.language.functions import all_of
from nelson.space.law import Law
from nelson.space.marginals import shares_of
from nelson.space.terms import has

if TYPE_CHECKING:
    from nelson.space.space import Space

#: Combinations of values that fields which are chosen first may have.
MAX_FIRST = 4096


def chosen_first(space: Space, law: Law, first: Iterable[Any]) -> Law:
    """Uniform over the legal values of some fields, and over the rest given these."""
    names = [first] if isinstance(first, (str, Rule)) or hasattr(first, "name") else list(first)
    fields = [space.field(name) for name in names]
    if not fields:
        raise FormulaError("first = []", expected="names of fields")
    combinations = math.prod(field.size for field in fields)
    if combinations > MAX_FIRST:
        raise FormulaError(
            f"first = {[f.name for f in fields]}, of {combinations:,} combinations of values",
            expected=f"at most {MAX_FIRST}",
        )
    values = [[has(f, f.value(code)) for code in range(f.size)] for f in fields]
    rules = [all_of(each) for each in itertools.product(*values)]
    formula, literals = space.extended_law(law, rules)
    shares, guarantee, _ = shares_of(space, law, rules)
    if guarantee != "exact":
        raise BudgetExceeded(
            "the order of choice needs exact shares, but the space could not be enumerated or "
            "compiled: fix the fields with given= and draw for each of their values"
        )
    theta = law.padded(formula.n_vars, evidence=False)
    for x, share in zip(literals, shares.tolist(), strict=True):
        if share > 0 and abs(x) != TRUE:
            theta[abs(x) - 1] -= math.log(share) if x > 0 else -math.log(share)
    return replace(law, formula=formula, theta=theta, rules=(*law.rules, *rules))
