"""Order of clauses and of list entries such that the threads of a warp read different banks.

Shared memory delivers 128 bytes per cycle: a pair of words to each of eight threads, if the pairs
lie in different banks (index mod 8). Eight neighbours in a slice read entry k of their lists at the
same time, and the order within a list is free. So `spread` gives each entry of the eight lists a
*slot* k such that no list and no bank uses a slot twice. This is an edge colouring of a bipartite
graph (lists, banks). One with as many colours as the largest degree exists, and is found by
swapping two colours along a path whenever an edge has no colour left (König). It remains to keep
the number of entries per bank at or below the number of slots: `balance` swaps clauses until these
loads are even, and `arrange` swaps variables and their clauses for coupling from the past.
"""

from typing import NamedTuple

import numpy as np

from nelson.kernels.core.compile import inline, kernel

SLICE = 32
#: Number of banks, and of threads that are served at a time.
GROUP = 8
#: Swaps that `balance` tries per clause; `arrange` tries half as many per position.
_TRIES = 400


class _Work(NamedTuple):
    """The lists of eight neighbouring threads, and their slots."""

    lists: np.ndarray  # (slots, GROUP): entries in the order given
    by_thread: np.ndarray  # (slots, GROUP): entry that a thread has in a slot, or -1
    by_bank: np.ndarray  # (slots, GROUP): thread that uses a bank in a slot, or -1
    lengths: np.ndarray  # (GROUP,)


def spread(
    lines: np.ndarray, start: np.ndarray, lengths: np.ndarray, repeat: bool, slots: int = 0
) -> None:
    """Reorder lines[start[s] + k, thread] over k, for each thread of each slice s.

    lengths (slices * 32): entries of each list; padding follows. repeat: padding may be any entry
    of the list. slots: number of lines per slice that are read; 0: all.
    """
    most = max(1, int(np.diff(start).max(initial=0)))
    lists, by_thread, by_bank = np.empty((3, most, GROUP), np.int64)
    work = _Work(lists, by_thread, by_bank, np.empty(GROUP, np.int64))
    _spread(lines, start, lengths, repeat, slots or most, work)


@inline
def _bank(w, e, thread):
    return (w.lists[e, thread] >> 4) % GROUP


@inline
def _free(table, slots, i):
    """First free slot of thread or bank i, or -1."""
    for k in range(slots):
        if table[k, i] < 0:
            return k
    return -1


@inline
def _swap(w, bank, a, c):
    """Swap slots a and c along the path that starts at `bank` with slot a."""
    thread, moved, k, other = w.by_bank[a, bank], w.by_bank[a, bank], a, c
    w.by_bank[a, bank] = -1
    # The edge (thread, bank) moves from slot k to `other`; an edge already there must move on.
    while moved >= 0:
        e = w.by_thread[k, thread]
        pushed = w.by_thread[other, thread]
        w.by_thread[other, thread] = e
        w.by_bank[other, bank] = thread
        w.by_thread[k, thread] = -1
        if pushed < 0:
            moved = -1
        else:  # that edge takes slot k, and the thread that had its bank in slot k must move next
            bank = _bank(w, pushed, thread)
            w.by_bank[other, bank] = -1
            after = w.by_bank[k, bank]
            w.by_thread[k, thread] = pushed
            w.by_bank[k, bank] = thread
            thread, moved = after, after


@inline
def _place(w, slots, e, thread):
    """Give entry e of a thread a slot that is free for the thread and for the bank of the entry.

    -> False if the bank has no free slot.
    """
    bank = _bank(w, e, thread)
    a, c = _free(w.by_thread, slots, thread), _free(w.by_bank, slots, bank)
    if c < 0:
        return False
    for k in range(slots):
        if w.by_thread[k, thread] < 0 and w.by_bank[k, bank] < 0:
            a = k
    if w.by_bank[a, bank] >= 0:
        _swap(w, bank, a, c)
    w.by_thread[a, thread] = e
    w.by_bank[a, bank] = thread
    return True


