"""Joint moves of a problem: which variables each of them holds, and moves from given states.

A joint move holds a set of variables (a *cutset*) and redraws all others at once, exactly from
P(rest | held). P is stationary, since the choice of the cutset does not look at the state. Move k
has cutset k modulo their number. w-cutset sampling: Bidyuk, Dechter (JAIR 28, 2007).

A variable is held rather than another if it has many neighbours, times a random factor. The factors
are a random field on the formula that is smooth (averaged over clauses a few times): so a move
leaves whole regions free, and different moves different regions. Half of the variables, drawn anew
for each move, and those that were held for long, are held only if nothing else is left: so every
hub is free in turn, and any two hubs are free together at times. On a feature model of 944 features
(width 12) chains from opposite starts agree after about 16 moves; without that half after about 32.

Every second move has a target instead, if the formula has high barriers (`barriers.py`): it leaves
free what must change together to cross one. On a feature model of 1,000 features with 200 rules
chains forget their start after 32 moves; without targets 249 features are still slow by then.

A larger width holds fewer variables, and costs more. It may pay: on a feature model of 1,500
features, moves of width 8 cost 0.14 M entries and need more than 64 moves to forget a start, moves
of width 14 cost 0.6 M entries and need about 8.

Clauses of more than a few literals would be cliques. They are cut into clauses of three with
*helpers*: y_1 = l_1 or l_2, y_2 = y_1 or l_3, and so on. A helper is a function of the state, so it
changes no law, and it may be held or free as any variable.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from nelson.formula.memo import Recent, Slot
from nelson.kernels.core import rng
from nelson.kernels.core.bits import tail_mask
from nelson.kernels.core.threads import spread
from nelson.kernels.cpu import joint as kernel
from nelson.kernels.cpu.cutset import Cutset, cutset
from nelson.sampling import foreign
from nelson.sampling.barriers import Barriers
from nelson.sampling.problem import Problem
from nelson.sampling.sampler import Block, Request

#: Different cutsets of a formula. They are computed when they are first used.
_CUTSETS = 64
#: Widths that are tried, the largest first.
_WIDTHS = (18, 16, 14, 12, 10, 8, 5)
#: The largest width is taken whose moves cost at most this much for each lane (`Cutset.work`).
CHEAP = 1 << 18
#: The same for formulas on which cheap moves do not mix.
COSTLY = 1 << 21
#: Moves of the smallest width that cost more than this for each lane are not made at all.
_MOST_WORK = 1 << 23
#: Entries of all tables of a move: 64 bytes each, for each thread.
_MOST_ENTRIES = 1 << 21
#: Steps of the search for a cutset, about 2 ns each.
_STEPS = 1 << 30
#: Longer clauses are cut with helpers, unless they have more than _MOST_CUT literals for each
#: variable: then helpers would be most of the formula.
_LONG, _MOST_CUT = 5, 8
#: How strongly the random field decides, and how often it is averaged over clauses.
_STRENGTH, _AVERAGED = 15.0, 3
#: How strongly a target decides: more than the random field and the half together.
_TARGETED = 100.0
#: A variable held by this many cutsets in a row is held by the next one only if it must.
_LONG_HELD = 2
#: Cutsets before that count for how long a variable has been held.
_REMEMBERED = 8
#: Up to this product of work, lanes and moves, a second thread costs more than it saves.
_SMALL = 1 << 22

_PLANS: Slot[Recent[tuple[Any, ...], Joint | None]] = Slot("joint moves")


@dataclass(frozen=True, eq=False)
class Joint:
    """The joint moves of one problem."""

    width: int
    n: int  # variables, helpers included
    literals: np.ndarray  # the clauses, cut with helpers
    offsets: np.ndarray
    helpers: kernel.Helpers
    moving: np.ndarray  # (n,) bool: not fixed
    made: list[Cutset] = field(default_factory=list)

    def cutset(self, number: int) -> Cutset:
        """The cutset of a move."""
        while len(self.made) <= number % _CUTSETS:
            found = self.following(1 << 62)
            assert found is not None
            self.made.append(found)
        return self.made[number % _CUTSETS]

    def following(self, limit: int) -> Cutset | None:
        """The next cutset that is not made yet; None if that takes more than `limit` steps."""
        return cutset(self.n, self.literals, self.offsets, self.width, _factors(self), limit)

    @cached_property
    def barriers(self) -> Barriers:
        """Between regions of the valid space; helpers are no targets."""
        may = self.moving.copy()
        may[self.helpers.variable] = False
        return Barriers.of(self.n, self.literals, self.offsets, may)

    @property
    def work(self) -> int:
        """What a move costs for each lane."""
        return self.cutset(0).work

    @property
    def number_held(self) -> int:
        """The number of variables that a move holds, helpers included."""
        return int(self.moving.sum()) - self.cutset(0).n_bags

    @property
    def held(self) -> float:
        """The share of variables that a move holds."""
        return self.number_held / max(1, int(self.moving.sum()))

    @property
    def info(self) -> dict[str, object]:
        return {"moves": "joint", "width": self.width, "held": round(self.held, 4)}

    def moved(
        self,
        problem: Problem,
        request: Request,
        words: np.ndarray,
        done: int,
        first_word: int,
        count: int,
    ) -> Block:
        """As `Moves.moved`."""
        contexts, many, n = words.shape
        states = np.array(words, np.uint64).reshape(-1, n)
        one = np.full((contexts, self.n), 0.5)
        one[:, :n] = problem.thresholds(request.theta) / 2.0**32
        task = kernel.Task(
            words=states.reshape(-1),
            n=n,
            one=one.reshape(-1).view(np.uint64),
            zero=(1 - one).reshape(-1).view(np.uint64),
            n_weights=self.n,
            row=np.repeat(np.arange(contexts), many),
            context=np.repeat(np.asarray(request.contexts, np.int64), many),
            word=np.tile(first_word + np.arange(many), contexts),
            seed=rng.spread_seed(request.seed),
        )
        moves = range(done, done + request.sweeps)
        cutsets = [self.cutset(k) for k in moves]
        stopped = _run(self, cutsets, moves, task, request)
        packed = states.reshape(words.shape)
        valid = np.zeros((contexts, many), np.uint64)
        if not stopped:
            for c in range(contexts):
                valid[c] = foreign.satisfying(problem, packed[c], tail_mask(count))
        return Block(packed, valid, stopped=stopped)


def joint_moves(problem: Problem, width: int | None = None, most: int = CHEAP) -> Joint | None:
    """The joint moves of a problem, of that width, or of the largest width that costs at most
    `most` for each lane.

    None if they would cost too much. Kept with the formula.
    """
    known = problem.formula.memo.once(_PLANS, lambda: Recent(8))
    key = (problem.evidence, width, most)
    return known.once(key, lambda: _joint_moves(problem, width, most))


def _joint_moves(problem: Problem, width: int | None, most: int = CHEAP) -> Joint | None:
    literals, offsets, helpers, n = _cut(problem)
    moving = np.ones(n, bool)
    moving[np.abs(problem.fixed) - 1] = False
    widths = _WIDTHS if width is None else (width,)
    low, high, plan = 0, len(widths) - 1, None
    while low <= high:  # wider moves cost more: bisect
        middle = (low + high) // 2
        one = Joint(widths[middle], n, literals, offsets, helpers, moving)
        if (found := one.following(_STEPS)) is None:
            return None
        one.made.append(found)
        limit = _MOST_WORK if middle == len(widths) - 1 else most
        if found.work <= limit and found.entries <= _MOST_ENTRIES:
            plan, high = one, middle - 1
        else:
            low = middle + 1
    return plan


def _cut(problem: Problem) -> tuple[np.ndarray, np.ndarray, kernel.Helpers, int]:
    """The clauses, long ones cut into short ones; the helpers; and the number of variables."""
    rest, n = problem.rest, problem.formula.n_total
    lengths = np.diff(rest.offsets)
    is_long = lengths > _LONG
    if lengths[is_long].sum() > _MOST_CUT * n:
        is_long[:] = False
    long = np.flatnonzero(is_long)
    short = np.repeat(~is_long, lengths)
    clauses: list[list[int]] = []
    defined: list[tuple[int, int, int]] = []
    known: dict[tuple[int, int], int] = {}
    for j in long.tolist():
        left, *others = rest.literals[rest.offsets[j] : rest.offsets[j + 1]].tolist()
        while len(others) > 1:
            right = others.pop(0)
            if (left, right) not in known:
                n += 1
                known[left, right] = n
                defined.append((n, left, right))
                clauses += [[n, -left], [n, -right], [-n, left, right]]
            left = known[left, right]
        clauses.append([left, *others])
    literals = np.concatenate([rest.literals[short], *(np.array(c) for c in clauses)])
    sizes = np.concatenate([lengths[~is_long], [len(c) for c in clauses]])
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    table = np.array(defined, np.int64).reshape(-1, 3)
    codes = 2 * (np.abs(table) - 1) + (table > 0)
    helpers = kernel.Helpers(
        (table[:, 0] - 1).astype(np.int32),
        codes[:, 1].astype(np.int32),
        codes[:, 2].astype(np.int32),
    )
    return literals.astype(np.int32), offsets, helpers, n


def _factors(plan: Joint) -> np.ndarray:
    """How readily each variable is held by the next cutset: a smooth random field; the longer a
    variable has been held by the cutsets before, the less. Every second cutset has targets instead.
    """
    number = len(plan.made)
    rng = np.random.default_rng([number, plan.width])
    if number % 2 and plan.barriers.high:
        last = rng.random(plan.n) < 0.5
        level = plan.barriers.priority(number // 2, plan.width)
        factor = rng.uniform(0.5, 1.0, plan.n) * np.exp(-_STRENGTH * last - _TARGETED * level)
        return np.where(plan.moving, factor, -1.0)
    variable, sizes = np.abs(plan.literals) - 1, np.diff(plan.offsets)
    clause = np.repeat(np.arange(len(sizes)), sizes)
    degree = np.maximum(1, np.bincount(variable, minlength=plan.n))
    smooth = rng.normal(size=plan.n)
    for _ in range(_AVERAGED):
        mean = np.bincount(clause, smooth[variable], minlength=len(sizes)) / np.maximum(1, sizes)
        around = np.bincount(variable, mean[clause], minlength=plan.n) / degree
        smooth = (smooth + around) / 2
    rank = np.argsort(np.argsort(smooth)) / plan.n
    held = np.zeros(plan.n)  # by how many cutsets in a row
    row = np.ones(plan.n, bool)
    for one in plan.made[::-1][:_REMEMBERED]:
        row[one.variable] = False
        held += row
    last = (rng.random(plan.n) < 0.5) + np.maximum(0, held - _LONG_HELD)
    factor = rng.uniform(0.5, 1.0, plan.n) * np.exp(-_STRENGTH * (1 - rank + last))
    return np.where(plan.moving, factor, -1.0)


def _run(
    plan: Joint, cutsets: list[Cutset], moves: range, task: kernel.Task, request: Request
) -> bool:
    """Make the moves; -> did the deadline end them? Raises KeyboardInterrupt after Ctrl-C."""
    words, blocks = len(task.row), 64 // kernel.LANES
    entries = max((one.entries for one in cutsets), default=0)
    largest = max((2 << int(one.width.max(initial=0)) for one in cutsets), default=1)
    small = plan.work * 64 * len(task.row) * len(moves) <= _SMALL
    threads = 1 if small else max(1, min(request.threads, words))
    spaces = [kernel.space(plan.n, entries, largest) for _ in range(threads)]
    stop = np.zeros(1, np.int32)

    def work(thread: int, first: int, last: int) -> None:
        # Whole words: two threads that write to lanes of one word would undo each other's moves.
        some = first * blocks, last * blocks
        for k, one in zip(moves, cutsets, strict=True):
            kernel.move(one, plan.helpers, task, spaces[thread], stop, k, some)

    deadline = request.until()
    if small and deadline is None:
        work(0, 0, words)
    elif spread(work, words, threads, stop, deadline):
        raise KeyboardInterrupt
    return bool(stop[0])
