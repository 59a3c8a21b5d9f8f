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

Formulas whose valid space has high barriers between regions need more than that: `jumps.py`.

A larger width holds fewer variables, and costs more. It may pay: on a feature model of 1,500
features, moves of width 8 cost 0.14 M entries and need more than 64 moves to forget a start, moves
of width 14 cost 0.6 M entries and need about 8.

A field (a group of variables of which exactly one is true, or at most one) is held or redrawn as a
whole (`factor_graph.py`). In a table it takes a factor of its number of values, where its variables
would take a factor of two each, so far fewer variables are held on colourings.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from nelson.chains.moves.factor_graph import FactorGraph, factor_graph
from nelson.chains.moves.protocol import InPlaceMoves, in_threads
from nelson.chains.problem import Problem
from nelson.formula.flat import check_ahead
from nelson.formula.groups import groups_of
from nelson.formula.memo import Recent, Slot
from nelson.kernels.core import rng
from nelson.kernels.cpu import joint as kernel
from nelson.kernels.cpu.cutset import Cutset, cutset
from nelson.policy import DEFAULT, MovesPolicy

if TYPE_CHECKING:
    from nelson.chains.request import Request

#: Different cutsets of a formula. They are computed when they are first used.
_CUTSETS = 64
#: Rows of a work space that is kept for the next call (2 MiB), and how many are.
_KEPT_ROWS, _KEPT_SPACES = 1 << 15, 4
#: Widths that are tried, the largest first.
_WIDTHS = (18, 16, 14, 12, 10, 8, 5)

#: Why tables cannot be used: an entry that may count is below the smallest double.
LOST = "small entries of the tables would be lost"

_PLANS: Slot[Recent[tuple[Any, ...], Joint | None]] = Slot("joint moves")


@dataclass(frozen=True, eq=False)
class Joint(InPlaceMoves):
    """The joint moves of one problem."""

    width: int
    graph: FactorGraph
    made: list[Cutset] = field(default_factory=list)

    def cutset(self, number: int) -> Cutset:
        """The cutset of a move."""
        while len(self.made) <= number % _CUTSETS:
            following = self.following(1 << 62)
            assert following is not None
            self.made.append(following)
        return self.made[number % _CUTSETS]

    def following(self, limit: int) -> Cutset | None:
        """The next cutset that is not made yet; None if that takes more than `limit` steps."""
        graph = self.graph
        check_ahead(len(graph.factors.unit), 2.5e-6)
        return cutset(graph.units, graph.factors, self.width, _factors(self), limit)

    @property
    def n(self) -> int:
        """The number of units: fields, variables of no field, and helpers."""
        return len(self.graph.moving)

    @property
    def moving(self) -> np.ndarray:
        """(n,) bool: not fixed."""
        return self.graph.moving

    @property
    def work(self) -> int:
        """What a move costs for each lane."""
        return self.cutset(0).work

    @property
    def number_held(self) -> int:
        """The number of variables that a move holds, helpers included."""
        sizes = self.graph.variables
        return int(sizes[self.graph.moving].sum() - sizes[self.cutset(0).variable].sum())

    @property
    def held(self) -> float:
        """The share of variables that a move holds."""
        return self.number_held / max(1, int(self.graph.variables[self.graph.moving].sum()))

    def loses(self, problem: Problem, request: Request, states: np.ndarray) -> bool:
        """Are there states (contexts, words, n) that the first move cannot move, since doubles do
        not hold its tables?
        """
        contexts, n_words, n = states.shape
        runner = Runner(self.graph, problem, request, (contexts, n_words), 0)
        log2 = runner.run(self.cutset(0), states.reshape(-1, n).copy(), 0, draw=False)
        return not runner.stopped and bool(np.isnan(log2).any())

    @property
    def info(self) -> dict[str, object]:
        about = {"moves": "joint", "width": self.width, "held": round(self.held, 4)}
        return about | ({"fields": self.graph.fields} if self.graph.fields else {})

    def move(
        self, problem: Problem, request: Request, states: np.ndarray, done: int, first_word: int
    ) -> bool:
        """As `InPlaceMoves.move`."""
        contexts, n_words, n = states.shape
        runner = Runner(self.graph, problem, request, (contexts, n_words), first_word)
        moves = range(done, done + request.sweeps)
        runner.run_all([self.cutset(k) for k in moves], states.reshape(-1, n), moves)
        return runner.stopped


