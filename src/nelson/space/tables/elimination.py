"""Exact sums over the legal rows of a space by eliminating its fields one by one.

    P(row) ~ product of tables, each over few fields: exp(theta) of a value or a pair, 0/1 of a rule

Field v is eliminated with the tables that mention it: their product is a table over v and its
neighbours N(v), and its sum over v is a table over N(v) for the fields that are left (Dechter
1999). Backwards, P(v | N(v)) is that product over its sum: draws and marginals take one pass each.
The cost is the number of cells of all these tables. Where that is small, nothing needs clauses or
a circuit, whose size grows with every *value* of a pair.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from nelson.errors import Unsatisfiable
from nelson.space.language.evaluate import ends_of, evaluate, has_measure, possible
from nelson.space.language.expressions import Rule, leaves
from nelson.space.language.fields import FIELDS
from nelson.space.tables.potential import Potential

if TYPE_CHECKING:
    from nelson.space.declaration import Declaration

#: Rows of a block of draws: row i of a seed is the same whatever the number of rows.
BLOCK = 1 << 16

Scope = tuple[str, ...]


@dataclass(frozen=True)
class Order:
    """An order of elimination: (field, its neighbours), and the cells of all tables."""

    steps: tuple[tuple[str, Scope], ...]
    cells: float


def order_of(scopes: Iterable[Sequence[str]], sizes: Mapping[str, int]) -> Order:
    """The field whose table is smallest goes first, and so on."""
    near: dict[str, set[str]] = {name: set() for name in sizes}
    for scope in scopes:
        for name in scope:
            near[name].update(scope)
    for name, around in near.items():
        around.discard(name)
    price = {name: _price(name, near, sizes) for name in near}
    steps, total = [], 0.0
    while near:
        name = min(price, key=lambda x: (price[x], x))
        total += price.pop(name)
        around = near.pop(name)
        steps.append((name, tuple(sorted(around))))
        for other in around:
            near[other] |= around - {other}
            near[other].discard(name)
        for other in around:
            price[other] = _price(other, near, sizes)
    return Order(tuple(steps), total)


def _price(name: str, near: Mapping[str, set[str]], sizes: Mapping[str, int]) -> float:
    return float(sizes[name]) * math.prod(sizes[x] for x in near[name])


@dataclass(frozen=True, eq=False)
class RuleTable:
    """A rule over few fields: which combinations of their codes are legal."""

    scope: Scope
    legal: np.ndarray  # (size of the first field, ...) bool


def rule_table(rule: Rule, most: int) -> RuleTable | None:
    """The table of a rule; None if it has more than `most` cells."""
    below = leaves(rule)
    fields = {leaf.name: leaf for leaf in below if isinstance(leaf, FIELDS)}
    if any(leaf.op != "const" and not isinstance(leaf, FIELDS) for leaf in below):
        return None
    sizes = [field.size for field in fields.values()]
    if math.prod(sizes) > most:
        return None
    grid = np.indices(sizes).reshape(len(sizes), -1)
    codes = dict(zip(fields, grid, strict=True))
    if has_measure(rule):
        holds = possible(rule, codes, ends_of(rule, codes))[0]
    else:
        holds = np.asarray(evaluate(rule, codes), bool)
    return RuleTable(tuple(fields), np.broadcast_to(holds, grid.shape[1:]).reshape(sizes).copy())


def rule_tables(rules: Iterable[Rule], most: int) -> list[RuleTable] | None:
    """The tables of all rules, one for each part of a rule; None if one is too large."""
    found, left = [], list(rules)
    while left:
        rule = left.pop()
        if rule.op == "and":
            left += rule.args
        elif (table := rule_table(rule, most)) is not None:
            found.append(table)
        elif has_measure(rule):
            continue  # checked on the numbers of each row that is drawn
        else:
            return None
    return [table for table in found if not table.legal.all()]


@dataclass(frozen=True, eq=False)
class LevelLaw:
    """The law of a potential over the legal rows of a space, for any theta."""

    potential: Potential
    order: Order
    tables: tuple[RuleTable, ...]
    why: str = "exact sums, fields eliminated one by one"

    @classmethod
    def of(
        cls, space: Declaration, potential: Potential, most: float, given: Sequence[Rule] = ()
    ) -> LevelLaw | None:
        """None if some table would have more than `most` cells."""
        rules = [requirement.rule for requirement in space.rules]
        if space.preferences:
            return None
        tables = rule_tables([*rules, *given], int(min(most, 1 << 20)))
        if tables is None:
            return None
        levels = potential.levels
        if any(levels[name].starts is not None for table in tables for name in table.scope):
            return None  # a rule on numbers of which only ranges have a theta
        if any(level.field.size >= 2**62 for level in levels.values()):
            return None
        sizes = {name: level.count for name, level in levels.items()}
        order = order_of([*(t.scope for t in tables), *potential.pairs], sizes)
        return cls(potential, order, tuple(tables)) if order.cells <= most else None

    @cached_property
    def _step_of(self) -> dict[str, int]:
        return {name: k for k, (name, _) in enumerate(self.order.steps)}

    def _home(self, scope: Scope) -> int:
        """The step whose table holds a scope: that of its field that is eliminated first."""
        return min(self._step_of[name] for name in scope)

    def _clique(self, step: int) -> Scope:
        name, around = self.order.steps[step]
        return (*around, name)

    @cached_property
    def _fixed(self) -> list[np.ndarray]:
        """log of the rules in the table of each step: 0 or -inf."""
        found = []
        for step in range(len(self.order.steps)):
            found.append(np.zeros([self._size(name) for name in self._clique(step)]))
        for table in self.tables:
            step = self._home(table.scope)
            part = np.where(table.legal, 0.0, -np.inf)
            found[step] = found[step] + _spread(part, table.scope, self._clique(step))
        for name, level in self.potential.levels.items():
            if level.starts is not None:  # values of a range are equally likely
                step = self._home((name,))
                part = np.log(level.even * level.field.size)
                found[step] = found[step] + _spread(part, (name,), self._clique(step))
        return found

    def _size(self, name: str) -> int:
        return self.potential.levels[name].count

    def _summed(self, theta: np.ndarray) -> tuple[list[np.ndarray], float, float]:
        """(P(v | N(v)) of each step, log Z, the largest |logarithm| that was added)."""
        tables = list(self._fixed)
        for names, table in self.potential.tables(theta).items():
            step = self._home(names)
            tables[step] = tables[step] + _spread(table, names, self._clique(step))
        log_z = largest = 0.0
        for step, (_, around) in enumerate(self.order.steps):
            table = tables[step]
            largest = max(
                largest,
                float(
                    np.abs(table, where=np.isfinite(table), out=np.zeros_like(table)).max(initial=0)
                ),
            )
            top = table.max(axis=-1, keepdims=True)
            top = np.where(np.isfinite(top), top, 0.0)
            weights = np.exp(table - top)
            total = weights.sum(axis=-1, keepdims=True)
            with np.errstate(divide="ignore"):
                message = (np.log(total) + top)[..., 0]
            tables[step] = np.divide(weights, total, out=weights, where=total > 0)
            if around:
                home = self._home(around)
                tables[home] = tables[home] + _spread(message, around, self._clique(home))
            else:
                log_z += float(message)
        if not np.isfinite(log_z):
            raise Unsatisfiable("no row is legal")
        return tables, log_z, largest

    def log_z(self, theta: np.ndarray) -> float:
        return self._summed(theta)[1]

    def mean(self, theta: np.ndarray) -> np.ndarray:
        """The share of each feature, (k,)."""
        beliefs = self._beliefs(theta)
        wanted = {}
        for names in self.potential.blocks:
            step = self._home(names)
            wanted[names] = _shrunk(beliefs[step], self._clique(step), names)
        return self.potential.vector(wanted)

    def shares(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        """The share of each level of each field."""
        beliefs = self._beliefs(theta)
        steps = enumerate(self.order.steps)
        return {name: _shrunk(beliefs[k], self._clique(k), (name,)) for k, (name, _) in steps}

    def _beliefs(self, theta: np.ndarray) -> list[np.ndarray]:
        """P over the fields of the table of each step."""
        tables, *_ = self._summed(theta)
        for step in reversed(range(len(tables))):
            _, around = self.order.steps[step]
            if around:
                home = self._home(around)
                outer = _shrunk(tables[home], self._clique(home), around)
                tables[step] = tables[step] * outer[..., None]
        return tables

    def tv_bound(self, theta: np.ndarray) -> float:
        """A bound on the total variation of a row of `draw` from P: what doubles can cost.

        With u = 2^-53, S steps of at most K entries a row, A additions of tables and messages and
        logarithms of at most M, each logarithm is off by at most e = u (A M + S (4 M + K + 4)):
        every sum, exp and log adds its own rounding to those of the messages before it. A row is S
        conditional draws, each off by at most 2 e + (K + 2) u, and these distances add.
        """
        tables, _, largest = self._summed(theta)
        steps, entries = len(tables), max(table.shape[-1] for table in tables)
        additions = steps + len(self.potential.blocks)
        one = 2.0**-53
        error = one * (additions * largest + steps * (4 * largest + entries + 4))
        return steps * (2 * error + (entries + 2) * one)

    def draw(
        self, theta: np.ndarray, n: int, seed: int | None, first: int = 0
    ) -> dict[str, np.ndarray]:
        """Codes of rows first to first + n, exact draws: row i depends on the seed and i alone."""
        tables, *_ = self._summed(theta)
        flat = []
        for table in tables:
            rows = np.cumsum(table.reshape(-1, table.shape[-1]), axis=1)
            rows[:, -1] = np.inf  # rounding leaves no gap
            flat.append(rows)
        source = np.random.SeedSequence(seed)
        blocks = []
        for block in range(first // BLOCK, max(first + n - 1, first) // BLOCK + 1):
            start = block * BLOCK
            codes = self._block(flat, min(BLOCK, first + n - start), source.entropy, block)
            skipped = max(first - start, 0)
            blocks.append({name: column[skipped:] for name, column in codes.items()})
        return {name: np.concatenate([b[name] for b in blocks]) for name in self.potential.levels}

    def _block(self, flat: list[np.ndarray], m: int, seed: Any, block: int) -> dict[str, Any]:
        codes: dict[str, np.ndarray] = {}
        for step in reversed(range(len(flat))):
            name, around = self.order.steps[step]
            generator = np.random.Generator(
                np.random.Philox(np.random.SeedSequence([seed, block, step]))
            )
            u = generator.random(m)
            rows = flat[step]
            if not around:
                codes[name] = np.searchsorted(rows[0], u, side="right")
                continue
            at = np.ravel_multi_index([codes[x] for x in around], [self._size(x) for x in around])
            codes[name] = _placed(rows, at, u)
        for name, level in self.potential.levels.items():
            if level.starts is not None:
                codes[name] = _inside(level, codes[name], seed, block)
        return codes

    @property
    def names(self) -> list[str]:
        return list(self.potential.levels)


def _placed(rows: np.ndarray, at: np.ndarray, u: np.ndarray) -> np.ndarray:
    """The first column of row `at` whose cumulative share is above u, by bisection: (m,)."""
    low = np.zeros(len(at), np.int64)
    high = np.full(len(at), rows.shape[1] - 1, np.int64)
    for _ in range(int(rows.shape[1] - 1).bit_length()):
        middle = (low + high) >> 1
        above = rows[at, middle] > u
        high = np.where(above, middle, high)
        low = np.where(above, low, np.minimum(middle + 1, high))
    return high


def _inside(level: Any, codes: np.ndarray, seed: Any, block: int) -> np.ndarray:
    """Values of ranges: uniform inside."""
    name = int.from_bytes(level.field.name.encode()[:7], "little")
    generator = np.random.default_rng([seed, block, 1 << 20, name])
    ends = np.array([*level.starts, level.field.size], np.float64)
    low, high = ends[codes], ends[codes + 1]
    found = low + np.floor(generator.random(len(codes)) * (high - low))
    return np.minimum(found, high - 1).astype(np.int64)


def _spread(table: np.ndarray, names: Scope, clique: Scope) -> np.ndarray:
    """A table over `names`, for broadcasting over a clique that has them."""
    order = sorted(range(len(names)), key=lambda k: clique.index(names[k]))
    shape = [table.shape[names.index(x)] if x in names else 1 for x in clique]
    return table.transpose(order).reshape(shape)


def _shrunk(table: np.ndarray, clique: Scope, names: Scope) -> np.ndarray:
    """The sums of a table over a clique, as a table over `names`."""
    out = table.sum(axis=tuple(k for k, x in enumerate(clique) if x not in names))
    kept = [x for x in clique if x in names]
    return out.transpose([kept.index(x) for x in names])