@inline
def _padding(w, slot, thread):
    """An entry of the thread whose bank is unused in this slot; entry 0 if there is none."""
    for e in range(w.lengths[thread]):
        bank = _bank(w, e, thread)
        if w.by_bank[slot, bank] < 0:
            w.by_bank[slot, bank] = thread
            return e
    return 0


@kernel
def _spread(lines, start, lengths, repeat, most, w):
    for s in range(len(start) - 1):
        first, slots = start[s], min(start[s + 1] - start[s], most)
        for group in range(0, 32, GROUP):
            for thread in range(GROUP):
                w.lengths[thread] = lengths[s * 32 + group + thread]
                for k in range(slots):
                    w.lists[k, thread] = lines[first + k, group + thread]
                    w.by_thread[k, thread] = w.by_bank[k, thread] = -1
            for thread in range(GROUP):
                for e in range(w.lengths[thread]):
                    _place(w, slots, e, thread)
            for thread in range(GROUP):
                for e in range(w.lengths[thread]):
                    placed = False
                    for k in range(slots):
                        placed = placed or w.by_thread[k, thread] == e
                    if not placed:  # its bank has no slot left: this entry waits in any slot
                        w.by_thread[_free(w.by_thread, slots, thread), thread] = e
            for thread in range(GROUP):
                for k in range(slots):
                    e = w.by_thread[k, thread]
                    if e < 0 and repeat and w.lengths[thread] > 0:
                        e = _padding(w, k, thread)
                    elif e < 0:
                        e = slots - 1  # the given padding
                    lines[first + k, group + thread] = w.lists[e, thread]


