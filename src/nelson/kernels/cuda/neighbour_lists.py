"""A program laid out for coupling from the past: for each variable, the literals around it.

A sweep visits positions: class after class, each class padded to whole slices of 32. The variable
at a position has one *slot* for each of its clauses, and a slot lists the other literals:

    words[start[slot] + 32 k + i]       literal (or pair of literals) k of the 32 variables i

A slice has as many slots as its variable with most clauses. Entries are as in `program.py`; bit 0
of the first one says whether the clause holds the variable itself positive. A shorter clause
repeats one of its literals, which changes nothing. A missing clause is the literal of variable n,
which is 1: it holds always.

These lists are longer than clauses, k (k - 1) literals for a clause of k. In return a literal needs
no comparison with the variable that is updated, and eight neighbours can avoid each other's banks.
There are no unit clauses: propagation has removed them.
"""

from typing import Any

import numpy as np

from nelson.kernels.core.program import Program
from nelson.kernels.cuda import banks
from nelson.kernels.cuda.banks import SLICE
from nelson.kernels.cuda.program import (
    MAX_UNROLLED,
    NARROW,
    GpuProgram,
    Layout,
    Slices,
    copied,
    end_to_end,
    permuted,
    sweep_lists,
)

#: Most literals in all lists together, without padding: beyond this the lists take 2 GB or more.
MOST_LITERALS = 1 << 28


def too_large(program: Program) -> bool:
    lengths = np.diff(program.clause_ptr)
    return int((lengths * (lengths - 1)).sum()) > MOST_LITERALS


def lay_out_neighbours(program: Program, columns: np.ndarray, log_copies: int = 0) -> GpuProgram:
    """The program must sweep every variable that is not fixed. columns: variables to return."""
    if too_large(program):
        raise ValueError("the clauses are too long for coupling from the past on the GPU")
    p = copied(program, 1 << log_copies)
    narrow = p.n + 1 <= NARROW
    order, class_slices, clauses, ptr = sweep_lists(p, falling=True)
    lines, first_slot, starts, each = _lists(p, order, clauses, ptr, narrow)
    checks = Slices(narrow)
    by_length = np.argsort(np.diff(p.check_ptr), kind="stable")
    given = p.check_lits[: p.check_ptr[-1]].astype(np.int64)
    check_start = checks.add_clauses(*permuted(given, p.check_ptr, by_length)) + lines.size

    at, flat = end_to_end(
        clause=np.zeros(0, np.int64),
        occ=first_slot,
        sweep=np.zeros(0, np.int64) if narrow and each else starts,
        order=np.where(order < 0, p.n + 1, order),
        classes=class_slices,
        check=check_start,
        fixed=p.fixed,
        columns=columns,
    )
    if max(len(flat), lines.size) >= 1 << 31 or p.n >= 1 << 27:
        raise ValueError(f"the formula is too large for the GPU kernel: {p.n} variables")
    sizes = p.n, p.n_clauses, p.n_fixed, p.n_checks, len(class_slices) - 1, len(columns)
    near = lines.size, at["check"], 0, 1
    numbers: Any = (*sizes, *near, 1, 1, *at.values())
    words = np.concatenate([lines.reshape(-1), checks.words()])
    return GpuProgram(
        Layout._make(map(np.int32, numbers)), words, flat.astype(np.int32), narrow, log_copies,
        len(given), each, order >> log_copies,
    )  # fmt: skip


def _lists(
    p: Program, order: np.ndarray, clauses: np.ndarray, ptr: np.ndarray, narrow: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """The slots of all positions, which have the clauses `clauses` with CSR pointers ptr.

    Reorders `order` within slices.
    -> (rows of 32 words, first slot of each slice, first word of each slot, literals of every slot
    or 0 if they differ)
    """
    others = np.diff(p.clause_ptr) - 1
    position = np.repeat(np.arange(len(order)), np.diff(ptr))
    by_length = np.lexsort((-others[clauses], position))  # long clauses first: little padding
    clauses = clauses[by_length]
    degree = np.diff(ptr).reshape(-1, SLICE)
    first_slot = np.concatenate([[0], np.cumsum(degree.max(1, initial=0))])
    slot = first_slot[position // SLICE] + np.arange(len(clauses)) - ptr[:-1][position]

    # The literals of each clause but the variable itself.
    size = others[clauses] + 1
    begin = np.concatenate([[0], np.cumsum(size)])
    inside = np.arange(begin[-1]) - np.repeat(begin[:-1], size)
    code = p.lits[np.repeat(p.clause_ptr[clauses], size) + inside].astype(np.int64)
    own = code >> 1 == np.repeat(order[position], size)
    positive, code = code[own] & 1, code[~own]
    size, begin = size - 1, begin - np.arange(len(begin))
    inside = np.arange(begin[-1]) - np.repeat(begin[:-1], size)

    column = position % SLICE
    if narrow:
        table = np.full((first_slot[-1], SLICE), -1, np.int64)
        table[slot, column] = np.arange(len(clauses))
        who = np.arange(len(order))
        banks.arrange(table, who, first_slot, code >> 1, begin)
        order[:] = order[who]
        slot, column = np.nonzero(table >= 0)
        row = table[slot, column]
        slot[row], column[row] = slot.copy(), column.copy()
    lengths = np.zeros((first_slot[-1], SLICE), np.int64)
    lengths[slot, column] = size
    longest = lengths.max(1, initial=1)
    each = int(longest.max(initial=0))
    each = each if narrow and each < MAX_UNROLLED and (longest == each).all() else 0
    start = np.concatenate([[0], np.cumsum(longest + longest % 2 if narrow else longest)])
    lines = np.full((start[-1], SLICE), 16 * p.n + 1, np.int64)  # clauses that hold always
    entry = 16 * (code >> 1) + (code & 1)
    lines[np.repeat(start[slot], size) + inside, np.repeat(column, size)] = entry
    _repeat_first(lines, start, lengths)
    if narrow:
        banks.spread(lines, start, lengths.reshape(-1), True, each)
    lines = lines >> 4 << 3 | (lines & 1) << (15 if narrow else 31)
    lines[start[slot], column] |= positive
    if narrow:
        lines, start = lines[0::2] | lines[1::2] << 16, start // 2
    return lines.astype(np.uint32), first_slot, start * SLICE, each


def _repeat_first(lines: np.ndarray, start: np.ndarray, lengths: np.ndarray) -> None:
    """Pad each clause with its first literal."""
    slot = np.repeat(np.arange(len(lengths)), np.diff(start))
    behind = (np.arange(len(lines)) - start[slot])[:, None] >= lengths[slot]
    np.copyto(lines, lines[start[slot]], where=behind)
