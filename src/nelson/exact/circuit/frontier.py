"""Compile a formula of small pathwidth: a decision diagram, level by level from the top.

The variables are decided in a fixed order (`frontier_order`). After t decisions, a clause is open
if some of its variables are decided and others are not. All that the rest of the formula has to
know about the decisions is which open clauses they have left unsatisfied, and so

    state(t) = {what is left of an open clause: is it still unsatisfied?}

Two open clauses with the same remaining literals share a bit. Equal states are merged, and a state
in which a clause has run out of literals is dead. The number of states of a level is at most
2^(decided variables in open clauses): small for every formula whose variables can be laid out in a
line such that each cut separates few of them.

From the bottom up, states become nodes: dead ones are dropped, nodes with the same children are
merged, and a variable whose two children are the same node is not tested. A node with one child
adds its literal to the branches that lead to it, so that gates, which are functions of variables
decided before them, cost no decision. The result is a reduced ordered decision diagram (Bryant
1986) as a `DecisionCircuit`.

Cost: O(states) array operations; the caller bounds the states and the time.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nelson.budget import Budget
from nelson.exact.circuit.decisions import DecisionCircuit
from nelson.formula.flat import lengths_to_offsets
from nelson.process.child import Cancelled, cancelled

#: Most states of one level: 8 MB for each word of their keys.
MAX_LEVEL = 1 << 20
#: Most states of all levels together.
MAX_STATES = 30_000_000
#: Bytes that one state takes at most: its children, its node, and the branches of its decision.
STATE_BYTES = 64
#: Bits of a word of a key.
_BITS = 64

#: Children (low, high) of the states of a level; -1: dead.
Level = tuple[np.ndarray, np.ndarray]
_DEAD = -1
_TRUE = 0


class TooLarge(Exception):
    """A limit was reached; the message says which."""


class StateUpdate(NamedTuple):
    """What a decision does to the bits of a state.

    A move (source, target) copies a bit if the variable has the value; source -1 is the constant 1,
    target -1 means that the state is dead if the bit is set.
    """

    moves: tuple[list[tuple[int, int]], list[tuple[int, int]]]  # for the values 0 and 1
    cleared: list[int]  # bits that are free after this step
    words: int  # words of a key after this step


@dataclass
class Nodes:
    """The diagram, bottom-up. Node 0 is `true`; children -1 are dead."""

    position: np.ndarray  # int32: the place of the tested variable in the order
    low: np.ndarray  # int32: child where the variable is false
    high: np.ndarray  # int32
    root: int  # -1: the formula has no solution


def compiled_along(
    literals: np.ndarray,
    offsets: np.ndarray,
    order: np.ndarray,
    names: np.ndarray,
    budget: Budget,
    most: int = MAX_STATES,
) -> DecisionCircuit | None:
    """The circuit of clauses over variables 1..n, decided in this order; None if they have no
    solution. Raises TooLarge.

    order: (n,) variables from 0.  own: (n,) the variable of the formula that each stands for.
    It gives up at the deadline.  most: states of all levels together.
    """
    levels = _forward(steps(literals, offsets, order), budget, most)
    if levels is None:
        return None
    nodes = _backward(levels, budget)
    return None if nodes.root == _DEAD else circuit_of(nodes, names[order])


def circuit_of_rows(rows: np.ndarray, names: np.ndarray) -> DecisionCircuit:
    """The circuit of which these rows are the solutions; rows (m, k) bool: sorted, distinct, m > 0.

    names: (k,) the variable of the formula that each column stands for. O(m k).
    """
    m, k = rows.shape
    differ = rows[1:] != rows[:-1]
    fork = np.concatenate([[0], np.where(differ.any(1), differ.argmax(1), k)])
    levels: list[Level] = []
    state = np.zeros(m, np.int32)  # of each row: the number of its first t columns
    for t in range(k):
        after = np.zeros(m, np.int32)
        if t + 1 < k:
            after[1:] = np.cumsum(fork[1:] <= t)
        low, high = np.full((2, int(state[-1]) + 1), _DEAD, np.int32)
        low[state[~rows[:, t]]] = after[~rows[:, t]]
        high[state[rows[:, t]]] = after[rows[:, t]]
        levels.append((low, high))
        state = after
    return circuit_of(_backward(levels, Budget()), names)


def steps(literals: np.ndarray, offsets: np.ndarray, order: np.ndarray) -> list[StateUpdate]:
    """One step for each variable in the order."""
    n = len(order)
    place = np.empty(n, np.int64)
    place[order] = np.arange(n)
    codes = 2 * place[np.abs(literals) - 1] + (literals > 0)
    clauses = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    codes = codes[np.lexsort((codes, clauses))].tolist()
    bounds = offsets.tolist()
    starting: list[list[tuple[int, ...]]] = [[] for _ in range(n)]
    for a, b in itertools.pairwise(bounds):
        starting[codes[a] >> 1].append(tuple(codes[a:b]))
    # What is left of open clauses, by the place of the next variable: {remaining literals: bit}
    waiting: list[dict[tuple[int, ...], int]] = [{} for _ in range(n)]
    free: list[int] = []
    used, out = 0, []
    for t in range(n):
        moves: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])
        here = waiting[t]
        touched = [(clause, -1) for clause in starting[t] if clause not in here]
        for clause, bit in [*here.items(), *touched]:
            rest, target = clause[1:], -1
            if rest:
                known = waiting[rest[0] >> 1]
                if rest not in known:
                    if not free:
                        free.append(used)
                        used += 1
                    known[rest] = free.pop()
                target = known[rest]
            moves[1 - (clause[0] & 1)].append((bit, target))
        for clause in starting[t]:
            if clause in here:  # an open clause has become equal to this one, which always holds
                rest = clause[1:]
                target = waiting[rest[0] >> 1][rest] if rest else -1
                moves[1 - (clause[0] & 1)].append((-1, target))
        cleared = list(here.values())
        free += cleared
        waiting[t] = {}
        out.append(StateUpdate(moves, cleared, -(-used // _BITS)))
    return out


def _forward(plan: list[StateUpdate], budget: Budget, most: int) -> list[Level] | None:
    """For each level the children (low, high) of its states, as indices into the next level."""
    # States are merged before a level at which at least this share of them has two live branches.
    branching = 0.05
    # More states than this are also merged when they have grown by 30%.
    worth_merging = 1 << 15
    keys = np.zeros((1, 1), np.uint64)  # (words, states)
    levels: list[Level] = []
    total, merged_states, clean = 0, 1, True  # clean: no two states are equal
    for step in plan:
        if step.words > len(keys):
            more = np.zeros((step.words - len(keys), keys.shape[1]), np.uint64)
            keys = np.concatenate([keys, more])
        alive = [_alive(keys, moves) for moves in step.moves]
        states = keys.shape[1]
        grown = states > max(worth_merging, 1.3 * merged_states)
        if not clean and (grown or (alive[0] & alive[1]).sum() > branching * states):
            first, merged = _merged(keys)
            if len(first) < states:
                keys, alive = keys[:, first], [mask[first] for mask in alive]
                levels[-1] = _renamed(levels[-1][0], merged), _renamed(levels[-1][1], merged)
                states = len(first)
            clean, merged_states = True, states
        total += states
        if states > MAX_LEVEL:
            raise TooLarge(f"found more than {MAX_LEVEL:,} states at level {len(levels)}")
        if total > most:
            raise TooLarge(f"found more than {most:,} states")
        _check_time(budget, f"stopped at level {len(levels)} of {len(plan)}")
        parts, children, count = [], [], 0
        for mask, moves in zip(alive, step.moves, strict=True):
            live = np.flatnonzero(mask)
            child = np.full(states, _DEAD, np.int32)
            child[live] = np.arange(count, count + len(live), dtype=np.int32)
            count += len(live)
            parts.append(_moved(keys[:, live] if len(live) < states else keys, step, moves))
            children.append(child)
        levels.append((children[0], children[1]))
        if not count:
            return None
        keys, clean = np.concatenate(parts, axis=1), False
    _, merged = _merged(keys)
    levels[-1] = _renamed(levels[-1][0], merged), _renamed(levels[-1][1], merged)
    return levels


def _check_time(budget: Budget, where: str) -> None:
    if cancelled():
        raise Cancelled
    if budget.spent:
        raise TooLarge(where)


def _alive(keys: np.ndarray, moves: list[tuple[int, int]]) -> np.ndarray:
    """Has no clause run out of literals?"""
    alive = np.ones(keys.shape[1], bool)
    fatal = np.zeros(len(keys), np.uint64)
    for source, target in moves:
        if target < 0 and source < 0:
            return ~alive
        if target < 0:
            fatal[source // _BITS] |= np.uint64(1 << source % _BITS)
    for word, mask in zip(keys, fatal, strict=True):
        if mask:
            alive &= (word & mask) == 0
    return alive


def _moved(keys: np.ndarray, step: StateUpdate, moves: list[tuple[int, int]]) -> np.ndarray:
    """The keys after a decision."""
    mask = np.full(len(keys), ~np.uint64(0))
    for bit in step.cleared:
        mask[bit // _BITS] &= ~np.uint64(1 << bit % _BITS)
    out = keys & mask[:, None]
    bit_0 = np.uint64(1)
    for source, target in moves:
        if target < 0:
            continue
        shift = np.uint64(target % _BITS)
        if source < 0:
            out[target // _BITS] |= bit_0 << shift
            continue
        bit = (keys[source // _BITS] >> np.uint64(source % _BITS)) & bit_0
        out[target // _BITS] |= bit << shift
    return out


def _merged(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(index of one state of each key, number of the key of each state)."""
    if len(keys) == 1:
        order = np.argsort(keys[0])
    else:
        order = np.lexsort(keys)
    ordered = keys[:, order]
    new = np.ones(len(order), bool)
    new[1:] = (ordered[:, 1:] != ordered[:, :-1]).any(axis=0)
    number = np.empty(len(order), np.int32)
    number[order] = np.cumsum(new, dtype=np.int32) - 1
    return order[new], number


