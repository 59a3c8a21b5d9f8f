"""Which variables a joint move holds, and the order in which it sums out all others.

Variables are eliminated in the order of least degree, on cliques instead of edges, as in
`kernels/core/cliques.py`: eliminating v joins all cliques that hold v (at first: the
clauses) into one clique without v. This is the message that v sends. If every degree is above the
width, the variable of highest score is held: it disappears from all cliques. The score is the
number of neighbours (with repetition) times a factor that the caller draws for each variable. No
step looks at a state, so P is stationary under a move that holds these variables.

A *bag* is one eliminated variable with its neighbours at that time, its clauses and the messages
that it receives. Bags are numbered in the order of elimination. In the table of a bag with d
neighbours, bit j of an entry is the value of neighbour j, bit d that of the variable itself;
neighbours are sorted from the last eliminated to the first, so that the bits of a message keep
their order in the bag that receives it.
"""

from typing import NamedTuple

import numpy as np

from nelson.kernels.core.cliques import Graph, insert, join, neighbours, remove
from nelson.kernels.core.compile import inline, kernel


class Cutset(NamedTuple):
    """The program of one joint move. Arrays ending in `_at` hold where the lists of a bag begin."""

    n: int  # variables of the formula, helpers included
    n_bags: int
    entries: int  # of all tables together
    work: int  # entries times the passes over them: what a move costs for each lane
    variable: np.ndarray  # (bags,) int32
    width: np.ndarray  # (bags,) int32: number of neighbours
    table: np.ndarray  # (bags,) int64: where its table begins
    scope_at: np.ndarray  # (bags + 1,) int64
    scope: np.ndarray  # int32: the neighbours
    child_at: np.ndarray  # (bags + 1,) int64
    child: np.ndarray  # int32: bags whose messages it receives
    within: np.ndarray  # int64: the neighbours of that child, as bits of the receiving bag
    clause_at: np.ndarray  # (bags + 1,) int64
    mask: np.ndarray  # int64: the variables of a clause that are not held, as bits of the bag
    false: np.ndarray  # int64: their values that violate it
    held_at: np.ndarray  # (clauses + 1,) int64
    held: np.ndarray  # int32: the held literals of a clause, as 2 v + s


class Trace(NamedTuple):
    """What `_eliminate` records."""

    variable: np.ndarray  # (n,) int32
    scope_at: np.ndarray  # (n + 1,) int64
    scope: np.ndarray  # (n * width,) int32
    joined_at: np.ndarray  # (n + 1,) int64
    joined: np.ndarray  # (m + n,) int32: cliques that a bag joins; from m on: messages


def cutset(
    n: int, literals: np.ndarray, offsets: np.ndarray, width: int, factor: np.ndarray, limit: int
) -> Cutset | None:
    """Clauses in CSR form (DIMACS literals) over n variables. factor (n,): the larger, the sooner a
    variable is held; negative: a variable in no clause, which keeps its value. None if the search
    takes more than `limit` steps.
    """
    codes = (2 * (np.abs(literals) - 1) + (literals > 0)).astype(np.int32)
    variables = codes >> 1
    m, z = len(offsets) - 1, len(codes)
    degree = np.bincount(variables, minlength=n)
    clause = np.repeat(np.arange(m, dtype=np.int32), np.diff(offsets))
    graph = Graph(
        start=np.concatenate([offsets[:-1], np.zeros(n)]).astype(np.int64),
        length=np.concatenate([np.diff(offsets), np.zeros(n)]).astype(np.int64),
        members=np.concatenate([variables, np.zeros(z + 4 * n + 1, np.int32)]),
        first=np.concatenate([[0], np.cumsum(degree)]).astype(np.int64),
        many=degree.astype(np.int64),
        cliques=clause[np.argsort(variables, kind="stable")],
        mark=np.zeros(n, np.int64),
        below=np.zeros(n, np.int32),
        head=np.full(n + 1, -1, np.int32),
        after=np.full(n, -1, np.int32),
        before=np.full(n, -1, np.int32),
    )
    trace = Trace(
        variable=np.empty(n, np.int32),
        scope_at=np.zeros(n + 1, np.int64),
        scope=np.empty(n * width + 1, np.int32),
        joined_at=np.zeros(n + 1, np.int64),
        joined=np.empty(m + n, np.int32),
    )
    bags = int(_eliminate(graph, trace, m, width, factor.astype(np.float64), limit))
    return None if bags < 0 else _linked(n, codes, offsets.astype(np.int64), trace, bags)


