"""`unique=True`: keep drawing and skip repeats until there are n samples or no more exist.

The law is that of drawing without replacement (successive sampling): x_1 ~ P_theta, and

    P(x_k+1 = x | x_1 .. x_k) = P_theta(x) / (1 - P_theta(x_1) - .. - P_theta(x_k))

for every other x. If P_theta is uniform over the rows returned, the samples are a uniformly random
set, and each of them by itself is uniform: the guarantee of the draws stays. If it is not, each
sample but the first misses the probabilities of theta: P = (0.9, 0.1) gives both values a share of
1/2 in two samples. The guarantee then is "heuristic", since a guarantee speaks about P_theta.
info["law"] says this, and what the guarantee of the draws is.

The result claims that no further solution exists only if a solver proved it.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from nelson.errors import FormulaError
from nelson.exact import solver
from nelson.kernels.core.bits import pack, unpack, words_for
from nelson.sampling.collect import samples_of
from nelson.sampling.guarantee import weakest
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
    samples = result(plan, samples, blocks, started, reason=reason, exhausted=exhausted)
    return _with_law(plan, samples)


def _with_law(plan: Plan, samples: Samples) -> Samples:
    """The guarantee and the law of distinct samples, given those of independent draws."""
    law = (
        "drawn one after the other, repeats skipped: a sample follows the law of theta given that "
        f"it differs from those before it (single draws: {samples.guarantee})"
    )
    if len(samples) <= 1 or (_uniform(plan) and samples.guarantee != "approximate"):
        return replace(samples, info={**samples.info, "law": law})
    why = f"{samples.info['why']}; but distinct samples do not have the shares of theta"
    info = {**samples.info, "law": law, "why": why}
    return replace(samples, guarantee=weakest([samples.guarantee, "heuristic"]), info=info)


def _uniform(plan: Plan) -> bool:
    """Is P_theta uniform over the rows that are returned? False if that is not known."""
    formula, request = plan.formula, plan.request
    defined = not formula.n_aux or bool(formula.constraints)  # these define auxiliary variables
    whole = len(request.columns) == formula.n_vars
    return defined and whole and not request.theta.any()


def _another(plan: Plan, rows: dict[bytes, np.ndarray], seconds: float | None) -> bool:
    """May a solution exist that differs from all rows on the columns? True unless disproved."""
    variables = plan.request.columns + 1
    blocked = (np.where(row, -variables, variables).tolist() for row in rows.values())
    answer = solver.satisfiable(plan.formula, plan.problem.evidence, blocked, seconds)
    return answer is not False