def balance(variables: np.ndarray, ptr: np.ndarray, n: int, copies: int) -> np.ndarray:
    """An order of clauses in which groups of eight neighbours use all banks about equally, and the
    lists of clauses of eight neighbouring variables do too.

    Clauses are CSR rows of variables from 0, sorted by length. The number of a clause mod `copies`
    does not change.
    """
    rows = len(ptr) - 1
    order = np.arange(rows)
    same = np.repeat(np.arange(rows), np.diff(ptr))
    loads = np.zeros((-(-rows // GROUP), GROUP), np.int64)
    np.add.at(loads, (same // GROUP, variables % GROUP), 1)
    of_lists = np.zeros((-(-n // GROUP), GROUP), np.int64)
    np.add.at(of_lists, (variables // GROUP, same % GROUP), 1)
    lengths = np.diff(ptr)
    first = np.searchsorted(lengths, lengths, "left")
    last = np.searchsorted(lengths, lengths, "right")
    _swap_clauses(variables, ptr, order, loads, of_lists, first, last, copies, _TRIES * rows)
    return order


@inline
def _add(loads, row, bank, by):
    """Change a load. -> growth of the sum of fourth powers, which punishes large loads most"""
    before = loads[row, bank]
    loads[row, bank] = before + by
    return (before + by) ** 4 - before**4


@inline
def _move(variables, ptr, j, place, loads, of_lists, by):
    """Add clause j to the loads of a place (by = 1), or remove it (by = -1). -> cost"""
    cost = np.int64(0)
    for q in range(ptr[j], ptr[j + 1]):
        v = variables[q]
        cost += _add(loads, place // GROUP, v % GROUP, by)
        cost += _add(of_lists, v // GROUP, place % GROUP, by)
    return cost


@inline
def _exchange(variables, ptr, order, a, b, loads, of_lists):
    """Swap the clauses at places a and b. -> cost"""
    i, j = order[a], order[b]
    cost = _move(variables, ptr, i, a, loads, of_lists, -1)
    cost += _move(variables, ptr, j, b, loads, of_lists, -1)
    cost += _move(variables, ptr, i, b, loads, of_lists, 1)
    cost += _move(variables, ptr, j, a, loads, of_lists, 1)
    order[a], order[b] = j, i
    return cost


@inline
def _next(state):
    return state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)


@inline
def _below(state, bound):
    """A random number below `bound`."""
    return np.int64((state >> np.uint64(33)) % np.uint64(bound))


@kernel
def _swap_clauses(variables, ptr, order, loads, of_lists, first, last, copies, tries):
    """Swap random pairs of clauses of one length if that does not make the loads less even."""
    rows, state = len(order), np.uint64(1)
    for _ in range(tries):
        state = _next(state)
        a = _below(state, rows)
        state = _next(state)
        b = first[a] + _below(state, last[a] - first[a])
        b += (a - b) % copies
        if a != b and b < last[a] and _exchange(variables, ptr, order, a, b, loads, of_lists) > 0:
            _exchange(variables, ptr, order, a, b, loads, of_lists)


def arrange(
    table: np.ndarray, who: np.ndarray, first: np.ndarray, variables: np.ndarray, ptr: np.ndarray
) -> None:
    """Swap columns of slices, and clauses of a column, until groups of eight neighbours use all
    banks about equally in every slot.

    table (slots, 32): CSR row of variables of each slot and column, or -1; slice s has the slots
    first[s] .. first[s + 1] - 1. who (slices * 32): position of each column, permuted as well. Only
    rows of the same length take each other's slots, so that no slot becomes longer.
    """
    loads = np.zeros((len(table) * (SLICE // GROUP), GROUP), np.int64)
    slot, column = np.nonzero(table >= 0)
    row = table[slot, column]
    size = np.diff(ptr)[row]
    where = np.repeat(slot * (SLICE // GROUP) + column // GROUP, size)
    inside = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
    np.add.at(loads, (where, variables[np.repeat(ptr[row], size) + inside] % GROUP), 1)
    if len(table):
        _arrange(table, who, first, variables, ptr, loads, _TRIES // 2 * len(who))


@inline
def _put(variables, ptr, row, slot, column, loads, by):
    cost = np.int64(0)
    if row >= 0:
        for q in range(ptr[row], ptr[row + 1]):
            place = slot * (SLICE // GROUP) + column // GROUP
            cost += _add(loads, place, variables[q] % GROUP, by)
    return cost


@inline
def _trade(table, variables, ptr, loads, x, a, y, b):
    """Swap the rows of slot x, column a and slot y, column b. -> cost"""
    r, q = table[x, a], table[y, b]
    cost = _put(variables, ptr, r, x, a, loads, -1) + _put(variables, ptr, q, y, b, loads, -1)
    cost += _put(variables, ptr, r, y, b, loads, 1) + _put(variables, ptr, q, x, a, loads, 1)
    table[x, a], table[y, b] = q, r
    return cost


@inline
def _columns(table, who, first, variables, ptr, loads, s, a, b):
    """Swap columns a and b of slice s. -> cost"""
    cost, i, j = np.int64(0), s * SLICE + a, s * SLICE + b
    for x in range(first[s], first[s + 1]):
        cost += _trade(table, variables, ptr, loads, x, a, x, b)
    who[i], who[j] = who[j], who[i]
    return cost


@kernel
def _arrange(table, who, first, variables, ptr, loads, tries):
    state = np.uint64(1)
    for k in range(tries):
        state = _next(state)
        i = _below(state, len(who))
        s, a = i // SLICE, i % SLICE
        begin, slots = first[s], first[s + 1] - first[s]
        state = _next(state)
        if k % 2 == 0 and slots > 0:
            b = _below(state, SLICE)
            if _columns(table, who, first, variables, ptr, loads, s, a, b) > 0:
                _columns(table, who, first, variables, ptr, loads, s, a, b)
        elif slots > 1:
            x = begin + _below(state, slots)
            state = _next(state)
            y = begin + _below(state, slots)
            r, q = table[x, a], table[y, a]
            same = r >= 0 and q >= 0 and ptr[r + 1] - ptr[r] == ptr[q + 1] - ptr[q]
            if x != y and same and _trade(table, variables, ptr, loads, x, a, y, a) > 0:
                _trade(table, variables, ptr, loads, x, a, y, a)
