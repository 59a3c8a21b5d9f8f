"""Samples of a circuit, packed: what is laid out for a theta, and tiles on threads.

    draws = Draws(flat, theta, columns, check, seed, contexts, threads)
    drawn = draws.block(first_word, count)

Sample i of context c is a function of (seed, c, i) alone, for a given circuit and theta: the same
bits in any block, on any number of threads, for any width. Probabilities are multiples of 2^-64;
the values behind them are doubles.

With few theta the tiles of each are spread over the threads, with many the theta are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nelson.errors import NelsonError
from nelson.exact.circuit.flat import Flat
from nelson.formula import Formula
from nelson.kernels.circuit import descent, records
from nelson.kernels.circuit import passes as circuit
from nelson.kernels.core import rng
from nelson.kernels.core.bits import tail_mask, words_for
from nelson.kernels.core.threads import spread, usable_cores
from nelson.kernels.core.vector import tag

#: Widths in use; each is compiled once.
WIDTHS = (1, 16)
#: A decision is dense if at least so many lanes of a tile are expected to pass it.
DENSE_LANES = 2.0
#: Decisions for each sample above which reaches are not worth finding out.
_FEW = 50
#: Decisions and lanes below which a call stays in the caller's thread.
_SMALL = 500_000
#: Bytes that the programs of all threads may take together.
_BYTES = 1 << 30
#: Decisions times words of variables up to which it is found out which variables need no draw.
_ALWAYS = 1_000_000_000

Clauses = tuple[np.ndarray, np.ndarray]


@dataclass
class Drawn:
    packed: np.ndarray  # (contexts, words, columns) uint64
    valid: np.ndarray  # (contexts, words) uint64
    log_p: np.ndarray  # (contexts,): log P(C), -inf where evidence rules everything out
    stopped: bool
    interrupted: bool


def clauses_of(formula: Formula, evidence: tuple[int, ...] = ()) -> Clauses:
    """The clauses as given, and evidence as unit clauses: (pointers, codes) to check samples by."""
    given = np.array(evidence, np.int32)
    literals = np.concatenate([formula.literals, given])
    ends = formula.offsets[-1] + np.arange(1, len(given) + 1)
    codes = 2 * (np.abs(literals) - 1) + (literals > 0)
    return np.concatenate([formula.offsets, ends]), codes.astype(np.int32)


def unmentioned(flat: Flat) -> np.ndarray:
    """Variables that some way through the circuit does not mention, int32. Kept with it.

    64 variables a pass. Where that were too much work: all variables, which is as right.
    """
    if "free" not in flat._cache:
        passes = words_for(flat.n)
        some = np.ones(flat.n, bool)
        if passes * flat.edges <= _ALWAYS:
            word = np.empty(flat.decisions, np.uint64)
            for k in range(passes):
                bits = np.uint64(circuit.always(flat.kernel, 64 * k, word))
                lanes = (bits >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
                some[64 * k : 64 * k + 64] = (lanes == 0)[: flat.n - 64 * k]
        flat._cache["free"] = np.flatnonzero(some).astype(np.int32)
    return flat._cache["free"]


class Draws:
    def __init__(
        self,
        flat: Flat,
        theta: np.ndarray,
        columns: np.ndarray,
        check: Clauses,
        seed: int,
        contexts: np.ndarray,
        threads: int | None = None,
        width: int | None = None,
        expected: int | None = None,
    ) -> None:
        """theta (contexts, n), +-inf being evidence; expected: samples that will be asked for."""
        self.flat, self.theta = flat, np.ascontiguousarray(theta, np.float64)
        self.threads = threads or usable_cores()
        self.width = width or WIDTHS[expected is None or expected > 64]
        few = expected is not None and expected * _FEW < flat.decisions
        self.job = records.Job(
            rng.spread_seed(seed),
            np.ascontiguousarray(contexts, np.int64),
            0,
            0,
            np.ascontiguousarray(columns, np.int32),
            *check,
            2.0 if few else min(1.0, DENSE_LANES / (64 * self.width)),
        )
        if "room" not in flat._cache:
            need = np.empty(flat.decisions, np.int64)
            most = int(np.diff(flat.kid_ptr[::2]).max(initial=0))
            flat._cache["room"] = int(records.room(flat.kernel, need)), most
        room, most = flat._cache["room"]
        self._room = room + self.width * (most + 1) + descent.LONG + descent.EAGER
        self._programs: list[tuple[circuit.Work, records.Program]] = []
        self._spaces: list[records.Space] = []
        self._prepared = -1
        self.log_p = np.zeros(len(self.theta))

    def block(self, word: int, count: int, deadline: float | None = None) -> Drawn:
        """`count` samples of each context, from word `word` of its stream on."""
        words, contexts = words_for(count), len(self.theta)
        per_row = -(-words // self.width)
        job = self.job._replace(word=word, samples=count)
        packed = np.empty(contexts * words * len(job.columns), np.uint64)
        done = np.full(contexts * per_row, descent.MISSING, np.uint8)
        stop = np.zeros(1, np.int32)
        interrupted = self._run(job, packed, done, stop, per_row, deadline)
        if (done == descent.WRONG).any():
            raise NelsonError("a circuit gave an assignment that violates the formula it was of")
        finished = np.repeat(done.reshape(contexts, per_row) == descent.FINISHED, self.width, 1)
        valid = np.where(finished[:, :words], tail_mask(count), np.uint64(0))
        return Drawn(
            packed.reshape(contexts, words, len(job.columns)),
            valid,
            self.log_p,
            bool((finished.all(1) < (self.log_p > -np.inf)).any()),
            interrupted,
        )

    def _run(
        self,
        job: records.Job,
        packed: np.ndarray,
        done: np.ndarray,
        stop: np.ndarray,
        per_row: int,
        deadline: float | None,
    ) -> bool:
        contexts, c = len(self.theta), self.flat.kernel
        cost = contexts * (self.flat.edges + job.samples * (self.flat.n + 8))
        size = 24 * self.flat.decisions + 4 * self.flat.edges + 80 * self.flat.decisions
        by_row = contexts > 1 and (contexts >= self.threads or per_row < self.threads)
        threads = self.threads if cost > _SMALL else 1
        if by_row:
            threads = max(1, min(threads, _BYTES // size, contexts))
        self._reserve(threads, threads if by_row else 1)

        def call(thread: int, program: int, rows: tuple, tiles: tuple, fresh: bool) -> None:
            descent.draw(
                tag(self.width),
                c,
                self.theta,
                *self._programs[program],
                self._spaces[thread],
                job,
                packed,
                done,
                self.log_p,
                stop,
                rows,
                tiles,
                fresh,
            )

        if cost <= _SMALL and deadline is None:
            call(0, 0, (0, contexts), (0, per_row), self._fresh(contexts))
            return False
        if by_row:
            self._prepared = -1

            def some(thread: int, first: int, last: int) -> None:
                for row in range(first, last):  # the clock is looked at in between
                    if stop[0] == 0:
                        call(thread, thread, (row, row + 1), (0, per_row), True)

            return spread(some, contexts, threads, stop, deadline)
        for row in range(contexts):
            if self._prepared != row:
                self._prepared = row

                def prepare(thread: int, first: int, last: int, row: int = row) -> None:
                    call(0, 0, (row, row + 1), (0, 0), True)

                if spread(prepare, 1, 1, np.zeros(1, np.int32), None):
                    self._prepared = -1
                    return True

            def tiles(thread: int, first: int, last: int, row: int = row) -> None:
                call(thread, 0, (row, row + 1), (first, last), False)

            if spread(tiles, per_row, threads, stop, deadline):
                return True
        return False

    def _fresh(self, contexts: int) -> bool:
        """Must the program be laid out? One theta stays laid out from block to block."""
        fresh = contexts > 1 or self._prepared != 0
        self._prepared = 0 if contexts == 1 else -1
        return fresh

    def _reserve(self, spaces: int, programs: int) -> None:
        while len(self._programs) < programs:
            program = records.program(self.flat.kernel, unmentioned(self.flat))
            work = circuit.work(self.flat.n, self.flat.decisions)
            self._programs.append((work, program))
        while len(self._spaces) < spaces:
            first = self._programs[0][1]
            self._spaces.append(records.space(self.flat.n, first, self.width, self._room))
