"""The law of a problem as joint moves see it: units with weights, and factors between them.

    P(x) ~ prod_u weight_u(value of u) * prod_f (0 where all literals of f are false, else 1)

A factor is a clause.

A unit is a variable or a field (`kernels/cpu/cutset.py`). In a clause the literals of one field are
one part: the set of values for which they are all false. Clauses for which such a set is empty hold
by themselves: those that say "exactly one" and "at most one" of the field are among them.

Clauses with more than a few units would be large cliques. They are cut into clauses of three with
*helpers*: y_1 = l_1 or l_2, y_2 = y_1 or l_3, and so on. A helper is a function of the state, so it
changes no law, and it may be held or free as any variable.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from nelson.chains.problem import Problem
from nelson.formula.flat import check_ahead
from nelson.formula.groups import Groups
from nelson.kernels.cpu.cutset import MOST_VALUES, Factors, UnitValues
from nelson.kernels.cpu.joint import Helpers, JointScratch

#: Clauses of more units are cut with helpers, unless they have more than _MOST_CUT literals for
#: each variable: then helpers would be most of the formula.
_LONG, _MOST_CUT = 5, 8
#: Groups of fewer literals stay variables: two of them have as many values as variables have.
_LEAST_FIELD = 3
#: Values of a field stay possible however small their weight is, as those of a variable do.
_LEAST = 2.0**-32


@dataclass(frozen=True, eq=False)
class FactorGraph:
    n: int  # variables, helpers included
    units: UnitValues
    factors: Factors
    helpers: Helpers
    moving: np.ndarray  # (units,) bool: not fixed
    fields: int  # units that are fields

    def __getstate__(self) -> dict[str, Any]:
        """For pickles: without what is kept for speed."""
        return {name: value for name, value in vars(self).items() if name != "idle_scratch"}

    @cached_property
    def idle_scratch(self) -> dict[tuple[int, int], list[JointScratch]]:
        """Work spaces that no thread uses now, by the sizes of their tables."""
        return defaultdict(list)

    @property
    def variables(self) -> np.ndarray:
        """(units,): how many variables each unit has."""
        named = np.concatenate([[0], np.cumsum(self.units.literal >= 0)])
        return np.diff(named[self.units.at])

    def unit_weights(self, problem: Problem, theta: np.ndarray) -> np.ndarray:
        """(contexts, values of all units): the weights of the values; those of a unit add up to 1.

        A variable has the probabilities that single sweeps use, multiples of 2^-32.
        """
        at, literal = self.units
        sizes, n = np.diff(at), problem.formula.n_total
        p_true = np.full((len(theta), self.n), 0.5)
        p_true[:, :n] = problem.thresholds(theta) / 2.0**32
        if not self.fields:
            return np.stack([1 - p_true, p_true], axis=2).reshape(len(theta), -1)
        every = np.zeros((len(theta), self.n))
        every[:, : theta.shape[1]] = theta
        signed = np.where(literal & 1, every[:, literal >> 1], -every[:, literal >> 1])
        value = np.where(literal >= 0, signed, 0.0)
        value -= np.repeat(np.maximum.reduceat(value, at[:-1], axis=1), sizes, axis=1)
        value = np.maximum(np.exp(value), _LEAST)
        value /= np.repeat(np.add.reduceat(value, at[:-1], axis=1), sizes, axis=1)
        lone = np.flatnonzero((sizes == 2) & (literal[at[:-1]] < 0))
        names = literal[at[lone] + 1] >> 1
        value[:, at[lone]], value[:, at[lone] + 1] = 1 - p_true[:, names], p_true[:, names]
        return value


def factor_graph(problem: Problem, fields: Groups | None = None) -> FactorGraph:
    """The factor graph of a problem with these fields."""
    rest, total = problem.rest, problem.formula.n_total
    unit, value, last, negative, n_fields = _numbered(total, fields)
    lengths = np.diff(rest.offsets)
    clause = np.repeat(np.arange(len(lengths)), lengths)
    literal_unit = unit[np.abs(rest.literals) - 1] if n_fields else clause
    order = np.lexsort((literal_unit, clause))  # stable: without fields, literals keep their order
    literals, helpers, sizes, n = _cut(rest.literals[order], rest.offsets, unit, total)
    unit = np.concatenate([unit, len(last) + np.arange(n - total)])
    value = np.concatenate([value, np.ones(n - total, np.int64)])
    last = np.concatenate([last, np.ones(n - total, np.int64)])
    negative = np.concatenate([negative, np.zeros(n - total, bool)])
    at = np.concatenate([[0], np.cumsum(last + 1)]).astype(np.int64)
    names = np.full(int(at[-1]), -1, np.int32)
    names[at[unit] + value] = 2 * np.arange(n) + ~negative
    moving = np.ones(len(last), bool)
    moving[unit[np.abs(problem.fixed) - 1]] = False
    return FactorGraph(
        n=n,
        units=UnitValues(at, names),
        factors=_in_parts(literals, sizes, unit, value, last, negative),
        helpers=helpers,
        moving=moving,
        fields=n_fields,
    )


def _numbered(
    n: int, fields: Groups | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, int]:
    """(n,) the unit of each variable, and the value for which its literal is true; (units,) the
    last values; (n,) is the literal of a variable negative; the number of fields.

    Value 0 of a unit is "none", or the first literal of a field of which exactly one is true.
    """
    leader, n_fields = np.arange(n), 0
    value, highest = np.ones(n, np.int64), np.ones(n, np.int64)
    negative = np.zeros(n, bool)
    for g in range(0 if fields is None else len(fields.exactly)):
        assert fields is not None
        literals, exact = (
            fields.literals[fields.offsets[g] : fields.offsets[g + 1]],
            fields.exactly[g],
        )
        if _LEAST_FIELD <= len(literals) < MOST_VALUES:
            names = np.abs(literals) - 1
            leader[names], negative[names] = names.min(), literals < 0
            value[names] = np.arange(len(literals)) + (not exact)
            highest[names.min()] = len(literals) - exact
            n_fields += 1
    leaders, unit = np.unique(leader, return_inverse=True)
    return unit, value, highest[leaders], negative, n_fields


def _cut(
    literals: np.ndarray, offsets: np.ndarray, unit: np.ndarray, n: int
) -> tuple[np.ndarray, Helpers, np.ndarray, int]:
    """The clauses, those of many units cut into short ones; helpers; lengths; variables.

    The literals of a clause are sorted by their units.
    """
    lengths = np.diff(offsets)
    literal_unit = unit[np.abs(literals) - 1]
    begins = np.ones(len(literals), bool)  # a literal of another unit than the one before it
    begins[1:] = literal_unit[1:] != literal_unit[:-1]
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
    cut_literals = np.concatenate([literals[short], *(np.array(c) for c in clauses)]).astype(
        np.int32
    )
    sizes = np.concatenate([lengths[~is_long], [len(c) for c in clauses]]).astype(np.int64)
    return cut_literals, helpers, sizes, n


def _in_parts(
    literals: np.ndarray,
    sizes: np.ndarray,
    unit: np.ndarray,
    value: np.ndarray,
    last: np.ndarray,
    negative: np.ndarray,
) -> Factors:
    """Factors of those sizes part by part, without those that never apply."""
    check_ahead(len(literals), 1e-6)
    factor = np.repeat(np.arange(len(sizes)), sizes)
    name = np.abs(literals) - 1
    order = np.lexsort((unit[name], factor))
    factor, name, positive = factor[order], name[order], literals[order] > 0
    every = (np.int64(2) << last[unit[name]]) - 1
    value_bit = np.int64(1) << value[name]
    false = np.where(positive != negative[name], every & ~value_bit, value_bit)
    new = np.ones(len(name), bool)
    new[1:] = (factor[1:] != factor[:-1]) | (unit[name][1:] != unit[name][:-1])
    starts = np.flatnonzero(new)
    values = np.bitwise_and.reduceat(false, starts) if len(starts) else false
    possible = np.ones(len(sizes), bool)
    possible[factor[starts][values == 0]] = False
    is_kept = possible[factor[starts]]
    part_sizes = np.diff(np.append(starts, len(name)))
    part = np.repeat(is_kept, part_sizes)
    parts = np.bincount(factor[starts][is_kept], minlength=len(sizes))[possible]
    return Factors(
        at=np.concatenate([[0], np.cumsum(parts)]).astype(np.int64),
        unit=unit[name][starts][is_kept].astype(np.int32),
        values=values[is_kept],
        literal_at=np.concatenate([[0], np.cumsum(part_sizes[is_kept])]).astype(np.int64),
        literal=(2 * name + positive)[part].astype(np.int32),
    )
