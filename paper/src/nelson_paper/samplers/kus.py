"""KUS: uniform samples from a compiled circuit. The uniform use of `circuit`.

KUS compiles with D4, counts the models below each node bottom-up, and draws top-down, all samples
of a call in one descent. So does `circuit`: KUS splits a list of samples at an or-node, `circuit`
splits the lanes of words; KUS counts in integers of any length, `circuit` in doubles in log space.
"""

from __future__ import annotations

from dataclasses import replace

from nelson.sampling.methods import circuit

SAMPLER = replace(
    circuit.SAMPLER,
    name="kus",
    summary="`circuit`, uniform: branches by their share of the models",
    citation="Sharma, Gupta, Roy, Meel: Knowledge compilation meets uniform sampling, LPAR-22 "
    "(2018)",
    weighted=False,
)
