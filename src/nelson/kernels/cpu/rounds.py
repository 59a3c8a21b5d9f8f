"""Rounds of resampling: draw all variables, then redraw the variables of violated clauses until no
clause is violated.

While more than a sixteenth of the clauses is violated in some lane, rounds are *dense*: check every
clause, then gather for every variable the masks of its clauses. Later rounds are *listed*: violated
clauses scatter their masks to their variables, and only clauses in which a literal turned false in
some lane are checked again (S_(t+1) lies in the neighbourhood of S_t). Both give the same bits. If
the state does not fit the L2 cache, all loops prefetch.

The methods differ only in the clauses that a lane resamples: all violated ones (lovasz), the first
violated one (moser-tardos), or the violated ones and those that `grow` adds to them (prs).
"""

from nelson.kernels.core.bernoulli import TABLE, draw, finish, rows_for
from nelson.kernels.core.compile import inline
from nelson.kernels.core.reference import LOVASZ, MOSER_TARDOS, PRS
from nelson.kernels.core.vector import (
    any_lane,
    load,
    ones,
    peek,
    peek_volatile,
    poke,
    popcount,
    prefetch,
    store,
    total,
    zeros,
)
from nelson.kernels.cpu.state import (
    AHEAD,
    BLOCK,
    KEY1,
    STOPPED,
    WANTED,
    enqueue,
    prefetches,
    stream,
    violated,
)

#: Prefetching is this many clauses or variables of a list ahead.
FAR = 24
#: Rounds are dense while more than one clause in 16 is violated in some lane. From 10 to 20 the
#: time is the same for 1,000 variables; for a million it is 7% less with 20 than with 10.
DENSE = 16


@inline
def draw_all(tag, p, law, row, s):
    """Line 1 of Algorithm 1: draw every variable in every lane."""
    key1, every = load(tag, s.constants, KEY1), ones(tag)
    h = rows_for(64.0 * len(tag), law.max_rows)
    for first in range(0, p.n, BLOCK):
        queued = 0
        for v in range(first, min(p.n, first + BLOCK)):
            undecided, value = draw(tag, law, row + v, stream(tag, p, s, 0, v), key1, every, h)
            store(s.x, v, value)
            queued = enqueue(s, v, undecided, queued)
        for q in range(queued):
            v = peek(s.queue, q)
            undecided = load(tag, s.queue_rows, q)
            value = finish(tag, law, row + v, stream(tag, p, s, 0, v), key1, undecided, h)
            store(s.x, v, load(tag, s.x, v) | value)
    for q in range(p.n_fixed):
        code = peek(p.fixed, q)
        store(s.x, code >> 1, load(tag, s.constants, code & 1))


@inline
def check(tag, p, s, j, wanted, to, count, lanes):
    """Check clause j: its violated lanes to bad[to], and j to `hit` if there are any.

    -> (clauses in `hit`, violated lanes by word), `count` and `lanes` brought up to date.
    """
    bad = violated(tag, wanted, p.clause_ptr, p.lits, s, j)
    store(s.bad, to, bad)
    poke(s.hit, count, j)
    return count + int(any_lane(bad)), lanes + popcount(bad)


@inline
def check_all(tag, p, s, ahead):
    """Check every clause j, with its violated lanes to bad[j]. -> as `check`"""
    count, lanes, wanted = 0, zeros(tag), load(tag, s.constants, WANTED)
    for j in range(p.n_clauses):
        if ahead:
            for e in range(peek(p.clause_ptr, j), peek(p.clause_ptr, j + 1)):
                prefetch(tag, s.x, peek(p.lits, e + AHEAD) >> 1)
        count, lanes = check(tag, p, s, j, wanted, j, count, lanes)
    return count, lanes


@inline
def fetch_clause(tag, p, rows, clauses, q, end):
    """Prefetch the rows of the variables of clause min(q, end - 1) of a list."""
    j = peek(clauses, min(q, end - 1))
    for e in range(peek(p.clause_ptr, j), peek(p.clause_ptr, j + 1)):
        prefetch(tag, rows, peek(p.lits, e) >> 1)


@inline
def check_listed(tag, p, s, listed, ahead):
    """Check the first `listed` clauses of `clauses`, with violated lanes to bad[0], bad[1], ..

    -> as `check`
    """
    count, lanes, wanted = 0, zeros(tag), load(tag, s.constants, WANTED)
    for q in range(listed):
        if ahead:
            fetch_clause(tag, p, s.x, s.clauses, q + FAR, listed)
        j = peek(s.clauses, q)
        poke(s.dirty, j, 0)
        count, lanes = check(tag, p, s, j, wanted, count, count, lanes)
    return count, lanes


