"""General partial rejection sampling: exact on any formula.

The resample set starts as the violated clauses. It grows by each clause that shares a variable with
it and that the variables inside the set do not satisfy already. Then the variables outside the set
are known only through clauses that hold, so they keep the right distribution. On an extremal
formula nothing is ever added: it is `lovasz`. If the set grows to the whole formula it is plain
rejection, which the budget ends.
"""

from __future__ import annotations

from functools import partial

from nelson.chains import compiling, engine
from nelson.kernels.core.reference import PRS
from nelson.sampling import total_variation
from nelson.sampling.sampler import Sampler

SAMPLER = Sampler(
    name="prs",
    summary="resample violated clauses and the clauses around them that they may have influenced",
    citation="Guo, Jerrum, Liu: Uniform sampling through the Lovasz local lemma, J. ACM 66 (2019)",
    weighted=True,
    rounds_weights=True,
    variation=total_variation.of_bits,
    guarantee=lambda problem, sweeps: "exact",
    keyed=True,
    gpu_method=PRS,
    blocks=partial(engine.blocks, PRS),
    sweeps=0,
    ready=compiling.ready,
    promise="exact, where it converges",
)
