"""The law of a problem as joint moves see it: units with weights, and factors between them.

    P(x) ~ prod_u weight_u(value of u) * prod_f (w_f where all literals of f are false, else 1)

A clause is a factor with w = 0. A *term*, exp(c) on a product of literals, is a factor too: with
c < 0 on the negated literals, w = exp(c). With c > 0 it is rewritten, since weights are at most 1:

    [l1 l2 l3] = [l1] - [l1 not l2] - [l1 l2 not l3]

so l1 gets exp(c), and each of the products after it exp(-c).

A unit is a variable or a field (`kernels/cpu/cutset.py`). In a clause the literals of one field are
one part: the set of values for which they are all false. Clauses for which such a set is empty hold
by themselves: those that say "exactly one" and "at most one" of the field are among them.

Clauses with more than a few units would be large cliques. They are cut into clauses of three with
*helpers*: y_1 = l_1 or l_2, y_2 = y_1 or l_3, and so on. A helper is a function of the state, so it
changes no law, and it may be held or free as any variable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nelson.errors import FormulaError
from nelson.kernels.cpu.cutset import MOST_VALUES, Factors, Units
from nelson.kernels.cpu.joint import Helpers
from nelson.sampling.problem import Problem

#: Clauses of more units are cut with helpers, unless they have more than _MOST_CUT literals for
#: each variable: then helpers would be most of the formula.
_LONG, _MOST_CUT = 5, 8
#: Terms may change the logarithm of P by at most this much around one variable: a table cannot
#: hold larger ratios.
_MOST_TERMS = 300.0
#: Values of a field stay possible however small their weight is, as those of a variable do.
_LEAST = 2.0**-32

#: Variables from 0, of which one is true, or none as well if the second is False.
Field = tuple[Sequence[int], bool]
#: Literals, as in DIMACS, and the coefficient of their product.
Terms = Mapping[tuple[int, ...], float]


@dataclass(frozen=True, eq=False)
class FactorGraph:
    n: int  # variables, helpers included
    units: Units
    factors: Factors
    helpers: Helpers
    moving: np.ndarray  # (units,) bool: not fixed
    fields: int  # units that are fields
    weights: np.ndarray  # the weights of factors; the first is 0
    singles: np.ndarray  # (n,): what terms add to theta

    @property
    def variables(self) -> np.ndarray:
        """(units,): how many variables each unit has."""
        named = np.concatenate([[0], np.cumsum(self.units.variable >= 0)])
        return np.diff(named[self.units.at])

    def unit_weights(self, problem: Problem, theta: np.ndarray) -> np.ndarray:
        """(contexts, values of all units): the weights of the values; those of a unit add up to 1.

        A variable has the probabilities that single sweeps use, multiples of 2^-32.
        """
        at, variable = self.units
        every = np.zeros((len(theta), self.n))
        every[:, : theta.shape[1]] = theta
        every += self.singles
        value = np.where(variable >= 0, every[:, variable], 0.0)
        sizes = np.diff(at)
        value -= np.repeat(np.maximum.reduceat(value, at[:-1], axis=1), sizes, axis=1)
        value = np.exp(value)
        value /= np.repeat(np.add.reduceat(value, at[:-1], axis=1), sizes, axis=1)
        value = np.maximum(value, _LEAST)
        total = problem.formula.n_total
        one = np.full((len(theta), self.n), 0.5)
        one[:, :total] = problem.thresholds(theta) / 2.0**32
        plain = np.flatnonzero((sizes == 2) & (variable[at[:-1]] < 0))
        names = variable[at[plain] + 1]
        plain, names = plain[self.singles[names] == 0], names[self.singles[names] == 0]
        value[:, at[plain]], value[:, at[plain] + 1] = 1 - one[:, names], one[:, names]
        return value


def factor_graph(problem: Problem, fields: Iterable[Field] = (), terms: Terms = {}) -> FactorGraph:
    """The factor graph of a problem with these fields, which share no variable."""
    rest, total = problem.rest, problem.formula.n_total
    soft, weights, shift = _below_one(terms, total)
    chosen = [(list(names), exact) for names, exact in fields if len(names) < MOST_VALUES]
    unit, value, last = _numbered(total, chosen)
    lengths = np.diff(rest.offsets)
    clause = np.repeat(np.arange(len(lengths)), lengths)
    own = unit[np.abs(rest.literals) - 1] if chosen else clause
    order = np.lexsort((own, clause))  # stable: without fields, literals keep their order
    literals, helpers, sizes, n = _cut(rest.literals[order], rest.offsets, unit, total)
    unit = np.concatenate([unit, len(last) + np.arange(n - total)])
    value = np.concatenate([value, np.ones(n - total, np.int64)])
    last = np.concatenate([last, np.ones(n - total, np.int64)])
    literals = np.concatenate([literals, *(np.array(one, np.int32) for one in soft)])
    column = np.concatenate([np.zeros(len(sizes)), 1 + np.arange(len(soft))]).astype(np.int32)
    sizes = np.concatenate([sizes, [len(one) for one in soft]]).astype(np.int64)
    at = np.concatenate([[0], np.cumsum(last + 1)]).astype(np.int64)
    names = np.full(int(at[-1]), -1, np.int32)
    names[at[unit] + value] = np.arange(n)
    moving = np.ones(len(last), bool)
    moving[unit[np.abs(problem.fixed) - 1]] = False
    return FactorGraph(
        n=n,
        units=Units(at, names),
        factors=_factors(literals, sizes, column, unit, value, last),
        helpers=helpers,
        moving=moving,
        fields=len(chosen),
        weights=np.concatenate([[0.0], weights]),
        singles=np.concatenate([shift, np.zeros(n - total)]),
    )


def _numbered(
    n: int, fields: Sequence[tuple[list[int], bool]]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(n,) the unit of each variable; (n,) the value for which it is true; (units,) last values.

    Value 0 of a unit is "none", or the first variable of a field that has exactly one.
    """
    leader = np.arange(n)
    value = np.ones(n, np.int64)
    highest = np.ones(n, np.int64)
    for names, exact in fields:
        leader[names] = names[0]
        value[names] = np.arange(len(names)) + (not exact)
        highest[names[0]] = len(names) - exact
    kept, unit = np.unique(leader, return_inverse=True)
    return unit, value, highest[kept]


