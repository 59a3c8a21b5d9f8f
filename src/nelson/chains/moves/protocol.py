"""What one sweep of a chain does: the class that every kind of moves derives from.

    single_flips.py   every variable once, given all others: the default
    fields.py         every group of which at most one is true, given all else; knows terms
    joint.py          all variables but a few held ones at once, exactly
    jumps.py          the hubs of a formula from a learned law, and all else exactly given them

Moves that know terms over several variables have `weighted`, which takes the coefficients
(`nelson.chains.terms`). Moves are made by `nelson.chains.chain`: `Chains` and `resumed`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from nelson.chains.block import Block
from nelson.chains.problem import Problem, beyond_resolution, satisfying
from nelson.kernels.core.bits import tail_mask
from nelson.kernels.core.threads import spread
from nelson.policy import DiagnosisPolicy

if TYPE_CHECKING:
    from nelson.chains.request import Request

#: Up to this product of work, lanes and moves, a second thread costs more than it saves.
SMALL = 1 << 22


class Moves(ABC):
    """What one sweep of a chain does.

    P is stationary under each of its moves. j moves followed by k moves give the same bits as
    j + k moves at once.
    """

    #: Numbers of moves after which a pilot run asks whether chains have forgotten their start.
    lags: ClassVar[tuple[int, ...]] = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
    #: Lags up to this are tried whatever they cost.
    cheap_lag: ClassVar[int] = 1
    #: Are lags beyond the work of a pilot run tried, too, as long as chains forget ever more?
    goes_on: ClassVar[bool] = True
    #: Does the kernel that resamples make these moves itself?
    in_tiles: ClassVar[bool] = False

    @property
    @abstractmethod
    def work(self) -> int:
        """What a move costs for each lane."""

    @property
    @abstractmethod
    def held(self) -> float:
        """The share of variables that a move holds; 0 if a move draws exactly from P, 1 if it draws
        one variable or group at a time.
        """

    @property
    @abstractmethod
    def info(self) -> dict[str, object]:
        """For `Samples.info`: the name under "moves", and sizes."""

    @abstractmethod
    def moved(
        self,
        problem: Problem,
        request: Request,
        words: np.ndarray,
        done: int,
        first_word: int,
        count: int,
    ) -> Block:
        """`request.sweeps` moves from states (contexts, words, n_total), which have made `done`
        moves already; returns all columns.
        """

    def affords(self, n: int, limits: DiagnosisPolicy) -> int:
        """Moves x lanes that a pilot run over n variables may make."""
        few = self.held <= limits.few_held
        return (limits.work_if_few_held if few else limits.work) // max(1, self.work)

    def beyond_resolution(self, theta: np.ndarray) -> str:
        """Why the kernels cannot draw from theta (contexts, n), "" if they can."""
        return beyond_resolution(theta)


class InPlaceMoves(Moves):
    """Moves that change packed states in place: a kind defines `move` instead of `moved`."""

    @abstractmethod
    def move(
        self, problem: Problem, request: Request, states: np.ndarray, done: int, first_word: int
    ) -> bool:
        """Make the moves of contiguous states; -> did the deadline stop them?"""

    def moved(
        self,
        problem: Problem,
        request: Request,
        words: np.ndarray,
        done: int,
        first_word: int,
        count: int,
    ) -> Block:
        """As `Moves.moved`. No sample is valid if the deadline stopped the moves."""
        states = np.array(words, np.uint64, order="C")
        stopped = self.move(problem, request, states, done, first_word)
        valid = np.zeros(states.shape[:2], np.uint64)
        if not stopped:
            for c, context_states in enumerate(states):
                valid[c] = satisfying(problem, context_states, tail_mask(count))
        return Block(states, valid, stopped=stopped)


def in_threads(
    work: Callable[[Any, np.ndarray, tuple[int, int]], None],
    words: int,
    scratch: Callable[[int], Any],
    request: Request,
    cost: int,
) -> bool:
    """Call work(scratch, stop, (first word, last word)) until all words are done; -> did the
    deadline set `stop`? Raises KeyboardInterrupt after Ctrl-C.

    scratch  makes the memory of a thread, given the number of threads
    cost     of all words. Without a deadline the caller's own thread does small work, and Ctrl-C
             waits for it.
    """
    threads = 1 if cost <= SMALL else max(1, min(request.budget.threads, words))
    spaces, stop = [scratch(threads) for _ in range(threads)], np.zeros(1, np.int32)

    def part(thread: int, first: int, last: int) -> None:
        work(spaces[thread], stop, (first, last))

    until = request.of_block().deadline
    if cost <= SMALL and until is None:
        part(0, 0, words)
    elif spread(part, words, threads, stop, until):
        raise KeyboardInterrupt
    return bool(stop[0])
