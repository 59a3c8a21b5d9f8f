"""From a program and a law to launches: what lies on the card, how many threads, how much memory.

Whether the state of a word fits in shared memory, how many words a multiprocessor holds and how
many launches a job is cut into follow from the limits that the device itself states.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import cuda

from nelson.kernels.core.reference import PRS
from nelson.kernels.cuda import draw as kernels
from nelson.kernels.cuda.program import GpuProgram
from nelson.kernels.cuda.setup import SIMULATED, WARP
from nelson.kernels.cuda.team import CELLS, QUEUE, SHORT, WORD_CELLS, Job

#: Shared memory that any kernel may have without asking, in bytes.
_PLAIN = 48 << 10
#: Random rows at once; a first draw takes twice as many. Probabilities 1/2 need one.
ROWS = 4
#: Threads of a block: what the registers of a multiprocessor do for, REGISTERS each.
_THREADS = 768
#: Threads of a multiprocessor from which on more of them are not what matters most.
_ENOUGH = 640
#: Barriers of a block that teams of more than one warp can have.
_BARRIERS = 15
#: The last rounds go by events once there are no more than one for so many clauses.
EVENT_SHARE = 30
#: Bytes of the formula that every round may read from global memory: the first-level cache has
#: little room beside full shared memory.
_CACHED = 20 << 10
#: Variables and clauses of a tile of copies, about.
_TILE = 1000


class Limits(NamedTuple):
    """What the device says of itself."""

    processors: int
    shared_block: int  # bytes a block may have
    threads: int  # of a block


@cache
def limits(index: int) -> Limits:
    """Of the device that is selected, number `index`."""
    if SIMULATED:
        return Limits(1, 200 << 10, 4)
    device = cuda.get_current_device()
    return Limits(
        device.MULTIPROCESSOR_COUNT,
        device.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
        _THREADS,
    )


class Shape(NamedTuple):
    """How a launch is cut: threads a team, teams a block, and what each team has."""

    team: int
    teams: int
    shared: bool  # is the state in shared memory
    near: int  # 1: the clauses too, 2: all of the formula
    near_bytes: int
    stride64: int  # words of 64 and of 32 bits a team has in shared memory
    stride32: int
    queues: int  # where the queues begin among the former
    state64: int  # words of the state, wherever it lies
    state32: int
    few: int  # events with which the last rounds begin
    capacity: int  # events a list holds
    room: int  # and items that changed
    listed: int  # where the list of violated words is among the lists, and its length
    listed_room: int
    blocks: int  # that run at a time

    def shared_bytes(self, teams: int) -> int:
        return teams * (8 * self.stride64 + 4 * self.stride32) + self.near_bytes

    @property
    def state_bytes(self) -> int:
        """What a team needs in global memory, if its state lies there."""
        return 8 * self.state64 + 4 * self.state32


def copies_for(n: int, n_clauses: int, words: int) -> int:
    """How many copies of a small formula make a tile, log 2; no more than there are words for."""
    return int(np.log2(max(1.0, min(_TILE / max(1, n, n_clauses), words / 2))))


def shape_for(
    program: GpuProgram,
    method: int,
    limit: Limits,
    team: int | None = None,
    teams: int | None = None,
    shared: bool | None = None,
    near: int | None = None,
    few: int | None = None,
    capacity: int | None = None,
) -> Shape:
    """As many threads as have registers, in as many teams as fit into shared memory; and beside
    them as much of the formula as fits. Arguments that are given are taken as they are.
    """
    if few is None:
        few = max(32, int(program.layout.n_clauses) // EVENT_SHARE)
    few = 0 if method == PRS else few

    def cut(team: int, shared: bool, near: int) -> Shape:
        return _cut(program, method, limit, team, teams, shared, near, few, capacity)

    def worth(shape: Shape) -> tuple:
        """Two teams rather than one; many threads; then a formula at hand, more threads, teams.
        Sweeps have no use for more threads: what they draw at a time is less.
        """
        at_hand = _near_bytes(program)[2] - shape.near_bytes <= _CACHED
        threads = shape.team * shape.teams
        enough = min(threads, _ENOUGH)
        more = 0 if program.layout.n_classes else threads
        return min(shape.teams, 2), enough, at_hand, more, shape.teams, shape.near

    if shared is not False:
        sizes = [WARP * k for k in (1, 2, 3, 4, 6, 8, 12, 16, 24) if WARP * k <= limit.threads]
        shapes = [
            cut(threads, True, here)
            for threads in ([team] if team else sizes)
            for here in ((0, 1, 2) if near is None else (near,))
        ]
        fitting = [s for s in shapes if shared or s.shared_bytes(s.teams) <= limit.shared_block]
        if fitting:
            return max(fitting, key=worth)
    return cut(team or min(8 * WARP, limit.threads), False, 0)


def _near_bytes(program: GpuProgram) -> tuple[int, int, int]:
    """Bytes of a formula of which nothing, the clauses, or all is in shared memory."""
    layout = program.layout
    return 0, 4 * int(layout.near_clauses), 4 * int(layout.near_words + layout.near_ints)


def _cut(
    program: GpuProgram,
    method: int,
    limit: Limits,
    team: int,
    teams: int | None,
    shared: bool,
    near: int,
    few: int,
    capacity: int | None,
) -> Shape:
    """What teams of so many threads have; one of them at least, whether or not it fits."""
    n, m = int(program.layout.n), int(program.layout.n_clauses)
    state64 = 2 * (n + m + 2 + (n if method == PRS else 0))
    cells = 2 * (WORD_CELLS << program.log_copies)
    queue = 3 * (team // WARP) * QUEUE  # 32-bit words
    # The lists of the last rounds take the place of the queues, or more if these are too short.
    change = -(-program.literals // max(1, 2 * m))  # half of the literals of an event
    if capacity is None and few:
        capacity = max((queue - WARP) // (2 + change), 2 * few)
    capacity = capacity or 0
    room = capacity * change + WARP
    state32 = 2 * capacity + room
    lists = max(queue, state32 if shared else 0)
    # Behind a shorter queue, and behind the events that are made of it.
    listed = max(3 * (team // WARP) * SHORT, capacity)
    even = program.layout.longest * m <= 2 * program.literals
    can = shared and method != PRS and even and m <= 32 * team
    listed_room = max(0, lists - listed) if can else 0
    stride64 = cells + (state64 if shared else 0)
    queues, stride64 = stride64, stride64 + (lists + 1) // 2
    stride64 += stride64 % 2
    most = limit.threads // team if team == WARP else min(_BARRIERS, limit.threads // team)
    if shared:
        bytes_ = 8 * stride64 + 4 * CELLS
        fit = (limit.shared_block - _near_bytes(program)[near]) // bytes_
        teams = teams or max(1, min(most, fit))
    blocks = limit.processors * (1 if shared else max(1, limit.threads // team))
    return Shape(
        team, teams if shared and teams else 1, shared, near, _near_bytes(program)[near],
        stride64, CELLS, queues, state64, state32, few, capacity, room,
        listed, listed_room, blocks,
    )  # fmt: skip


class Loaded:
    """A program on the card."""

    def __init__(self, program: GpuProgram) -> None:
        self.program = program
        self.shapes: dict[Any, Shape] = {}
        self.words = cuda.to_device(program.words)
        self.ints = cuda.to_device(program.ints)

    def shape(self, method: int, limit: Limits, **cut: Any) -> Shape:
        """`shape_for`, looked up if it was asked for before."""
        key = method, limit, *cut.items()
        if key not in self.shapes:
            self.shapes[key] = shape_for(self.program, method, limit, **cut)
        return self.shapes[key]


class Launch(NamedTuple):
    """Where results go: device arrays."""

    packed: object  # (contexts * words * columns,) uint64
    valid: object  # (contexts * words,) uint64
    counts: object  # (COUNTS,) int64
    moved: object  # (n,) uint8


def draw(
    loaded: Loaded,
    shape: Shape,
    law: object,
    rows: int,
    contexts: object,
    job: Job,
    out: Launch,
    scratch: tuple[Any, ...],
    stream: object = 0,
) -> None:
    """One launch, not waited for. law: (contexts * n) uint64 on the card, as `Team` has it; rows:
    random rows taken at once, 1 if every probability is 1/2.
    """
    tiles = int(job.tiles)
    blocks = min(shape.blocks, tiles)
    teams = min(shape.teams, -(-tiles // blocks))  # few tiles: one for each multiprocessor
    shared = shape.shared_bytes(teams)
    narrow = 1 + loaded.program.each if loaded.program.narrow else 0
    arguments = (
        (0,) * rows,
        (0,) * int(shape.shared),
        (0,) * shape.near,
        (0,) * loaded.program.log_copies,
        (0,) * narrow,
        loaded.program.layout,
        job,
        loaded.words,
        loaded.ints,
        law,
        contexts,
        *scratch,
        out.packed,
        out.valid,
        out.counts,
        out.moved,
    )
    if not SIMULATED and shared > _PLAIN:
        variant = (rows, shape.shared, shape.near, loaded.program.log_copies, narrow)
        if _allowed.get(variant, 0) < shared:
            _allow_shared(arguments, shared)
            _allowed[variant] = shared
    kernels.draw_words[blocks, shape.team * teams, stream, shared](*arguments)


#: Shared memory that was asked for, by compiled variant.
_allowed: dict[tuple, int] = {}


def _allow_shared(arguments: tuple, wanted: int) -> None:
    """Ask the driver for more than 48 KB of shared memory a block."""
    from numba.cuda.cudadrv.driver import binding, driver

    types = tuple(kernels.draw_words.typeof_pyval(a) for a in arguments)
    function = kernels.draw_words.compile(types)._codelibrary.get_cufunc()
    attribute = binding.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    driver.cuKernelSetAttribute(attribute, wanted, function.handle, function.device.id)
