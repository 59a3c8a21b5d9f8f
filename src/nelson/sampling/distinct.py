"""`unique=True`: draw on, skip what was drawn before, until there are n or there are no more.

The law is that of drawing without replacement by rejection. That no further solution exists is
said only if a solver proved it.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from nelson.errors import FormulaError
from nelson.exact import solver
from nelson.kernels.core.bits import pack, unpack
from nelson.sampling import checked
from nelson.sampling.collect import finished, prove_or_explain
from nelson.sampling.plan import Plan

if TYPE_CHECKING:
    from nelson.sampling.sampler import Block
    from nelson.sampling.samples import Samples

#: A block that brings fewer new samples than this share of itself makes us ask whether any are
#: left.
_STALE = 0.05
#: Blocks drawn at most; each holds as many samples as were asked for.
_MAX_BLOCKS = 64


def distinct(plan: Plan, started: float) -> Samples:
    if not plan.single:
        raise FormulaError(
            "unique=True with one theta row per context", expected="one theta vector"
        )
    problem, request = plan.parts[0]
    wanted = plan.n or 0
    size = 64 * max(1, -(-wanted // 64))
    found: dict[bytes, np.ndarray] = {}
    notes: list[Block] = []
    exhausted, asked, reason = False, False, None
    if wanted == 0:
        return finished(plan, np.zeros((0, len(request.columns)), np.uint64), 0, notes, started)
    asking = replace(request, count=None, block=size, deadline=request.until())
    for block in checked.blocks(plan.sampler, problem, asking, plan.check):
        notes.append(block)
        if block.interrupted:
            raise KeyboardInterrupt
        there = min(size, 64 * block.valid.shape[1])
        lanes = unpack(block.valid[0][:, None], there)[:, 0]
        before = len(found)
        for row in unpack(block.packed[0], there)[lanes]:
            found.setdefault(np.packbits(row).tobytes(), row)
        if len(found) >= wanted:
            break
        if not found:
            prove_or_explain(plan, problem, request, block)
            break
        if not asked and len(found) - before < _STALE * size:
            asked = True
            left = None if request.deadline is None else request.deadline - time.monotonic()
            exhausted = not _another(plan, found, left)
            if exhausted:
                break
        if len(notes) == _MAX_BLOCKS:
            reason = f"{len(found)} distinct samples among {size * len(notes)} drawn"
            break
    rows = np.array(list(found.values())[:wanted], bool).reshape(-1, len(request.columns))
    if exhausted:
        reason = f"only {len(rows)} distinct samples exist"
    return finished(plan, pack(rows), len(rows), notes, started, reason=reason, exhausted=exhausted)


def _another(plan: Plan, found: dict[bytes, np.ndarray], seconds: float | None) -> bool:
    """May there be a solution that differs from all found on the columns? True unless disproved."""
    variables = plan.request.columns + 1
    blocked = (np.where(row, -variables, variables).tolist() for row in found.values())
    answer = solver.satisfiable(plan.formula, plan.problem.evidence, blocked, seconds)
    return answer is not False
