"""Samplers that hand out rows, behind the interface of those that hand out packed blocks.

    draw(problem, theta, count, seed, deadline) -> Drawn (or its rows alone)

        theta      (n_vars,) finite log-odds of one context
        count      rows wanted; more are cut off, fewer mean that a budget ended
        seed       63 bits, a function of (seed of the call, context, number of the first sample)
        deadline   time.monotonic(); shared fairly among the contexts
        rows       (m, n_total) bool or 0/1; (m, n_vars) where the formula has no auxiliary
                   variables or its `constraints` explain them
        Drawn      (rows, ended, info): `ended` says in words why there are fewer than count

    SAMPLER = Sampler(..., blocks=partial(foreign.blocks, draw), needs="samplers",
                      modules=("pycmsgen",), seconds=60.0)

    blocks(draw, problem, request)          all blocks of a request, one draw a context and block
    block_of(problem, request, rows, ...)   packs rows, checks them against the clauses as given
    require(module, extra="samplers")       imports, or says what to install
    clauses_left(problem)                   what a solver is asked, as lists of literals
    flat_clauses(problem)                   the same as int32, each clause ending in 0
    seed_of(seed, context, first)           the seed above
    explained(name, answers, ended)         what `child.run_child` said, as `Drawn.ended`

Rows are checked here and nowhere else is trusted: what violates a clause or the evidence is marked
in `Block.sound`. A draw that proves that there is no solution raises Unsatisfiable; one that just
finds none returns no row, and a solver is asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from nelson.errors import NelsonError
from nelson.kernels.core import rng
from nelson.kernels.core.bits import pack, tail_mask, unpack
from nelson.kernels.cpu.check import holds
from nelson.sampling.problem import Problem
from nelson.sampling.sampler import Block, Request

#: Seconds of a draw if nobody set a limit.
SECONDS = 60.0
#: Rows times variables that one draw is asked for: bytes of its rows.
_MAX_CELLS = 1 << 26


class Drawn(NamedTuple):
    rows: np.ndarray
    ended: str = ""
    info: dict[str, Any] = {}  # noqa: RUF012  (never written to)


Draw = Callable[[Problem, np.ndarray, int, int, float], "Drawn | np.ndarray"]


def require(module: str, extra: str = "samplers") -> ModuleType:
    """The module; NelsonError names the extra that brings it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise NelsonError(
            f'{module} is not installed: pip install "nelson[{extra}]" ({error})'
        ) from None


def seed_of(seed: int, context: int, first: int) -> int:
    """63 well-mixed bits for the draw of a context that begins with sample `first`."""
    with np.errstate(over="ignore"):
        key, _ = rng.keys(rng.spread_seed(seed), int(context), int(first))
    return int(key) >> 1


def clauses_left(problem: Problem) -> list[list[int]]:
    """The formula given its evidence, as lists: unit clauses for what is known, then the rest."""
    return [[literal] for literal in problem.fixed.tolist()] + problem.rest.clauses()


def flat_clauses(problem: Problem, fixed: bool = True) -> np.ndarray:
    """The same in one int32 array, each clause ending in 0; fixed=False: without what is known."""
    literals, offsets = problem.rest.literals, problem.rest.offsets
    rest = np.zeros(len(literals) + len(offsets) - 1, np.int32)
    clause = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    rest[np.arange(len(literals)) + clause] = literals
    units = np.zeros((len(problem.fixed) if fixed else 0, 2), np.int32)
    units[:, 0] = problem.fixed[: len(units)]
    return np.concatenate([units.reshape(-1), rest])


def blocks(draw: Draw, problem: Problem, request: Request) -> Iterator[Block]:
    """The samples of a request, `request.block` per context at a time."""
    done = 0
    while request.count is None or done < request.count:
        count = request.block if request.count is None else min(request.block, request.count - done)
        block = _block(draw, problem, request, request.start + done, count)
        yield block
        if block.stopped:
            return
        done += count


def _block(draw: Draw, problem: Problem, request: Request, first: int, count: int) -> Block:
    """`count` samples of each context, as one block; in several draws if the rows are large."""
    until = request.until()
    deadline = time.monotonic() + SECONDS if until is None else until
    step = max(64, _MAX_CELLS // max(1, problem.formula.n_total) // 64 * 64)
    parts: list[Block] = []
    for at in range(0, count, step):
        size = min(step, count - at)
        rows: list[np.ndarray] = []
        info: dict[str, Any] = {}
        short = False
        for k, (theta, context) in enumerate(zip(request.theta, request.contexts, strict=True)):
            now = time.monotonic()
            share = now + (deadline - now) / (len(request.theta) - k)
            seed = seed_of(request.seed, context, first + at)
            drawn = draw(problem, theta, size, seed, share)
            drawn = drawn if isinstance(drawn, Drawn) else Drawn(drawn)
            rows.append(drawn.rows[:size])
            short |= len(drawn.rows) < size
            info |= drawn.info | ({"ended": drawn.ended} if drawn.ended else {})
        parts.append(block_of(problem, request, rows, info, short))
        if short:
            break
    return parts[0] if len(parts) == 1 else _joined(parts)


def explained(name: str, answers: Sequence[dict[str, Any]], ended: str) -> str:
    """Why `run_child` gave fewer rows than asked for, in words for the user; "" if it did not."""
    ended = next((answer["error"] for answer in answers if "error" in answer), ended)
    return "the time was up" if ended == "stopped" else ended and f"{name}: {ended}"


def block_of(
    problem: Problem,
    request: Request,
    rows: Sequence[np.ndarray],
    info: dict[str, Any] | None = None,
    stopped: bool = False,
) -> Block:
    """Rows of each context (m_c, n_total or n_vars) -> a block, checked.

    Contexts may differ in length: lanes behind the last row of a context are not `valid`.
    """
    most = max((len(x) for x in rows), default=0)
    words = -(-most // 64)
    packed = np.zeros((len(rows), words, len(request.columns)), np.uint64)
    valid, sound = np.zeros((2, len(rows), words), np.uint64)
    for c, x in enumerate(rows):
        mask = tail_mask(len(x))
        full = pack(np.asarray(x, np.bool_))
        packed[c, : len(full)] = full[:, request.columns]
        valid[c, : len(full)] = mask
        sound[c, : len(full)] = checked(problem, full, mask)
    return Block(packed, valid, stopped=stopped, info=dict(info or {}), sound=sound)


def checked(problem: Problem, packed: np.ndarray, lanes: np.ndarray) -> np.ndarray:
    """Lanes (words,) in which formula and evidence hold; packed (words, n_total or n_vars)."""
    formula = problem.formula
    for literal in problem.evidence:
        column = packed[:, abs(literal) - 1]
        lanes = lanes & (column if literal > 0 else ~column)
    if packed.shape[1] == formula.n_total:
        return holds(formula.literals, formula.offsets, packed, lanes)
    count = 64 * len(lanes)
    good = formula.satisfied(unpack(packed, count)) if count else np.zeros(0, bool)
    return lanes & pack(good[:, None])[:, 0]


def _joined(parts: list[Block]) -> Block:
    """Blocks one after the other; all but the last are full."""
    info: dict[str, Any] = {}
    for part in parts:
        info |= part.info
    sound = np.concatenate([p.valid if p.sound is None else p.sound for p in parts], axis=1)
    return Block(
        np.concatenate([part.packed for part in parts], axis=1),
        np.concatenate([part.valid for part in parts], axis=1),
        stopped=parts[-1].stopped,
        info=info,
        sound=sound,
    )
