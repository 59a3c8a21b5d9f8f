"""Persistent chains of P_theta(x | C), one group for each example, which begin at valid examples.

Where nothing compiles, an example is still a valid structure that costs nothing. The chains of an
example start there (every second one: at another example), move by proposals that flip up to four
variables of common constraints (`nelson.kernels.cpu.exchange`), and go on from their last states
when the example comes again: theta has moved little since (Younes 1989, Tieleman 2008).

P is stationary under each proposal. Nothing proves that chains reach everything, so their samples
are heuristic. `memory` says how far chains from the two kinds of starts still differ: the
difference of their mean theta . x, in standard errors over the examples of a batch.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from itertools import pairwise

import numpy as np

from nelson.formula import Formula
from nelson.formula.encode import Xor
from nelson.formula.evaluate import visible_clauses
from nelson.formula.memo import Slot
from nelson.kernels.cpu.exchange import FLIPS, Rows, exchange

_ROWS: Slot[Rows] = Slot("constraints as sums")
#: The first visit of an example makes this many times the proposals of later ones.
BURN_IN = 4
#: How often a proposal has 1, 2, 3 and 4 variables. Pairs keep the cardinalities that rotas and
#: assignments are made of; four exchange two pairs at once.
_SIZES = (0.25, 0.45, 0.1, 0.2)
#: Bytes of states that are kept; the example that was longest away goes first.
_ROOM = 1 << 30
#: Proposals whose random numbers are held at once, over all chains.
_AT_ONCE = 1 << 20


def rows_of(formula: Formula) -> Rows:
    """The constraints over visible variables. FormulaError if auxiliary variables hide some."""
    return formula.memo.once(_ROWS, lambda: _rows_of(formula))


def _rows_of(formula: Formula) -> Rows:
    literals, offsets = visible_clauses(formula)
    groups = [literals[a:b].astype(np.int64) for a, b in pairwise(offsets)]
    weights = [np.ones(len(group), np.int64) for group in groups]
    bounds = [(1, len(group), -1) for group in groups]
    for constraint in formula.constraints:
        if isinstance(constraint, Xor):
            groups.append(np.array(constraint.variables, np.int64))
            weights.append(np.ones(len(constraint.variables), np.int64))
            bounds.append((0, len(constraint.variables), int(constraint.parity)))
        else:
            groups.append(np.array(constraint.literals, np.int64))
            weights.append(np.array(constraint.weights, np.int64))
            bounds.append((constraint.low, constraint.high, -1))
    filled = [k for k, group in enumerate(groups) if len(group)]
    groups, weights = [groups[k] for k in filled], [weights[k] for k in filled]
    bounds = [bounds[k] for k in filled]
    sizes = np.array([len(group) for group in groups], np.int64)
    literal = np.concatenate([*groups, np.zeros(0, np.int64)])
    variable = np.abs(literal) - 1
    order = np.argsort(variable, kind="stable")
    low, high, odd = np.array(bounds, np.int64).reshape(-1, 3).T.copy()
    weight = np.concatenate([*weights, np.zeros(0, np.int64)]) * np.sign(literal)
    counts = np.bincount(variable, minlength=formula.n_vars)
    return Rows(
        np.concatenate([[0], sizes.cumsum()]).astype(np.int64),
        variable,
        weight,
        low,
        high,
        odd,
        np.concatenate([[0], counts.cumsum()]).astype(np.int64),
        np.repeat(np.arange(len(sizes)), sizes)[order],
        weight[order],
    )


class TargetChains:
    """`count` chains for each example, each `proposals` further at a visit."""

    def __init__(self, formula: Formula, count: int, proposals: int) -> None:
        self.formula, self.count, self.proposals = formula, count, proposals
        self.rows = rows_of(formula)
        self.states: OrderedDict[Hashable, np.ndarray] = OrderedDict()  # (count, bytes) uint8
        self.memory = 0.0
        self.accepted = 0.0

    def draw(
        self, theta: np.ndarray, targets: np.ndarray, keys: Sequence[Hashable], seed: int
    ) -> np.ndarray:
        """theta (b, n), valid targets (b, n) bool -> states (b, count, n) bool."""
        random = np.random.default_rng(seed)
        b, n = theta.shape
        known = np.array([key in self.states for key in keys])
        x = np.empty((b, self.count, n), np.uint8)
        for k, key in enumerate(keys):
            if known[k]:
                x[k] = np.unpackbits(self.states[key], axis=1, count=n)
            else:
                x[k] = self._starts(k, theta, targets, random)
        for group, rounds in ((known, 1), (~known, BURN_IN)):
            if group.any():
                moved = x[group].reshape(-1, n)
                self._move(moved, np.repeat(theta[group], self.count, 0), rounds, random)
                x[group] = moved.reshape(-1, self.count, n)
        for key, states in zip(keys, x, strict=True):
            self.states[key] = np.packbits(states, axis=1)
            self.states.move_to_end(key)
        while len(self.states) * self.count * (-(-n // 8)) > _ROOM:
            self.states.popitem(last=False)
        self.memory = _memory(theta, x)
        return x.astype(bool)

    def _starts(
        self, k: int, theta: np.ndarray, targets: np.ndarray, random: np.random.Generator
    ) -> np.ndarray:
        """The target of example k, and targets of others that agree with its evidence."""
        fixed = np.flatnonzero(np.isinf(theta[k]))
        others = targets[random.integers(0, len(targets), self.count)]
        agree = (others[:, fixed] == (theta[k, fixed] > 0)).all(1)
        agree[::2] = False
        return np.where(agree[:, None], others, targets[k])

    def _move(
        self, x: np.ndarray, theta: np.ndarray, rounds: int, random: np.random.Generator
    ) -> None:
        sums = self._sums(x)
        theta = np.ascontiguousarray(theta)
        left, accepted = rounds * self.proposals, 0
        chosen = np.zeros(FLIPS, np.int64)
        part = max(1, _AT_ONCE // len(x))
        while left > 0:
            made = min(left, part)
            shape = len(x), made
            sizes = 1 + np.searchsorted(np.cumsum(_SIZES)[:-1], random.random(shape))
            u = random.random((*shape, 2 * FLIPS))
            accepted += exchange(self.rows, x, sums, theta, u, sizes, chosen)
            left -= made
        self.accepted = accepted / (len(x) * rounds * self.proposals)

    def _sums(self, x: np.ndarray) -> np.ndarray:
        """(chains, rows): the weights of the literals that are true."""
        rows = self.rows
        if not len(rows.low):
            return np.zeros((len(x), 0), np.int64)
        signed = rows.signed
        true = np.add.reduceat(x[:, rows.variable] * signed, rows.offsets[:-1], axis=1)
        return true - np.add.reduceat(np.minimum(signed, 0), rows.offsets[:-1])


def _memory(theta: np.ndarray, x: np.ndarray) -> float:
    """How far chains that began at their own targets differ from the others, in standard errors."""
    if len(x) < 2 or x.shape[1] < 2:
        return 0.0
    score = np.einsum("bn,bmn->bm", np.where(np.isinf(theta), 0.0, theta), x)
    apart = score[:, ::2].mean(1) - score[:, 1::2].mean(1)
    error = apart.std(ddof=1) / np.sqrt(len(apart))
    return float(apart.mean() / error) if error > 0 else 0.0
