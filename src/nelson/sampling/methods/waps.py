"""WAPS: weighted and projected samples from a compiled circuit. The weighted use of `circuit`.

WAPS compiles with D4, annotates the nodes with the weight of the models below them, and draws
top-down. So does `circuit`, in doubles and in log space where WAPS takes floats of a chosen
precision. WAPS compiles once for each projection (Dsharp_PCompile): here samples over all variables
are drawn and the projection is read off, which has the same law where a projected assignment
weighs what all its extensions weigh together.
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
