"""Jumps: moves that draw the hubs of a formula from a learned law, and all else exactly given them.

Configurations have few *hubs*: held, they leave a formula that is narrow. Two menus that exclude
each other are hubs, with hundreds of options below each. P often lies on one side of almost all
such exclusions, and solutions of a solver do not. Moves that hold some hubs do not help, since a
held option that is chosen holds its menu. (On a Kconfig of 2,500 symbols 89 of 118 hubs are
constant in 256 exact samples; of the variables that are constant in 8,192, solutions of a solver
have 50 wrong on average.)

A *jump* proposes values h' of all hubs from a law Q that does not look at the state, sums out all
other variables, and is accepted with the probability of Metropolis and Hastings:

    min(1, W(h') Q(h) / (W(h) Q(h'))),      W(h) = weight of h * Z(rest | h)

Then the rest is drawn exactly given h'. So P is stationary, whatever Q is. W(h) comes from the
upward pass of a joint move (`kernels/cpu/joint.py`).

Q is a mixture of trees (`hubs.py`), learned beforehand from a population of other chains: a tree
is fitted to the population, the population jumps with that tree, and so on. Right values of hubs
are in the population one by one; the trees bring them together, and W decides. The first trees keep
a share in Q, so that chains that begin far away may leave too.

Where most hubs have one value in the whole population, these values are a *region* in which the
formula is narrow with few or no hubs. A move *in the region* is a jump of the formula that has
these values fixed, for chains that are in the region; others wait. So P is stationary here too. It
is nearly always accepted, and it forgets all but the region.

Of four moves two are jumps, one is a joint move, and one a move in the region.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from nelson.chains.moves.hubs import Hubs, ProposalLaw, Region, Tree, fitted, region_of
from nelson.chains.moves.joint import LOST, Joint, Runner, joint_moves
from nelson.chains.moves.protocol import InPlaceMoves
from nelson.chains.problem import Problem
from nelson.kernels.core import rng
from nelson.kernels.core.bits import pack
from nelson.kernels.cpu import hubs as kernel
from nelson.policy import DEFAULT, MovesPolicy

if TYPE_CHECKING:
    from nelson.chains.request import Request

#: What the moves are, again and again.
_TURNS = ("jump", "jump", "joint", "region")
#: Words of chains that move together.
_WORDS = 64
#: Chains of the population from which the law of the hubs is learned.
LANES = 256


@dataclass(frozen=True, eq=False)
class Jumps(InPlaceMoves):
    """Moves of one problem."""

    law: ProposalLaw
    joint: Joint | None
    region: Region | None

    @property
    def work(self) -> int:
        """What a move costs for each lane, on average."""
        work = 2.6 * self.law.hubs.program.work  # two jumps, the first with a sum of its own
        work += 0 if self.joint is None else self.joint.work
        work += 0 if self.region is None else 1.6 * self.region.law.hubs.program.work
        return int(work / len(_TURNS))

    @property
    def held(self) -> float:
        """The share of variables that are hubs."""
        return len(self.law.hubs.variable) / int(self.law.hubs.graph.moving.sum())

    @property
    def info(self) -> dict[str, object]:
        about: dict[str, object] = {"moves": "jumps", "width": self.law.hubs.width}
        about["hubs"] = len(self.law.hubs.variable)
        if self.region is not None:
            about["hubs in the region"] = len(self.region.law.hubs.variable)
        return about

    def move(
        self, problem: Problem, request: Request, states: np.ndarray, done: int, first_word: int
    ) -> bool:
        """As `InPlaceMoves.move`."""
        for first in range(0, states.shape[1], _WORDS):
            some = states[:, first : first + _WORDS]
            walk = JumpWalk(self, problem, request, some, first_word + first)
            for number in range(done, done + request.sweeps):
                walk.move(number)
            some[:] = walk.words
            if walk.stopped:
                return True
        return False


class HubProposals:
    """Proposals of the hubs of one law, for chains with given random numbers."""

    def __init__(
        self, law: ProposalLaw, request: Request, shape: tuple[int, int], first_word: int
    ) -> None:
        hubs, n_words = law.hubs, shape[1]
        self.law, self.runner = law, Runner(hubs.graph, hubs.problem, request, shape, first_word)
        weights = hubs.graph.unit_weights(hubs.problem, request.theta)
        at = hubs.graph.units.at[hubs.variable]
        self.zero = np.repeat(np.log2(weights[:, at]), 64 * n_words, axis=0)  # (lanes, hubs)
        self.one = np.repeat(np.log2(weights[:, at + 1]), 64 * n_words, axis=0)
        with np.errstate(over="ignore"):
            seed = rng.spread_seed(request.seed)
            context, word = (a.astype(np.uint64) for a in (self.runner.context, self.runner.word))
            self.keys = rng.keys(seed, context, word)

    def weight(self, states: np.ndarray, x: np.ndarray, number: int, *, draw: bool) -> np.ndarray:
        """(lanes,) log2 W of states (words, n) with hubs x (lanes, hubs).

        draw: all but the hubs is drawn anew, in place.
        """
        holds = np.ones(len(x), bool)
        for clause in self.law.hubs.clauses:
            holds &= (x[:, clause >> 1] == (clause & 1)).any(1)
        z = self.runner.run(self.law.hubs.program, states, number, draw=draw)
        return np.where(holds, z + np.where(x, self.one, self.zero).sum(1), -np.inf)

    def propose(
        self, states: np.ndarray, weight: np.ndarray | None, number: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(proposed states, (lanes,) are they taken, log2 W of what is taken).

        weight: log2 W of the states, if it is known.
        """
        hubs, old = self.law.hubs, self.law.hubs.values(states)
        weight = self.weight(states, old, number, draw=False) if weight is None else weight
        none = hubs.problem.formula.n_total  # no variable has this number
        bounds = np.cumsum(self.law.shares)[:-1]
        tree = np.searchsorted(bounds, self._uniform(number, none), side="right")
        new = np.empty_like(old)
        kernel.draw(self.law.trees, tree, *self.keys, number, new)
        proposed = states.copy()
        proposed[:, hubs.variable] = pack(new.astype(bool))
        after = self.weight(proposed, new, number, draw=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            gain = after - weight + self.law.log2(old) - self.law.log2(new)
            taken = (np.log2(self._uniform(number, none + 1)) < gain) & np.isfinite(after)
        return proposed, taken, np.where(taken, after, weight)

    def _uniform(self, number: int, name: int) -> np.ndarray:
        """(lanes,) in [0, 1), from the counters of a variable that does not exist."""
        key0, key1 = self.keys
        with np.errstate(over="ignore"):
            lanes = np.uint64(rng.FIRST_UNIT + 64 * name) + np.arange(64, dtype=np.uint64)
            at = key0[:, None] + rng.counter(rng.JOINT_ROUND + number, lanes, 0)
            random = rng.scramble(at, key1[:, None])
        return ((random >> np.uint64(11)).astype(np.float64) * 2.0**-53).reshape(-1)


class JumpWalk:
    """States (contexts, words, n) of chains that make moves."""

    def __init__(
        self, jumps: Jumps, problem: Problem, request: Request, words: np.ndarray, first_word: int
    ) -> None:
        self.problem, self.request, self.first_word = problem, request, first_word
        self.words = np.array(words, np.uint64, order="C")
        self.weight: np.ndarray | None = None  # (lanes,) log2 W of the states, if it is known
        self.accepted = 0.0  # share of the last jump
        self.stopped = False  # by the deadline
        self.follow(jumps)

    def follow(self, jumps: Jumps) -> None:
        """Make moves of this kind from now on."""
        self.jumps, region = jumps, jumps.region
        how = self.request, self.words.shape[:2], self.first_word
        self.level = HubProposals(jumps.law, *how)
        self.inner = None if region is None else HubProposals(region.law, *how)

    def move(self, number: int) -> None:
        """Make one move, unless the time is up."""
        if self.stopped:
            return
        {"jump": self.jump, "joint": self.jointly, "region": self.within}[
            _TURNS[number % len(_TURNS)]
        ](number)

    def jump(self, number: int) -> None:
        """Propose values of all hubs, and take them or not."""
        states = self.words.reshape(-1, self.words.shape[2])
        proposed, taken, self.weight = self.level.propose(states, self.weight, number)
        self._take(states, proposed, pack(taken[:, None]))
        self.stopped |= self.level.runner.stopped
        self.accepted = float(taken.mean())

    def jointly(self, number: int) -> None:
        """Make a joint move."""
        if (joint := self.jumps.joint) is None or self.stopped:
            return
        asked, self.weight = replace(self.request, sweeps=1), None
        self.stopped |= joint.move(self.problem, asked, self.words, number, self.first_word)

    def within(self, number: int) -> None:
        """Make a move in the region."""
        if (region := self.jumps.region) is None or self.inner is None:
            return
        states = self.words.reshape(-1, self.words.shape[2])
        proposed, taken, _ = self.inner.propose(states, None, number)
        self._take(states, proposed, pack(taken[:, None]) & region.inside(states)[:, None])
        self.weight = None
        self.stopped |= self.inner.runner.stopped

    def _take(self, states: np.ndarray, proposed: np.ndarray, mask: np.ndarray) -> None:
        self.words = ((proposed & mask) | (states & ~mask)).reshape(self.words.shape)


def learned(
    hubs: Hubs,
    request: Request,
    words: np.ndarray,
    limits: MovesPolicy = DEFAULT.moves,
    *,
    fitted_jumps: int = 6,
    past_share: float = 0.003,
    earlier_trees: int = 5,
    last_share: float = 0.7,
) -> Jumps | str:
    """Jumps whose Q is learned from chains at the states (1, words, n), or why there are none.

    fitted_jumps   a tree is fitted to the states after this number of jumps, and after twice as
                   many once the population has settled: if the mean of log W has grown by less
                   than `limits.settled` standard deviations within the last jumps
    past_share     from then on trees are fitted to all states before as well, with this weight in
                   all: hubs that no longer vary keep what they have to do with each other
    earlier_trees  trees of Q before the last one, which has the share `last_share`
    """
    joint = joint_moves(hubs.problem)
    recent: list[np.ndarray] = []  # states of the population
    past: list[np.ndarray] = []  # hubs of all states before
    trees: list[Tree] = []
    means: list[float] = []
    walk, region, more = None, None, 0
    while len(trees) < limits.jumps_at_most and more < limits.jumps_settled:
        n_recent = 2 * fitted_jumps if more else fitted_jumps
        recent = [*recent, words[0]][-n_recent:] if len(trees) >= fitted_jumps else [words[0]]
        x = hubs.values(np.concatenate(recent))
        trees.append(fitted(x, np.concatenate(past) if more else x[:0], past_share))
        past.append(hubs.values(words[0]))
        jumps = Jumps(ProposalLaw.of(hubs, trees[-1:], [1.0]), joint, region)
        if walk is None:
            walk = JumpWalk(jumps, hubs.problem, request, words, 0)
        walk.follow(jumps)
        number = len(_TURNS) * len(trees)
        walk.jointly(number)
        walk.within(number + 1)
        walk.jump(number + 2)
        if walk.stopped:
            return "the time was up while jumps were learned"
        assert walk.weight is not None
        if np.isnan(walk.weight).any():
            return LOST
        words = walk.words
        means.append(float(walk.weight.mean()))
        before = means[-fitted_jumps - 3] if len(means) > fitted_jumps + 3 else -np.inf
        settled = means[-1] - before < limits.settled * max(0.1, float(walk.weight.std()))
        if more or (len(trees) >= limits.jumps_at_least and settled):
            more += 1
            region = region_of(hubs, np.concatenate(recent), limits)
    assert walk is not None
    if walk.accepted < limits.accepted:
        return f"only {walk.accepted:.1%} of the jumps were accepted"
    earlier = np.unique(np.linspace(0, len(trees) - 2, earlier_trees).astype(int))
    shares = [(1 - last_share) / len(earlier)] * len(earlier)
    law = ProposalLaw.of(hubs, [*(trees[k] for k in earlier), trees[-1]], [*shares, last_share])
    return Jumps(law, joint, region)
