"""Samplers that produce rows, behind the interface of samplers that produce packed blocks.

    draw(problem, theta, count, seed, budget) -> DrawnRows (or its rows alone)

        theta      (n_vars,) finite log-odds of one context
        count      rows wanted; more are cut off, fewer mean that a budget ended
        seed       63 bits, a function of (seed of the call, context, number of the first sample)
        budget     with a deadline; the contexts get equal shares of the time
        rows       (m, n_total) bool or 0/1; or (m, n_vars), if the formula has no auxiliary
                   variables or its `constraints` define them

    SAMPLER = Sampler(..., blocks=partial(foreign.blocks, draw), needs="samplers",
                      modules=("pycmsgen",), seconds=60.0)

    blocks(draw, problem, request)          all blocks of a request, drawn in pieces of their own
    block_of(problem, request, rows, ...)   packs rows and checks them against the clauses as given
    satisfying(problem, packed, lanes)      that check
    flat_clauses(problem)                   what a solver is asked, as int32; each clause ends in 0
    seed_of(seed, context, first)           the seed above
    ask(script, solver, task, budget)       runs a solver's script in a child process

No sampler's rows are trusted: `Block.valid` marks the rows that satisfy clauses and evidence. A
draw that proves that there is no solution raises Unsatisfiable. A draw that just finds none returns
no row, and then a solver is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nelson.budget import Budget
from nelson.chains.block import Block, joined
from nelson.chains.problem import Problem, satisfying
from nelson.chains.request import Request
from nelson.errors import Unsatisfiable
from nelson.io.progress import phase
from nelson.kernels.core import rng
from nelson.kernels.core.bits import pack, tail_mask, words_for
from nelson.process.child import STOPPED, run_child

#: Seconds that end a draw if nobody set a limit; of CPU, if a solver's conflicts are counted.
SAFETY_SECONDS = 60.0
#: Why there are fewer rows than asked for, if a limit in seconds ended it.
TIME_UP = "the time was up"
#: Rows of the first draw, if as many are asked for. Each further draw has twice as many.
FIRST_PIECE = 1024
#: Numbers in `DrawnRows.info` that all draws of a request add to.
_COUNTED = {"epochs", "mutations", "tries"}
#: Most rows times variables of one draw: the bytes of its rows.
_MAX_CELLS = 1 << 26


class DrawnRows(NamedTuple):
    rows: np.ndarray
    ended: str = ""  # in words: why there are fewer rows than asked for
    info: dict[str, Any] = {}  # noqa: RUF012  (never written to)


Draw = Callable[[Problem, np.ndarray, int, int, Budget], "DrawnRows | np.ndarray"]


def seed_of(seed: int, context: int, first: int) -> int:
    """63 well-mixed bits for the draw of a context that begins with sample `first`."""
    with np.errstate(over="ignore"):
        key, _ = rng.keys(rng.spread_seed(seed), int(context), int(first))
    return int(key) >> 1


def flat_clauses(problem: Problem, fixed: bool = True) -> np.ndarray:
    """The formula given its evidence: unit clauses for fixed variables (if `fixed`), then the rest.

    int32; each clause ends in 0.
    """
    known = problem.fixed if fixed else problem.fixed[:0]
    return flat(problem.rest.literals, problem.rest.offsets, known)


def flat(literals: np.ndarray, offsets: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Unit clauses for known literals, then the clauses. int32; each ends in 0."""
    rest = np.zeros(len(literals) + len(offsets) - 1, np.int32)
    clause = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    rest[np.arange(len(literals)) + clause] = literals
    units = np.zeros((len(known), 2), np.int32)
    units[:, 0] = known
    return np.concatenate([units.reshape(-1), rest])


