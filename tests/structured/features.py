"""Feature models: which options of a product may be chosen together.

A tree of features; a feature's children are mandatory, optional, or a group of which at least one
(or) or exactly one (xor) comes with the parent. Cross constraints say that one feature requires or
excludes another. Kang et al., FODA, 1990; Batory, SPLC 2005, for the clauses.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nelson.formula import Formula

_KINDS = ("mandatory", "optional", "or", "xor")


@dataclass(frozen=True)
class FeatureTree:
    """Groups (kind, parent, children); features are 1..n, 1 is the root."""

    n: int
    groups: tuple[tuple[str, int, tuple[int, ...]], ...]

    def clauses(self) -> list[list[int]]:
        out = [[1]]
        for kind, parent, children in self.groups:
            out += [[-child, parent] for child in children]
            if kind == "mandatory":
                out += [[-parent, child] for child in children]
            if kind in ("or", "xor"):
                out.append([-parent, *children])
            if kind == "xor":
                out += [[-a, -b] for k, a in enumerate(children) for b in children[:k]]
        return out

    def configure(self, random: np.random.Generator) -> np.ndarray:
        """A valid choice of features, (n,) bool: coins from the root down."""
        chosen = np.zeros(self.n + 1, bool)
        chosen[1] = True
        for kind, parent, children in self.groups:
            if not chosen[parent]:
                continue
            coins = random.random(len(children)) < 0.5
            if kind == "mandatory":
                coins[:] = True
            elif kind == "xor" or (kind == "or" and not coins.any()):
                coins = np.arange(len(children)) == random.integers(len(children))
            chosen[list(children)] = coins
        return chosen[1:]

    def count(self) -> int:
        """Valid choices of the tree, without cross constraints."""
        ways = [1] * (self.n + 1)  # of a feature that is chosen, over all below it
        for kind, parent, children in reversed(self.groups):
            below = [ways[child] for child in children]
            if kind == "mandatory":
                factor = int(np.prod(below, dtype=object))
            elif kind == "xor":
                factor = sum(below)
            else:
                factor = int(np.prod([w + 1 for w in below], dtype=object)) - (kind == "or")
            ways[parent] *= factor
        return ways[1]


def feature_tree(n: int, seed: int = 0) -> FeatureTree:
    """A random tree of n features, breadth first, groups of 1 to 5 children."""
    random = np.random.default_rng([seed, 2])
    groups: list[tuple[str, int, tuple[int, ...]]] = []
    made, parent = 1, 1
    while made < n:
        for _ in range(int(random.integers(1, 4))):
            kind = str(random.choice(_KINDS, p=[0.2, 0.35, 0.2, 0.25]))
            size = int(random.integers(1, 3) if kind in _KINDS[:2] else random.integers(2, 6))
            children = tuple(range(made + 1, min(made + size, n) + 1))
            if children:
                groups.append((kind, parent, children))
            made += len(children)
        parent += 1
    return FeatureTree(n, tuple(groups))


def feature_model(n: int, cross: int = 0, seed: int = 0) -> Formula:
    """A random tree of n features and `cross` constraints "requires" or "excludes" between two of
    them, or of three; a hidden configuration meets all of them.
    """
    tree = feature_tree(n, seed)
    random = np.random.default_rng([seed, 3])
    hidden = tree.configure(random)
    clauses, wanted = tree.clauses(), len(tree.clauses()) + cross
    while len(clauses) < wanted:
        size = 2 if random.random() < 0.8 else 3
        picked = random.choice(np.arange(2, n + 1), size, replace=False)
        signs = np.where(random.random(size) < 0.6, -1, 1)
        signs[0] = -1  # "a requires b", "a excludes b", never "a or b"
        if (hidden[picked - 1] == (signs > 0)).any():
            clauses.append((picked * signs).tolist())
    return Formula(clauses, n_vars=n)