def _renamed(child: np.ndarray, names: np.ndarray) -> np.ndarray:
    """names[child], and dead children stay dead."""
    return np.where(child < 0, np.int32(_DEAD), names[child])


def _backward(levels: list[Level], budget: Budget) -> Nodes:
    """Merge nodes with the same children, level by level from the bottom."""
    position, low, high = ([np.full(1, value, np.int32)] for value in (len(levels), -1, -1))
    names, count = np.zeros(1, np.int32), 1
    while levels:
        children = levels.pop()
        a, b = (_renamed(child, names) for child in children)
        names = a.copy()  # where both children are the same, dead ones included
        tested = np.flatnonzero(a != b)
        if len(tested):
            keys = (a[tested].astype(np.uint64) << np.uint64(32)) | b[tested].astype(np.uint32)
            first, number = _merged(keys[None])
            names[tested] = number + np.int32(count)
            position.append(np.full(len(first), len(levels), np.int32))
            low.append(a[tested[first]])
            high.append(b[tested[first]])
            count += len(first)
        _check_time(budget, f"stopped at level {len(levels)} on the way back")
    return Nodes(np.concatenate(position), np.concatenate(low), np.concatenate(high), int(names[0]))


def circuit_of(nodes: Nodes, variable: np.ndarray) -> DecisionCircuit:
    """Nodes with two live children become decisions; the others literals of the branches above.

    variable: (n,) the variable of the formula at each place of the order.
    """
    # Most literals and kids of the circuit: 4 bytes for each.
    max_edges = 100_000_000
    both = (nodes.low >= 0) & (nodes.high >= 0)
    both[_TRUE] = False
    chosen = np.flatnonzero(both)
    below = np.maximum(nodes.low, nodes.high)  # of a node with one live child: that child
    below[_TRUE] = _TRUE
    length, end = _chains(nodes.position, both, below)
    # Branches 2 i and 2 i + 1 of each decision; and of the root, unless it is a decision itself.
    starts = np.stack([nodes.low[chosen], nodes.high[chosen]], axis=1).ravel()
    codes = (2 * variable[nodes.position[chosen]][:, None] + np.arange(2)).ravel()
    top = nodes.root == _TRUE or not both[nodes.root]
    if top:
        starts, codes = np.append(starts, [nodes.root, _TRUE]), np.append(codes, [-1, -1])
    single = np.zeros(len(starts) // 2, np.uint8)
    single[len(chosen) :] = 1
    pointers = lengths_to_offsets(length[starts] + (codes >= 0))
    if pointers[-1] + len(starts) > max_edges:
        raise TooLarge(f"a circuit of {int(pointers[-1]):,} literals is too large")
    lits = np.empty(pointers[-1], np.int32)
    lits[pointers[:-1][codes >= 0]] = codes[codes >= 0]
    literal = 2 * np.append(variable, 0).astype(np.int32)[nodes.position] + (nodes.high >= 0)
    walking = np.flatnonzero(length[starts])
    at, node = (pointers[:-1] + (codes >= 0))[walking], starts[walking]
    while len(node):
        lits[at] = literal[node]
        more = np.flatnonzero(length[node] > 1)
        at, node = at[more] + 1, below[node[more]]
    number = np.cumsum(both, dtype=np.int32) - 1
    ends = end[starts]
    held = ends != _TRUE
    return DecisionCircuit(
        int(variable.max(initial=-1)) + 1,
        pointers.astype(np.int32),
        lits,
        lengths_to_offsets(held.astype(np.int64)).astype(np.int32),
        number[ends[held]],
        single,
    )


def _chains(
    position: np.ndarray, both: np.ndarray, below: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """From each node on: the number of nodes with one live child in a row, and the node behind."""
    length, end = np.zeros(len(both), np.int32), np.arange(len(both), dtype=np.int32)
    bounds = [1, *(np.flatnonzero(np.diff(position[1:])) + 2).tolist(), len(both)]
    for first, last in itertools.pairwise(bounds):  # a level; its children have lower numbers
        links = first + np.flatnonzero(~both[first:last])
        child = below[links]
        length[links], end[links] = length[child] + 1, end[child]
    return length, end
