"""Compiles the kernels of a draw before a clock starts."""

from __future__ import annotations

from functools import cache

import numpy as np

from nelson.budget import Budget
from nelson.chains.engine import RESAMPLE, Kernel, draw, width_for
from nelson.chains.problem import prepare
from nelson.chains.request import Request
from nelson.formula import Formula


def compile_kernel(width: int, kernel: Kernel | None = None) -> None:
    """Compile the kernel of that width, before a clock starts."""
    problem = prepare(Formula([], n_vars=1))
    none = np.zeros(1, np.int64)
    request = Request(none[None], none, 1, 1, 0, none, 0, 0, Budget(threads=1), width=width)
    kernel = kernel or RESAMPLE
    draw(kernel, 0, problem, request, kernel.laws(problem, request.theta), none, 0, 1)


def ready(count: int, width: int | None = None) -> None:
    """Compile the kernel for `count` samples."""
    _ready(width or width_for(count))


@cache
def _ready(width: int) -> None:
    compile_kernel(width)
