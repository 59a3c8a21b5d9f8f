"""Which combinations of values occur in a table? Coverage, as combinatorial testing has it.

A t-tuple is a combination of values (or bins, see `bins`) of t fields. It is legal if some legal
row has it. Coverage is the share of the legal t-tuples that occur in given rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from nelson.budget import Budget
from nelson.errors import NelsonError, Unsatisfiable, printable
from nelson.io.progress import phase
from nelson.policy import CoverPolicy
from nelson.space.answers import explained, law_of
from nelson.space.coverage.bins import BinnedField, Extremes, columns
from nelson.space.coverage.legal_tuples import LegalRowSolver, LegalTuples
from nelson.space.coverage.tuples import Tuples
from nelson.space.language.expressions import refuse, width
from nelson.space.language.fields import Integer
from nelson.space.law import RowLaw, extended_law
from nelson.space.rows import table_codes

if TYPE_CHECKING:
    from nelson.space.space import Space


class Missing(Sequence[dict[str, Any]]):
    """Tuples as dicts {field: value}. A bin of several values is a range or a tuple of values."""

    def __init__(self, tuples: Tuples, columns: Sequence[BinnedField], places: np.ndarray) -> None:
        self._tuples, self._columns, self._places = tuples, columns, places

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, key: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, key: slice) -> Missing: ...
    def __getitem__(self, key: int | slice) -> Any:
        if isinstance(key, slice):
            return Missing(self._tuples, self._columns, self._places[key])
        at = range(len(self))[key]  # raises IndexError
        return next(iter(self[at : at + 1]))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        step = 4096
        for first in range(0, len(self), step):
            which, bins = self._tuples.decode(self._places[first : first + step])
            for at, values in zip(which.tolist(), bins.tolist(), strict=True):
                chosen = [self._columns[c] for c in at]
                yield {c.field.name: c.labels[b] for c, b in zip(chosen, values, strict=True)}

    def __repr__(self) -> str:
        lines = [
            printable(", ".join(f"{name} = {_shown(label)}" for name, label in values.items()))
            for values in self[:5]
        ]
        more = len(self) - len(lines)
        return "\n".join([*lines, f"... and {more:,} more"] if more else lines) or "none"


@dataclass(frozen=True, repr=False)
class Coverage:
    """Which legal t-tuples occur in some rows.

    covered    legal tuples that occur
    legal      legal tuples: those that some legal row has
    illegal    tuples that no legal row has
    missing    legal tuples that do not occur, as dicts; a sequence
    crosses    {names of t fields: (covered, legal)}
    left_out   fields that have no part in this: more than 64 values, or not asked for
    ignored    rows that were not counted: they break a rule, or have a value outside a domain
    """

    t: int
    covered: int
    legal: int
    illegal: int
    missing: Missing
    crosses: dict[tuple[str, ...], tuple[int, int]]
    left_out: list[str]
    ignored: int

    @property
    def share(self) -> float:
        """covered / legal; 1.0 if no tuple is legal."""
        return self.covered / self.legal if self.legal else 1.0

    def __repr__(self) -> str:
        what = {1: "values", 2: "pairs", 3: "triples"}.get(self.t, f"{self.t}-tuples")
        lines = [
            f"{self.covered:,} of {self.legal:,} legal {what} covered: {_percent(self.share)} "
            f"({self.illegal:,} are illegal)"
        ]
        if len(self.missing):
            lines += ["missing:", *(f"  {line}" for line in repr(self.missing).splitlines())]
        if self.left_out:
            lines.append(printable(f"left out: {', '.join(self.left_out)}"))
        if self.ignored:
            lines.append(f"ignored: {self.ignored:,} rows that are not legal")
        return "\n".join(lines)


def _percent(share: float) -> str:
    """Rounded down, so that only complete coverage is 100%."""
    return f"{np.floor(share * 1000) / 10:g}%"


def _shown(label: Any) -> str:
    if isinstance(label, range) and label.step == 1:
        return f"{label[0]}..{label[-1]}"
    return repr(label)


def coverage(
    space: Space, table: Any, t: int, fields: Any, budget: Budget, policy: CoverPolicy
) -> Coverage:
    """See `Space.coverage`."""
    with explained(space, None, budget):
        question = CoverageQuestion(space, t, fields, None, budget, policy)
        codes = table_codes(space.fields, table)
        good = space.satisfied(table)
        places = [c.places(np.asarray(codes[c.field.name])[good]) for c in question.columns]
        covered = np.zeros(question.tuples.total, bool)
        question.tuples.mark(covered, places)
        # A few rows of the table help to find legal parts of tuples.
        some = np.stack([column[:4096].astype(np.int64) for column in places], axis=1)
        legal = question.legal(covered, some)
        return Coverage(
            question.tuples.t,
            int(covered.sum()),
            int(legal.sum()),
            question.tuples.total - 1 - int(legal.sum()),
            question.missing(legal & ~covered),
            question.crosses(covered, legal),
            question.left_out,
            int((~good).sum()),
        )


class CoverageQuestion:
    """What is asked: the fields and their bins, as literals of the formula of a law."""

    def __init__(
        self, space: Space, t: int, fields: Any, given: Any, budget: Budget, policy: CoverPolicy
    ) -> None:
        whole = isinstance(t, (int, np.integer)) and not isinstance(t, (bool, np.bool_))
        if not whole or t < 1:
            refuse(f"t = {t!r}", "1 for values, 2 for pairs, 3 for triples, ...")
        self.space, self.given, self.budget, self.policy = space, given, budget, policy
        self.law = law_of(space, given, budget=budget)
        self.columns, self.left_out = columns(space, fields, self._extremes())
        if t > len(self.columns):
            out = f"; left out: {', '.join(self.left_out)}" if self.left_out else ""
            refuse(
                f"t = {t} with {len(self.columns)} fields{out}",
                "no more than there are fields; name wide fields in `fields`",
            )
        self.tuples = Tuples([len(c) for c in self.columns], int(t))
        rules = [rule for column in self.columns for rule in column.rules()]
        self.formula, literals = extended_law(space, self.law, rules)
        at = iter(literals)
        self.literals = [[next(at) for _ in range(len(column))] for column in self.columns]

    def solver(self) -> LegalRowSolver:
        return LegalRowSolver(self.formula, self.law.given, self.literals, self.budget)

    def legal(self, covered: np.ndarray, some: np.ndarray) -> np.ndarray:
        """(total,) bool: the legal tuples. covered: legal ones; some: legal rows (m, columns)."""
        looking = phase("a solver looks for combinations that are legal")
        with looking, self.solver() as solver:
            return LegalTuples(solver, self.tuples, self.policy).decide(covered, some, self._draw)

    def _draw(self, seed: int, count: int) -> list[np.ndarray]:
        """Random legal rows as columns; none if the space cannot be drawn from."""
        left = min(self.policy.draw_seconds, self.budget.left)
        try:
            rows = self.space.sample(count, given=self.given, seed=seed, seconds=left)
        except NelsonError:
            return [np.zeros(0, np.int32) for _ in self.columns]
        return [c.places(rows.codes[c.field.name]) for c in self.columns]

    def missing(self, which: np.ndarray) -> Missing:
        return Missing(self.tuples, self.columns, np.flatnonzero(which))

    def crosses(self, covered: np.ndarray, legal: np.ndarray) -> dict[Any, tuple[int, int]]:
        names = [column.field.name for column in self.columns]
        counts = [np.add.reduceat(x, self.tuples.offsets, dtype=int) for x in (covered, legal)]
        return {
            tuple(names[c] for c in cross): (a, b)
            for cross, a, b in zip(
                self.tuples.crosses.tolist(), counts[0].tolist(), counts[1].tolist(), strict=True
            )
        }

    def _extremes(self) -> Extremes:
        def find(field: Integer) -> tuple[int, int]:
            return _extremes(self.space, self.law, field, self.budget)

        return find


def _extremes(space: Space, law: RowLaw, field: Integer, budget: Budget) -> tuple[int, int]:
    """The lowest and the highest legal value: bit by bit from the sign down, each as low (high) as
    the bits above it allow."""
    bits = width(field.low, field.high) - 1
    rules = [field < 0, *((field >> k) % 2 == 1 for k in reversed(range(bits)))]
    formula, literals = extended_law(space, law, rules)
    ends = []
    with LegalRowSolver(formula, law.given, [[x, -x] for x in literals], budget) as solver:
        for highest in (False, True):
            if not solver.ask(()):
                raise Unsatisfiable("no row is legal")
            fixed: list[int] = []
            for k, x in enumerate(literals):
                better = x if highest == (k > 0) else -x
                holds = solver.row()[k] == (0 if better == x else 1)
                if not holds and not solver.ask([*fixed, better]):
                    solver.ask(fixed)
                    better = -better
                fixed.append(better)
            signs = [int(better == x) for better, x in zip(fixed, literals, strict=True)]
            low_bits = sum(b << k for b, k in zip(signs[1:], reversed(range(bits)), strict=True))
            ends.append(low_bits - (signs[0] << bits))
    return ends[0], ends[1]
