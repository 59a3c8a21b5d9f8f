"""`unique=True`: keep drawing and skip repeats until there are n samples or no more exist.

The law is that of drawing without replacement by rejection. The result claims that no further
solution exists only if a solver proved it.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from nelson.errors import FormulaError
from nelson.exact import solver
from nelson.kernels.core.bits import pack, unpack, words_for
from nelson.sampling.collect import samples_of
from nelson.sampling.plan import Plan
from nelson.sampling.result import prove_or_explain, result
from nelson.sampling.sampler import Block
from nelson.sampling.samples import Samples
from nelson.sampling.validity import valid_blocks

#: If less than this share of a block is new, a solver is asked whether more samples exist.
_STALE = 0.05
#: Most blocks; each holds as many samples as the caller asked for.
_MAX_BLOCKS = 64


def distinct(plan: Plan, started: float) -> Samples:
    if not plan.single:
        raise FormulaError(
            "unique=True with one theta row per context", expected="one theta vector"
        )
    problem, request = plan.parts[0]
    wanted = plan.n or 0
    size = 64 * max(1, words_for(wanted))
    rows: dict[bytes, np.ndarray] = {}
    blocks: list[Block] = []
    exhausted, asked, reason = False, False, None
    if wanted == 0:
        nothing = np.zeros((0, len(request.columns)), np.uint64)
        return result(plan, samples_of(plan, [nothing], 0), blocks, started)
    asking = replace(request, count=None, block=size, deadline=request.until())
    for block in valid_blocks(plan.sampler, problem, asking, plan.check):
        blocks.append(block)
        if block.interrupted:
            raise KeyboardInterrupt
        there = min(size, 64 * block.valid.shape[1])
        lanes = unpack(block.valid[0][:, None], there)[:, 0]
        before = len(rows)
        for row in unpack(block.packed[0], there)[lanes]:
            rows.setdefault(np.packbits(row).tobytes(), row)
        if len(rows) >= wanted:
            break
        if not rows:
            prove_or_explain(plan, problem, request, block)
            break
        if not asked and len(rows) - before < _STALE * size:
            asked = True
            left = None if request.deadline is None else request.deadline - time.monotonic()
            exhausted = not _another(plan, rows, left)
            if exhausted:
                break
        if len(blocks) == _MAX_BLOCKS:
            reason = f"{len(rows)} distinct samples among {size * len(blocks)} drawn"
            break
    x = np.array(list(rows.values())[:wanted], bool).reshape(-1, len(request.columns))
    if exhausted:
        reason = f"only {len(x)} distinct samples exist"
    samples = samples_of(plan, [pack(x)], len(x))
    return result(plan, samples, blocks, started, reason=reason, exhausted=exhausted)


def _another(plan: Plan, rows: dict[bytes, np.ndarray], seconds: float | None) -> bool:
    """May a solution exist that differs from all rows on the columns? True unless disproved."""
    variables = plan.request.columns + 1
    blocked = (np.where(row, -variables, variables).tolist() for row in rows.values())
    answer = solver.satisfiable(plan.formula, plan.problem.evidence, blocked, seconds)
    return answer is not False
