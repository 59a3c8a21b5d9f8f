"""`unique=True`: keep drawing and skip repeats until there are n samples or no more exist.

The law is that of drawing without replacement (successive sampling): x_1 ~ P_theta, and

    P(x_k+1 = x | x_1 .. x_k) = P_theta(x) / (1 - P_theta(x_1) - .. - P_theta(x_k))

for every other x. If P_theta is uniform over the rows returned, the samples are a uniformly random
set, and each of them by itself is uniform: the guarantee of the draws stays. If it is not, each
sample but the first misses the probabilities of theta: P = (0.9, 0.1) gives both values a share of
1/2 in two samples. The guarantee then is "heuristic", since a guarantee speaks about P_theta.
info["law"] says this, and what the guarantee of the draws is.

The last rows of a uniform law would take many draws: N rows take about N log N, the coupon
collector's problem. So if most of the rows are asked for, and half of them are found, the other
half is not drawn: all N rows are enumerated (from the circuit, or by a search), those already found
are removed, and the rest follows in an order that depends on the seed alone. The law is the same:
if P_theta is uniform, the formula above says that x_k+1 is uniform over the rows not yet found,
whatever those are, and so are all later ones. That is a random order of the rest.

Rows are kept as keys, 64 columns in a word: memory grows with the rows found. The result claims
that no further row exists only if that was proved, by a count or by a solver.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nelson.budget import Budget
from nelson.chains.block import Block
from nelson.chains.guarantee import weakest
from nelson.errors import FormulaError
from nelson.exact import solver
from nelson.exact.law import Law, law
from nelson.kernels.core import rng
from nelson.kernels.core.bits import pack, unpack, words_for
from nelson.sampling.collect import (
    samples_of,
    until_interrupted,
    until_late,
    valid_blocks,
    valid_lanes,
)
from nelson.sampling.drawing import Drawing, prove_or_explain, result
from nelson.sampling.samples import Samples

#: Samples that are unpacked at once.
_CHUNK = 1 << 16
#: Separates the random order of the enumerated rows from all other uses of the seed.
_ORDER = 0x756E69717565


def distinct(drawing: Drawing, started: float) -> Samples:
    """All samples of a drawing with unique=True. started: time.monotonic()."""
    _require_one_theta(drawing)
    drawing = drawing.confirmed()
    wanted = drawing.n or 0
    size = 64 * max(1, words_for(wanted))
    # A default limit in seconds holds for the whole call.
    rows = _DistinctRows(drawing, size, drawing.request.of_block())
    blocks: list[Block] = []
    keys = [rows.keys[:0]]
    for fresh, block in rows.drawn_blocks() if wanted else ():
        if block.interrupted:
            raise KeyboardInterrupt
        keys.append(fresh)
        blocks.append(block)
    return _samples(drawing, rows, np.concatenate(keys)[:wanted], blocks, started, True)


def in_distinct_blocks(drawing: Drawing, block_size: int) -> Iterator[Samples]:
    """The samples of a drawing with unique=True, `block_size` at a time. None occurs twice."""
    _require_one_theta(drawing)
    drawing = drawing.confirmed()
    rows = _DistinctRows(drawing, block_size, drawing.request.budget)
    total, started = 0, time.monotonic()
    for keys, blocks, last in _pieces(rows, drawing.n, block_size):
        asked = block_size if drawing.n is None else min(block_size, drawing.n - total)
        yield _samples(replace(drawing, n=asked), rows, keys, blocks, started, last, total)
        total, started = total + len(keys), time.monotonic()


def _pieces(
    rows: _DistinctRows, wanted: int | None, size: int
) -> Iterator[tuple[np.ndarray, list[Block], bool]]:
    """Keys in pieces of `size`, the blocks drawn for each piece, and whether it is the last one."""
    waiting, blocks, left = rows.keys[:0], list[Block](), math.inf if wanted is None else wanted
    for fresh, block in rows.drawn_blocks() if left else ():
        waiting, blocks = np.concatenate([waiting, fresh]), [*blocks, block]
        while left >= size <= len(waiting):
            yield waiting[:size], blocks, rows.ended and len(waiting) == size
            waiting, blocks, left = waiting[size:], [], left - size
    while left and (len(waiting) or blocks):
        here = int(min(size, left))
        yield waiting[:here], blocks, len(waiting) <= size
        waiting, blocks, left = waiting[here:], [], left - here


def _require_one_theta(drawing: Drawing) -> None:
    if not drawing.single:
        raise FormulaError(
            "unique=True with one theta row per context", expected="one theta vector"
        )


class _DistinctRows:
    """The distinct rows of a drawing, in the order in which they are found."""

    def __init__(self, drawing: Drawing, size: int, budget: Budget) -> None:
        self.drawing, self.size, self.rules = drawing, size, drawing.policy.unique
        self.problem, request = drawing.parts[0]
        self.request = replace(request, count=None, block=size, budget=budget)
        self.budget = budget
        self.keys = keys_of(np.zeros((0, len(request.columns)), bool))  # of all rows found, sorted
        self.draws = self.stale = self.enumerated = 0
        self.every: Law | None = None  # the law of all rows, if they could be counted
        self.counted = self.asked = False  # tried to count, asked a solver
        self.exhausted = False  # proved: no other row exists
        self.ended = False
        self.reason: str | None = None

    def drawn_blocks(self) -> Iterator[tuple[np.ndarray, Block]]:
        """(keys of new rows, the block that brought them). `ended` is set with the last pair,
        unless a budget or Ctrl-C ended it.
        """
        wanted = self.drawing.n
        every = valid_blocks(self.drawing.sampler, self.problem, self.request, self.drawing.check)
        for block in until_interrupted(until_late(every, self.budget), self.request):
            packed, held = valid_lanes(block, 0)
            fresh = self._add(keys_of_packed(packed, held))
            self.draws += held
            if wanted is not None and len(self.keys) >= wanted:
                self.ended = True
            elif not len(self.keys):
                prove_or_explain(self.drawing, self.problem, self.request, block)
                self.ended = True
            elif not block.last:
                self.stale += len(fresh) < self.rules.stale * self.size
                fresh = np.concatenate([fresh, self._rest(len(fresh))])
            yield fresh, block
            if self.ended or block.interrupted:
                return

    def _add(self, keys: np.ndarray) -> np.ndarray:
        """Take note of rows. -> those that are new, each once, in the order of the argument"""
        values, first = np.unique(keys, return_index=True)
        at = np.searchsorted(self.keys, values)
        known = at < len(self.keys)
        known[known] = self.keys[at[known]] == values[known]
        # Two sorted runs: a stable sort merges them in linear time.
        self.keys = np.sort(np.concatenate([self.keys, values[~known]]), kind="stable")
        return keys[np.sort(first[~known])]

    def _rest(self, fresh: int) -> np.ndarray:
        """Decide how to go on. -> rows that need not be drawn, in random order; often none"""
        n_found, wanted, none = len(self.keys), self.drawing.n, self.keys[:0]
        if not self.counted and n_found <= self.rules.repeats * self.draws:
            self.counted, self.every = True, self._all_rows()
        uniform = self.drawing.guarantee == "exact" and _uniform(self.drawing)
        if self.every is not None:
            count, columns = self.every.count(), self.request.columns
            most = count if wanted is None else wanted
            if n_found >= count:
                self.exhausted = self.ended = True
            elif uniform and most > self.rules.most * count and n_found >= self.rules.found * count:
                rows = None
                if count * len(columns) <= self.rules.cells:
                    rows = self.every.rows(count, columns)
                if rows is not None:
                    # Sorted: the circuit's own order may change with the compiler.
                    rest = self._add(np.sort(keys_of(rows)))
                    self.enumerated, self.ended = len(rest), True
                    self.exhausted = most >= count
                    return rest[random_order(len(rest), self.request.seed)]
            elif not uniform and self.stale >= self.rules.stale_blocks:
                self._give_up()
            return none
        if fresh < self.rules.stale * self.size and not self.asked:
            self.asked = True
            self.exhausted = self.ended = not self._another()
        if self.stale >= self.rules.stale_blocks and not self.ended:
            self._give_up()
        return none

    def _give_up(self) -> None:
        self.ended = True
        self.reason = f"{len(self.keys)} distinct samples among {self.draws} drawn"

    def _all_rows(self) -> Law | None:
        """The law of all rows, if each of them is one solution, and if they can be counted."""
        budget = self.budget.share(0.3).within(self.rules.seconds)
        if not _one_to_one(self.drawing) or budget.spent:
            return None
        exact = law(self.drawing.formula, self.problem.evidence, budget)
        return exact if isinstance(exact, Law) else None

    def _another(self) -> bool:
        """May a solution exist that differs from all rows on the columns? True unless disproved."""
        variables = self.request.columns + 1
        rows = rows_of(self.keys, len(variables))
        blocked = (np.where(row, -variables, variables).tolist() for row in rows)
        evidence, seconds = self.problem.evidence, self.budget.seconds_left
        return solver.satisfiable(self.drawing.formula, evidence, blocked, seconds) is not False


def random_order(count: int, seed: int) -> np.ndarray:
    """A permutation of 0..count-1, a function of the seed alone."""
    with np.errstate(over="ignore"):
        key0, key1 = rng.keys(rng.spread_seed(seed) ^ np.uint64(_ORDER), 0, 0)
        numbers = rng.scramble(key0 + np.arange(count, dtype=np.uint64) * rng.GOLDEN, key1)
    return np.argsort(numbers, kind="stable")


# --- rows as keys --------------------------------------------------------------------------------


def keys_of(rows: np.ndarray) -> np.ndarray:
    """(m, columns) bool -> (m,): equal keys for equal rows. One number for up to 64 columns, else a
    string of bytes; both are sorted fast.
    """
    words = max(1, words_for(rows.shape[1]))
    octets = np.zeros((len(rows), 8 * words), np.uint8)
    packed = np.packbits(rows, axis=1, bitorder="little")
    octets[:, : packed.shape[1]] = packed
    return octets.view(np.uint64 if words == 1 else f"S{8 * words}")[:, 0]


def rows_of(keys: np.ndarray, columns: int) -> np.ndarray:
    """The inverse of `keys_of`."""
    octets = np.ascontiguousarray(keys).view(np.uint8).reshape(len(keys), keys.itemsize)
    return np.unpackbits(octets, axis=1, count=columns, bitorder="little").view(bool)


def keys_of_packed(packed: np.ndarray, count: int) -> np.ndarray:
    """`keys_of` the first `count` packed samples; some at a time, to save memory."""
    parts = [keys_of(np.zeros((0, packed.shape[1]), bool))]
    for first in range(0, count, _CHUNK):
        size = min(_CHUNK, count - first)
        parts.append(keys_of(unpack(packed[first // 64 : words_for(first + size)], size)))
    return np.concatenate(parts)


def packed_of(keys: np.ndarray, columns: int) -> np.ndarray:
    """The rows of the keys as packed samples."""
    parts = [np.zeros((0, columns), np.uint64)]
    for first in range(0, len(keys), _CHUNK):
        parts.append(pack(rows_of(keys[first : first + _CHUNK], columns)))
    return np.concatenate(parts)


# --- results -------------------------------------------------------------------------------------


def _samples(
    drawing: Drawing,
    rows: _DistinctRows,
    keys: np.ndarray,
    blocks: Sequence[Block],
    started: float,
    last: bool,
    before: int = 0,
) -> Samples:
    """Rows with guarantee, status and info. last: no rows follow; before: rows that came before."""
    packed = packed_of(keys, len(rows.request.columns))
    more: dict[str, Any] = {"exhausted": last and rows.exhausted, "enumerated": rows.enumerated}
    reason = rows.reason if last else None
    if more["exhausted"]:
        reason = f"only {before + len(keys)} distinct samples exist"
    samples = samples_of(drawing, [packed], len(keys))
    samples = result(drawing, samples, blocks, started, reason=reason, **more)
    return _with_law(drawing, samples, before)


def _with_law(drawing: Drawing, samples: Samples, before: int) -> Samples:
    """The guarantee and the law of distinct samples, given those of independent draws."""
    law = (
        "drawn one after the other, repeats skipped: a sample follows P_theta, given that "
        f"it differs from those before it (single draws: {samples.guarantee})"
    )
    alone = before + len(samples) <= 1
    if alone or (_uniform(drawing) and samples.guarantee != "approximate"):
        return replace(samples, info={**samples.info, "law": law})
    why = f"{samples.info['why']}; but distinct samples do not have the shares of theta"
    info = {**samples.info, "law": law, "why": why}
    return replace(samples, guarantee=weakest([samples.guarantee, "heuristic"]), info=info)


def _one_to_one(drawing: Drawing) -> bool:
    """Is each row that is returned one solution? False if that is not known."""
    formula = drawing.formula
    defined = not formula.n_aux or bool(formula.constraints)  # these define auxiliary variables
    whole = len(drawing.request.columns) == formula.n_vars
    return drawing.determined or (defined and whole)


def _uniform(drawing: Drawing) -> bool:
    """Is P_theta uniform over the rows that are returned? False if that is not known."""
    return _one_to_one(drawing) and not drawing.request.theta.any()
