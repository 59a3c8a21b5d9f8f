"""From rows of 0/1 to a space: groups of columns become fields, and rules that hold are required.

    found = find(data)
    found.space                 # a field for each group; the rules that were taken
    found.rows(data.test)       # a table of the space
    found.words                 # the rules, in words

A group of columns becomes one choice: its values are c3, c4, ... (columns count from 1) and "none"
unless one is always set. A column alone is a flag. Rules come from the training rows
(`nelson.space.tables.rules`); one that a validation row breaks is dropped again.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from lab.density.column_groups import ColumnGroup, groups
from lab.density.data import DataSet
from nelson.formula import Formula
from nelson.space import Rows, Space
from nelson.space.tables.rules import LEVEL, Never, never_together

NONE = "none"


@dataclass(frozen=True, eq=False)
class Found:
    """The fields of a data set and the rules that were taken."""

    groups: list[ColumnGroup]
    plain: Space  # the fields alone
    space: Space  # with the rules
    rules: list[Never]
    dropped: list[Never] = field(default_factory=list)  # broken by a validation row
    broke: int = 0  # validation rows that broke a rule or a group, before any was dropped

    def rows(self, bits: np.ndarray, space: Space | None = None) -> Rows:
        """Rows of bits as rows of the space. A field with two columns set has the code -1."""
        space = space or self.space
        codes = {
            name: codes_of(group, bits)
            for name, group in zip(space.fields, self.groups, strict=True)
        }
        return Rows(space.fields, codes, len(bits))

    @property
    def words(self) -> list[str]:
        """The rules in words: groups first."""
        told = []
        for group in self.groups:
            if len(group.columns) > 1:
                how = "exactly one" if group.exactly else "at most one"
                guessed = ", ".join(str(k + 1) for k in group.assumed)
                more = f" (column {guessed}: too rare to be tested)" if guessed else ""
                told.append(f"{how} of the columns {ranges(group.columns)}{more}")
        return told + [str(rule) for rule in self.rules]


def find(data: DataSet, level: float = LEVEL) -> Found:
    """The fields and rules of a data set."""
    divided = groups(data.train, level)
    plain = space_of(divided, data.name)
    without = Found(divided, plain, plain, [])
    train, valid = without.rows(data.train).codes, without.rows(data.valid).codes
    candidates = never_together(plain, train, level)
    bad = np.zeros(len(data.valid), bool)
    for column in valid.values():
        bad |= column < 0
    taken: list[Never] = []
    dropped: list[Never] = []
    for rule in candidates:
        broken = rule.broken(plain, valid)
        bad |= broken
        (dropped if broken.any() else taken).append(rule)
    space = space_of(divided, data.name)
    for rule in taken:
        space.require(rule.rule(space), name=str(rule))
    return Found(divided, plain, space, taken, dropped, int(bad.sum()))


def formula_of(found: Found, rules: bool = True) -> Formula:
    """The groups and rules as a formula over the columns of the data, one variable for each."""
    clauses: list[list[int]] = []
    not_value: dict[tuple[str, object], list[int]] = {}  # a clause that says: not this value
    for name, group in zip(found.space.fields, found.groups, strict=True):
        variables = [k + 1 for k in group.columns]
        if len(variables) == 1:
            not_value[name, True], not_value[name, False] = [-variables[0]], [variables[0]]
            continue
        clauses += [[-a, -b] for a, b in itertools.combinations(variables, 2)]
        clauses += [variables] * group.exactly
        not_value |= {(name, f"c{v}"): [-v] for v in variables}
        not_value[name, NONE] = variables
    if rules:
        clauses += [
            not_value[rule.field, rule.value] + not_value[rule.other, value]
            for rule in found.rules
            for value in rule.values
        ]
    return Formula(clauses, sum(len(group.columns) for group in found.groups))


def space_of(divided: Sequence[ColumnGroup], name: str) -> Space:
    """A field for each group, without rules."""
    space = Space(name)
    for group in divided:
        if len(group.columns) == 1:
            space.flag(f"c{group.columns[0] + 1}")
        else:
            values = [f"c{k + 1}" for k in group.columns]
            space.choice(_name(group.columns), values + [NONE] * (not group.exactly))
    return space


def codes_of(group: ColumnGroup, bits: np.ndarray) -> np.ndarray:
    """The code of the field of a group in each row, (n,) int64; -1: no value of the field."""
    inside = bits[:, list(group.columns)]
    if len(group.columns) == 1:
        return inside[:, 0].astype(np.int64)
    total = inside.sum(axis=1)
    codes = np.where(total == 1, inside.argmax(axis=1), len(group.columns))
    return np.where((total > 1) | (group.exactly & (total == 0)), -1, codes)


def bits_of(divided: Sequence[ColumnGroup], rows: Rows) -> np.ndarray:
    """Rows of the space as rows of bits: the inverse of `Found.rows`."""
    width = sum(len(group.columns) for group in divided)
    bits = np.zeros((len(rows), width), np.uint8)
    for group, codes in zip(divided, rows.codes.values(), strict=True):
        for k, column in enumerate(group.columns):
            bits[:, column] = codes == (k if len(group.columns) > 1 else 1)
    return bits


def _name(columns: Sequence[int]) -> str:
    """c23_31 for neighbours, c23_31_40 for the columns 23, 31 and 40."""
    together = columns[-1] - columns[0] + 1 == len(columns) and len(columns) > 2
    shown = (columns[0], columns[-1]) if together else columns
    return "c" + "_".join(str(k + 1) for k in shown)


def ranges(columns: Sequence[int]) -> str:
    """ "3 to 7, 9": columns in words, counted from 1."""
    parts: list[list[int]] = []
    for k in columns:
        if parts and parts[-1][-1] == k - 1:
            parts[-1].append(k)
        else:
            parts.append([k])
    return ", ".join(
        str(part[0] + 1) if len(part) == 1 else f"{part[0] + 1} to {part[-1] + 1}" for part in parts
    )
