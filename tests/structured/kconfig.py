"""Configurations of an operating system, in the shape of the Kconfig files of Linux and Freetz.

A few symbols (networking, PCI, ..) are hubs, on which hundreds of others depend. Menus nest, a
choice takes exactly one of its members, and "select" switches other symbols on. Sincero, Tartler,
Lohmann, Schröder-Preikschat, GPCE 2010, for the translation to clauses.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from nelson.formula import Formula
from tests.structured.features import feature_tree

#: The share of symbols that are hubs.
_HUBS = 0.015
#: A menu is at most this many symbols before its entries, and so are most dependencies.
_NEAR = 60
#: The share of dependencies, or of features of a rule, that lie anywhere.
_FAR = 0.05


def kconfig(n: int, seed: int = 0) -> Formula:
    """Variable i says that symbol i of n is chosen; all symbols off is a configuration.

    Symbol i has a menu before it, and needs it. Half of the symbols also depend on one or two
    others before them, mostly hubs or near ones, as "a", "a or b" or "not a". One symbol in 25
    opens a choice: if it is chosen, exactly one of the next three to eight symbols is. A dependency
    that contradicts the other needs of its symbol is left out.
    """
    random = np.random.default_rng([seed, 20])
    hubs = max(2, round(_HUBS * n))
    clauses: list[list[int]] = []
    needs: list[set[int]] = [set(), set()]  # literals that follow from symbol i alone
    chooser = members = 0

    def depend(symbol: int, *literals: int) -> None:
        """The symbol needs one of the literals."""
        possible = [a for a in literals if -a not in needs[symbol]]
        follows: set[int] = set()
        if len(possible) == 1:
            (a,) = possible
            follows = {a} | (needs[a] if a > 0 else set())
        if possible and not any(-a in needs[symbol] for a in follows):
            clauses.append([-symbol, *literals])
            needs[symbol] |= follows

    for symbol in range(2, n + 1):
        needs.append({symbol})
        if members:
            needs[symbol] |= {-a for a in range(chooser + 1, symbol)}
            depend(symbol, chooser)
            members -= 1
        else:
            near = random.integers(max(1, symbol - _NEAR), symbol)
            hub = random.integers(1, min(hubs, symbol))
            depend(symbol, int(near if random.random() < 0.5 else hub))
        if random.random() < 0.5:
            for _ in range(int(random.integers(1, 3))):
                u = random.random()
                last = symbol if u < 0.5 else min(hubs, symbol)
                first = max(1, symbol - _NEAR) if _FAR <= u < 0.5 else 1
                a, b = random.integers(first, last, 2).tolist()
                depend(symbol, *([a], [a, b], [-a])[random.choice(3, p=[0.3, 0.5, 0.2])])
        if not members and random.random() < 0.04 and symbol + 8 <= n:
            chooser, members = symbol, int(random.integers(3, 9))
            group = list(range(symbol + 1, symbol + members + 1))
            clauses.append([-symbol, *group])
            clauses += [[-a, -b] for a, b in combinations(group, 2)]
    return Formula(clauses, n_vars=n)


def product_line(n: int, rules: int, seed: int = 0) -> Formula:
    """A feature tree of n features (variable i: feature i is chosen) with cross-tree rules.

    A rule says "if a (and b), then c or d (or e)", or the same with "not". Its first two features
    lie near each other or, seldom, anywhere; one to three others are among the n / 50 popular ones.
    A hidden configuration meets all rules.
    """
    tree = feature_tree(n, seed)
    random = np.random.default_rng([seed, 21])
    hidden = tree.configure(random)
    popular = random.choice(np.arange(2, n + 1), max(3, n // 50), replace=False)
    clauses = tree.clauses()
    wanted = len(clauses) + rules
    while len(clauses) < wanted:
        size = int(random.integers(3, 6))
        a = int(random.integers(2, n + 1))
        near = (
            np.arange(max(2, a - _NEAR), a + 1) if random.random() > _FAR else np.arange(2, n + 1)
        )
        others = random.choice(popular, size - 2, replace=False)
        picked = np.array([a, random.choice(near), *others])
        if len(set(picked.tolist())) < size:
            continue
        signs = np.where(random.random(size) < 0.5, -1, 1)
        signs[0] = -1
        if (hidden[picked - 1] == (signs > 0)).any():
            clauses.append((picked * signs).tolist())
    return Formula(clauses, n_vars=n)
