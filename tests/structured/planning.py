"""Planning as satisfiability (Kautz, Selman 1992): states and actions of each step, frame axioms.

A solution is a plan together with the states it passes: as many solutions as there are plans.
"""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np

from nelson.formula import Formula
from tests.structured.puzzles import one_of


def blocks_world(blocks: int, steps: int, seed: int = 0) -> Formula:
    """Blocks on a table, or on each other. Each step moves one clear block, or does nothing.

    Variables: "block b is on p at time t" for t = 0..steps, each b and each place p other than b,
    where places 0..blocks-1 are blocks and place `blocks` is the table; then "b moves to p at t"
    for t < steps. A block does not move to where it is. The start is one tower of all blocks; in
    the goal, the upper half of a random tower stands.
    """
    table = blocks
    places = [(b, p) for b in range(blocks) for p in range(blocks + 1) if p != b]
    number = {pair: k + 1 for k, pair in enumerate(places)}
    size = len(places)

    def on(b: int, p: int, t: int) -> int:
        return t * size + number[b, p]

    def move(b: int, p: int, t: int) -> int:
        return (steps + 1 + t) * size + number[b, p]

    clauses: list[list[int]] = []
    for t in range(steps + 1):
        for b in range(blocks):
            clauses += one_of([on(b, p, t) for p in range(blocks + 1) if p != b])
            clauses += [
                [-on(a, b, t), -on(c, b, t)]
                for a, c in combinations([a for a in range(blocks) if a != b], 2)
            ]
    for t in range(steps):
        moves = [move(b, p, t) for b, p in places]
        clauses += [[-a, -b] for a, b in combinations(moves, 2)]
        for b, p in places:
            clauses += [[-move(b, p, t), -on(b, p, t)], [-move(b, p, t), on(b, p, t + 1)]]
            others = [a for a in range(blocks) if a not in (b, p)]
            clauses += [[-move(b, p, t), -on(a, b, t)] for a in range(blocks) if a != b]
            if p != table:
                clauses += [[-move(b, p, t), -on(a, p, t)] for a in others]
            # Frame: what a block stands on changes by a move of that block only.
            clauses.append([-on(b, p, t + 1), on(b, p, t), move(b, p, t)])
    tower = np.random.default_rng([seed, 26]).permutation(blocks).tolist()
    for upper, lower in zip(range(blocks), range(1, blocks + 1), strict=True):
        clauses.append([on(upper, lower, 0)])  # block 0 on top, the last on the table
    half = tower[: (blocks + 1) // 2]
    clauses += [[on(a, b, steps)] for a, b in pairwise(half)]
    return Formula(clauses, n_vars=(2 * steps + 1) * size)


def logistics(packages: int, trucks: int, towns: int, steps: int, seed: int = 0) -> Formula:
    """Trucks drive on a ring of towns and carry packages; several may act in one step.

    Variables for each time t = 0..steps: "truck k is in town c" (trucks x towns), then "package p
    is in place q" (packages x (towns + trucks)), where place towns + k is truck k. In one step a
    truck stays or drives to a neighbour; a package stays, is loaded into a truck of its town, or is
    unloaded where its truck is. Trucks that load or unload a package stay for that step. Each
    package begins in a random town and ends in another; trucks begin in random towns.
    """
    places = towns + trucks
    size = trucks * towns + packages * places

    def truck(k: int, c: int, t: int) -> int:
        return t * size + k * towns + c + 1

    def package(p: int, q: int, t: int) -> int:
        return t * size + trucks * towns + p * places + q + 1

    clauses: list[list[int]] = []
    for t in range(steps + 1):
        for k in range(trucks):
            clauses += one_of([truck(k, c, t) for c in range(towns)])
        for p in range(packages):
            clauses += one_of([package(p, q, t) for q in range(places)])
    for t in range(steps):
        for k in range(trucks):
            for c in range(towns):
                reach = sorted({c, (c + 1) % towns, (c - 1) % towns})
                clauses.append([-truck(k, c, t), *(truck(k, d, t + 1) for d in reach)])
        for p in range(packages):
            for c in range(towns):
                inside = [package(p, towns + k, t + 1) for k in range(trucks)]
                clauses.append([-package(p, c, t), package(p, c, t + 1), *inside])
            for k in range(trucks):
                before, after = package(p, towns + k, t), package(p, towns + k, t + 1)
                clauses += [
                    [-before, -package(p, towns + j, t + 1)] for j in range(trucks) if j != k
                ]
                for c in range(towns):
                    # Load and unload: the truck is in the town of the package, before and after.
                    for u in (t, t + 1):
                        clauses.append([-package(p, c, t), -after, truck(k, c, u)])
                        clauses.append([-before, -package(p, c, t + 1), truck(k, c, u)])
    random = np.random.default_rng([seed, 27])
    for k in range(trucks):
        clauses.append([truck(k, int(random.integers(towns)), 0)])
    for p in range(packages):
        start, goal = random.choice(towns, 2, replace=False).tolist()
        clauses += [[package(p, start, 0)], [package(p, goal, steps)]]
    return Formula(clauses, n_vars=(steps + 1) * size)


def timetable(events: int, slots: int, rooms: int, conflicts: int, seed: int = 0) -> Formula:
    """Each event has one slot and one room. Variables: event e in slot s (e * slots + s + 1), then
    event e in room r (events * slots + e * rooms + r + 1).

    No two events share a slot and a room. `conflicts` random pairs (people who attend both) are in
    different slots, and a random third of the events has a room that it cannot use. A hidden
    timetable meets all of this.
    """
    random = np.random.default_rng([seed, 28])
    cells = random.permutation(slots * rooms)[:events]
    in_slot, in_room = cells // rooms, cells % rooms

    def at(e: int, s: int) -> int:
        return e * slots + s + 1

    def room(e: int, r: int) -> int:
        return events * slots + e * rooms + r + 1

    clauses: list[list[int]] = []
    for e in range(events):
        clauses += one_of([at(e, s) for s in range(slots)])
        clauses += one_of([room(e, r) for r in range(rooms)])
    for e, f in combinations(range(events), 2):
        for s in range(slots):
            clauses += [[-at(e, s), -at(f, s), -room(e, r), -room(f, r)] for r in range(rooms)]
    pairs = [(e, f) for e, f in combinations(range(events), 2) if in_slot[e] != in_slot[f]]
    for k in random.choice(len(pairs), min(conflicts, len(pairs)), replace=False).tolist():
        e, f = pairs[k]
        clauses += [[-at(e, s), -at(f, s)] for s in range(slots)]
    for e in random.choice(events, events // 3, replace=False).tolist():
        closed = int((in_room[e] + random.integers(1, rooms)) % rooms)
        clauses.append([-room(e, closed)])
    return Formula(clauses, n_vars=events * (slots + rooms))
