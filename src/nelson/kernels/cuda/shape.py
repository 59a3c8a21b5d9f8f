"""The shape of a launch: how many threads and teams, how much shared memory.

The limits that the device reports decide whether the state of a team fits in shared memory and how
many teams a multiprocessor holds.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numba import cuda

from nelson.kernels.core.reference import PRS
from nelson.kernels.cuda.banks import SLICE
from nelson.kernels.cuda.program import GpuProgram
from nelson.kernels.cuda.setup import SIMULATED, WARP
from nelson.kernels.cuda.team import CELLS, QUEUE, SHORT, WORD_CELLS

#: Most threads of a block: the registers of a multiprocessor serve this many, REGISTERS each.
_THREADS = 768
#: Most teams of more than one warp per block: a block has 16 barriers, one of them for all threads.
_BARRIERS = 15


class DeviceLimits(NamedTuple):
    """Limits that the device reports."""

    processors: int
    shared_block: int  # bytes of shared memory per block
    threads: int  # per block


@cache
def limits(index: int) -> DeviceLimits:
    """Limits of device number `index`, which must be the current device."""
    if SIMULATED:
        return DeviceLimits(1, 200 << 10, 4)
    device = cuda.get_current_device()
    return DeviceLimits(
        device.MULTIPROCESSOR_COUNT,
        device.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
        _THREADS,
    )


class Shape(NamedTuple):
    """How a launch is divided into blocks and teams, and the memory of each team.

    Fields that `TeamJob` has too are explained there.
    """

    team: int
    teams: int  # per block
    shared: bool  # is the state in shared memory
    near: int  # 1: the clauses are in shared memory too, 2: all of the formula is
    near_bytes: int  # bytes of these
    stride64: int
    stride32: int
    queues: int
    state64: int
    state32: int
    few: int
    capacity: int
    room: int
    listed: int
    listed_room: int
    blocks: int  # blocks that run at the same time

    def shared_bytes(self, teams: int) -> int:
        """Shared memory of a block of `teams` teams."""
        return teams * (8 * self.stride64 + 4 * self.stride32) + self.near_bytes

    @property
    def state_bytes(self) -> int:
        """Global memory of a team if its state is not in shared memory."""
        return 8 * self.state64 + 4 * self.state32


def copies_for(n: int, n_clauses: int, words: int, size: int = 1000) -> int:
    """log2 of the number of copies of a small formula in a tile, at most one per pair of words.

    size: about the variables, and the clauses, of all copies together.
    """
    return int(np.log2(max(1.0, min(size / max(1, n, n_clauses), words / 2))))


def coupled_copies_for(n: int, words: int, size: int = 256) -> int:
    """The same for coupling from the past, where a tile has one word of each copy, and where more
    lanes in a tile take more sweeps. size: about the variables of all copies together.
    """
    return int(np.log2(max(1.0, min(size / max(1, n), words))))


def shape_for(
    program: GpuProgram,
    method: int,
    limit: DeviceLimits,
    team: int | None = None,
    teams: int | None = None,
    shared: bool | None = None,
    near: int | None = None,
    few: int | None = None,
    capacity: int | None = None,
) -> Shape:
    """The best shape: as many threads as have registers, in as many teams as fit into shared
    memory, and beside them as much of the formula as fits. Arguments that are given are not
    changed. few: rounds by events begin at this many events, by default one per 30 clauses.
    """
    if few is None:
        few = max(32, int(program.layout.n_clauses) // 30)
    few = 0 if method == PRS else few

    def cut(team: int, shared: bool, near: int) -> Shape:
        return _cut(program, method, limit, team, teams, shared, near, few, capacity)

    def worth(shape: Shape) -> tuple:
        """Order of preference: two teams or more; enough threads; a formula near the threads; more
        threads; more teams. Sweeps do not gain from more threads, because they draw fewer variables
        at a time.
        """
        # Each round may read 20 KB of the formula from global memory: the first-level cache is
        # small if shared memory is full.
        at_hand = _near_bytes(program)[2] - shape.near_bytes <= 20 << 10
        threads = shape.team * shape.teams
        enough = min(threads, 640)  # more threads of a multiprocessor matter less than the rest
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
    """Shared memory for no part of the formula, for its clauses, and for all of it."""
    layout = program.layout
    return 0, 4 * int(layout.near_clauses), 4 * int(layout.near_words + layout.near_ints)


def _cut(
    program: GpuProgram,
    method: int,
    limit: DeviceLimits,
    team: int,
    teams: int | None,
    shared: bool,
    near: int,
    few: int,
    capacity: int | None,
) -> Shape:
    """The shape for teams of `team` threads; always at least one team, even if it does not fit."""
    n, m = int(program.layout.n), int(program.layout.n_clauses)
    state64 = 2 * (n + m + 2 + (n if method == PRS else 0))
    cells = 2 * (WORD_CELLS << program.log_copies)
    queue = 3 * (team // WARP) * QUEUE  # 32-bit words
    # The lists of the last rounds lie where the queues are; if these are too short, they grow.
    change = -(-program.literals // max(1, 2 * m))  # items per event: half of the literals change
    if capacity is None and few:
        capacity = max((queue - WARP) // (2 + change), 2 * few)
    capacity = capacity or 0
    room = capacity * change + WARP
    state32 = 2 * capacity + room
    lists = max(queue, state32 if shared else 0)
    # The list of violated words lies behind a SHORT queue, and behind the events made from the
    # list.
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


def couple_shape(
    program: GpuProgram,
    limit: DeviceLimits,
    team: int | None = None,
    teams: int | None = None,
    shared: bool | None = None,
    near: int | None = None,
) -> Shape:
    """The best shape for coupling from the past: the most threads that have work.

    Small teams waste fewer threads at the end of a colour class. Lists in shared memory count as
    twice the threads: with 32 per team, they made an H200 twice as fast per thread.
    """
    classes = np.diff(program.ints[int(program.layout.classes) : int(program.layout.check)])

    def worth(shape: Shape) -> float:
        visits = int((-(-classes * SLICE // shape.team)).sum()) * shape.team
        used = int(program.layout.n) / max(1, visits)
        return used * shape.team * shape.teams * (2 if shape.near else 1)

    if shared is not False:
        sizes = [WARP * k for k in (1, 2, 3, 4, 6, 8, 12, 16) if WARP * k <= limit.threads]
        shapes = [
            _couple(program, limit, threads, teams, True, here)
            for threads in ([team] if team else sizes)
            for here in ((0, 2) if near is None else (near,))
        ]
        fitting = [s for s in shapes if shared or s.shared_bytes(s.teams) <= limit.shared_block]
        if fitting:
            return max(fitting, key=worth)
    return _couple(program, limit, team or min(8 * WARP, limit.threads), teams, False, 0)


def _couple(
    program: GpuProgram, limit: DeviceLimits, team: int, teams: int | None, shared: bool, near: int
) -> Shape:
    state = 2 * (int(program.layout.n) + 2)
    cells = WORD_CELLS << program.log_copies
    stride = cells + (state if shared else 0)
    near_bytes = _near_bytes(program)[near]
    most = limit.threads // team if team == WARP else min(_BARRIERS, limit.threads // team)
    if shared:
        fit = (limit.shared_block - near_bytes) // (8 * stride + 4 * CELLS)
        teams = teams or max(1, min(most, fit))
    blocks = limit.processors * (1 if shared else max(1, limit.threads // team))
    unused = (0,) * 6  # lists and queues
    return Shape(
        team, teams if shared and teams else 1, shared, near, near_bytes, stride, CELLS, 0, state,
        *unused, blocks,
    )  # fmt: skip