@inline
def list_clause(s, j, listed):
    """Append clause j to `clauses` unless it is there. -> length of the list"""
    poke(s.clauses, listed, j)
    listed += int(peek(s.dirty, j) == 0)
    poke(s.dirty, j, 1)
    return listed


@inline
def turned_false(p, s, v, old, new, listed):
    """List the clauses in which a literal of v went from true to false in some lane. -> listed"""
    middle = peek(p.occ_mid, v)
    start = peek(p.occ_ptr, v) if any_lane(old & ~new) else middle
    end = peek(p.occ_ptr, v + 1) if any_lane(new & ~old) else middle
    for e in range(start, end):
        listed = list_clause(s, peek(p.occ, e), listed)
    return listed


@inline
def finish_queue(tag, p, law, row, s, round, h, queued, mark, listed):
    """Draw the undecided lanes of the queued variables. If `mark`, list the clauses that this may
    have violated. -> listed
    """
    key1 = load(tag, s.constants, KEY1)
    for q in range(queued):
        v, undecided = peek(s.queue, q), load(tag, s.queue_rows, q)
        value = finish(tag, law, row + v, stream(tag, p, s, round, v), key1, undecided, h)
        old = load(tag, s.x, v)
        new = (old & ~undecided) | value
        store(s.x, v, new)
        if mark:
            listed = turned_false(p, s, v, old, new, listed)
    return listed


@inline
def resample_gathered(tag, p, law, row, s, round, h, ahead):
    """Dense round: every variable gathers the masks of its clauses and is redrawn there."""
    key1 = load(tag, s.constants, KEY1)
    for first in range(0, p.n, BLOCK):
        queued = 0
        for v in range(first, min(p.n, first + BLOCK)):
            lanes = zeros(tag)
            for e in range(peek(p.occ_ptr, v), peek(p.occ_ptr, v + 1)):
                if ahead:
                    prefetch(tag, s.bad, peek(p.occ, e + AHEAD))
                lanes = lanes | load(tag, s.bad, peek(p.occ, e))
            if not any_lane(lanes):
                continue
            undecided, value = draw(tag, law, row + v, stream(tag, p, s, round, v), key1, lanes, h)
            store(s.x, v, (load(tag, s.x, v) & ~(lanes & ~undecided)) | value)
            queued = enqueue(s, v, undecided, queued)
        finish_queue(tag, p, law, row, s, round, h, queued, False, 0)


@inline
def scatter(tag, p, s, j, bad, touched):
    """Add the lanes of clause j to the masks of its variables, and list these. -> touched"""
    for e in range(peek(p.clause_ptr, j), peek(p.clause_ptr, j + 1)):
        v = peek(p.lits, e) >> 1
        store(s.mask, v, load(tag, s.mask, v) | bad)
        poke(s.touched, touched, v)
        touched += int(peek(s.listed, v) == 0)
        poke(s.listed, v, 1)
    return touched


@inline
def resample_touched(tag, p, law, row, s, round, h, touched, listed, ahead):
    """Listed round: redraw the touched variables in their masks, list the clauses to check next.

    -> listed
    """
    key1, none = load(tag, s.constants, KEY1), zeros(tag)
    for first in range(0, touched, BLOCK):
        queued = 0
        for q in range(first, min(touched, first + BLOCK)):
            if ahead:
                later = peek(s.touched, min(q + FAR, touched - 1))
                prefetch(tag, s.mask, later)
                prefetch(tag, s.x, later)
                prefetch((0,), law.table, (row + later) * TABLE)
            v = peek(s.touched, q)
            poke(s.listed, v, 0)
            lanes = load(tag, s.mask, v)
            store(s.mask, v, none)
            undecided, value = draw(tag, law, row + v, stream(tag, p, s, round, v), key1, lanes, h)
            old = load(tag, s.x, v)
            new = (old & ~(lanes & ~undecided)) | value
            store(s.x, v, new)
            queued = enqueue(s, v, undecided, queued)
            listed = turned_false(p, s, v, old, new, listed)
        listed = finish_queue(tag, p, law, row, s, round, h, queued, True, listed)
    return listed


