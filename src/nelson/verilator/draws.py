"""Rows of a compiled space under changing conditions, in as few steps as that takes.

A condition is infinite log-odds for the circuit: no new circuit, one upward pass. `nelson.plan`
does the same with all its options and checks in half a millisecond; here a condition that was never
seen costs about 0.07 ms.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nelson.exact.circuit.draw import Draws, clauses_of
from nelson.exact.compiled import Compiled
from nelson.formula import Formula
from nelson.formula.memo import Recent
from nelson.kernels.core.rng import spread_seed
from nelson.sampling.samples import Samples

#: Rows of a block: all lanes of a word, so that one kernel serves all blocks.
BLOCK = 64
#: Conditions whose upward pass is kept, and the decisions of all of them together: a pass takes
#: about 150 bytes for each.
MOST_CONDITIONS, MOST_DECISIONS = 256, 1 << 20


class CircuitRows:
    """Independent solutions of a formula, uniform over those that agree with the evidence."""

    def __init__(self, formula: Formula, compiled: Compiled, variables: Sequence[int]) -> None:
        """variables: those to return, in this order."""
        self._circuit = compiled.circuit
        self._variables = tuple(variables)
        self._columns = np.array(self._variables, np.int64) - 1
        self._check = clauses_of(formula)
        self._n = formula.n_total
        most = max(1, min(MOST_CONDITIONS, MOST_DECISIONS // max(1, compiled.circuit.decisions)))
        self._prepared: Recent[tuple[int, ...], Draws] = Recent(most)

    def samples(self, evidence: Sequence[int], n: int, seed: int) -> Samples | None:
        """n samples; None if no solution agrees with the evidence."""
        packed = self._packed(evidence, n, seed)
        return None if packed is None else Samples(packed, n, self._variables, "exact")

    def row(self, evidence: Sequence[int], seed: int) -> int | None:
        """One sample as a number: bit k is the k-th variable."""
        packed = self._packed(evidence, 1, seed)
        if packed is None:
            return None
        bits = (packed[0] & np.uint64(1)).astype(np.uint8)
        return int.from_bytes(np.packbits(bits, bitorder="little").tobytes(), "little")

    def _packed(self, evidence: Sequence[int], n: int, seed: int) -> np.ndarray | None:
        draws = self._prepared.once(tuple(evidence), lambda: self._made(evidence))
        draws.job = draws.job._replace(seed=spread_seed(seed))
        block = draws.block(0, n)
        if block.interrupted:
            raise KeyboardInterrupt
        packed: np.ndarray = block.packed[0]
        return None if block.log_p[0] == -np.inf else packed

    def _made(self, evidence: Sequence[int]) -> Draws:
        theta = np.zeros((1, self._n))
        for literal in evidence:
            theta[0, abs(literal) - 1] = np.inf if literal > 0 else -np.inf
        contexts = np.zeros(1, np.int64)
        fixed = theta, self._columns, self._check, 0, contexts
        return Draws(self._circuit, *fixed, threads=1, expected=BLOCK)
