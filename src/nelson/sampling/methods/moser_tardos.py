"""Moser and Tardos, sequentially: redraw the variables of the first violated clause until no clause
is violated.

On extremal formulas its law is the law of `lovasz`: there violated clauses share no variable, so
the order of resampling does not matter. It takes one round for each constraint that `lovasz`
resamples.
"""

from __future__ import annotations

from functools import partial

from nelson.kernels.core.reference import MOSER_TARDOS
from nelson.sampling import engine
from nelson.sampling.methods.lovasz import guarantee
from nelson.sampling.sampler import Sampler

SAMPLER = Sampler(
    name="moser-tardos",
    summary="resample the variables of one violated clause at a time",
    citation="Moser, Tardos: A constructive proof of the general Lovasz local lemma, "
    "J. ACM 57 (2010)",
    weighted=True,
    guarantee=guarantee,
    blocks=partial(engine.blocks, MOSER_TARDOS),
    sweeps=0,
    ready=engine.ready,
    promise="exact on extremal formulas; asymptotic with sweeps, else heuristic",
)