class Runner:
    """Makes moves with given cutsets. Words of all contexts stand one after the other."""

    def __init__(
        self,
        graph: FactorGraph,
        problem: Problem,
        request: Request,
        shape: tuple[int, int],
        first_word: int,
        weights: np.ndarray | None = None,
    ) -> None:
        """shape: contexts, and words of each. weights: of all values; None: those of theta."""
        contexts, n_words = shape
        self.graph, self.request, self.n = graph, request, problem.formula.n_total
        if weights is None:
            weights = graph.unit_weights(problem, request.theta)
        self.weights = weights
        self.row = np.repeat(np.arange(contexts), n_words)
        self.context = np.repeat(np.asarray(request.contexts, np.int64), n_words)
        self.word = np.tile(first_word + np.arange(n_words), contexts)
        self.stopped = False  # by the deadline

    def run(self, cut: Cutset, states: np.ndarray, number: int, *, draw: bool) -> np.ndarray:
        """Move number `number` of states (words, n), in place; -> (64 words,) log2 Z(rest | held),
        NaN where doubles cannot hold the tables: the state has not moved there.

        draw: if not, only Z is computed.
        """
        task = self.run_all([cut], states, range(number, number + 1), draw=draw)
        with np.errstate(divide="ignore"):
            return task.exponent + np.log2(task.mantissa.view(np.float64))

    def run_all(
        self, cutsets: list[Cutset], states: np.ndarray, moves: range, *, draw: bool = True
    ) -> kernel.JointTask:
        """Make these moves of states (words, n), in place. Ctrl-C: KeyboardInterrupt."""
        task = kernel.JointTask(
            words=states.reshape(-1),
            n=self.n,
            weights=self.weights.reshape(-1).view(np.uint64),
            n_weights=self.weights.shape[1],
            row=self.row,
            context=self.context,
            word=self.word,
            seed=rng.spread_seed(self.request.seed),
            exponent=np.zeros(64 * len(states), np.int64),
            mantissa=np.zeros(64 * len(states), np.uint64),
        )
        graph, words, blocks = self.graph, len(self.row), 64 // kernel.LANES
        entries = max((cut.entries for cut in cutsets), default=0)
        largest = max((cut.largest for cut in cutsets), default=1)

        def work(space: Any, stop: np.ndarray, part: tuple[int, int]) -> None:
            # Whole words: two threads that write to lanes of one word would undo each other.
            lanes = part[0] * blocks, part[1] * blocks
            for k, cut in zip(moves, cutsets, strict=True):
                kernel.move(cut, graph.units, graph.helpers, task, space, stop, k, lanes, draw)

        if (entries, largest) not in graph.idle_scratch:  # those of other sizes are in the way
            graph.idle_scratch.clear()
        idle, spaces = graph.idle_scratch[entries, largest], list[kernel.JointScratch]()

        def scratch(_: int) -> kernel.JointScratch:
            try:
                spaces.append(idle.pop())
            except IndexError:
                spaces.append(kernel.space(graph.n, entries, largest))
            return spaces[-1]

        cost = sum(cut.work for cut in cutsets) * 64 * words
        stopped = in_threads(work, words, scratch, self.request, cost)
        if not stopped and graph.n + entries <= _KEPT_ROWS:
            idle.extend(spaces[len(idle) : _KEPT_SPACES])
        self.stopped |= stopped
        return task


def joint_moves(
    problem: Problem, width: int | None = None, limits: MovesPolicy = DEFAULT.moves
) -> Joint | None:
    """The joint moves of a problem, of that width, or of the largest width that is cheap enough.

    None if they would cost too much. Kept with the formula.
    """
    known = problem.formula.memo.recent(_PLANS, 8)
    key = problem.evidence, width, limits
    return known.once(key, lambda: _joint_moves(problem, width, limits))


def _joint_moves(problem: Problem, width: int | None, limits: MovesPolicy) -> Joint | None:
    """With fields, if the formula has any and if they let a move hold fewer variables."""
    plan = _widest(factor_graph(problem), width, limits)
    if plan is not None and not plan.held:
        return plan
    graph = factor_graph(problem, groups_of(problem.rest))
    coded = _widest(graph, width, limits) if graph.fields else None
    if plan is None or (coded is not None and coded.held < plan.held):
        return coded
    return plan


def _widest(graph: FactorGraph, width: int | None, limits: MovesPolicy) -> Joint | None:
    """Moves on this graph of that width, or of the largest width that is cheap enough."""
    widths = _WIDTHS if width is None else (width,)
    low, high, plan = 0, len(widths) - 1, None
    while low <= high:  # wider moves cost more: bisect
        middle = (low + high) // 2
        candidate = Joint(widths[middle], graph)
        if (following := candidate.following(limits.cutset_steps)) is None:
            return None
        candidate.made.append(following)
        smallest = middle == len(widths) - 1
        work = limits.narrow_joint_work if smallest else limits.joint_work
        if following.work <= work and following.entries <= limits.joint_entries:
            plan, high = candidate, middle - 1
        else:
            low = middle + 1
    return plan


def _factors(
    plan: Joint, strength: float = 15.0, averaged: int = 3, long_held: int = 2, remembered: int = 8
) -> np.ndarray:
    """How readily each variable is held by the next cutset: a smooth random field; the longer a
    variable has been held by the cutsets before, the less.

    strength    how strongly the random field decides
    averaged    how often it is averaged over clauses. With fields four times as often, where no
                half is drawn: larger regions are free. The best of six settings on one planar
                4-colouring (15 x 15): correlations fall to 0.09 within 64 moves, to 0.66 with the
                settings of single variables. On 4-colourings of a random graph it made no
                difference
    long_held   a variable held by this many of the `remembered` last cutsets in a row is held by
                the next one only if it must
    """
    number = len(plan.made)
    rng = np.random.default_rng([number, plan.width])
    variable, sizes = plan.graph.factors.unit, np.diff(plan.graph.factors.at)
    clause = np.repeat(np.arange(len(sizes)), sizes)
    degree = np.maximum(1, np.bincount(variable, minlength=plan.n))
    smooth = rng.normal(size=plan.n)
    for _ in range(4 * averaged if plan.graph.fields else averaged):
        mean = np.bincount(clause, smooth[variable], minlength=len(sizes)) / np.maximum(1, sizes)
        around = np.bincount(variable, mean[clause], minlength=plan.n) / degree
        smooth = (smooth + around) / 2
    rank = np.argsort(np.argsort(smooth)) / plan.n
    held = np.zeros(plan.n)  # by how many cutsets in a row
    row = np.ones(plan.n, bool)
    for cut in plan.made[::-1][:remembered]:
        row[cut.variable] = False
        held += row
    half = 0.0 if plan.graph.fields else 0.5
    last = (rng.random(plan.n) < half) + np.maximum(0, held - long_held)
    factor = rng.uniform(0.5, 1.0, plan.n) * np.exp(-strength * (1 - rank + last))
    return np.where(plan.moving, factor, -1.0)
