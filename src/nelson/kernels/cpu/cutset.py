"""Which units a joint move holds, and the order in which it sums out all others.

A *unit* is a variable, or a *field*: a group of literals of which exactly one is true, or at most
one. A unit has a list of values: "false, true", or one value for each literal of the field and
"none" where none may be true. In a table a field of k values takes a factor of k, where its
variables would take 2^k. Indices of tables are mixed-radix numbers. Code bits would be simpler
(every digit would be a bit), but 3 values would take a factor of 4, and 9 values a factor of 16: a
bag of seven fields of 3 values has 2,187 entries here, and 16,384 with bits. With one digit for
each unit nothing is recoded either: the state keeps its one-hot bits.

Units are eliminated in the order of the smallest table, on cliques instead of edges, as in
`kernels/core/cliques.py`: eliminating u joins all cliques that hold u (at first: the factors) into
one clique without u. This is the message that u sends. If every table is too large, the unit of
highest score is held: it disappears from all cliques. The score is the number of neighbours (with
repetition) times a factor that the caller draws for each unit. No step looks at a state, so P is
stationary under a move that holds these units.

A *bag* is one eliminated unit with its neighbours at that time, its factors and the messages that
it receives. Bags are numbered in the order of elimination. An entry of the table of a bag is a
number with one digit for each neighbour, and the highest digit for the unit itself. Neighbours are
sorted from the last eliminated to the first, so that the digits of a message keep their order in
the bag that receives it.
"""

from typing import NamedTuple

import numpy as np

from nelson.kernels.core.cliques import CliqueGraph, insert, join, neighbours, remove
from nelson.kernels.core.compile import inline, kernel

#: Most values of a unit: sets of values are bits of an int64.
MOST_VALUES = 62
#: A bag that receives more messages is a hub.
CHILDREN = 16
#: Sizes of tables are compared by their logarithm to base 2, in steps of 1/16.
_STEP = 16


class UnitValues(NamedTuple):
    """What is redrawn as one. Value a of unit u is number at[u] + a in a list of all values."""

    at: np.ndarray  # (n + 1,) int64
    literal: np.ndarray  # int32: the only literal that is true for this value, 2 v + s; -1: none is


class Factors(NamedTuple):
    """The clauses: each of them rules out the states in which all its literals are false.

    Part by part: the literals that belong to one unit.
    """

    at: np.ndarray  # (m + 1,) int64: where the parts of a factor begin
    unit: np.ndarray  # (parts,) int32
    values: np.ndarray  # (parts,) int64: the values for which all its literals are false, as bits
    literal_at: np.ndarray  # (parts + 1,) int64
    literal: np.ndarray  # int32: 2 v + s


class Cutset(NamedTuple):
    """The program of one joint move. Arrays ending in `_at` hold where lists begin."""

    n: int  # units
    n_bags: int
    entries: int  # of all tables together
    largest: int  # entries of the largest table
    work: int  # entries times the passes over them: what a move costs for each lane
    variable: np.ndarray  # (bags,) int32: the unit
    message: np.ndarray  # (bags,) int64: entries of its message
    table: np.ndarray  # (bags,) int64: where its table begins
    scope_at: np.ndarray  # (bags + 1,) int64
    scope: np.ndarray  # int32: the neighbours, then the unit itself
    size: np.ndarray  # int64: their numbers of values
    stride: np.ndarray  # int64: what one more adds to the entry
    look_at: np.ndarray  # (bags + 1,) int64
    look: np.ndarray  # int32: literals of the neighbours, as 2 v + s
    adds: np.ndarray  # int64: what a literal adds to the entry if it is true
    child_at: np.ndarray  # (bags + 1,) int64
    child: np.ndarray  # int32: bags whose messages it receives
    within: np.ndarray  # int64: the neighbours of that child, as bits: digits of this bag
    factor_at: np.ndarray  # (bags + 1,) int64
    part_at: np.ndarray  # (factors + 1,) int64
    digit: np.ndarray  # int32: the digit of a part that is not held
    values: np.ndarray  # int64: as in Factors
    held_at: np.ndarray  # (factors + 1,) int64
    held: np.ndarray  # int32: the held literals of a factor, as 2 v + s


