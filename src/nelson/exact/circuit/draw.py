"""Samples of a circuit, packed, on threads.

    draws = Draws(circuit, theta, columns, check, seed, contexts, threads)
    block = draws.block(first_word, count)

For a given circuit and theta, sample i of context c is a function of (seed, c, i) alone: the same
bits in any block, on any number of threads, for any width. Probabilities are multiples of 2^-64;
the values behind them are doubles.

A *program* is the circuit laid out for one theta. With few contexts the threads share one program
and take tiles of it; with many, each thread has its own program and takes whole contexts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from nelson.errors import NelsonError
from nelson.exact.circuit.decisions import DecisionCircuit
from nelson.formula import Formula
from nelson.kernels.circuit import descent, levels, passes, records, small_draws
from nelson.kernels.core import rng
from nelson.kernels.core.bits import tail_mask, words_for
from nelson.kernels.core.threads import spread, usable_cores
from nelson.kernels.core.vector import tag

#: Words of a tile; each width is compiled once.
WIDTHS = (1, 16)
#: A decision is dense if at least this many lanes of a tile are expected to pass it.
DENSE_LANES = 2.0
#: With more decisions per sample than this, finding the dense ones costs more than it saves.
_MAX_DECISIONS_PER_SAMPLE = 50
#: With more decisions per sample than this, a plain descent (`small_draws.py`) is faster than a
#: program.
_DECISIONS_OF_FEW = 16

Clauses = tuple[np.ndarray, np.ndarray]
Range = tuple[int, int]  # [first, last)
#: Draw: (thread, program, contexts, tiles, lay the program out first) -> None
Call = Callable[[int, int, Range, Range, bool], None]
#: `spread` over the threads of a draw: (work, pieces) -> was it interrupted
Run = Callable[[Callable[[int, int, int], None], int], bool]


@dataclass
class DrawnBlock:
    packed: np.ndarray  # (contexts, words, columns) uint64
    valid: np.ndarray  # (contexts, words) uint64: lanes that hold a sample
    log_p: np.ndarray  # (contexts,): log P(C), -inf where no structure agrees with the evidence
    stopped: bool  # the deadline came first
    interrupted: bool  # by Ctrl-C


def clauses_of(formula: Formula, evidence: tuple[int, ...] = ()) -> Clauses:
    """(pointers, literal codes) of the clauses, and of the evidence as unit clauses: every sample
    is checked against them.
    """
    given = np.array(evidence, np.int32)
    literals = np.concatenate([formula.literals, given])
    ends = formula.offsets[-1] + np.arange(1, len(given) + 1)
    codes = 2 * (np.abs(literals) - 1) + (literals > 0)
    return np.concatenate([formula.offsets, ends]), codes.astype(np.int32)


class Draws:
    """Blocks of samples of one circuit, with the memory that is used again from block to block."""

    def __init__(
        self,
        circuit: DecisionCircuit,
        theta: np.ndarray,
        columns: np.ndarray,
        check: Clauses,
        seed: int,
        contexts: np.ndarray,
        threads: int | None = None,
        width: int | None = None,
        expected: int | None = None,
    ) -> None:
        """theta      (contexts, n); +-inf is evidence.
        columns    the variables to return, from 0.
        check      clauses that each sample must satisfy (`clauses_of`).
        contexts   the number of each context, which selects its random stream.
        expected   the number of samples that will be asked for, if it is known.
        """
        self.circuit, self.theta = circuit, np.ascontiguousarray(theta, np.float64)
        self.threads = threads or usable_cores()
        sparse = expected is not None and expected * _MAX_DECISIONS_PER_SAMPLE < circuit.decisions
        #: Few samples of a large circuit are drawn word by word, without a program.
        self.plain = expected is not None and expected * _DECISIONS_OF_FEW < circuit.decisions
        self.full_width = width or WIDTHS[expected is None or expected > 64]
        self.job = records.CircuitJob(
            rng.spread_seed(seed),
            np.ascontiguousarray(contexts, np.int64),
            0,
            0,
            np.ascontiguousarray(columns, np.int32),
            *check,
            2.0 if sparse else min(1.0, DENSE_LANES / (64 * self.full_width)),
        )
        self._terms: list[levels.TermValues] = []
        self._programs: list[tuple[passes.PassValues, records.CircuitProgram]] = []
        self._free: list[small_draws.Free] = []
        self._spaces: list[records.CircuitScratch] = []
        self._laid_out = -1  # the context whose theta the first program holds; -1: none
        self.log_p = np.zeros(len(self.theta))

    @property
    def width(self) -> int:
        """Words of a tile."""
        return 1 if self.plain else self.full_width

    def block(self, word: int, count: int, deadline: float | None = None) -> DrawnBlock:
        """`count` samples of each context, from word `word` of its stream on."""
        drawn = self._block(word, count, deadline)
        if not np.isnan(self.log_p).any():
            return drawn
        # Terms may be too small for plain numbers under this theta: compute in log space.
        self.plain, self._laid_out = False, -1
        self._spaces.clear()
        return self._block(word, count, deadline)

    def _block(self, word: int, count: int, deadline: float | None) -> DrawnBlock:
        words, contexts = words_for(count), len(self.theta)
        tiles = -(-words // self.width)
        job = self.job._replace(word=word, samples=count)
        packed = np.empty(contexts * words * len(job.columns), np.uint64)
        done = np.full(contexts * tiles, descent.MISSING, np.uint8)
        interrupted = self._run(job, packed, done, tiles, deadline)
        rows = packed.reshape(contexts, words, len(job.columns))
        valid = np.repeat(tail_mask(count)[None], contexts, 0)
        if (done == descent.FINISHED).all():
            return DrawnBlock(rows, valid, self.log_p, False, interrupted)
        if (done == descent.WRONG).any():
            raise NelsonError("a sample drawn from a circuit violates the circuit's own formula")
        finished = np.repeat(done.reshape(contexts, tiles) == descent.FINISHED, self.width, 1)
        valid[~finished[:, :words]] = 0
        stopped = bool((finished.all(1) < (self.log_p > -np.inf)).any())
        return DrawnBlock(rows, valid, self.log_p, stopped, interrupted)

    def _run(
        self,
        job: records.CircuitJob,
        packed: np.ndarray,
        done: np.ndarray,
        tiles: int,
        deadline: float | None,
    ) -> bool:
        """Fill `packed` and `done`; -> was it interrupted."""
        # With fewer visits (10 ms) a plain descent runs in the caller's thread, past a deadline.
        max_plain_visits = 8_000_000
        # With fewer visits of edges and variables starting a thread costs more than it saves.
        min_threaded_visits = 500_000
        # Bytes that the programs of all threads may take together.
        max_program_bytes = 1 << 30
        contexts, circuit = len(self.theta), self.circuit
        visits = contexts * (circuit.edges + job.samples * (circuit.n + 8))
        by_context = contexts > 1 and (contexts >= self.threads or tiles < self.threads)
        threads = self.threads if visits > min_threaded_visits else 1
        if by_context:
            program_bytes = 128 * circuit.decisions + 4 * circuit.edges
            threads = max(1, min(threads, max_program_bytes // program_bytes, contexts))
        self._reserve(threads, threads if by_context else 1)
        stop = np.zeros(1, np.int32)
        out = packed, done, self.log_p, stop

        def call(thread: int, program: int, rows: Range, part: Range, fresh: bool) -> None:
            task = self._spaces[thread], job, *out, rows, part, fresh
            if self.plain:
                fixed = circuit.levels, circuit.single, self.theta, self._terms[program]
                small_draws.draw(tag(1), *fixed, self._free[program], *task)
                return
            laws = self.theta, self._terms[program], *self._programs[program]
            descent.draw(tag(self.width), circuit.kernel, circuit.levels, *laws, *task)

        small = visits <= min_threaded_visits and deadline is None
        if small or (self.plain and contexts == 1 and visits <= max_plain_visits):
            fresh = contexts > 1 or self._laid_out != 0
            self._laid_out = 0 if contexts == 1 else -1
            call(0, 0, (0, contexts), (0, tiles), fresh)
            return False
        run = partial(spread, threads=threads, stop=stop, deadline=deadline)
        if by_context:
            return self._by_context(run, call, tiles, stop)
        return any(self._by_tile(run, call, row, tiles) for row in range(contexts))

    def _by_context(self, run: Run, call: Call, tiles: int, stop: np.ndarray) -> bool:
        """Each thread has its own program, and takes one context after the other."""
        self._laid_out = -1

        def some(thread: int, first: int, last: int) -> None:
            for row in range(first, last):  # one call each: `stop` is read in between
                if stop[0] == 0:
                    call(thread, thread, (row, row + 1), (0, tiles), True)

        return run(some, len(self.theta))

    def _by_tile(self, run: Run, call: Call, row: int, tiles: int) -> bool:
        """The threads share the program of one context."""

        def lay_out(thread: int, first: int, last: int) -> None:
            call(0, 0, (row, row + 1), (0, 0), True)

        def some(thread: int, first: int, last: int) -> None:
            call(thread, 0, (row, row + 1), (first, last), False)

        if self._laid_out != row:
            self._laid_out = row
            if spread(lay_out, 1, 1, np.zeros(1, np.int32)):
                self._laid_out = -1
                return True
        return run(some, tiles)

    def _reserve(self, spaces: int, programs: int) -> None:
        """Have at least this many programs, and work spaces of threads."""
        c = self.circuit
        while len(self._terms) < programs:
            self._terms.append(levels.terms(c.n, c.decisions))
        if self.plain:
            while len(self._free) < programs:
                self._free.append(small_draws.free(c.unmentioned))
            while len(self._spaces) < spaces:
                self._spaces.append(small_draws.space(c.n, c.queue_length))
            return
        while len(self._programs) < programs:
            program = records.program(c.kernel, c.unmentioned)
            self._programs.append((passes.work(c.n, c.decisions), program))
        length = c.queue_length + self.width * (c.most_kids + 1) + descent.LONG + descent.EAGER
        while len(self._spaces) < spaces:
            first = self._programs[0][1]
            self._spaces.append(records.space(c.n, first, self.width, length))