def _linked(n: int, codes: np.ndarray, offsets: np.ndarray, trace: Trace, bags: int) -> Cutset:
    """The trace as the flat program of a move."""
    joined = trace.joined_at[bags]
    m = len(offsets) - 1
    messages = int((trace.joined[:joined] >= m).sum())
    place = np.full(n, -1, np.int64)
    place[trace.variable[:bags]] = np.arange(bags)
    scope = trace.scope[: trace.scope_at[bags]]
    free = place[scope] >= 0  # a neighbour may have been held later
    scope_at = np.concatenate([[0], np.cumsum(free)])[trace.scope_at[: bags + 1]]
    widths = np.diff(scope_at)
    program = Cutset(
        n=n,
        n_bags=bags,
        entries=int((np.int64(2) << widths).sum()),
        work=0,
        variable=trace.variable[:bags].copy(),
        width=widths.astype(np.int32),
        table=np.concatenate([[0], np.cumsum(np.int64(2) << widths)])[:-1].astype(np.int64),
        scope_at=scope_at,
        scope=scope[free],
        child_at=np.zeros(bags + 1, np.int64),
        child=np.empty(messages, np.int32),
        within=np.empty(messages, np.int64),
        clause_at=np.zeros(bags + 1, np.int64),
        mask=np.empty(joined - messages, np.int64),
        false=np.empty(joined - messages, np.int64),
        held_at=np.zeros(joined - messages + 1, np.int64),
        held=np.empty(len(codes), np.int32),
    )
    _link(program, trace, codes, offsets, place, np.zeros(n, np.int64))
    passes = 2 + np.diff(program.child_at)
    rows = np.diff(program.clause_at) > 0
    work = int(((np.int64(2) << widths) * (passes + rows)).sum()) + 16 * bags
    return program._replace(work=work, held=program.held[: program.held_at[-1]].copy())


@inline
def _score(g, v, factor):
    near = 0
    for k in range(g.first[v], g.first[v] + g.many[v]):
        near += max(0, g.length[g.cliques[k]] - 1)
    return near * factor[v]


@inline
def _hold(g, v, stamp):
    """Take v out of all cliques. -> steps"""
    remove(g, v)
    g.below[v] = -2
    g.mark[v] = stamp
    steps = 8
    for k in range(g.first[v], g.first[v] + g.many[v]):
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
                    insert(g, u, max(0, g.below[u] - 1))
        g.length[c] = to - begin
    return steps


@kernel
def _eliminate(g, trace, m, width, factor, limit):
    """Eliminate or hold all variables. -> number of bags, or -1 after `limit` steps."""
    n = g.below.size
    stamp, least, steps, cliques, done, held = 0, 0, 0, m, 0, 0
    for v in range(n):
        if factor[v] < 0:
            g.below[v] = -2
            held += 1
        else:
            insert(g, v, 0)
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
        degree = to - end
        if degree > least:
            remove(g, v)
            insert(g, v, degree)
            continue
        if degree > width:
            # Every degree is above the width: hold the variables of highest score. Many variables
            # are left only if the formula is far from narrow; then several are held at a time.
            best = -1.0
            for u in range(n):
                if g.below[u] >= 0:
                    best = max(best, _score(g, u, factor))
                    steps += g.many[u]
            steps += n
            some = 1 + (n - done - held) // 256
            for u in range(n):
                if some and g.below[u] >= 0 and _score(g, u, factor) >= 0.9 * best:
                    stamp += 1
                    steps += _hold(g, u, stamp)
                    held += 1
                    some -= 1
            least = 0
            continue
        remove(g, v)
        g.below[v] = -1
        trace.variable[done] = v
        at = trace.joined_at[done]
        for k in range(g.first[v], g.first[v] + g.many[v]):
            c = g.cliques[k]
            trace.joined[at] = c
            at += 1
            g.length[c] = 0
        done += 1
        trace.joined_at[done] = at
        trace.scope_at[done] = trace.scope_at[done - 1] + degree
        for z in range(degree):
            trace.scope[trace.scope_at[done - 1] + z] = g.members[end + z]
        steps += join(g, cliques, end, to)
        least = max(0, min(least, degree) - 1)
        cliques += 1
        end = to
    return done


@kernel
def _link(program, trace, codes, offsets, place, bit):
    """Sort the neighbours of each bag; turn its clauses and messages into bits of its entries."""
    p, m = program, offsets.size - 1
    children, clauses, held = 0, 0, 0
    for b in range(p.n_bags):
        begin, end = p.scope_at[b], p.scope_at[b + 1]
        for k in range(begin + 1, end):  # from the last eliminated to the first
            v, j = p.scope[k], k
            while j > begin and place[p.scope[j - 1]] < place[v]:
                p.scope[j] = p.scope[j - 1]
                j -= 1
            p.scope[j] = v
        for k in range(begin, end):
            bit[p.scope[k]] = k - begin
        bit[p.variable[b]] = end - begin
        for k in range(trace.joined_at[b], trace.joined_at[b + 1]):
            c = trace.joined[k]
            if c >= m:
                mask = np.int64(0)
                for z in range(p.scope_at[c - m], p.scope_at[c - m + 1]):
                    mask |= np.int64(1) << bit[p.scope[z]]
                p.child[children], p.within[children] = c - m, mask
                children += 1
                continue
            mask, false = np.int64(0), np.int64(0)
            for z in range(offsets[c], offsets[c + 1]):
                v = codes[z] >> 1
                if place[v] < 0:
                    p.held[held] = codes[z]
                    held += 1
                else:
                    mask |= np.int64(1) << bit[v]
                    false |= np.int64(1 - (codes[z] & 1)) << bit[v]
            p.mask[clauses], p.false[clauses] = mask, false
            clauses += 1
            p.held_at[clauses] = held
        p.child_at[b + 1], p.clause_at[b + 1] = children, clauses