def ask(
    script: Path,
    solver: str,
    task: dict[str, Any],
    budget: Budget,
    safety: float = SAFETY_SECONDS,
) -> tuple[np.ndarray, list[dict[str, Any]], str]:
    """A solver's answer to a task, from a child process; Unsatisfiable if the solver proved that.

    budget: without a deadline the script counts what it does, and ends by itself; or after `safety`
    seconds of CPU.
    -> (bytes of all rows, uint8; the messages that held rows; why there are fewer than asked for)
    """
    seconds = safety if budget.counted else budget.left
    with phase(f"{solver} looks for solutions", budget.seconds_left):
        answers, ended = run_child(script, [task], seconds, cpu=budget.counted)
    if any("unsatisfiable" in answer for answer in answers):
        raise Unsatisfiable(f"a CDCL solver proved that the formula has no solution: {solver}")
    messages = [answer for answer in answers if "rows" in answer]
    rows = np.frombuffer(b"".join(message["rows"] for message in messages), np.uint8)
    ended = next((answer["error"] for answer in answers if "error" in answer), ended)
    return (
        rows,
        messages,
        TIME_UP if ended == STOPPED else ended and f"{solver}: {ended}",
    )


def blocks(draw: Draw, problem: Problem, request: Request) -> Iterator[Block]:
    """The samples of a request, `request.block` per context at a time.

    They are drawn in pieces of their own, which depend on the number of samples of the request and
    on the size of the formula: so they are the same for blocks of any size.
    """
    most = max(64, _MAX_CELLS // max(1, problem.formula.n_total) // 64 * 64)
    size, drawn, short = min(FIRST_PIECE, most), 0, False
    held: Block | None = None
    for _, count in request.pieces():
        budget = request.of_block()
        if budget.counted:
            budget = budget.within(SAFETY_SECONDS)
        while not short and (held is None or held.filled.shape[1] < words_for(count)):
            asked = size if request.count is None else min(size, request.count - drawn)
            piece = _piece(draw, problem, request, request.start + drawn, asked, budget)
            if held is not None:
                for name in _COUNTED & set(piece.info):
                    piece.info[name] += held.info.get(name, 0)
            held = piece if held is None else joined([held, piece])
            short, drawn, size = piece.stopped, drawn + asked, min(2 * size, most)
        assert held is not None
        block, held = _cut(held, count)
        yield block
        if block.stopped:
            return


def _piece(
    draw: Draw, problem: Problem, request: Request, first: int, count: int, budget: Budget
) -> Block:
    """`count` samples of each context, drawn at once. Stopped: some context has fewer."""
    rows: list[np.ndarray] = []
    info: dict[str, Any] = {}
    for k, (theta, context) in enumerate(zip(request.theta, request.contexts, strict=True)):
        share = budget.share(1 / (len(request.theta) - k))
        drawn = draw(problem, theta, count, seed_of(request.seed, context, first), share)
        drawn = drawn if isinstance(drawn, DrawnRows) else DrawnRows(drawn)
        rows.append(drawn.rows[:count])
        info |= drawn.info | ({"ended": drawn.ended} if drawn.ended else {})
    return block_of(problem, request, rows, info, any(len(x) < count for x in rows))


def _cut(held: Block, count: int) -> tuple[Block, Block]:
    """The first `count` samples of each context, and what is left. Stopped: there are fewer."""
    words, lanes = words_for(count), tail_mask(count)
    assert held.valid is not None
    parts = [
        Block(held.packed[:, part], held.filled[:, part], valid=held.valid[:, part], info=held.info)
        for part in (slice(0, words), slice(words, None))
    ]
    filled = parts[0].filled
    parts[0].stopped = filled.shape[1] < words or bool((filled != lanes).any())
    return parts[0], parts[1]


def block_of(
    problem: Problem,
    request: Request,
    rows: Sequence[np.ndarray],
    info: dict[str, Any] | None = None,
    stopped: bool = False,
) -> Block:
    """Rows of each context (m_c, n_total or n_vars) -> a block, checked.

    Contexts may differ in length: lanes behind the last row of a context are not `filled`.
    """
    words = words_for(max((len(x) for x in rows), default=0))
    packed = np.zeros((len(rows), words, len(request.columns)), np.uint64)
    filled, valid = np.zeros((2, len(rows), words), np.uint64)
    for c, x in enumerate(rows):
        mask = tail_mask(len(x))
        full = pack(np.asarray(x, np.bool_))
        packed[c, : len(full)] = full[:, request.columns]
        filled[c, : len(full)] = mask
        valid[c, : len(full)] = satisfying(problem, full, mask)
    return Block(packed, filled, stopped=stopped, info=dict(info or {}), valid=valid)
