"""A d-DNNF as flat arrays of decisions.

    value(decision) = value(branch 0) + value(branch 1)
    value(branch)   = prod over its literals of w(l)  x  prod over its decisions of value(decision)

Branches of a decision exclude each other; what is inside a branch shares no variable. With w(x) +
w(not x) = 1 a variable that a branch does not mention contributes a factor of 1, so that the
circuit need not be smooth, and the root's value is P(C). Darwiche: On the tractable counting of
theory models (2001).

Decisions are numbered bottom-up; the last is the root, which has one branch: the literals that
propagation fixed, and the decisions at the top of each component.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from nelson.kernels.circuit import nnf
from nelson.kernels.circuit.passes import Decisions

if TYPE_CHECKING:
    from nelson.exact.circuit.nnf import Circuit


@dataclass(frozen=True)
class Flat:
    n: int  # variables, auxiliary ones included
    lit_ptr: np.ndarray  # int32 (2 m + 1,): literals of branch b are lits[lit_ptr[b]:lit_ptr[b+1]]
    lits: np.ndarray  # int32: 2 variable + sign, variables from 0
    kid_ptr: np.ndarray  # int32 (2 m + 1,)
    kids: np.ndarray  # int32: decisions, each below the one that holds it
    single: np.ndarray  # uint8 (m,): has no second branch
    _cache: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def decisions(self) -> int:
        return len(self.single)

    @property
    def edges(self) -> int:
        """Literals and decisions over all branches: what a pass costs."""
        return len(self.lits) + len(self.kids)

    #: Names of the arrays, in the order of the fields.
    ARRAYS: ClassVar = ("lit_ptr", "lits", "kid_ptr", "kids", "single")

    @property
    def arrays(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.ARRAYS}

    def sound(self) -> bool:
        """Are these the arrays of a circuit? Kernels check no bounds, so what comes from a file
        is looked at first. O(edges).
        """
        m = len(self.single)
        dtypes = [self.arrays[name].dtype for name in self.ARRAYS]
        if dtypes != [np.int32] * 4 + [np.uint8] or any(a.ndim != 1 for a in self.arrays.values()):
            return False
        for ptr, items in ((self.lit_ptr, self.lits), (self.kid_ptr, self.kids)):
            if len(ptr) != 2 * m + 1 or ptr[0] or ptr[-1] != len(items) or (np.diff(ptr) < 0).any():
                return False
        above = np.repeat(np.arange(2 * m) // 2, np.diff(self.kid_ptr))
        return bool(
            m > 0
            and ((self.lits >= 0) & (self.lits < 2 * self.n)).all()
            and ((self.kids >= 0) & (self.kids < above)).all()
            and (self.single <= 1).all()
        )

    @cached_property
    def kernel(self) -> Decisions:
        """What the kernels take."""
        return Decisions(self.lit_ptr, self.lits, self.kid_ptr, self.kids, self.single)


def decisions_of(circuit: Circuit, own: np.ndarray) -> Flat | None:
    """The decisions of one compiled component; own (n,): the variable that each of its is. None
    if the circuit is `false`.
    """
    nodes, edges = len(circuit.kind), len(circuit.parent)
    first, at = np.zeros(nodes + 1, np.int64), np.empty(edges, np.int64)
    nnf.group(circuit.parent, first, at)
    last = np.full(nodes, -1)
    last[circuit.parent] = np.arange(edges)  # of repeated indices the last one stays
    order = np.argsort(last[1:], kind="stable") + 1
    order = np.concatenate([order[order != 1], [1]])
    graph = nnf.Graph(
        circuit.kind, circuit.child, circuit.start, circuit.literals, first, at, order
    )
    fate = nnf.Fate(np.zeros(nodes, np.uint8), *np.zeros((2, nodes), np.int64))
    m = nnf.classify(graph, fate, np.zeros(nodes, np.int32))
    if fate.state[1] == nnf.DEAD:
        return None
    out = Decisions(
        np.zeros(2 * m + 1, np.int32),
        np.empty(len(circuit.literals) + nnf.SMALL * edges, np.int32),
        np.zeros(2 * m + 1, np.int32),
        np.empty(3 * edges + 1, np.int32),
        np.zeros(m, np.uint8),
    )
    lits, kids = nnf.emit(graph, fate, own.astype(np.int64), out, np.empty(edges + 1, np.int64))
    return Flat(
        int(own.max(initial=-1)) + 1,
        out.lit_ptr,
        out.lits[:lits].copy(),
        out.kid_ptr,
        out.kids[:kids].copy(),
        out.single,
    )


def joined(parts: list[Flat], fixed: np.ndarray, n: int) -> Flat:
    """All components and the literals that propagation fixed, below one root."""
    sizes = np.array([part.decisions for part in parts], np.int64)
    shift = np.concatenate([[0], np.cumsum(sizes)])
    lits = [part.lits for part in parts]
    kids = [part.kids + np.int32(by) for part, by in zip(parts, shift[:-1], strict=True)]
    lits.append((2 * (np.abs(fixed) - 1) + (fixed > 0)).astype(np.int32))
    kids.append((shift[1:] - 1).astype(np.int32))  # a component's top is its last
    return Flat(
        n,
        _pointers([part.lit_ptr for part in parts], len(fixed)),
        np.concatenate(lits),
        _pointers([part.kid_ptr for part in parts], len(parts)),
        np.concatenate(kids),
        np.concatenate([*(part.single for part in parts), np.ones(1, np.uint8)]),
    )


def _pointers(parts: list[np.ndarray], last: int) -> np.ndarray:
    """Pointers of all parts end to end, then those of the root's two branches."""
    counts = [np.diff(part) for part in parts]
    counts.append(np.array([last, 0], np.int32))
    return np.concatenate([[0], np.cumsum(np.concatenate(counts))]).astype(np.int32)
