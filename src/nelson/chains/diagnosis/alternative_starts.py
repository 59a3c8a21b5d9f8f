"""Chains that begin elsewhere, to be compared with the chains that a draw makes.

Kinds of starts, for weights theta:

    resampling under theta + 1.5 s with random signs s, theta + 1.5, theta - 1.5, and under 0
    solutions of a SAT solver: without preference, with the preferences of theta, with the opposite
        preferences, with all variables true, and with all variables false
    the most likely structure, and states that are cooled down to 4 theta
    for each variable that is nearly constant a solution in which it has the other value; for pairs
        that are nearly always equal, or never, a solution in which they are not; for a clause that
        some of its literals satisfy nearly alone (`patterns.py`) one in which they are all false

Each solution starts 16 chains. So one start that keeps its chains is seen among hundreds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nelson.chains.chain import Chains
from nelson.chains.diagnosis.compare import ChainGroup, ones
from nelson.chains.diagnosis.features import Features
from nelson.chains.diagnosis.patterns import rare_patterns
from nelson.chains.diagnosis.solver import Finder
from nelson.chains.problem import Problem
from nelson.chains.request import Request
from nelson.errors import BudgetExceeded
from nelson.exact.mode import most_likely
from nelson.kernels.core.bits import compact, pack, unpack
from nelson.policy import DEFAULT, DiagnosisPolicy

#: Chains from each solution of the solver.
REPLICAS = 16
#: A value that fewer than this share of the chains take is rare.
RARE_SHARE = 1 / 64

#: (name, states (words, n), lanes that share a start; 0: each lane has its own)
Kind = tuple[str, np.ndarray, int]


@dataclass
class Probe:
    """Chains of several kinds, swept together. kinds: (name, words, replicas) in their order."""

    walkers: Chains  # of one context
    kinds: list[tuple[str, int, int]]

    def groups(self) -> Iterator[ChainGroup]:
        first = 0
        for name, words, replicas in self.kinds:
            yield ChainGroup(name, self.walkers.words[0, first : first + words], replicas)
            first += words


def replicated(rows: np.ndarray) -> np.ndarray:
    """Starts (m, n) -> packed states, 16 lanes each; the last start fills up the last word."""
    lanes = -(-len(rows) * REPLICAS // 64) * 64
    return pack(rows[np.minimum(np.arange(lanes) // REPLICAS, len(rows) - 1)])


class AlternativeStarts:
    """Makes the probes of one problem and one theta."""

    def __init__(
        self,
        problem: Problem,
        features: Features,
        request: Request,
        monomials: Sequence[Sequence[int]] = (),
        limits: DiagnosisPolicy = DEFAULT.diagnosis,
    ) -> None:
        """monomials: products of variables; starts in which a rare one has its other value."""
        self.problem, self.features, self.request = problem, features, request
        self.limits = limits
        self.monomials = [tuple(monomial) for monomial in monomials]
        self.theta = request.theta[0]
        self.rng = np.random.default_rng(request.seed % 2**32)
        self.number = 0  # of the next seed
        self.open = 0  # questions that the solver could not decide
        self.conflicts = limits.conflicts  # that are left for such questions
        self.flipped: set[tuple[int, ...]] = set()
        size = max(1, problem.formula.n_total)
        self.scale = min(1.0, 40_000 / size)  # fewer solutions of large formulas

    def probes(self, base: np.ndarray, first: bool) -> list[Probe]:
        """Probes for chains that are at states `base` (words, n); the first call makes all kinds,
        later ones only what has become nearly constant since.
        """
        made: list[Probe] = []
        with Finder(self.problem, self.conflicts, self.limits.question_conflicts) as finder:
            if first:
                made += self._probe(self._resampled())
                made += self._probe(self._solved(finder, base))
            made += self._probe(self._flipped(finder, base))
            self.conflicts = finder.left
        return made

    def _probe(self, kinds: Iterator[Kind]) -> list[Probe]:
        parts = [kind for kind in kinds if len(kind[1])]
        if not parts:
            return []
        words = np.concatenate([words for _, words, _ in parts])
        walkers = self.walkers(words, self.request.theta)
        return [Probe(walkers, [(name, len(states), replicas) for name, states, replicas in parts])]

    def seed(self) -> int:
        """A seed that no other chains have."""
        self.number += 1
        return self.request.seed + self.number

    def _asked(self, lanes: int, **more: Any) -> Request:
        return replace(self.request, count=lanes, block=lanes, seed=self.seed(), **more)

    def walkers(self, words: np.ndarray, theta: np.ndarray) -> Chains:
        """Chains at the states (words, n), with random numbers that no other chains have."""
        asked = self._asked(64 * len(words), theta=theta)
        valid = np.full((1, len(words)), ~np.uint64(0))
        return Chains(self.problem, asked, words[None], valid)

    def coupled(self, rows: np.ndarray, words: int) -> Chains:
        """Chains from each row (starts, n), 64 `words` of each, with common random numbers."""
        asked = self._asked(
            64 * words,
            theta=np.repeat(self.request.theta, len(rows), axis=0),
            contexts=np.zeros(len(rows), np.int64),  # one context: the same random numbers
        )
        states = np.where(rows, ~np.uint64(0), np.uint64(0))[:, None].repeat(words, axis=1)
        return Chains(self.problem, asked, states, np.full(states.shape[:2], ~np.uint64(0)))

    def _resampled(
        self, shift: float = 1.5, lanes: int = 512, max_rounds: int = 200
    ) -> Iterator[Kind]:
        """Chains from resampling under weights that are shifted, in log-odds.

        lanes: chains of each kind; a quarter of them for joint moves, which cost more. A kind that
        needs more than `max_rounds` rounds is left out.
        """
        if self.request.moves.held < 1:
            lanes //= 4
        n = self.problem.n
        signs = 2.0 * self.rng.integers(0, 2, n) - 1
        ways = [
            ("resampling under weights shifted at random", self.theta + shift * signs),
            ("resampling under larger weights", self.theta + shift),
            ("resampling under smaller weights", self.theta - shift),
        ]
        if self.theta.any():
            ways.append(("resampling without weights", np.zeros(n)))
        for name, theta in ways:
            asked = self._asked(lanes, max_rounds=max_rounds)
            chains = Chains.resampled(self.problem, asked, theta[None])
            words, count = compact(chains.words[0], chains.valid[0])
            if chains.complete and 2 * count >= lanes:
                yield name, words[: count // 64], 0

    def _solved(self, finder: Finder, base: np.ndarray) -> Iterator[Kind]:
        n = self.problem.formula.n_total
        weight = np.zeros(n)
        weight[: self.problem.n] = self.theta
        p = 1 / (1 + np.exp(-np.clip(weight, -30, 30)))
        names = ("no preference", "the preferences of theta", "the opposite preferences")
        counts = [max(2, int(k * self.scale)) for k in (24, 8, 8)]
        for name, chance, count in zip(names, (np.full(n, 0.5), p, 1 - p), counts, strict=True):
            rows = finder.solutions(self.rng.random((count, n)) < chance)
            self.open += count - len(rows)
            if len(rows):
                yield f"solutions of a solver with {name}", replicated(rows), REPLICAS
        ends = finder.solutions(np.stack([np.ones(n, bool), np.zeros(n, bool)]))
        if len(ends):
            yield "solutions with many true or many false", replicated(ends), REPLICAS
        if self.theta.any():
            cold = self.walkers(base[:1].copy(), 4.0 * self.request.theta)  # nearly the mode
            cold.sweep_to(32)
            yield "states near the most likely one", cold.words[0], 0
            if (mode := self._mode(finder)) is not None:
                yield "the most likely structure", replicated(mode[None]), REPLICAS

    def _mode(self, finder: Finder, levels: int = 8) -> np.ndarray | None:
        """A structure that is most likely up to rounding; None if it was not found in time.

        levels: weights are rounded to so many. Without, the search takes up to 100 times longer.
        """
        if len(self.problem.rest.literals) > self.limits.mode_literals:
            return None
        steps = np.round(self.theta / np.abs(self.theta).max() * levels)
        evidence = np.array(self.problem.evidence, np.int64)
        visible = evidence[np.abs(evidence) <= len(steps)]
        steps[np.abs(visible) - 1] = np.where(visible > 0, np.inf, -np.inf)
        budget = self.request.budget.share(0.1)
        seconds = None if budget.counted else min(self.limits.mode_seconds, budget.left)
        try:
            x = most_likely(self.problem.formula, steps, seconds, self.limits.question_conflicts)
        except BudgetExceeded:
            return None
        values = np.zeros(self.problem.formula.n_total, bool)
        values[: len(x)] = np.where(steps == 0, self.theta > 0, x)
        literals = np.where(x, 1, -1) * np.arange(1, len(x) + 1)
        row = finder.near(values, literals[steps != 0].tolist())
        return row if isinstance(row, np.ndarray) else None

    # --- values that the chains (nearly) never take -----------------------------------------------

    def _flipped(self, finder: Finder, base: np.ndarray) -> Iterator[Kind]:
        rest = self.problem.rest
        candidates = [
            *self.rare_values(base),
            *rare_patterns(base, rest.literals, rest.offsets, self.rng),
        ]
        targets = [t for t in dict.fromkeys(candidates) if t not in self.flipped]
        self.flipped.update(targets)
        if not targets:
            return
        states = unpack(base, 64 * len(base))
        several = [target for target in targets if len(target) > 1]
        alone = [target for target in targets if len(target) == 1]
        rows = [
            *self._covering(finder, alone, states),
            *self._single(finder, alone, states),
            *self._single(finder, several, states),
        ]
        if rows:
            yield "solutions with rare values", replicated(np.array(rows, bool)), REPLICAS

    def rare_values(self, base: np.ndarray) -> Iterator[tuple[int, ...]]:
        """Literals that hold in almost no chain; several for tied variables and for products."""
        m, variables = 64.0 * len(base), self.features.variables
        share_of_ones = ones(self.features.bits(base)) / m
        single, pair = np.split(share_of_ones, [len(variables)])
        low, high = single < RARE_SHARE, single > 1 - RARE_SHARE
        for v in variables[low].tolist():
            yield (v + 1,)
        for v in variables[high].tolist():
            yield (-v - 1,)
        varies = np.zeros(base.shape[1], bool)
        varies[variables[~(low | high)]] = True
        both = varies[self.features.pairs].all(1)
        for (u, v), often in zip(self.features.pairs[both].tolist(), pair[both], strict=True):
            if often < RARE_SHARE:  # equal in almost every chain
                yield u + 1, -v - 1
                yield -u - 1, v + 1
            elif often > 1 - RARE_SHARE:
                yield u + 1, v + 1
                yield -u - 1, -v - 1
        for monomial in self.monomials:
            on = np.bitwise_and.reduce(base[:, np.array(monomial) - 1], axis=1)
            often = np.bitwise_count(on).sum() / m
            if often < RARE_SHARE:
                yield monomial
            elif often > 1 - RARE_SHARE:
                yield from ((-v,) for v in monomial)

    def _covering(
        self,
        finder: Finder,
        targets: Sequence[tuple[int, ...]],
        states: np.ndarray,
        together: int = 128,
    ) -> Iterator[np.ndarray]:
        """Solutions in which every target holds at least once, as many at a time as possible.

        The solver prefers all targets at first; what is left after that is demanded, at most
        `together` at a time.
        """
        left, n_starts = [target[0] for target in targets], 0
        for _ in range(int(self.limits.questions * self.scale)):
            if not left or n_starts == 2 * self.limits.covering_starts:
                break
            wanted = np.array(left)
            values = states[self.rng.integers(len(states))].copy()
            values[np.abs(wanted) - 1] = wanted > 0
            demanded = left[:1]
            if n_starts >= self.limits.covering_starts:
                demanded = finder.compatible(left[:together]) or demanded
            row = finder.near(values, demanded)
            if not isinstance(row, np.ndarray) and len(demanded) > 1:
                demanded = demanded[:1]
                row = finder.near(values, demanded)
            if isinstance(row, np.ndarray):
                yield row
                n_starts += 1
                left = wanted[row[np.abs(wanted) - 1] != (wanted > 0)].tolist()
            else:
                self.open += row is None
                left.remove(demanded[0])
        self.open += len(left)

    def _single(
        self, finder: Finder, targets: Sequence[tuple[int, ...]], states: np.ndarray
    ) -> Iterator[np.ndarray]:
        """Solutions near states of the chains, each with one target."""
        most = max(4, int(self.limits.flipped_starts * self.scale))
        for target in targets[:: max(1, -(-len(targets) // most))]:
            row = finder.near(states[self.rng.integers(len(states))], target)
            if isinstance(row, np.ndarray):
                yield row
            else:
                self.open += row is None
