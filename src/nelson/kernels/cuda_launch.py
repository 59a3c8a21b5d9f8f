"""From a program and a law to launches: what lies on the card, how many threads, how much memory.

Whether the state of a word fits in shared memory, how many words a multiprocessor holds and how
many launches a job is cut into follow from the limits that the device itself states.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import cuda

from nelson.kernels import cuda as kernels
from nelson.kernels.cuda_program import GpuProgram
from nelson.kernels.cuda_setup import SIMULATED, WARP
from nelson.kernels.cuda_team import CELLS, QUEUE, WORD_CELLS, Job
from nelson.kernels.reference import PRS

#: Shared memory that any kernel may have without asking, in bytes.
_PLAIN = 48 << 10
#: Random rows at once; a first draw takes twice as many. Probabilities 1/2 need one.
ROWS = 4
#: Threads of a block: what the registers of a multiprocessor do for (`cuda_setup.REGISTERS` each).
_THREADS = 768
#: Barriers of a block that teams of more than one warp can have.
_BARRIERS = 15
#: The last rounds go by events once there are no more than one for so many clauses.
EVENT_SHARE = 24
#: Variables and clauses of a tile of copies, about.
_TILE = 1000


class Limits(NamedTuple):
    """What the device says of itself."""

    processors: int
    shared_block: int  # bytes a block may have
    threads: int  # of a block


def limits() -> Limits:
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
    near: bool  # is the formula
    near_bytes: int
    stride64: int
    stride32: int
    state64: int
    state32: int
    capacity: int  # events a list holds
    room: int  # and items
    blocks: int  # that run at a time

    def shared_bytes(self, teams: int) -> int:
        return teams * (8 * self.stride64 + 4 * self.stride32) + self.near * self.near_bytes

    @property
    def global_bytes(self) -> int:
        if self.shared:
            return 0
        return self.blocks * self.teams * (8 * self.state64 + 4 * self.state32)


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
    near: bool | None = None,
    capacity: int | None = None,
) -> Shape:
    """As many teams as fit into shared memory beside the formula, and threads for all registers.
    Arguments that are given are taken as they are.
    """
    n, m = int(program.layout.n), int(program.layout.n_clauses)
    state64 = 2 * (n + m + 1 + (n if method == PRS else 0))
    near_bytes = 4 * (int(program.layout.near_words) + int(program.layout.near_ints))
    if capacity is None:
        capacity = 0 if method == PRS else max(32, m // EVENT_SHARE)
    room = capacity * (-(-program.literals // max(1, m)) + 1)

    def sizes(team: int, shared: bool) -> tuple[int, int, int]:
        queues = team // WARP * QUEUE
        state32 = 2 * capacity + 3 * room
        stride64 = queues + 2 * (WORD_CELLS << program.log_copies)
        stride64 += state64 if shared else 0
        stride32 = queues + CELLS + (state32 if shared else 0)
        return stride64, stride32 + stride32 % 2, state32

    def fitting(team: int, near: bool) -> int:
        stride64, stride32, _ = sizes(team, True)
        room = limit.shared_block - near * near_bytes
        most = limit.threads // team if team == WARP else min(_BARRIERS, limit.threads // team)
        return min(most, room // (8 * stride64 + 4 * stride32))

    fits_near = fitting(WARP, True) >= min(2, fitting(WARP, False)) if near is None else near
    if shared is not False and (shared or fitting(WARP, fits_near) >= 1):
        if team is None:  # the smallest team with which most threads have work
            sizes_of_team = [WARP * k for k in (1, 2, 3, 4, 6, 8, 12, 16, 24)]
            sizes_of_team = [
                t for t in sizes_of_team if t <= limit.threads and fitting(t, fits_near)
            ]
            team = max(sizes_of_team, key=lambda t: (min(t * fitting(t, fits_near), 640), -t))
        teams = teams or max(1, fitting(team, fits_near))
        stride64, stride32, state32 = sizes(team, True)
        blocks = limit.processors
        return Shape(
            team, teams, True, fits_near, near_bytes, stride64, stride32, state64, state32,
            capacity, room, blocks,
        )  # fmt: skip
    team = team or min(8 * WARP, limit.threads)
    stride64, stride32, state32 = sizes(team, False)
    blocks = limit.processors * max(1, limit.threads // team)
    return Shape(
        team, 1, False, False, near_bytes, stride64, stride32, state64, state32,
        capacity, room, blocks,
    )  # fmt: skip


class Loaded:
    """A program on the card."""

    def __init__(self, program: GpuProgram) -> None:
        self.program = program
        self.words = cuda.to_device(program.words)
        self.ints = cuda.to_device(program.ints)


class Launch(NamedTuple):
    """Where results go: device arrays."""

    packed: object  # (contexts * words * columns,) uint64
    valid: object  # (contexts * words,) uint64
    counts: object  # (COUNTS,) int64
    moved: object  # (n,) uint8


def draw(
    loaded: Loaded,
    shape: Shape,
    thr: object,
    rows: int,
    contexts: object,
    job: Job,
    out: Launch,
    scratch: tuple[Any, Any],
    stream: object = 0,
) -> None:
    """One launch, not waited for. thr: (contexts * n) uint32 on the card; rows: random rows taken
    at once, 1 if every probability is 1/2.
    """
    tiles = int(job.tiles)
    blocks = min(shape.blocks, tiles)
    teams = min(shape.teams, -(-tiles // blocks))  # few tiles: one for each multiprocessor
    shared = shape.shared_bytes(teams)
    narrow = 1 + loaded.program.clause_words if loaded.program.narrow else 0
    arguments = (
        (0,) * rows,
        (0,) * int(shape.shared),
        (0,) * int(shape.near),
        (0,) * loaded.program.log_copies,
        (0,) * narrow,
        loaded.program.layout,
        job,
        loaded.words,
        loaded.ints,
        thr,
        contexts,
        scratch[0],
        scratch[0].view(np.uint32),
        scratch[1],
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
