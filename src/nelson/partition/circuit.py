"""A d-DNNF as flat arrays, and its value bottom-up in log space.

    value(true) = 1, value(false) = 0
    value(and)  = prod over edges of weight(edge) value(child)      children share no variable
    value(or)   = sum over edges of weight(edge) value(child)       children exclude each other

weight(edge) is the product of w(l) over the literals it carries. With w(x) + w(not x) = 1 a
variable that a branch does not mention contributes a factor of 1, so the circuit need not be
smooth, and the root's value is P(C). Darwiche 2001; the text format is D4's (Lagniez and Marquis
2017): "o i 0", "a i 0", "t i 0", "f i 0" declare nodes, "i j l .. 0" is an edge from i to j; node 1
is the root.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nelson.kernels.compile import kernel

_OR, _AND, _TRUE, _FALSE = range(4)
_CODE = 10**12  # what letters become, so that all of the text is integers


@dataclass(frozen=True)
class Circuit:
    kind: np.ndarray  # (nodes + 1,) uint8; entry 0 unused
    parent: np.ndarray  # (edges,) int64, edges out of a node before edges into it
    child: np.ndarray  # (edges,) int64
    start: np.ndarray  # (edges + 1,) int64: literals of edge e are literals[start[e]:start[e+1]]
    literals: np.ndarray  # int64

    @classmethod
    def parse(cls, text: str) -> Circuit:
        """Linear in the text. Raises ValueError if it is not a circuit."""
        for k, letter in enumerate("oatf"):
            text = text.replace(letter, str(_CODE + k))
        tokens = np.fromstring(text, np.int64, sep=" ")
        ends = np.flatnonzero(tokens == 0)  # each line ends in its only 0
        begins = np.concatenate([[0], ends[:-1] + 1])
        first = tokens[begins]
        nodes = first >= _CODE
        names = tokens[begins[nodes] + 1]
        kind = np.full(int(names.max(initial=1)) + 1, _FALSE, np.uint8)
        kind[names] = first[nodes] - _CODE
        begins, ends = begins[~nodes], ends[~nodes]
        parent, child = tokens[begins], tokens[begins + 1]
        lengths = ends - begins - 2
        start = np.concatenate([[0], np.cumsum(lengths)])
        at = np.arange(start[-1]) + np.repeat(begins + 2 - start[:-1], lengths)
        circuit = cls(kind, parent, child, start, tokens[at])
        last_out, first_in = np.full(len(kind), -1), np.full(len(kind), len(parent))
        np.maximum.at(last_out, parent, np.arange(len(parent)))
        np.minimum.at(first_in, child, np.arange(len(parent)))
        if (last_out >= first_in).any():
            raise ValueError("edges of a circuit that are not in bottom-up order")
        return circuit

    def log_value(self, log_p: np.ndarray) -> float:
        """log P(C); log_p (n, 2): log P(x_i = 0), log P(x_i = 1). O(edges + literals)."""
        value = np.where(np.isin(self.kind, (_AND, _TRUE)), 0.0, -np.inf)
        evaluate(self.kind, self.parent, self.child, self.start, self.literals, log_p, value)
        return float(value[1])


@kernel
def evaluate(kind, parent, child, start, literals, log_p, value):
    for e in range(parent.size):
        term = value[child[e]]
        for k in range(start[e], start[e + 1]):
            literal = literals[k]
            if literal > 0:
                term += log_p[literal - 1, 1]
            else:
                term += log_p[-literal - 1, 0]
        i = parent[e]
        if kind[i] == 1:  # and
            value[i] += term
        elif term != -np.inf:
            high, low = max(value[i], term), min(value[i], term)
            value[i] = high + np.log1p(np.exp(low - high))
