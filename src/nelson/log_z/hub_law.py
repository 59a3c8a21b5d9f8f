"""A law Q of the values of a few units, fitted to samples: drawn from, and evaluated.

    Q(h) = prod_u q_u(h_u | h_parent(u)),     restricted to values that the rules allow

The units form the tree of Chow and Liu (IEEE Trans. Inf. Theory 14, 1968): of all trees, the one
whose law is nearest to the samples. Values are drawn in an order in which each unit comes after its
parent. A *rule* forbids that certain units have certain values together. Once all units of a rule
but the last are drawn, the values that it forbids have probability 0, and the others share theirs.
If no value is left, the draw has failed; so the probabilities of all h add up to at most 1, and
what is missing is the probability to fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nelson.chains.moves.hubs import spanning

#: (unit, for each of its values: is it one of those that must not come together).
Rule = Sequence[tuple[int, np.ndarray]]


@dataclass(frozen=True, eq=False)
class HubLaw:
    """A law of units 0 .. k-1."""

    order: np.ndarray  # (k,) units: each after its parent
    parent: np.ndarray  # (k,) -1: none
    table: list[np.ndarray]  # of each unit: (values of the parent, values), rows add up to 1
    rules: list[list[Rule]]  # of each unit: those of which it is drawn last

    @classmethod
    def fitted(
        cls, values: np.ndarray, sizes: np.ndarray, rules: Sequence[Rule], more: float = 2.0
    ) -> HubLaw:
        """To samples (lanes, k) of units with these numbers of values.

        more: samples that are added to these, spread evenly over the values of two units: no value
        has probability 0.
        """
        k, at = len(sizes), np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        if not k:
            return cls(np.zeros(0, np.int64), np.zeros(0, np.int64), [], [])
        shown = np.zeros((len(values), at[-1]), np.float32)
        np.put_along_axis(shown, at[:-1] + values, 1.0, axis=1)
        unit = np.repeat(np.arange(k), sizes)
        share = 1.0 / sizes[unit]
        total = len(values) + more
        both = (shown.T @ shown + more * share[:, None] * share) / total
        shares = (shown.sum(axis=0, dtype=np.float64) + more * share) / total
        with np.errstate(divide="ignore", invalid="ignore"):
            cells = both * np.log(both / (shares[:, None] * shares))
        information = np.add.reduceat(np.add.reduceat(cells, at[:-1], 0), at[:-1], 1)
        order, parent = spanning(information)
        table = []
        for u, above in enumerate(parent.tolist()):
            values_of_u = slice(at[u], at[u + 1])
            rows = (
                shares[None, values_of_u]
                if above < 0
                else both[at[above] : at[above + 1], values_of_u]
            )
            table.append(rows / rows.sum(axis=1, keepdims=True))
        return cls(order, parent, table, _by_last(rules, order))

    def draw(self, lanes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """(values (lanes, k), log Q of each; +inf where the draw has failed)."""
        values = np.zeros((lanes, len(self.order)), np.int8, order="F")
        log_q = self._walk(values, np.random.default_rng(seed))
        return values, np.where(log_q == -np.inf, np.inf, log_q)

    def log_q(self, values: np.ndarray) -> np.ndarray:
        """(lanes,): log Q of values (lanes, k), which the rules allow."""
        return self._walk(values, None)

    def _walk(self, values: np.ndarray, random: np.random.Generator | None) -> np.ndarray:
        """log Q of values (lanes, k), which are drawn first if there is a generator."""
        log_q = np.zeros(len(values))
        for u in self.order.tolist():
            above, table = self.parent[u], self.table[u]
            row = np.zeros(len(values), np.int64) if above < 0 else values[:, above]
            if self.rules[u]:
                table, row = self._allowed(u, values, table[row]), np.arange(len(values))
            if random is not None:
                below = np.cumsum(table[:, :-1], axis=1)  # never above 1 by more than rounding
                uniform = random.random(len(values))
                values[:, u] = sum((uniform >= column[row] for column in below.T), start=0)
            with np.errstate(divide="ignore"):
                log_q += np.log(table)[row, values[:, u]]
        return log_q

    def _allowed(self, u: int, values: np.ndarray, chance: np.ndarray) -> np.ndarray:
        """The chances without the values that rules forbid; all 0 if none is left."""
        chance = chance.copy()
        for rule in self.rules[u]:
            due = np.ones(len(values), bool)
            forbidden = np.ones(chance.shape[1], bool)
            for unit, false in rule:
                if unit == u:
                    forbidden = forbidden & false
                else:
                    due &= false[values[:, unit]]
            chance[np.ix_(due, forbidden)] = 0.0
        total = chance.sum(axis=1, keepdims=True)
        return np.divide(chance, total, out=chance, where=total > 0)


def _by_last(rules: Sequence[Rule], order: np.ndarray) -> list[list[Rule]]:
    place = np.argsort(order)
    by_unit: list[list[Rule]] = [[] for _ in order]
    for rule in rules:
        by_unit[max((unit for unit, _ in rule), key=lambda unit: place[unit])].append(rule)
    return by_unit