class Trace(NamedTuple):
    """What `_eliminate` records."""

    variable: np.ndarray  # (n,) int32
    scope_at: np.ndarray  # (n + 1,) int64
    scope: np.ndarray  # (n * width,) int32
    joined_at: np.ndarray  # (n + 1,) int64
    joined: np.ndarray  # (m + n,) int32: cliques that a bag joins; from m on: messages


def cutset(
    units: UnitValues, factors: Factors, width: int, factor: np.ndarray, limit: int
) -> Cutset | None:
    """Tables have at most about 2^(width + 1) entries. factor (units,): the larger, the sooner a
    unit is held; negative: a unit without factors, which keeps its value. None if the search takes
    more than `limit` steps.
    """
    sizes = np.diff(units.at)
    cost = np.maximum(1, np.round(_STEP * np.log2(np.maximum(1, sizes)))).astype(np.int64)
    n, m, z = len(sizes), len(factors.at) - 1, len(factors.unit)
    degree = np.bincount(factors.unit, minlength=n)
    clique = np.repeat(np.arange(m, dtype=np.int32), np.diff(factors.at))
    graph = CliqueGraph(
        start=np.concatenate([factors.at[:-1], np.zeros(n)]).astype(np.int64),
        length=np.concatenate([np.diff(factors.at), np.zeros(n)]).astype(np.int64),
        members=np.concatenate([factors.unit, np.zeros(z + 4 * n + 1, np.int32)]),
        first=np.concatenate([[0], np.cumsum(degree)]).astype(np.int64),
        n_cliques=degree.astype(np.int64),
        cliques=clique[np.argsort(factors.unit, kind="stable")],
        mark=np.zeros(n, np.int64),
        below=np.zeros(n, np.int32),
        head=np.full(int(cost.sum()) + 1, -1, np.int32),
        after=np.full(n, -1, np.int32),
        before=np.full(n, -1, np.int32),
    )
    most = max(_STEP * (width + 1), int(cost.max(initial=0)))
    trace = Trace(
        variable=np.empty(n, np.int32),
        scope_at=np.zeros(n + 1, np.int64),
        scope=np.empty(n * (most // _STEP) + 1, np.int32),
        joined_at=np.zeros(n + 1, np.int64),
        joined=np.empty(m + n, np.int32),
    )
    bags = int(_eliminate(graph, trace, cost, m, most, factor.astype(np.float64), limit))
    return None if bags < 0 else _linked(units, factors, trace, bags)


def _linked(units: UnitValues, factors: Factors, trace: Trace, bags: int) -> Cutset:
    """The trace as the flat program of a move."""
    sizes = np.diff(units.at)
    n, m, joined = len(sizes), len(factors.at) - 1, int(trace.joined_at[bags])
    messages = int((trace.joined[:joined] >= m).sum())
    variable = trace.variable[:bags].copy()
    place = np.full(n, -1, np.int64)
    place[variable] = np.arange(bags)
    neighbours = trace.scope[: trace.scope_at[bags]]
    free = place[neighbours] >= 0  # a neighbour may have been held later
    ends = np.concatenate([[0], np.cumsum(free)])[trace.scope_at[: bags + 1]]
    scope = np.insert(neighbours[free], ends[1:], variable)  # each bag ends with its own unit
    scope_at = ends + np.arange(bags + 1)
    owner = np.repeat(np.arange(bags), np.diff(scope_at))
    logs = np.bincount(owner, np.log2(sizes[scope]), minlength=bags)
    rows = np.rint(np.exp2(logs)).astype(np.int64)
    seen = np.bincount(owner, sizes[scope] - 1, minlength=bags).astype(np.int64)
    seen -= sizes[variable] - 1
    program = Cutset(
        n=n,
        n_bags=bags,
        entries=int(rows.sum()),
        largest=int(rows.max(initial=1)),
        work=0,
        variable=variable,
        message=rows // sizes[variable],
        table=np.cumsum(rows) - rows,
        scope_at=scope_at,
        scope=scope,
        size=np.empty(len(scope), np.int64),
        stride=np.empty(len(scope), np.int64),
        look_at=np.concatenate([[0], np.cumsum(seen)]),
        look=np.empty(int(seen.sum()), np.int32),
        adds=np.empty(int(seen.sum()), np.int64),
        child_at=np.zeros(bags + 1, np.int64),
        child=np.empty(messages, np.int32),
        within=np.empty(messages, np.int64),
        factor_at=np.zeros(bags + 1, np.int64),
        part_at=np.zeros(joined - messages + 1, np.int64),
        digit=np.empty(len(factors.unit), np.int32),
        values=np.empty(len(factors.unit), np.int64),
        held_at=np.zeros(joined - messages + 1, np.int64),
        held=np.empty(len(factors.literal), np.int32),
    )
    _link(program, trace, units, factors, place, np.zeros(n, np.int64))
    # A table is written, summed and rescaled once; a message meets it when it is still small.
    receiver = np.repeat(np.arange(bags), np.diff(program.child_at))
    low = np.log2(np.maximum(1, program.within & -program.within)).astype(np.int64)
    received = rows[receiver] // program.stride[scope_at[receiver] + low]
    work = 3 * int(rows.sum()) + int(received.sum()) + 16 * bags
    parts = program.part_at[-1]
    return program._replace(
        work=work,
        digit=program.digit[:parts].copy(),
        values=program.values[:parts].copy(),
        held=program.held[: program.held_at[-1]].copy(),
    )


@inline
def _score(g, v, factor):
    near = 0
    for k in range(g.first[v], g.first[v] + g.n_cliques[v]):
        near += max(0, g.length[g.cliques[k]] - 1)
    return near * factor[v]


@inline
def _hold(g, v, cost, stamp):
    """Take v out of all cliques. -> steps"""
    remove(g, v)
    g.below[v] = -2
    g.mark[v] = stamp
    steps = 8
    for k in range(g.first[v], g.first[v] + g.n_cliques[v]):
        c = g.cliques[k]
        begin, end = g.start[c], g.start[c] + g.length[c]
        steps += end - begin
        to = begin
        for z in range(begin, end):
            u = g.members[z]
            if u != v:
                g.members[to] = u
                to += 1
                if g.mark[u] != stamp:
                    g.mark[u] = stamp
                    remove(g, u)
                    insert(g, u, max(cost[u], g.below[u] - cost[v]))
        g.length[c] = to - begin
    return steps


@kernel
def _eliminate(g, trace, cost, m, most, factor, limit):
    """Eliminate or hold all units. -> number of bags, or -1 after `limit` steps.

    cost: the logarithm of a unit's size; buckets are by the sum of the costs in a bag.
    """
    n = g.below.size
    stamp, least, steps, cliques, done, held = 0, 0, 0, m, 0, 0
    for v in range(n):
        if factor[v] < 0:
            g.below[v] = -2
            held += 1
        else:
            insert(g, v, cost[v])
    end = g.start[m - 1] + g.length[m - 1] if m else 0
    while done + held < n:
        if steps > limit:
            return -1
        while g.head[least] < 0:
            least += 1
        v = g.head[least]
        stamp += 1
        end, to, took = neighbours(g, v, cliques, end, stamp)
        steps += took
        around = 0
        for z in range(end, to):
            around += cost[g.members[z]]
        if around + cost[v] > least:
            remove(g, v)
            insert(g, v, around + cost[v])
            continue
        if around + cost[v] > most:
            # Every table is too large: hold the units of highest score. Many units are left only
            # if the formula is far from narrow; then several are held at a time.
            best = -1.0
            for u in range(n):
                if g.below[u] >= 0:
                    best = max(best, _score(g, u, factor))
                    steps += g.n_cliques[u]
            steps += n
            some = 1 + (n - done - held) // 256
            for u in range(n):
                if some and g.below[u] >= 0 and _score(g, u, factor) >= 0.9 * best:
                    stamp += 1
                    steps += _hold(g, u, cost, stamp)
                    held += 1
                    some -= 1
            least = 0
            continue
        remove(g, v)
        g.below[v] = -1
        trace.variable[done] = v
        at = trace.joined_at[done]
        for k in range(g.first[v], g.first[v] + g.n_cliques[v]):
            c = g.cliques[k]
            trace.joined[at] = c
            at += 1
            g.length[c] = 0
        done += 1
        trace.joined_at[done] = at
        trace.scope_at[done] = trace.scope_at[done - 1] + to - end
        for z in range(to - end):
            trace.scope[trace.scope_at[done - 1] + z] = g.members[end + z]
        steps += join(g, cliques, end, to)
        for z in range(end, to):
            u = g.members[z]
            remove(g, u)
            insert(g, u, max(around, g.below[u] - cost[v]))
            least = min(least, g.below[u])
        cliques += 1
        end = to
    return done


@inline
def _link_scope(p, units, place, digit, b, looks):
    """Sort the neighbours of a bag; note their sizes, digits and literals. -> end of `look`"""
    begin, end = p.scope_at[b], p.scope_at[b + 1]
    for k in range(begin + 1, end - 1):  # from the last eliminated to the first
        u, j = p.scope[k], k
        while j > begin and place[p.scope[j - 1]] < place[u]:
            p.scope[j] = p.scope[j - 1]
            j -= 1
        p.scope[j] = u
    stride = np.int64(1)
    for k in range(begin, end):
        u = p.scope[k]
        first, last = units.at[u], units.at[u + 1]
        digit[u], p.size[k], p.stride[k] = k - begin, last - first, stride
        if k < end - 1:
            for a in range(first + 1, last):
                p.look[looks], p.adds[looks] = units.literal[a], stride * (a - first)
                looks += 1
        stride *= last - first
    return looks


@inline
def _lowest(f, place, digit, c):
    """The lowest digit of the units of factor c that are not held."""
    low = MOST_VALUES
    for z in range(f.at[c], f.at[c + 1]):
        if place[f.unit[z]] >= 0:
            low = min(low, digit[f.unit[z]])
    return low


@kernel
def _link(program, trace, units, factors, place, digit):
    """Turn the factors and messages of each bag into digits of its entries.

    Factors and messages with a high lowest digit come first: they are applied before the table has
    grown. The order of the messages of a hub does not matter.
    """
    p, f, m = program, factors, factors.at.size - 1
    looks, children, count, parts, held = 0, 0, 0, 0, 0
    for b in range(p.n_bags):
        looks = _link_scope(p, units, place, digit, b, looks)
        begin, end = trace.joined_at[b], trace.joined_at[b + 1]
        for k in range(begin, end):
            c = trace.joined[k] - m
            if c >= 0:
                bits = np.int64(0)
                for z in range(p.scope_at[c], p.scope_at[c + 1] - 1):
                    bits |= np.int64(1) << digit[p.scope[z]]
                j = children  # by their lowest digits, from high to low
                few = children - p.child_at[b] < CHILDREN
                while (
                    few
                    and j > p.child_at[b]
                    and (p.within[j - 1] & -p.within[j - 1]) < (bits & -bits)
                ):
                    p.child[j], p.within[j] = p.child[j - 1], p.within[j - 1]
                    j -= 1
                p.child[j], p.within[j] = c, bits
                children += 1
        p.child_at[b + 1] = children
        for back in range(p.scope_at[b + 1] - p.scope_at[b]):
            low = p.scope_at[b + 1] - p.scope_at[b] - 1 - back
            for k in range(begin, end):
                c = trace.joined[k]
                if c >= m or _lowest(f, place, digit, c) != low:
                    continue
                first = parts
                for z in range(f.at[c], f.at[c + 1]):
                    u = f.unit[z]
                    if place[u] < 0:
                        for y in range(f.literal_at[z], f.literal_at[z + 1]):
                            p.held[held] = f.literal[y]
                            held += 1
                        continue
                    j = parts  # parts are sorted by their digits
                    while j > first and p.digit[j - 1] > digit[u]:
                        p.digit[j], p.values[j] = p.digit[j - 1], p.values[j - 1]
                        j -= 1
                    p.digit[j], p.values[j] = digit[u], f.values[z]
                    parts += 1
                count += 1
                p.part_at[count], p.held_at[count] = parts, held
        p.factor_at[b + 1] = count
