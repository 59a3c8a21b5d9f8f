"""Barriers between regions of the valid space, and the variables that must be free to cross one.

A menu of a configuration may have two entries that exclude each other, each with hundreds of
options below it. In the clause (not a or not b) each literal then *forces* many others: "not a"
switches off all that depends on a. Such a clause is a barrier. The two sides may differ much in
weight, so that P lies on one side; but a solver's solution may lie on the other, and a joint move
crosses only if none of the variables that it holds forbids it. One held option below a that is
chosen is enough to forbid it. On a Kconfig of 2,500 symbols 35 of 37 hubs are constant in 4,096
exact samples, while solutions of a solver have both values; in the three states that we traced, the
held variables forced the hub.

So some joint moves have a *target*: a literal that is one side of a barrier. Variables are ranked
by how much they matter for making the target true:

    the target itself; the other sides of its barriers, and what these may need in long clauses
    all that the target forces, by clauses of two literals
    in each longer clause that loses a literal, the literal that forces least, and all it forces

The search for a cutset holds the others first. No step looks at a state.

The number of literals that a literal forces is estimated for all literals at once: give each a
random exponential number, and pass on the smallest (Cohen, J. Comput. Syst. Sci. 55, 1997).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

#: A barrier is high if each of its two sides forces about this many literals. Formulas that have
#: none need no targets: the other cutsets free such small sets at times.
_HIGH = 16
#: Targets are drawn with probability proportional to height ** _POWER: most are high, and most
#: high ones come up within 64 moves.
_POWER = 2.0
#: Targets of a move. A variable that matters for the second one is held before those of the first.
_TARGETS = 2
#: Other sides of the target's barriers that are freed.
_OTHERS = 2
#: Barriers whose other side forces less than this share of what the target forces do not count.
_SMALL = 0.25
#: Random numbers of a literal in the estimate: the error is about 1 / sqrt(32).
_NUMBERS = 32
#: Chains of clauses longer than this are cut off in the estimate.
_DEPTH = 64
#: Fractional part of the golden ratio: its multiples modulo 1 cover [0, 1) evenly.
_GOLDEN = 0.6180339887498949


@dataclass(frozen=True, eq=False)
class Lists:
    """Lists of numbers, one after the other."""

    at: np.ndarray
    items: np.ndarray

    @classmethod
    def grouped(cls, key: np.ndarray, items: np.ndarray, groups: int) -> Lists:
        order = np.argsort(key, kind="stable")
        at = np.concatenate([[0], np.cumsum(np.bincount(key, minlength=groups))])
        return cls(at, items[order])

    def of(self, which: np.ndarray) -> np.ndarray:
        """The lists of these groups, joined."""
        sizes = self.at[which + 1] - self.at[which]
        begin = np.repeat(self.at[which] - np.cumsum(sizes) + sizes, sizes)
        return self.items[begin + np.arange(sizes.sum())]


@dataclass(frozen=True, eq=False)
class Barriers:
    """The barriers of a formula. A literal of variable v is 2 v + 1, or 2 v if negated."""

    n: int
    members: Lists  # the literals of each clause
    sizes: np.ndarray  # (clauses,)
    forces: Lists  # literal -> literals that it forces by a clause of two
    long: Lists  # literal -> longer clauses that hold it
    size: np.ndarray  # (2 n,): about how many literals it forces
    height: np.ndarray  # (2 n,): of its highest barrier; 0: no target

    @classmethod
    def of(cls, n: int, literals: np.ndarray, offsets: np.ndarray, may: np.ndarray) -> Barriers:
        """Clauses in CSR form. may (n,): variables that may be targets."""
        codes = (2 * (np.abs(literals) - 1) + (literals > 0)).astype(np.int64)
        sizes = np.diff(offsets)
        first = offsets[:-1][sizes == 2]
        a, b = codes[first], codes[first + 1]
        forces = Lists.grouped(np.concatenate([a ^ 1, b ^ 1]), np.concatenate([b, a]), 2 * n)
        clause = np.repeat(np.arange(len(sizes)), sizes)
        in_long = sizes[clause] > 2
        long = Lists.grouped(codes[in_long], clause[in_long], 2 * n)
        size = _reached(forces, 2 * n)
        other = np.zeros(2 * n)  # the largest other side of a barrier
        np.maximum.at(other, np.concatenate([a, b]), size[np.concatenate([b, a])])
        height = np.where(np.repeat(may, 2), np.minimum(size, other), 0.0)
        return cls(n, Lists(offsets, codes), sizes, forces, long, size, height)

    @property
    def high(self) -> bool:
        return bool((self.height >= _HIGH).any())

    def priority(self, number: int, seed: int) -> np.ndarray:
        """(n,): how much each variable matters for the targets of move `number`; 0: not at all."""
        rng = np.random.default_rng(seed)
        order = rng.permutation(2 * self.n)
        chance = np.cumsum(self.height[order] ** _POWER)
        start = rng.random()
        rng = np.random.default_rng([number, seed])
        level = np.zeros(self.n)
        for k in range(_TARGETS):
            u = (start + (_TARGETS * number + k) * _GOLDEN) % 1
            target = int(order[np.searchsorted(chance, u * chance[-1], side="right")])
            own = self.around(target, rng)
            level = np.maximum(level, np.where(own > 0, own + _TARGETS - 1 - k, 0))
        return level

    def around(self, target: int, rng: np.random.Generator) -> np.ndarray:
        """(n,): how much each variable matters for making one literal true, between 0 and 1."""
        level = np.zeros(self.n)
        seen = np.zeros(2 * self.n, bool)
        self.force(seen, np.array([target]))
        weak = seen.copy()
        self.force(weak, self._repairs(weak))
        level[np.flatnonzero(weak) >> 1] = 0.6
        level[np.flatnonzero(seen) >> 1] = 0.8
        others = self.forces.of(np.array([target ^ 1]))
        others = others[self.size[others] >= _SMALL * self.size[target]]
        if len(others) > _OTHERS:
            share = self.size[others] / self.size[others].sum()
            others = rng.choice(others, _OTHERS, replace=False, p=share)
        needs = self.members.of(self.long.of(others)) >> 1
        level[needs] = np.maximum(level[needs], 0.85)
        level[others >> 1] = 0.9
        level[target >> 1] = 1.0
        return level

    def force(self, seen: np.ndarray, literals: np.ndarray) -> None:
        """Add the literals and all that they force, unless the opposite was seen before."""
        while len(literals):
            seen[literals] = True
            after = np.unique(self.forces.of(literals))
            literals = after[~seen[after] & ~seen[after ^ 1]]

    def _repairs(self, seen: np.ndarray) -> np.ndarray:
        """For each long clause that loses a literal if those seen hold: the one that forces least
        among its other literals, unless one of them was seen.
        """
        hit = np.unique(self.long.of(np.flatnonzero(seen) ^ 1))
        clause = np.repeat(np.arange(len(hit)), self.sizes[hit])
        literal = self.members.of(hit)
        holds = np.bincount(clause, seen[literal], minlength=len(hit)) > 0
        possible = ~seen[literal ^ 1] & ~holds[clause]
        clause, literal = clause[possible], literal[possible]
        order = np.lexsort((self.size[literal], clause))
        first = np.unique(clause[order], return_index=True)[1]
        found = np.unique(literal[order][first])
        return found[~np.isin(found ^ 1, found) | (found & 1 == 0)]


def _reached(forces: Lists, n: int) -> np.ndarray:
    """(n,): about how many literals each literal forces, itself included."""
    least = np.random.default_rng(n).exponential(size=(n, _NUMBERS))
    who = np.flatnonzero(np.diff(forces.at))
    if not len(who):
        return np.ones(n)
    for _ in range(_DEPTH):
        passed = np.minimum.reduceat(least[forces.items], forces.at[who], axis=0)
        new = np.minimum(least[who], passed)
        if (new == least[who]).all():
            break
        least[who] = new
    return (_NUMBERS - 1) / least.sum(axis=1)
