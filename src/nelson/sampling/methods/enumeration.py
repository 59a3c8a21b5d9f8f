"""List all valid structures of each component, then draw rows by their weights: exact.

    P_theta(x | C) = prod over components k of w(x_k) / (sum over valid rows y of k of w(y)),
    w(x_k) = exp(sum_{i in k} theta_i x_i)

Components share no variable, so each has a table of its own; a variable that no clause mentions is
a table of two rows. The rows depend on clauses and evidence alone and are kept with the formula;
a new theta costs one pass over them. A component may have at most `MAX_STRUCTURES` rows: where one
has more, there is no sample, and the reason says which. O(sum_k log rows_k + n) a sample.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nelson.errors import BudgetExceeded, Unsatisfiable
from nelson.exact.listing import MAX_STRUCTURES, structures
from nelson.formula import Formula
from nelson.formula.components import split
from nelson.formula.memo import Recent, Slot
from nelson.kernels.core import rng
from nelson.kernels.cpu.choice import Tables, choose
from nelson.sampling.problem import Problem
from nelson.sampling.sampler import Block, Request, Sampler

_TABLES: Slot[Recent[tuple[int, ...], list[Table]]] = Slot("solution tables by evidence")
#: Samples drawn between two looks at the clock.
_STEP = 1 << 16


@dataclass(frozen=True)
class Table:
    variables: np.ndarray  # visible ones, from 0
    rows: np.ndarray  # (m, variables) uint8


def tables(problem: Problem, deadline: float | None = None) -> list[Table]:
    """One a component, for all variables that are not fixed. Raises Unsatisfiable if one has no
    row, BudgetExceeded if one has too many.
    """
    kept = problem.formula.memo.once(_TABLES, lambda: Recent(16))
    return kept.once(problem.evidence, lambda: _tables(problem, deadline))


def _tables(problem: Problem, deadline: float | None) -> list[Table]:
    n, coin = problem.n, np.array([[0], [1]], np.uint8)
    known = np.zeros(problem.rest.n_total, bool)
    known[np.abs(problem.rest.literals) - 1] = True
    known[np.abs(problem.fixed) - 1] = True
    found = [Table(np.array([v]), coin) for v in np.flatnonzero(~known[:n])]
    for own, formula in _components(problem):
        if deadline is not None and time.monotonic() > deadline:
            raise BudgetExceeded(f"the time was up after {len(found)} components")
        rows = structures(formula, MAX_STRUCTURES, deadline)
        if rows is None:
            raise BudgetExceeded(
                f"listing a component of {len(own)} variables takes more than {MAX_STRUCTURES} rows"
            )
        if not len(rows):
            raise Unsatisfiable("enumeration found no solution")
        found.append(Table(own[: formula.n_vars], rows.view(np.uint8)))
    return found


def _components(problem: Problem) -> Iterator[tuple[np.ndarray, Formula]]:
    """The variables of each component, from 0, and its clauses over 1, 2, .. in that order."""
    rest = problem.rest
    parts = split(rest.literals, rest.offsets, rest.n_total)
    for part in sorted(parts, key=lambda part: part.variables[0]):
        visible = int((part.variables < problem.n).sum())
        formula = Formula.from_arrays(
            part.literals, part.offsets, n_vars=visible, n_aux=part.n_vars - visible
        )
        yield part.variables, formula


def flatten(found: list[Table], theta: np.ndarray, columns: np.ndarray) -> Tables:
    """The tables end to end, with cumulative weights for one theta; columns: variables to draw."""
    to = np.full(len(theta), -1)
    to[columns] = np.arange(len(columns))
    weights = [np.zeros(0)]
    for table in found:
        score = table.rows @ theta[table.variables]
        weights.append(np.cumsum(np.exp(score - score.max())))
    widths = np.array([len(table.variables) for table in found], np.int64)
    heights = np.array([len(table.rows) for table in found], np.int64)

    def begins(sizes: np.ndarray) -> np.ndarray:
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    return Tables(
        cumulative=np.concatenate(weights),
        first=begins(heights),
        rows=np.concatenate([np.zeros(0, np.uint8)] + [t.rows.reshape(-1) for t in found]),
        start=begins(widths * heights),
        width=widths,
        column=to[np.concatenate([np.zeros(0, np.int64)] + [t.variables for t in found])],
        place=begins(widths),
    )


def blocks(problem: Problem, request: Request) -> Iterator[Block]:
    nothing = np.zeros((len(request.contexts), 0, len(request.columns)), np.uint64)
    if request.count == 0:
        return
    try:
        found = tables(problem, request.until())
    except BudgetExceeded as error:
        yield Block(nothing, nothing[:, :, 0], stopped=True, info={"ended": str(error)})
        return
    flat = [flatten(found, theta, request.columns) for theta in request.theta]
    done = 0
    while request.count is None or done < request.count:
        count = request.block if request.count is None else min(request.block, request.count - done)
        block = _draw(problem, request, flat, (request.start + done) // 64, count)
        block.info["log2_count"] = float(np.log2([len(table.rows) for table in found]).sum())
        yield block
        if block.stopped:
            return
        done += count


def _draw(problem: Problem, request: Request, flat: list[Tables], word: int, count: int) -> Block:
    deadline, words = request.until(), -(-count // 64)
    packed = np.zeros((len(flat), words, len(request.columns)), np.uint64)
    valid = np.zeros((len(flat), words), np.uint64)
    known = np.full(problem.n, -1)
    fixed = problem.fixed[np.abs(problem.fixed) <= problem.n]
    known[np.abs(fixed) - 1] = fixed > 0
    always = known[request.columns] == 1
    seed = rng.spread_seed(request.seed)
    stopped = False
    for first in range(0, count, _STEP):
        size = min(_STEP, count - first)
        part = slice(first // 64, -(-(first + size) // 64))
        if deadline is not None and time.monotonic() > deadline:
            stopped = True
            break
        lanes = np.full(part.stop - part.start, ~np.uint64(0))
        if size % 64:
            lanes[-1] = np.uint64((1 << size % 64) - 1)
        for k, (table, context) in enumerate(zip(flat, request.contexts, strict=True)):
            out = packed[k, part]
            choose(table, seed, np.int64(context), np.int64(word + part.start), size, out)
            out[:, always] = lanes[:, None]
            valid[k, part] = lanes
    return Block(packed, valid, stopped=stopped)


SAMPLER = Sampler(
    name="enumerate",
    summary="list all valid structures of each component, draw rows by weight",
    citation="Devroye: Non-uniform random variate generation, Springer 1986 (inversion)",
    weighted=True,
    guarantee=lambda problem, sweeps: "exact",
    blocks=blocks,
    seconds=20.0,
    promise=f"exact, up to {MAX_STRUCTURES:,} structures a component",
)