@inline
def first_only(tag, s, count):
    """moser-tardos: keep only the first violated clause of each lane. -> lanes kept, by word"""
    taken, lanes = zeros(tag), zeros(tag)
    for q in range(count):
        j = peek(s.hit, q)
        bad = load(tag, s.bad, j)
        store(s.bad, j, bad & ~taken)
        lanes = lanes + popcount(bad & ~taken)
        taken = taken | bad
    return lanes


@inline
def grow(tag, p, s, touched, lanes):
    """prs: add, all at once, each clause that shares a variable with the resample set and does not
    hold by its variables inside the set; repeat until there is none.

    A clause with all variables inside need not be added. -> (variables touched, lanes by word)
    """
    front = touched
    for q in range(touched):
        poke(s.front, q, peek(s.touched, q))
    while front > 0:
        listed = 0
        for q in range(front):
            v = peek(s.front, q)
            poke(s.listed, v, 1)
            for e in range(peek(p.occ_ptr, v), peek(p.occ_ptr, v + 1)):
                listed = list_clause(s, peek(p.occ, e), listed)
        added = 0
        for q in range(listed):
            j = peek(s.clauses, q)
            poke(s.dirty, j, 0)
            meets, inside, holds = zeros(tag), ones(tag), zeros(tag)
            for e in range(peek(p.clause_ptr, j), peek(p.clause_ptr, j + 1)):
                code = peek(p.lits, e)
                mask = load(tag, s.mask, code >> 1)
                false = load(tag, s.x, code >> 1) ^ load(tag, s.constants, code & 1)
                meets, inside, holds = meets | mask, inside & mask, holds | (mask & ~false)
            add = meets & ~inside & ~holds
            store(s.bad, added, add)
            poke(s.hit, added, j)
            added += int(any_lane(add))
            lanes = lanes + popcount(add)
        front = 0
        for q in range(added):
            j, add = peek(s.hit, q), load(tag, s.bad, q)
            for e in range(peek(p.clause_ptr, j), peek(p.clause_ptr, j + 1)):
                v = peek(p.lits, e) >> 1
                store(s.mask, v, load(tag, s.mask, v) | add)
                poke(s.touched, touched, v)
                touched += int(peek(s.listed, v) == 0)
                poke(s.front, front, v)
                front += int(peek(s.listed, v) != 2)
                poke(s.listed, v, 2)
    return touched, lanes


@inline
def rounds(tag, p, law, row, job, s, stop):
    """Resample until no wanted lane violates a clause. -> (rounds or STOPPED, clauses resampled)"""
    clauses = p.n_clauses
    ahead = prefetches(tag, p.n, clauses)
    per_clause = peek(p.clause_ptr, clauses) / max(1, clauses)
    dense, listed, round, resampled = True, 0, 0, 0
    while True:
        if dense:
            count, lanes = check_all(tag, p, s, ahead)
        else:
            count, lanes = check_listed(tag, p, s, listed, ahead)
        if count == 0 or round == job.max_rounds:
            return round, resampled
        if peek_volatile(stop, 0) != 0:
            return STOPPED, resampled
        round += 1
        if dense and job.method == LOVASZ and DENSE * count > clauses:
            hits = total(lanes)
            h = rows_for(hits * per_clause / p.n, law.max_rows)
            resample_gathered(tag, p, law, row, s, round, h, ahead)
        else:
            if job.method == MOSER_TARDOS:
                lanes = first_only(tag, s, count)
            touched, listed = 0, 0
            for q in range(count):
                if ahead:
                    fetch_clause(tag, p, s.mask, s.hit, q + FAR, count)
                j = peek(s.hit, q)
                bad = load(tag, s.bad, j if dense else q)
                touched = scatter(tag, p, s, j, bad, touched)
            if job.method == PRS:
                touched, lanes = grow(tag, p, s, touched, lanes)
            elif job.method == LOVASZ:
                for q in range(count):
                    j = peek(s.hit, q)
                    poke(s.clauses, listed, j)
                    listed += 1
                    poke(s.dirty, j, 1)
            hits = total(lanes)
            h = rows_for(hits * per_clause / max(1, touched), law.max_rows)
            listed = resample_touched(tag, p, law, row, s, round, h, touched, listed, ahead)
            dense = job.method != LOVASZ
            if dense:
                for q in range(listed):
                    poke(s.dirty, peek(s.clauses, q), 0)
        resampled += hits
