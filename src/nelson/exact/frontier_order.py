"""In which order to decide the variables of a narrow formula, and how many states that takes.

A decided variable is *active* while it shares a clause with a variable that is not decided. The
states of `nelson.exact.circuit.frontier` after a decision number at most 2^(active variables). But
a gate is a function of variables decided before it and adds none. So the estimate adds

    1 - min(1, sum over clauses of k literals of which v is the last, all active, of 2^-(k - 1))

for each active variable v: such a clause forces v for one of 2^(k - 1) values of the others. The
sum is 1 for the clauses of a gate. For "at most one of k" it is too high: the estimate is then too
low by up to log2(k).

Orders: reverse Cuthill-McKee and two spectral orders (the eigenvectors of the Laplacian with the
smallest eigenvalues), each pulled together by a few rounds of FORCE (Aloul, Markov, Sakallah 2003:
every variable moves to the mean of the centres of its clauses), then refined from both ends: of the
next few variables, the one that adds the fewest states comes first. The best estimate wins.

Cost: about a millisecond for each variable.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from nelson.budget import Budget
from nelson.formula.flat import owners
from nelson.kernels.core.deadline import check_time

#: See _WINDOWS.
Windows = tuple[tuple[int, float], ...]
#: No order is searched for formulas with more variables or more literals: they are never narrow
#: enough for the time they would take.
MAX_VARIABLES = 20_000
MAX_LITERALS = 200_000
#: Variables to choose from in a refinement, and what waiting one place more costs, in states.
_WINDOWS: Windows = ((30, 0.0), (100, 0.0), (100, 0.02))
_LATER_WINDOWS: Windows = ((20, 0.02), (50, 0.02))
#: Rounds of smoothing before an order is refined again.
_SMOOTHINGS = (0, 1, 3)


class FlatClauses(NamedTuple):
    """Flat clauses over variables 0..n-1, each in some clause."""

    n: int
    variable: np.ndarray  # of each literal
    clause: np.ndarray  # of each literal
    offsets: np.ndarray


@dataclass(frozen=True)
class Order:
    variables: np.ndarray  # (n,) from 0
    width: float  # log2 of the states of the widest level, estimated
    work: float  # log2 of the states of all levels, estimated

    @property
    def feasible(self) -> bool:
        # Most states that an order may be estimated to need: at one level, and in all. Log2.
        max_width, max_work = 21.0, 27.0
        return self.width <= max_width and self.work <= max_work

    def __str__(self) -> str:
        return f"about 2^{self.work:.0f} states, 2^{self.width:.0f} at the widest level"


def clauses_over(literals: np.ndarray, offsets: np.ndarray) -> FlatClauses:
    variable = np.abs(literals).astype(np.int64) - 1
    return FlatClauses(int(variable.max()) + 1, variable, owners(offsets), offsets)


def given_order(literals: np.ndarray, offsets: np.ndarray) -> Order:
    """The variables as they are numbered."""
    clauses = clauses_over(literals, offsets)
    return estimated(clauses, np.arange(clauses.n))


def best_order(literals: np.ndarray, offsets: np.ndarray, budget: Budget) -> Order:
    """The order with the fewest estimated states among those that are tried.

    Its deadline ends the search. The number of orders that are tried is limited in any case. If
    none is feasible: the variables of most clauses first, since a star has no good order else.
    """
    order_found = _searched(literals, offsets, budget)
    if order_found.feasible:
        return order_found
    clauses = clauses_over(literals, offsets)
    degree = np.bincount(clauses.variable, minlength=clauses.n)
    hubs_first = estimated(clauses, np.argsort(-degree, kind="stable"))
    return min(order_found, hubs_first, key=lambda order: order.work)


def _searched(literals: np.ndarray, offsets: np.ndarray, budget: Budget) -> Order:
    # An order with fewer states than this (log2) is good enough.
    good = 20.0
    # Else the best orders are smoothed and refined again in this number of rounds.
    more_rounds = 2
    n_best = 4  # orders that are smoothed
    # Literals of the formula times refinements, at most: about four seconds.
    most_literals = 1_000_000
    clauses, left = clauses_over(literals, offsets), most_literals
    tables = _Tables(clauses)
    orders = [pulled(clauses, start, budget) for start in _starts(clauses, budget)]
    orders.sort(key=lambda order: order.work)  # the most promising first: some may not be tried
    bases = [order.variables for order in orders]
    windows = _WINDOWS
    for _ in range(1 + more_rounds):
        for base in bases:
            for side in (base, base[::-1]):
                for window, waiting in windows:
                    left -= len(literals)
                    if left < 0 or budget.spent:
                        return min(orders, key=lambda order: order.work)
                    refined = tables.refined(side.tolist(), window, waiting)
                    orders.append(estimated(clauses, refined))
        orders = sorted(orders, key=lambda order: order.work)[:n_best]
        if orders[0].work < good:
            break
        bases = [smoothed(clauses, order.variables, k) for order in orders for k in _SMOOTHINGS]
        windows = _LATER_WINDOWS
    return orders[0]


def smoothed(clauses: FlatClauses, order: np.ndarray, rounds: int) -> np.ndarray:
    """Every variable moves to the mean of the centres of its clauses, some times."""
    lengths = np.diff(clauses.offsets)
    degree = np.bincount(clauses.variable, minlength=clauses.n)
    wish = _inverse(order).astype(float)
    for _ in range(rounds):
        centre = np.add.reduceat(wish[clauses.variable], clauses.offsets[:-1]) / lengths
        wish = np.bincount(clauses.variable, weights=centre[clauses.clause]) / degree
    return np.argsort(wish, kind="stable")


def estimated(clauses: FlatClauses, order: np.ndarray) -> Order:
    levels = _levels(clauses, _inverse(order))
    highest = float(levels.max())
    return Order(order, highest, highest + float(np.log2(np.exp2(levels - highest).sum())))


def _levels(clauses: FlatClauses, place: np.ndarray) -> np.ndarray:
    """Log2 of the estimated number of states after each decision."""
    n, starts = clauses.n, clauses.offsets[:-1]
    at = place[clauses.variable]
    last = np.maximum.reduceat(at, starts)  # the place of the last variable of each clause
    retires = np.zeros(n, np.int64)  # by place: when a variable is no longer active
    np.maximum.at(retires, at, last[clauses.clause])
    ends = np.minimum.reduceat(retires[at], starts)
    forced = np.exp2(1.0 - np.diff(clauses.offsets))
    # The clauses of one last variable, those that count longest first: what each adds to the sum.
    order = np.lexsort((-ends, last))
    first = np.searchsorted(last[order], last[order], "left")
    total = np.concatenate([[0.0], np.cumsum(forced[order])])
    share = np.minimum(total[1:] - total[first], 1.0)
    before = np.concatenate([[0.0], share[:-1]])
    before[first == np.arange(len(order))] = 0.0
    gained = np.empty(len(order))
    gained[order] = share - before
    change = np.zeros(n + 1)
    change[:n] = 1.0
    np.add.at(change, retires, -1.0)
    np.add.at(change, last, -gained)
    np.add.at(change, ends, gained)
    return np.maximum(np.cumsum(change)[:n], 0.0)


def pulled(clauses: FlatClauses, order: np.ndarray, budget: Budget) -> Order:
    """FORCE, from an order on; the best order on the way."""
    # Rounds of FORCE; it stops earlier if nothing improves.
    rounds = 60
    lengths = np.diff(clauses.offsets)
    degree = np.bincount(clauses.variable, minlength=clauses.n)
    best, since, place = estimated(clauses, order), 0, _inverse(order)
    for _ in range(rounds):
        centre = np.add.reduceat(place[clauses.variable].astype(float), clauses.offsets[:-1])
        centre /= lengths
        wish = np.bincount(clauses.variable, weights=centre[clauses.clause]) / degree
        order = np.argsort(wish, kind="stable")
        place = _inverse(order)
        candidate = estimated(clauses, order)
        best, since = (candidate, 0) if candidate.work < best.work else (best, since + 1)
        if since > rounds // 4 or budget.spent:
            break
    return best


def _starts(clauses: FlatClauses, budget: Budget) -> list[np.ndarray]:
    # A deadline leaves out the two orders by eigenvectors if these may take longer: about so many
    # seconds for each variable, and nothing ends them.
    seconds = 5e-5
    from scipy.sparse import diags, eye
    from scipy.sparse.csgraph import laplacian, reverse_cuthill_mckee
    from scipy.sparse.linalg import ArpackError, eigsh

    check_time()
    graph = _graph(clauses)
    check_time()
    out = [reverse_cuthill_mckee(graph, symmetric_mode=True).astype(np.int64)]
    if clauses.n < 8 or seconds * clauses.n > budget.left:
        return out
    edges = (graph - diags(graph.diagonal())).tocsr()
    matrix = laplacian(edges) + 1e-9 * eye(clauses.n)
    try:
        # A fixed start: the same formula has the same order every time.
        begin = np.random.default_rng(0).normal(size=clauses.n)
        _, vectors = eigsh(matrix.tocsc(), k=3, sigma=-1e-3, which="LM", v0=begin)
    except (ArpackError, RuntimeError):
        return out
    return out + [np.argsort(vectors[:, k], kind="stable") for k in (1, 2)]


def _graph(clauses: FlatClauses) -> Any:
    """Sparse matrix; entry (u, v): how many clauses hold both variables."""
    from scipy.sparse import csr_matrix

    ones = np.ones(len(clauses.variable))
    shape = len(clauses.offsets) - 1, clauses.n
    held = csr_matrix((ones, (clauses.clause, clauses.variable)), shape=shape)
    return (held.T @ held).tocsr()


def _inverse(order: np.ndarray) -> np.ndarray:
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return place


class _Tables:
    """The clauses as Python lists, for the refinement, which goes variable by variable."""

    def __init__(self, clauses: FlatClauses) -> None:
        self.n = clauses.n
        flat = clauses.variable.tolist()
        self.members = [flat[a:b] for a, b in itertools.pairwise(clauses.offsets.tolist())]
        self.forced = [2.0 ** (1 - len(clause)) for clause in self.members]
        self.of: list[list[int]] = [[] for _ in range(self.n)]
        near: list[set[int]] = [set() for _ in range(self.n)]
        for i, clause in enumerate(self.members):
            for v in clause:
                self.of[v].append(i)
                near[v].update(clause)
        for v in range(self.n):
            near[v].discard(v)
        self.near = [sorted(others) for others in near]

    def refined(self, base: list[int], window: int, waiting: float) -> np.ndarray:
        """Always decide next, of the first `window` variables left, the one that adds the fewest
        states; `waiting` for each place that it stands behind counts against it.
        """
        return _Refinement(self).run(base, window, waiting)


class _Refinement:
    """The state of one refinement."""

    def __init__(self, tables: _Tables) -> None:
        self.t = tables
        self.undecided = [len(others) for others in tables.near]  # neighbours of a variable
        self.left = [len(clause) for clause in tables.members]  # undecided variables of a clause
        self.whole = [True] * len(tables.members)  # all decided variables of the clause are active
        self.owner = [0] * len(tables.members)  # the last variable of a clause
        self.active = [False] * tables.n
        self.force = [0.0] * tables.n  # the sum of a variable; its share is at most 1

    def run(self, base: list[int], window: int, waiting: float) -> np.ndarray:
        known: dict[int, tuple[float, list[int]]] = {}
        choices, rest, out = base[:window], iter(base[window:]), []
        while choices:
            best, at = float("inf"), 0
            for k, v in enumerate(choices):
                if v not in known:
                    known[v] = self.price(v)
                price = known[v][0] + waiting * k
                if price < best - 1e-9:
                    best, at = price, k
            v = choices.pop(at)
            out.append(v)
            for u in self.decide(v, known.pop(v)[1]):
                known.pop(u, None)
            if (more := next(rest, None)) is not None:
                choices.append(more)
        return np.array(out)

    def price(self, v: int) -> tuple[float, list[int]]:
        """(log2 of the factor by which states grow, variables that retire)."""
        t = self.t
        retiring = [u for u in t.near[v] if self.active[u] and self.undecided[u] == 1]
        gone, change = set(retiring), 0.0
        if self.undecided[v]:
            force = 0.0
            for i in t.of[v]:
                if self.left[i] == 1 and self.whole[i] and gone.isdisjoint(t.members[i]):
                    force += t.forced[i]
            change += 1.0 - min(1.0, force)
        else:
            gone.add(v)
            retiring.append(v)
        lost: dict[int, float] = {}
        seen = set()
        for u in retiring:
            if u == v:
                continue
            change -= 1.0 - min(1.0, self.force[u])
            for i in t.of[u]:
                if self.left[i] == 0 and self.whole[i] and i not in seen:
                    seen.add(i)
                    last = self.owner[i]
                    if last not in gone:
                        lost[last] = lost.get(last, 0.0) + t.forced[i]
        for w, less in lost.items():
            change += min(1.0, self.force[w]) - min(1.0, self.force[w] - less)
        return change, retiring

    def decide(self, v: int, retiring: list[int]) -> set[int]:
        """Decide v. -> variables whose price may have changed"""
        t = self.t
        self.active[v] = True
        stale = set(t.near[v])
        for u in t.near[v]:
            self.undecided[u] -= 1
        for i in t.of[v]:
            self.left[i] -= 1
            if self.left[i] == 0:
                self.owner[i] = v
                if self.whole[i]:
                    self.force[v] += t.forced[i]
        changed = [u for u in t.near[v] if self.active[u] and self.undecided[u] <= 1]
        for u in retiring:
            self.active[u] = False
            changed.append(u)
            for i in t.of[u]:
                if self.whole[i]:
                    self.whole[i] = False
                    if self.left[i] == 0:
                        self.force[self.owner[i]] -= t.forced[i]
                        changed.append(self.owner[i])
        for u in changed:
            stale.update(t.near[u])
        return stale
