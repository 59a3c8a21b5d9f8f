"""A small table of legal rows in which every legal t-tuple occurs: a covering array with rules.

One row after the other is chosen greedily, as in AETG (Cohen, Dalal, Fredman and Patton 1997):

- Many candidates start from tuples that are not covered yet. Column after column, in random order,
  each takes the bin that covers most new tuples with the columns before it. Two more passes let
  each column change its bin. All candidates are built at once, on arrays.
- A bin that makes an illegal tuple costs more than any gain. So most candidates are legal rows.
  For those that are not, the SAT solver names bins that cannot occur together, and one of these is
  given up, until a legal row is found.
- The candidate that covers most new tuples becomes a row.

Then rows whose tuples all occur in other rows are dropped. At last one row after the other is taken
away, and tabu search (Nurmela 2004) tries to cover what is missing by changes in the other rows.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from nelson.budget import Budget
from nelson.errors import BudgetExceeded
from nelson.io.progress import phase
from nelson.policy import CoverPolicy
from nelson.space.answers import explained
from nelson.space.clauses.decode import rows_of_states
from nelson.space.clauses.gates import TRUE
from nelson.space.coverage.bins import OUTSIDE
from nelson.space.coverage.coverage import CoverageQuestion
from nelson.space.coverage.legal_tuples import LegalRowSolver
from nelson.space.coverage.tuples import steps
from nelson.space.rows import Rows

if TYPE_CHECKING:
    from nelson.space.space import Space

#: The weight of an illegal tuple, more than any gain; that of an uncovered one is 1.
_ILLEGAL = -10_000


def cover(
    space: Space,
    t: int,
    fields: Any,
    seed: int | None,
    given: Any,
    budget: Budget,
    policy: CoverPolicy,
) -> Rows:
    """See `Space.cover`."""
    started = time.monotonic()
    with explained(space, given, budget):
        question = CoverageQuestion(space, t, fields, given, budget, policy)
        nothing = np.zeros(question.tuples.total, bool)
        legal = question.legal(nothing, np.zeros((0, len(question.columns)), np.int64))
        looking = phase("choosing rows that cover all combinations")
        with looking, question.solver() as solver:
            search = _RowSearch(question, legal, solver, np.random.default_rng(seed))
            status = search.run()
            search.drop()
            if status == "ok":
                search.squeeze()
        missing = question.missing(search.weights == 1)
        info = {
            "method": "cover",
            "why": "chosen to cover combinations, not drawn at random",
            "t": question.tuples.t,
            "legal": int(legal.sum()),
            "illegal": question.tuples.total - 1 - int(legal.sum()),
            "missing": missing,
            "left_out": question.left_out,
            "seconds": time.monotonic() - started,
        }
        if status != "ok":
            info["reason"] = f"{len(missing):,} tuples are not covered: the time ran out"
        states = np.array(search.states).reshape(-1, question.formula.n_vars)
        return rows_of_states(space, states[:, : space.formula.n_vars], "heuristic", status, info)


class _RowSearch:
    """weights: (total,) 1 for legal tuples that are not covered yet, 0 for covered ones."""

    def __init__(
        self,
        question: CoverageQuestion,
        legal: np.ndarray,
        solver: LegalRowSolver,
        rng: np.random.Generator,
    ) -> None:
        self.policy, self.tuples = question.policy, question.tuples
        self.solver, self.rng = solver, rng
        tuples = self.tuples
        self.weights = np.where(legal, 1, _ILLEGAL).astype(np.int32)
        self.weights[0] = 0
        self.rows: list[np.ndarray] = []
        self.states: list[np.ndarray] = []
        self.effort = self.policy.move_work
        t = tuples.t
        others = np.array([[k for k in range(t) if k != j] for j in range(t)], np.int64)
        others = others.reshape(t, t - 1)
        # For each column its crosses: their other columns, strides of these, own stride, offset.
        self.crosses, self.at = [], []
        by_column = np.argsort(tuples.crosses.ravel(), kind="stable")
        for mine in by_column.reshape(len(tuples.sizes), -1):  # all columns have as many crosses
            cross, position = np.divmod(mine, t)
            self.at.append(cross)
            rest, take = others[position], np.arange(len(cross))[:, None]
            self.crosses.append(
                (
                    tuples.crosses[cross][take, rest],
                    tuples.strides[cross][take, rest],
                    tuples.strides[cross, position],
                    tuples.offsets[cross],
                )
            )
        # All tuples of a cross are in different rows.
        self.least = int(np.add.reduceat(legal, tuples.offsets, dtype=int).max())
        work = len(self.at[0]) * int(tuples.sizes.sum())
        affordable = self.policy.candidate_work // work
        self.candidates = int(np.clip(affordable, 4, self.policy.candidates))

    def run(self) -> str:
        """Choose rows until all is covered ("ok") or the time runs out ("budget")."""
        try:
            while len(uncovered := np.flatnonzero(self.weights == 1)):
                row, state = self._next(uncovered)
                self.rows.append(row)
                self.states.append(state)
                places = self.tuples.places(row[None])[0]
                self.weights[places] = np.minimum(self.weights[places], 0)
        except BudgetExceeded:
            return "budget"
        return "ok"

    def drop(self) -> None:
        """Drop rows that add nothing to the others."""
        times = self._times()
        places = [self.tuples.places(row[None])[0] for row in self.rows]
        n_alone = [int((times[at] == 1).sum()) for at in places]  # tuples that only this row has
        for k in np.argsort(n_alone, kind="stable").tolist():
            if (times[places[k]] > 1).all():
                times[places[k]] -= 1
                times[0] = 2
                n_alone[k] = -1
        self.rows = [row for row, n in zip(self.rows, n_alone, strict=True) if n >= 0]
        self.states = [state for state, n in zip(self.states, n_alone, strict=True) if n >= 0]

    def _times(self) -> np.ndarray:
        """(total,) how many rows have each tuple; below 0 if it is illegal."""
        times = np.where(self.weights < 0, _ILLEGAL, 0).astype(np.int32)
        for row in self.rows:
            times[self.tuples.places(row[None])[0]] += 1
        times[0] = 2
        return times

    def squeeze(self) -> None:
        """Take rows away as long as changes in the others can make up for them."""
        while len(self.rows) > self.least:
            before = list(self.rows), list(self.states)
            try:
                smaller = self._without_one()
            except BudgetExceeded:
                smaller = False
            if not smaller:
                self.rows, self.states = before
                return
            self.drop()

    def _without_one(self) -> bool:
        """Take away the row with the fewest tuples of its own; are all tuples covered again?

        A move sets the bins of one missing tuple in one row: the row where most is won and least is
        lost, even if more is lost than won. For some moves this row may not take the old bins back.
        """
        times, tuples = self._times(), self.tuples
        places = [tuples.places(row[None])[0] for row in self.rows]
        last = int(np.argmin([(times[at] == 1).sum() for at in places]))
        times[places[last]] -= 1
        times[0] = 2
        missing = _Bag(places[last][times[places[last]] == 0].tolist())
        del self.rows[last], self.states[last]
        rows, starts = np.array(self.rows), tuples.starts
        until = np.zeros((len(rows), int(tuples.sizes.sum())), np.int64)
        effort = len(rows) * tuples.t * len(self.at[0])
        dirty = set()
        for move in range(self.policy.moves):
            if not len(missing) or self.effort <= 0:
                break
            self.effort -= effort
            wanted = missing.pick(self.rng)
            columns, bins = tuples.decode_one(wanted)
            old, new = self._change(rows, columns, bins)
            moved = old != new
            before, after = times.take(old), times.take(new)
            score = ((after == 0) & moved).sum(axis=1) - ((before == 1) & moved).sum(axis=1)
            score = score + self.rng.random(len(rows)) * 0.5
            score[(after < 0).any(axis=1)] = -np.inf
            score[(until[:, starts[columns] + bins] > move).any(axis=1)] = -np.inf
            for r in np.argsort(-score)[: self.policy.repaired].tolist():
                changed = rows[r].copy()
                changed[columns] = bins
                if score[r] == -np.inf or not self._is_legal(changed):
                    continue
                left = (rows[r, columns] != bins) & (rows[r, columns] >= 0)
                tabu = (starts[columns] + rows[r, columns])[left]
                until[r, tabu] = move + 1 + self.rng.integers(1, 10)
                gone, come = old[r][moved[r]], new[r][moved[r]]
                times[gone] -= 1  # no place occurs twice, but for 0
                times[come] += 1
                times[0] = 2
                missing.remove(come[times[come] == 1].tolist())
                missing.add(gone[times[gone] == 0].tolist())
                rows[r] = changed
                dirty.add(r)
                break
        if len(missing):
            return False
        for r in sorted(dirty):
            self.solver.scatter(self.rng)
            self.solver.ask(self._literals(rows[r]))
            self.rows[r], self.states[r] = self.solver.row(), self.solver.state
        return True

    def _change(
        self, rows: np.ndarray, columns: np.ndarray, bins: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The places (rows, k) that differ if rows get these bins: as they are, and as they would
        be. (Some places may be the same.)"""
        tuples = self.tuples
        mask = np.zeros(len(tuples.offsets), bool)
        for c in columns.tolist():
            mask[self.at[c]] = True
        here = np.flatnonzero(mask)
        crosses, strides = tuples.crosses[here], tuples.strides[here]
        changed = rows.copy()
        changed[:, columns] = bins
        old, new = (steps(tuples.offsets[here], x, crosses, strides) for x in (rows, changed))
        return np.maximum(old, 0, out=old), np.maximum(new, 0, out=new)

    def _literals(self, row: np.ndarray) -> list[int]:
        return [self.solver.literals[c][b] for c, b in enumerate(row.tolist()) if b >= 0]

    def _is_legal(self, row: np.ndarray) -> bool:
        return self.solver.ask(self._literals(row), model=False)

    def _next(self, uncovered: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The best legal row that the candidates lead to."""
        columns, bins = self._starts(uncovered)
        candidates = np.full((len(columns), len(self.tuples.sizes)), OUTSIDE, np.int64)
        np.put_along_axis(candidates, columns, bins, axis=1)
        for step in range(1 + self.policy.passes):
            for c in self.rng.permutation(len(self.tuples.sizes)).tolist():
                self._choose(candidates, c, only_new=step == 0)
        gains = self._gains(candidates)
        best, best_row = 0, None
        order = np.argsort(-gains, kind="stable")[: self.policy.repaired].tolist()
        for k in order:
            if gains[k] <= best:
                break
            row, state = self._repaired(candidates[k])
            gain = int(self._gains(row[None])[0])
            if gain > best:
                best, best_row = gain, (row, state)
        if best_row is None:  # the first candidate's own tuple is legal and new
            self.solver.scatter(self.rng)
            start = zip(columns[0].tolist(), bins[0].tolist(), strict=True)
            self.solver.ask([self.solver.literals[c][b] for c, b in start])
            best_row = self.solver.row(), self.solver.state
        return best_row

    def _starts(self, uncovered: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Uncovered tuples to start from: those whose bins are in most uncovered tuples."""
        if len(uncovered) > self.policy.starts:
            uncovered = uncovered[self.rng.integers(len(uncovered), size=self.policy.starts)]
        columns, bins = self.tuples.decode(uncovered)
        value = self.tuples.starts[columns] + bins
        often = np.bincount(value.ravel(), minlength=int(self.tuples.sizes.sum()))
        score = often[value].sum(axis=1) + self.rng.random(len(uncovered))
        few = min(self.candidates, len(uncovered))
        top = np.argpartition(-score, few - 1)[:few]
        return columns[top], bins[top]

    def _choose(self, candidates: np.ndarray, c: int, only_new: bool) -> None:
        """Give column c the bin of the greatest gain in each candidate; equal ones by lot."""
        others, strides, stride, offsets = self.crosses[c]
        base = steps(offsets, candidates, others, strides)
        size = int(self.tuples.sizes[c])
        gains = np.empty((len(candidates), size))
        for b in range(size):  # mode="clip": places below 0 are place 0
            gains[:, b] = self.weights.take(base, mode="clip").sum(axis=1)
            base += stride
        gains += self.rng.random(gains.shape) * 0.5
        chosen = gains.argmax(axis=1)
        fixed = (candidates[:, c] >= 0) & only_new
        candidates[:, c] = np.where(fixed, candidates[:, c], chosen)

    def _gains(self, rows: np.ndarray) -> np.ndarray:
        """(m,) new tuples that each row covers, less much for each illegal one."""
        return np.array([self.weights[self.tuples.places(r[None])[0]].sum() for r in rows])

    def _repaired(self, candidate: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A legal row that keeps as many bins of a candidate as the solver allows."""
        self.solver.scatter(self.rng)
        self.solver.prefer(candidate)
        chosen = enumerate(candidate.tolist())
        wanted = {x: c for c, b in chosen if (x := self.solver.literals[c][b]) != -TRUE}
        while not self.solver.ask(list(wanted)):
            clash = [x for x in self.solver.core() if x in wanted] or list(wanted)
            worst = min(clash, key=lambda x: self._worth(candidate, wanted[x]))
            del wanted[worst]
        return self.solver.row(), self.solver.state

    def _worth(self, candidate: np.ndarray, c: int) -> int:
        """New tuples of a candidate that column c takes part in."""
        others, strides, stride, offsets = self.crosses[c]
        places = steps(offsets + candidate[c] * stride, candidate[None], others, strides)[0]
        return int((self.weights[np.maximum(places, 0)] == 1).sum())


class _Bag:
    """Different numbers, of which one can be picked at random in constant time."""

    def __init__(self, items: list[int]) -> None:
        self._items: list[int] = []
        self._at: dict[int, int] = {}
        self.add(items)

    def __len__(self) -> int:
        return len(self._items)

    def pick(self, rng: np.random.Generator) -> int:
        return self._items[int(rng.integers(len(self._items)))]

    def add(self, items: list[int]) -> None:
        for item in items:
            if item and item not in self._at:
                self._at[item] = len(self._items)
                self._items.append(item)

    def remove(self, items: list[int]) -> None:
        for item in items:
            if item in self._at:
                at, last = self._at.pop(item), self._items.pop()
                if last != item:
                    self._items[at] = last
                    self._at[last] = at