def _below_one(terms: Terms, n: int) -> tuple[list[list[int]], list[float], np.ndarray]:
    """Terms as clauses with weights below 1, and what they add to theta (n,)."""
    clauses, weights, shift, around = [], [], np.zeros(n), np.zeros(n)
    for literals, coefficient in terms.items():
        left = list(dict.fromkeys(literals))
        if any(-one in left for one in left) or not left or coefficient == 0:
            continue  # the product is always 0, or a constant
        around[[abs(one) - 1 for one in left]] += abs(coefficient)
        if len(left) > 1 and coefficient < 0:
            clauses.append([-one for one in left])
            weights.append(float(np.exp(coefficient)))
            continue
        shift[abs(left[0]) - 1] += coefficient * np.sign(left[0])
        for k in range(1, len(left)):
            clauses.append([*(-one for one in left[:k]), left[k]])
            weights.append(float(np.exp(-coefficient)))
    if around.max(initial=0) > _MOST_TERMS:
        raise FormulaError(
            f"terms that sum up to {around.max():.3g} around variable {1 + around.argmax()}",
            expected=f"at most {_MOST_TERMS}; forbid structures with clauses instead",
        )
    return clauses, weights, shift


def _cut(
    literals: np.ndarray, offsets: np.ndarray, unit: np.ndarray, n: int
) -> tuple[np.ndarray, Helpers, np.ndarray, int]:
    """The clauses, those of many units cut into short ones; helpers; lengths; variables.

    The literals of a clause are sorted by their units.
    """
    lengths = np.diff(offsets)
    own = unit[np.abs(literals) - 1]
    begins = np.ones(len(literals), bool)  # a literal of another unit than the one before it
    begins[1:] = own[1:] != own[:-1]
    begins[offsets[:-1][lengths > 0]] = True
    number = np.diff(np.concatenate([[0], np.cumsum(begins)])[offsets])
    is_long = number > _LONG
    if lengths[is_long].sum() > _MOST_CUT * n:
        is_long[:] = False
    short = np.repeat(~is_long, lengths)
    clauses: list[list[int]] = []
    defined: list[tuple[int, int, int]] = []
    known: dict[tuple[int, int], int] = {}
    for j in np.flatnonzero(is_long).tolist():
        left, *others = literals[offsets[j] : offsets[j + 1]].tolist()
        while len(others) > 1:
            right = others.pop(0)
            if (left, right) not in known:
                n += 1
                known[left, right] = n
                defined.append((n, left, right))
                clauses += [[n, -left], [n, -right], [-n, left, right]]
            left = known[left, right]
        clauses.append([left, *others])
    table = np.array(defined, np.int64).reshape(-1, 3)
    codes = 2 * (np.abs(table) - 1) + (table > 0)
    helpers = Helpers(
        (table[:, 0] - 1).astype(np.int32),
        codes[:, 1].astype(np.int32),
        codes[:, 2].astype(np.int32),
    )
    kept = np.concatenate([literals[short], *(np.array(c) for c in clauses)]).astype(np.int32)
    sizes = np.concatenate([lengths[~is_long], [len(c) for c in clauses]]).astype(np.int64)
    return kept, helpers, sizes, n


def _factors(
    literals: np.ndarray,
    sizes: np.ndarray,
    column: np.ndarray,
    unit: np.ndarray,
    value: np.ndarray,
    last: np.ndarray,
) -> Factors:
    """Factors of those sizes part by part, without those that never apply."""
    factor = np.repeat(np.arange(len(sizes)), sizes)
    name = np.abs(literals) - 1
    order = np.lexsort((unit[name], factor))
    factor, name, positive = factor[order], name[order], literals[order] > 0
    every = (np.int64(2) << last[unit[name]]) - 1
    one = np.int64(1) << value[name]
    false = np.where(positive, every & ~one, one)
    new = np.ones(len(name), bool)
    new[1:] = (factor[1:] != factor[:-1]) | (unit[name][1:] != unit[name][:-1])
    starts = np.flatnonzero(new)
    values = np.bitwise_and.reduceat(false, starts) if len(starts) else false
    possible = np.ones(len(sizes), bool)
    possible[factor[starts][values == 0]] = False
    kept = possible[factor[starts]]
    many = np.diff(np.append(starts, len(name)))
    part = np.repeat(kept, many)
    parts = np.bincount(factor[starts][kept], minlength=len(sizes))[possible]
    return Factors(
        at=np.concatenate([[0], np.cumsum(parts)]).astype(np.int64),
        weight=column[possible],
        unit=unit[name][starts][kept].astype(np.int32),
        values=values[kept],
        literal_at=np.concatenate([[0], np.cumsum(many[kept])]).astype(np.int64),
        literal=(2 * name + positive)[part].astype(np.int32),
    )
