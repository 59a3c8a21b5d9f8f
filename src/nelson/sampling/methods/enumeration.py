"""Enumerate the valid structures of each component, then draw rows by their weights: exact.

    P_theta(x | C) = prod over components k of w(x_k) / (sum over valid rows y of k of w(y)),
    w(x_k) = exp(sum_{i in k} theta_i x_i)

Components share no variable, so each has its own table. A variable that no clause mentions is a
table of two rows. The tables depend on clauses and evidence alone and are kept with the formula; a
new theta costs one pass over them. A component may have at most `MAX_STRUCTURES` rows. If one has
more, there is no sample, and the reason names its size. O(sum_k log rows_k + n) per sample.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nelson.budget import Budget
from nelson.chains.block import Block
from nelson.chains.problem import Problem
from nelson.chains.request import Request
from nelson.errors import BudgetExceeded, Unsatisfiable
from nelson.exact.listing import MAX_STRUCTURES, structures
from nelson.exact.routes import ENUMERATE, Reason
from nelson.exact.rows_by_inputs import rows_by_inputs
from nelson.formula import Formula
from nelson.formula.components import split
from nelson.formula.memo import Recent, Slot
from nelson.kernels.core import rng
from nelson.kernels.core.bits import tail_mask, words_for
from nelson.kernels.cpu.choice import Tables, choose
from nelson.sampling import total_variation
from nelson.sampling.sampler import Sampler

_TABLES: Slot[Recent[tuple[int, ...], list[SolutionTable]]] = Slot("solution tables by evidence")


@dataclass(frozen=True)
class SolutionTable:
    variables: np.ndarray  # the visible ones, counted from 0
    rows: np.ndarray  # (m, variables) uint8


def tables(problem: Problem, budget: Budget) -> list[SolutionTable]:
    """One table for each component and each free variable.

    Raises Unsatisfiable if a table has no row, BudgetExceeded if one has too many.
    """
    tables_known = problem.formula.memo.recent(_TABLES, 16)
    return tables_known.once(problem.evidence, lambda: _tables(problem, budget))


def _tables(problem: Problem, budget: Budget) -> list[SolutionTable]:
    n, coin = problem.n, np.array([[0], [1]], np.uint8)
    known = np.zeros(problem.rest.n_total, bool)
    known[np.abs(problem.rest.literals) - 1] = True
    known[np.abs(problem.fixed) - 1] = True
    tables = [SolutionTable(np.array([v]), coin) for v in np.flatnonzero(~known[:n])]
    for variables, formula in _components(problem):
        if budget.spent:
            raise BudgetExceeded(f"the time was up after {len(tables)} components")
        rows = structures(formula, MAX_STRUCTURES, budget)
        if rows is None:
            by_inputs = rows_by_inputs(formula, budget)
            if isinstance(by_inputs, Reason) or len(by_inputs) > MAX_STRUCTURES:
                raise BudgetExceeded(
                    f"a component of {len(variables)} variables has more than {MAX_STRUCTURES} rows"
                )
            rows = by_inputs[:, : formula.n_vars]
        if not len(rows):
            raise Unsatisfiable("enumeration found no solution")
        tables.append(SolutionTable(variables[: formula.n_vars], rows.view(np.uint8)))
    return tables


def _components(problem: Problem) -> Iterator[tuple[np.ndarray, Formula]]:
    """The variables of each component, from 0, and its clauses over 1, 2, .. in that order."""
    rest = problem.rest
    parts = split(rest.literals, rest.offsets, rest.n_total)
    if len(parts) == 1 and parts[0].n_vars == rest.n_total:
        yield parts[0].variables, rest
        return
    for part in sorted(parts, key=lambda part: part.variables[0]):
        visible = int((part.variables < problem.n).sum())
        formula = Formula.from_arrays(
            part.literals, part.offsets, n_vars=visible, n_aux=part.n_vars - visible
        )
        yield part.variables, formula


def flatten(tables: list[SolutionTable], theta: np.ndarray, columns: np.ndarray) -> Tables:
    """The tables end to end, with cumulative weights for one theta; columns: variables to draw."""
    to = np.full(len(theta), -1)
    to[columns] = np.arange(len(columns))
    weights = [np.zeros(0)]
    for table in tables:
        score = table.rows @ theta[table.variables]
        weights.append(np.cumsum(np.exp(score - score.max())))
    widths = np.array([len(table.variables) for table in tables], np.int64)
    heights = np.array([len(table.rows) for table in tables], np.int64)

    def begins(sizes: np.ndarray) -> np.ndarray:
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    return Tables(
        cumulative=np.concatenate(weights),
        first=begins(heights),
        rows=np.concatenate([np.zeros(0, np.uint8)] + [t.rows.reshape(-1) for t in tables]),
        start=begins(widths * heights),
        width=widths,
        column=to[np.concatenate([np.zeros(0, np.int64)] + [t.variables for t in tables])],
        place=begins(widths),
    )


def blocks(problem: Problem, request: Request) -> Iterator[Block]:
    if request.count == 0:
        return
    try:
        known = tables(problem, request.of_block())
    except BudgetExceeded as error:
        yield Block.empty(request, stopped=True, info={"ended": str(error)})
        return
    flat = [flatten(known, theta, request.columns) for theta in request.theta]
    log2_count = float(np.log2([len(table.rows) for table in known]).sum())
    for first, count in request.pieces():
        block = _draw(problem, request, flat, first, count)
        block.info["log2_count"] = log2_count
        yield block
        if block.stopped:
            return


def _draw(problem: Problem, request: Request, flat: list[Tables], first: int, count: int) -> Block:
    budget, block = request.of_block(), Block.empty(request, words_for(count))
    known = np.full(problem.n, -1)
    fixed = problem.fixed[np.abs(problem.fixed) <= problem.n]
    known[np.abs(fixed) - 1] = fixed > 0
    always = known[request.columns] == 1
    seed = rng.spread_seed(request.seed)
    for at, size in request.in_turns(first, count, most=1 << 16):  # then look at the clock
        if budget.spent:
            block.stopped = True
            break
        lanes, begin = tail_mask(size), (at - first) // 64
        part = slice(begin, begin + len(lanes))
        for k, (table, context) in enumerate(zip(flat, request.contexts, strict=True)):
            out = block.packed[k, part]
            choose(table, seed, np.int64(context), np.int64(at // 64), size, out)
            out[:, always] = lanes[:, None]
            block.filled[k, part] = lanes
    return block


def variation(problem: Problem, theta: np.ndarray) -> np.ndarray:
    """As `Sampler.variation`."""
    errors = [
        total_variation.rows_error(len(table.rows), theta[:, table.variables])
        for table in tables(problem, Budget())
    ]
    return np.sum([np.zeros(len(theta)), *errors], axis=0)


SAMPLER = Sampler(
    name=ENUMERATE,
    summary="enumerate the valid structures of each component, draw rows by weight",
    citation="Devroye: Non-uniform random variate generation, Springer 1986 (inversion)",
    weighted=True,
    guarantee=lambda problem, sweeps: "exact",
    variation=variation,
    keyed=True,
    blocks=blocks,
    seconds=20.0,
    promise=f"exact, up to {MAX_STRUCTURES:,} structures per component",
)
