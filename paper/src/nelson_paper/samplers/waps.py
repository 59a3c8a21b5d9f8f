"""WAPS: weighted and projected samples from a compiled circuit. The weighted use of `circuit`.

WAPS compiles with D4, annotates the nodes with the weight of the models below them, and draws
top-down. So does `circuit`: in doubles in log space, where WAPS uses floats of a chosen precision.
WAPS compiles once for each projection (Dsharp_PCompile). `circuit` draws all variables and returns
the projected ones, which is the same law if the weight of a projected assignment is the sum over
all its extensions.
"""

from __future__ import annotations

from dataclasses import replace

from nelson.sampling.methods import circuit

SAMPLER = replace(
    circuit.SAMPLER,
    name="waps",
    summary="`circuit`, weighted: branches by their share of the weight",
    citation="Gupta, Sharma, Roy, Meel: WAPS: weighted and projected sampling, TACAS 2019",
)
