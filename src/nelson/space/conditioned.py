"""Rows that obey a rule, out of rows that need not: the rule needs no circuit of its own.

    P(row | rule) = P(row) [row obeys the rule] / P(rule)

so the rows of P that obey the rule have that law: rejection, one row at a time. All rules that are
asked for in turn share the circuit of the space. 1 / P(rule) rows are drawn for one, so a trial
says whether P(rule) is large enough; where it is not, the rule becomes clauses, which are compiled.
The trial has a fixed number of rows and a fixed seed, so row i of a seed is the same in every call.

If P is known up to a total variation e, the law given the rule is known up to 2 e / P(rule).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from nelson.policy import SpacePolicy
from nelson.sampling.total_variation import MOST
from nelson.space.language.evaluate import evaluate
from nelson.space.language.expressions import Rule
from nelson.space.rows import Rows

#: Of the rows of a trial.
TRIAL_SEED = 0x5EED
#: Most rows that are drawn at once.
_BLOCK = 65536


class Condition(NamedTuple):
    """Rules that the rows of a plan are to obey, and how many did in a trial."""

    rules: tuple[Rule, ...]
    share: float
    rows: int

    @property
    def why(self) -> str:
        return (
            f"rows that obey the condition are kept: {self.share:.1%} of {self.rows:,} in a trial"
        )

    def obeyed(self, rows: Rows) -> np.ndarray:
        """(rows,) bool"""
        holds = np.ones(len(rows), bool)
        for rule in self.rules:
            holds &= evaluate(rule, rows.codes)
        return holds

    def stream(
        self, blocks: Callable[[int], Iterator[Rows]], n: int | None, block: int
    ) -> Iterator[Rows]:
        """The rows that obey the rules, in blocks; n None: without end.

        blocks: the rows of the plan without end, in blocks of a size.
        """
        wanted = block if n is None else min(n, block)
        size = min(_BLOCK, 64 * int(np.ceil(1.5 * max(1, wanted) / self.share / 64)))
        parts: list[Rows] = []
        have = given = 0
        for rows in blocks(size):
            holds = self.obeyed(rows)
            parts.append(_picked(rows, holds, self.share))
            have += int(holds.sum())
            ends = rows.status != "ok"
            while have and (ends or have >= min(block, n - given if n is not None else block)):
                joined = _joined(parts)
                count = min(block, have, n - given if n is not None else have)
                yield joined[:count]
                parts, have, given = [joined[count:]], have - count, given + count
                if n is not None and given >= n:
                    return
            if ends:
                yield _joined(parts)[:0]
                return


def condition(
    rules: Sequence[Rule], blocks: Callable[[int], Iterator[Rows]], policy: SpacePolicy
) -> Condition | None:
    """The condition, if enough of the first rows of a plan obey it and exact rows stay exact."""
    rows = next(blocks(policy.trial_rows))
    if len(rows) < policy.trial_rows or rows.guarantee != "exact":
        return None
    trial = Condition(tuple(rules), 1.0, len(rows))
    trial = trial._replace(share=float(trial.obeyed(rows).mean()))
    if trial.share < policy.least_share:
        return None
    return trial if _bound(rows, trial.share) <= MOST else None


def _bound(rows: Rows, share: float) -> float:
    """Of the total variation; P(rule) is at least half of its share in the trial."""
    return 4 * (rows.tv_bound or 0.0) / share


def _picked(rows: Rows, holds: np.ndarray, share: float) -> Rows:
    codes = {name: column[holds] for name, column in rows.codes.items()}
    info = rows.info | {"condition_share": share}
    if rows.tv_bound is not None:
        info["tv_bound"] = _bound(rows, share)
    return Rows(rows.fields, codes, int(holds.sum()), rows.guarantee, rows.status, info)


def _joined(parts: list[Rows]) -> Rows:
    last = parts[-1]
    if len(parts) == 1:
        return last
    codes = {name: np.concatenate([part.codes[name] for part in parts]) for name in last.codes}
    n = sum(map(len, parts))
    return Rows(last.fields, codes, n, last.guarantee, last.status, last.info)
