"""A d-DNNF: as D4 writes it (`NnfCircuit`), and as flat arrays of decisions (`DecisionCircuit`).

    value(decision) = value(branch 0) + value(branch 1)
    value(branch)   = prod over its literals of w(l)  x  prod over its decisions of value(decision)

The two branches of a decision exclude each other; literals and decisions inside a branch share no
variable. With w(x) + w(not x) = 1 a variable that a branch does not mention contributes a factor of
1, so the circuit need not be smooth, and the value of the root is P(C). Darwiche: On the tractable
counting of theory models (2001).

Decisions are numbered bottom-up. The last one is the root. It has a single branch, which holds the
literals fixed by propagation and the top decision of each component.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from nelson.formula.flat import lengths_to_offsets
from nelson.kernels.circuit import levels, nnf, passes, records
from nelson.kernels.core.bits import words_for
from nelson.kernels.core.threads import spread, usable_cores


@dataclass(frozen=True)
class NnfCircuit:
    """A d-DNNF in D4's text format (Lagniez, Marquis 2017): "o i 0", "a i 0", "t i 0", "f i 0"
    declare nodes, "i j l .. 0" is an edge from i to j that carries literals; node 1 is the root.

    value(and) is the product, value(or) the sum over edges of weight(edge) value(child). Children
    of "and" share no variable, those of "or" exclude each other.
    """

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


#: Edges times theta below which starting a thread costs more than it saves.
MIN_THREADED_VISITS = 200_000


@dataclass(frozen=True)
class DecisionCircuit:
    n: int  # variables, auxiliary ones included
    lit_ptr: np.ndarray  # int32 (2 m + 1,): literals of branch b are lits[lit_ptr[b]:lit_ptr[b+1]]
    lits: np.ndarray  # int32: 2 variable + sign, variables from 0
    kid_ptr: np.ndarray  # int32 (2 m + 1,)
    kids: np.ndarray  # int32: decisions, each with a smaller number than the one that holds it
    single: np.ndarray  # uint8 (m,): 1 if the decision has no second branch

    #: Names of the arrays, in the order of the fields.
    ARRAYS: ClassVar = ("lit_ptr", "lits", "kid_ptr", "kids", "single")

    @property
    def decisions(self) -> int:
        return len(self.single)

    @property
    def edges(self) -> int:
        """Literals and decisions over all branches: the cost of one pass."""
        return len(self.lits) + len(self.kids)

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        return {name: getattr(self, name) for name in self.ARRAYS}

    def sound(self) -> bool:
        """Do the arrays describe a circuit? Kernels check no bounds, so that arrays from a file
        have to be checked first. O(edges).
        """
        arrays = self.arrays.values()
        if [a.dtype for a in arrays] != [np.int32] * 4 + [np.uint8] or {a.ndim for a in arrays} != {
            1
        }:
            return False
        m = len(self.single)
        for ptr, items in ((self.lit_ptr, self.lits), (self.kid_ptr, self.kids)):
            if len(ptr) != 2 * m + 1 or ptr[0] or ptr[-1] != len(items):
                return False
            if (ptr < 0).any() or (np.diff(ptr) < 0).any():  # a difference alone may overflow
                return False
        above = np.repeat(np.arange(2 * m) // 2, np.diff(self.kid_ptr))
        return bool(
            m > 0
            and ((self.lits >= 0) & (self.lits < 2 * self.n)).all()
            and ((self.kids >= 0) & (self.kids < above)).all()
            and (self.single <= 1).all()
            # Else a draw might never end.
            and passes.visits(self.kernel, np.empty(m)) <= m + self.edges
        )

    @cached_property
    def kernel(self) -> passes.Decisions:
        """The arrays as the kernels take them."""
        return passes.Decisions(**self.arrays)

    @cached_property
    def levels(self) -> levels.LevelOrder:
        """The decisions sorted for `nelson.kernels.circuit.levels`; none if the circuit is so large
        that they would take too much memory. O(edges), once.
        """
        max_edges = 1 << 25  # levels take as much memory as the circuit
        if self.edges > max_edges:
            return levels.none()
        return levels.levels(self.kernel, self.n)

    def solve(self, theta: np.ndarray, means: bool) -> tuple[np.ndarray, np.ndarray]:
        """theta (b, n) -> log P(C), (b,), and the means (b, n) if they are asked for, else (0, 0).

        theta = +-inf is evidence. log P(C) is -inf if no structure agrees with it; the means of
        that row are then meaningless. O(edges) for each theta, on threads.
        """
        # Bytes of work space that the threads of a pass may take together.
        max_work_bytes = 2 << 30
        theta = np.ascontiguousarray(theta, np.float64)
        log_p = np.zeros(len(theta))
        mean = np.zeros(theta.shape if means else (0, 0))
        threads = 1
        threaded = len(theta) > 1 and len(theta) * (self.edges + self.n) > MIN_THREADED_VISITS
        if threaded:
            fit = max(1, max_work_bytes // (24 * self.decisions + 32 * self.n + 1))
            threads = min(usable_cores(), fit, len(theta))
        works = [passes.work(self.n, self.decisions) for _ in range(threads)]

        def some(thread: int, first: int, last: int) -> None:
            passes.solve(self.kernel, theta, works[thread], log_p, mean, first, last)

        if not threaded:
            some(0, 0, len(theta))
        elif spread(some, len(theta), threads, np.zeros(1, np.int32)):
            raise KeyboardInterrupt
        return log_p, mean

    @cached_property
    def unmentioned(self) -> np.ndarray:
        """Variables, int32, that some path from the root does not mention: a sample draws them by
        their own law. One pass decides on 64 variables. Where that takes too long all variables
        are returned: that is slower and gives the same samples.
        """
        # Edges to visit, at most, to find the variables that no sample has to draw by themselves.
        max_visits = 1_000_000_000
        draws_itself = np.ones(self.n, bool)
        if words_for(self.n) * self.edges <= max_visits:
            mentioned = np.empty(self.decisions, np.uint64)
            for k in range(words_for(self.n)):
                bits = np.uint64(passes.always(self.kernel, 64 * k, mentioned))
                lanes = (bits >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
                draws_itself[64 * k : 64 * k + 64] = (lanes == 0)[: self.n - 64 * k]
        return np.flatnonzero(draws_itself).astype(np.int32)

    @cached_property
    def queue_length(self) -> int:
        """Entries that the queue of a descent holds at most, for one word of samples."""
        return int(records.room(self.kernel, np.empty(self.decisions, np.int64)))

    @cached_property
    def most_kids(self) -> int:
        """Decisions below one decision, at most."""
        return int(np.diff(self.kid_ptr[::2]).max(initial=0))


def decisions_of(circuit: NnfCircuit, names: np.ndarray) -> DecisionCircuit | None:
    """The decisions of one compiled component; None if the circuit is `false`.

    names: (n,) the variable of the formula that each variable of the component stands for.
    """
    circuit.check_variables(len(names))
    nodes, edges = len(circuit.kind), len(circuit.parent)
    first, at = np.zeros(nodes + 1, np.int64), np.empty(edges, np.int64)
    nnf.group(circuit.parent, first, at)
    last = np.full(nodes, -1)
    last[circuit.parent] = np.arange(edges)  # of repeated indices the last one stays
    order = np.argsort(last[1:], kind="stable") + 1
    order = np.concatenate([order[order != 1], [1]])
    graph = nnf.NnfGraph(
        circuit.kind, circuit.child, circuit.start, circuit.literals, first, at, order
    )
    fate = nnf.Fate(np.zeros(nodes, np.uint8), *np.zeros((2, nodes), np.int64))
    m = nnf.classify(graph, fate, np.zeros(nodes, np.int32))
    if fate.state[1] == nnf.DEAD:
        return None
    out = passes.Decisions(
        np.zeros(2 * m + 1, np.int32),
        np.empty(len(circuit.literals) + nnf.SMALL * edges, np.int32),
        np.zeros(2 * m + 1, np.int32),
        np.empty(3 * edges + 1, np.int32),
        np.zeros(m, np.uint8),
    )
    lits, kids = nnf.emit(graph, fate, names.astype(np.int64), out, np.empty(edges + 1, np.int64))
    out = out._replace(lits=out.lits[:lits].copy(), kids=out.kids[:kids].copy())
    return DecisionCircuit(int(names.max(initial=-1)) + 1, *out)


def joined(parts: list[DecisionCircuit], fixed: np.ndarray, n: int) -> DecisionCircuit:
    """All components, and the literals that propagation fixed, below one root."""
    shift = lengths_to_offsets(np.array([part.decisions for part in parts], np.int64))
    lits = [part.lits for part in parts]
    kids = [part.kids + np.int32(by) for part, by in zip(parts, shift[:-1], strict=True)]
    lits.append((2 * (np.abs(fixed) - 1) + (fixed > 0)).astype(np.int32))
    kids.append((shift[1:] - 1).astype(np.int32))  # the top of a component is its last decision
    return DecisionCircuit(
        n,
        _pointers([part.lit_ptr for part in parts], len(fixed)),
        np.concatenate(lits),
        _pointers([part.kid_ptr for part in parts], len(parts)),
        np.concatenate(kids),
        np.concatenate([*(part.single for part in parts), np.ones(1, np.uint8)]),
    )


def _pointers(parts: list[np.ndarray], root: int) -> np.ndarray:
    """The pointers of all parts, end to end, then those of the root: `root` entries in its first
    branch, none in its second.
    """
    counts = [np.diff(part) for part in parts]
    counts.append(np.array([root, 0], np.int32))
    return lengths_to_offsets(np.concatenate(counts)).astype(np.int32)
