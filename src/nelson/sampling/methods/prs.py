"""General partial rejection sampling: exact on any formula.

The resample set starts as the violated clauses and grows by each clause that meets it and is not
satisfied by the variables inside it. Then nothing outside the set was looked at except through
clauses that hold, so what is kept is distributed as it should be. On an extremal formula nothing
is ever added: it is `lovasz`. Where the set percolates it is plain rejection, which the budget
ends.
"""

from __future__ import annotations

from functools import partial

from nelson.kernels.core.reference import PRS
from nelson.sampling import engine
from nelson.sampling.sampler import Sampler

SAMPLER = Sampler(
    name="prs",
    summary="resample violated clauses and all around them that they may have shaped",
    citation="Guo, Jerrum, Liu: Uniform sampling through the Lovasz local lemma, J. ACM 66 (2019)",
    weighted=True,
    guarantee=lambda problem, sweeps: "exact",
    blocks=partial(engine.blocks, PRS),
    sweeps=0,
    ready=engine.ready,
    promise="exact, where it converges",
)
