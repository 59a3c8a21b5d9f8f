"""Moser and Tardos, sequentially: redraw the variables of the first violated clause until no clause
is violated.

On extremal formulas its law is the law of `lovasz`: there violated clauses share no variable, so
the order of resampling does not matter. It takes one round for each constraint that `lovasz`
resamples.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from nelson.chains import engine
from nelson.kernels.core.reference import MOSER_TARDOS
from nelson.sampling.methods import lovasz

SAMPLER = replace(
    lovasz.SAMPLER,
    name="moser-tardos",
    summary="resample the variables of one violated clause at a time",
    citation="Moser, Tardos: A constructive proof of the general Lovasz local lemma, "
    "J. ACM 57 (2010)",
    gpu_method=None,
    other_moves=False,
    blocks=partial(engine.blocks, MOSER_TARDOS),
)
