"""A d-DNNF as the compiler writes it, and its value bottom-up in log space.

    value(true) = 1, value(false) = 0
    value(and)  = prod over edges of weight(edge) value(child)      children share no variable
    value(or)   = sum over edges of weight(edge) value(child)       children exclude each other

weight(edge) is the product of w(l) over the literals it carries. With w(x) + w(not x) = 1 a
variable that a branch does not mention contributes a factor of 1, so the circuit need not be
smooth, and the root's value is P(C). Darwiche 2001; the text format is D4's (Lagniez and Marquis
2017): "o i 0", "a i 0", "t i 0", "f i 0" declare nodes, "i j l .. 0" is an edge from i to j; node 1
is the root. This form serves one value of one theta; `nelson.exact.circuit.decisions` is the form
for many theta, and for samples.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nelson.kernels.circuit import nnf


@dataclass(frozen=True)
class NnfCircuit:
    kind: np.ndarray  # (nodes + 1,) uint8; entry 0 unused
    parent: np.ndarray  # (edges,) int32, edges out of a node before edges into it
    child: np.ndarray  # (edges,) int32
    start: np.ndarray  # (edges + 1,) int64: literals of edge e are literals[start[e]:start[e+1]]
    literals: np.ndarray  # int32

    @classmethod
    def parse(cls, text: str | bytes) -> NnfCircuit:
        """Read D4's text, in linear time. Raises ValueError if it is not a circuit."""
        raw = np.frombuffer(text.encode() if isinstance(text, str) else text, np.uint8)
        size = np.zeros(3, np.int64)
        nnf.measure(raw, size)
        nodes, edges, literals = size.tolist()
        # A line declares a node, so that there are fewer nodes than characters.
        if not 0 < nodes <= len(raw) < 2**31 or literals < 0:
            raise ValueError("not the text of a circuit")
        circuit = cls(
            np.full(nodes + 1, nnf.FALSE, np.uint8),
            np.empty(edges, np.int32),
            np.empty(edges, np.int32),
            np.zeros(edges + 1, np.int64),
            np.empty(literals, np.int32),
        )
        c = circuit
        if not nnf.read(raw, c.kind, c.parent, c.child, c.start, c.literals):
            raise ValueError("not the text of a circuit")
        if not nnf.ordered(c.parent, c.child, np.zeros(nodes + 1, np.uint8)):
            raise ValueError("edges of a circuit that are not in bottom-up order")
        leaf = (c.kind == nnf.TRUE) | (c.kind == nnf.FALSE)
        if leaf[c.parent].any() or (c.parent == c.child).any():
            raise ValueError("edges out of a leaf of a circuit, or from a node to itself")
        return circuit

    def check_variables(self, n: int) -> None:
        """Raise ValueError unless all literals are of variables 1..n: kernels check no bounds."""
        variables = np.abs(self.literals.astype(np.int64))
        if len(variables) and not 1 <= variables.min() <= variables.max() <= n:
            raise ValueError(f"literals of a circuit that are not of variables 1..{n}")

    def log_value(self, log_p: np.ndarray) -> float:
        """log P(C); log_p (n, 2): log P(x_i = 0), log P(x_i = 1). O(edges + literals)."""
        self.check_variables(len(log_p))
        value = np.where(np.isin(self.kind, (nnf.AND, nnf.TRUE)), 0.0, -np.inf)
        nnf.evaluate(self.kind, self.parent, self.child, self.start, self.literals, log_p, value)
        return float(value[1])
