"""Launches of the GPU kernels: which kernel, which arrays."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from numba import cuda

from nelson.kernels.cuda.cftp import couple_words
from nelson.kernels.cuda.draw import draw_words
from nelson.kernels.cuda.program import GpuProgram
from nelson.kernels.cuda.setup import SIMULATED
from nelson.kernels.cuda.shape import (
    DeviceLimits,
    Shape,
    copies_for,
    couple_shape,
    coupled_copies_for,
    limits,
    shape_for,
)
from nelson.kernels.cuda.team import TeamJob

__all__ = ["ROWS", "Launch", "Loaded", "copies_for", "coupled_copies_for", "draw", "limits"]

#: Bytes of shared memory that a kernel may use without asking the driver.
_PLAIN_SHARED = 48 << 10
#: Random rows drawn at once; the first draw takes twice as many, and probabilities 1/2 need one.
ROWS = 4


class Loaded:
    """A program in the memory of the GPU, and the kernel that reads it."""

    def __init__(self, program: GpuProgram) -> None:
        self.program = program
        self.coupled = program.positions is not None
        self.kernel: Any = couple_words if self.coupled else draw_words
        self.length = 1  # of coupled chains: where to start, learnt from the last draw
        self.shapes: dict[Any, Shape] = {}
        self.words = cuda.to_device(program.words)
        self.ints = cuda.to_device(program.ints)

    def shape(self, method: int, limit: DeviceLimits, **cut: Any) -> Shape:
        """`shape_for` or `couple_shape`, with a memory of earlier answers."""
        key = method, limit, *cut.items()
        if key not in self.shapes:
            shape = couple_shape if self.coupled else partial(shape_for, method=method)
            self.shapes[key] = shape(self.program, limit=limit, **cut)
        return self.shapes[key]


class Launch(NamedTuple):
    """Device arrays for the results."""

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
    job: TeamJob,
    out: Launch,
    scratch: tuple[Any, ...],
    stream: object = 0,
) -> None:
    """Start one launch without waiting for it.

    law: (contexts * n) uint64 on the GPU, see `Team.law`, or (contexts * positions),
    see `Couple.law`. rows: random rows drawn at once, 1 if every probability is 1/2.
    """
    tiles = int(job.tiles)
    blocks = min(shape.blocks, tiles)
    teams = min(shape.teams, -(-tiles // blocks))  # few tiles: spread them over multiprocessors
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
    if not SIMULATED and shared > _PLAIN_SHARED:
        variant = (
            loaded.coupled,
            rows,
            shape.shared,
            shape.near,
            loaded.program.log_copies,
            narrow,
        )
        if _allowed.get(variant, 0) < shared:
            _allow_shared(loaded.kernel, arguments, shared)
            _allowed[variant] = shared
    loaded.kernel[blocks, shape.team * teams, stream, shared](*arguments)


#: Bytes of shared memory that the driver has granted, by compiled variant.
_allowed: dict[tuple, int] = {}


def _allow_shared(kernel: Any, arguments: tuple, wanted: int) -> None:
    """Ask the driver for more than 48 KB of shared memory per block."""
    # The simulator has no such module.
    from numba.cuda.cudadrv.driver import binding, driver

    types = tuple(kernel.typeof_pyval(a) for a in arguments)
    function = kernel.compile(types)._codelibrary.get_cufunc()
    attribute = binding.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    driver.cuKernelSetAttribute(attribute, wanted, function.handle, function.device.id)
