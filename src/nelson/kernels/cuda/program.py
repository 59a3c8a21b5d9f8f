"""A program laid out for a GPU: rows of 32 entries that neighbouring threads read at once.

Clauses, lists of occurrences and lists of sweeps are the *members* of *slices* of 32. A slice is as
long as its longest member, and entry k of all 32 members is contiguous, so that a warp which
handles a slice reads 32 neighbours at a time:

    words[start[s] + 32 k + i]          entry (or pair of entries) k of member 32 s + i

Few instructions lead from an entry to a pair of 64-bit words (a team draws two words of samples at
a time). If all indices are below 4096, two entries of 16 bits share a word (*narrow*). Shorter
members are padded with entries that change nothing. Clauses are sorted by length, and the program
sorts variables by degree, so there is little padding.

    clauses   8 variable, and the sign in the highest bit; padding repeats literals of the clause
    occ       16 clause, for the clauses of a variable; padding is clause L, which is never violated
    sweep     16 clause, for the clauses of a variable, in the order of sweeps; padding repeats a
              clause, or is clause L if the variable has none

R copies of a small formula are drawn at a time, as one formula of R times its size: variable v of
copy r is v R + r. So all 32 threads of a warp have work even if the formula has 20 clauses.
"""

from typing import Any, NamedTuple

import numpy as np

from nelson.kernels.core.program import Program
from nelson.kernels.cuda import banks
from nelson.kernels.cuda.banks import SLICE

#: Two entries share a word if all indices are below this.
NARROW = 4096
#: If all clauses have the same length, up to this, the kernel has no loop over their literals.
MAX_UNROLLED = 8


class Layout(NamedTuple):
    """Sizes, and places in the arrays."""

    n: int
    n_clauses: int
    n_fixed: int
    n_checks: int
    n_classes: int
    n_columns: int
    near_words: int  # `words` that rounds and sweeps read: clauses, occurrences, ..
    near_ints: int  # `ints` that rounds and sweeps read
    near_clauses: int  # `words` of the clauses
    far_checks: int  # 1 if the clauses as given differ from `clauses`, and are not near
    longest: int  # entries of the longest clause, with padding
    parts: int  # threads that redraw the variables of one clause in the last rounds
    # Places in `ints`:
    clause: int  # starts of the slices of clauses
    occ: int  # starts of the slices of occurrences
    sweep: int  # starts of the slices of sweeps
    order: int  # variable of each member of these
    classes: int  # first slice of each colour class
    check: int  # starts of the slices of the clauses as given
    fixed: int  # fixed literals
    columns: int  # variables to return


class GpuProgram(NamedTuple):
    """A formula as the GPU kernel reads it."""

    layout: Layout
    words: np.ndarray  # uint32: all slices
    ints: np.ndarray  # int32: see `Layout`
    narrow: bool  # two entries per word
    log_copies: int
    literals: int  # of all clauses
    each: int  # length of every clause, with padding; 0 if lengths differ, or are above 8
    positions: np.ndarray | None = (
        None  # variable at each position of a sweep (`neighbour_lists.py`)
    )

    @property
    def nbytes(self) -> int:
        return self.words.nbytes + self.ints.nbytes


def lay_out(program: Program, columns: np.ndarray, sweeps: bool, log_copies: int = 0) -> GpuProgram:
    """columns: variables to return, in the numbers of the program. sweeps: also lay out sweeps."""
    copies = 1 << log_copies
    p = copied(program, copies)
    # The columns of the first pair of words of a tile, then of the second, ..
    columns = (columns[None, :] * copies + np.arange(copies)[:, None]).reshape(-1)
    narrow = max(p.n, p.n_clauses + 1) <= NARROW
    slices = Slices(narrow)

    lits = p.lits[: p.clause_ptr[-1]].astype(np.int64)
    by_length = np.argsort(np.diff(p.clause_ptr), kind="stable")
    if narrow:
        arranged, ptr = permuted(lits, p.clause_ptr, by_length)
        by_length = by_length[banks.balance(arranged >> 1, ptr, p.n, copies)]
    rank = np.empty(p.n_clauses, np.int64)
    rank[by_length] = np.arange(p.n_clauses)
    each = _literals_each(p.clause_ptr) if narrow else 0
    arranged, ptr = permuted(lits, p.clause_ptr, by_length)
    clause_start = slices.add_clauses(arranged, ptr, slots=each)

    occ = p.occ[: p.occ_ptr[-1]].astype(np.int64)
    occ_start = slices.add(16 * rank[occ], p.occ_ptr, np.full(p.n, 16 * p.n_clauses), spread=True)

    order, class_slices, swept, ptr = sweep_lists(p) if sweeps else _no_sweeps()
    filler, filled = np.full(len(ptr) - 1, p.n_clauses), np.diff(ptr) > 0
    filler[filled] = rank[swept[ptr[:-1][filled]]]
    sweep_start = slices.add(16 * rank[swept], ptr, 16 * filler)

    near_words = slices.size
    check_start, n_checks = clause_start, p.n_clauses
    if not _same_clauses(p):
        n_checks = p.n_checks
        checks = p.check_lits[: p.check_ptr[-1]].astype(np.int64)
        by_length = np.argsort(np.diff(p.check_ptr), kind="stable")
        check_start = slices.add_clauses(*permuted(checks, p.check_ptr, by_length))

    at, flat = end_to_end(
        clause=clause_start,
        occ=occ_start,
        sweep=sweep_start,
        order=order,
        classes=class_slices,
        check=check_start,
        fixed=p.fixed,
        columns=columns,
    )
    if len(flat) >= 1 << 31 or flat.max(initial=0) >= 1 << 31 or max(p.n, p.n_clauses) >= 1 << 25:
        size = f"{p.n} variables, {p.n_clauses} clauses, {len(lits)} literals"
        raise ValueError(f"the formula is too large for the GPU kernel: {size}")
    sizes = (p.n, p.n_clauses, p.n_fixed, n_checks, len(class_slices) - 1, len(columns))
    near = near_words, at["check"], clause_start[-1], n_checks and check_start[0] >= near_words
    longest = int(np.diff(p.clause_ptr).max(initial=1))
    longest += longest % 2 if narrow and not each else 0
    numbers: Any = (*sizes, *near, longest, min(longest, SLICE), *at.values())
    layout = Layout._make(map(np.int32, numbers))  # 32 bits: so is the kernel's arithmetic
    return GpuProgram(
        layout, slices.words(), flat.astype(np.int32), narrow, log_copies, len(lits), each
    )


def end_to_end(**sections: np.ndarray) -> tuple[dict[str, int], np.ndarray]:
    """The arrays `ints` of a layout: where each section begins, and all of them in one array."""
    lengths = [len(array) for array in sections.values()]
    at = dict(zip(sections, np.cumsum([0, *lengths[:-1]]).tolist(), strict=True))
    return at, np.concatenate([np.asarray(array, np.int64) for array in sections.values()])


def copied(p: Program, copies: int) -> Program:
    """The program of `copies` disjoint copies: variable v of copy r is v * copies + r."""
    if copies == 1:
        return p
    r = np.arange(copies)

    def rows(values: np.ndarray, ptr: np.ndarray, factor: int):
        """CSR rows: row j of copy r is j * copies + r; entries are index * factor + flags."""
        lengths = np.repeat(np.diff(ptr), copies)
        out = np.concatenate([[0], np.cumsum(lengths)])
        source = np.repeat(np.repeat(ptr[:-1], copies) - out[:-1], lengths)
        entry = values[np.arange(out[-1]) + source].astype(np.int64)
        copy = np.repeat(np.tile(r, len(ptr) - 1), lengths)
        return (entry // factor * copies + copy) * factor + entry % factor, out

    lits, clause_ptr = rows(p.lits, p.clause_ptr, 2)
    check_lits, check_ptr = rows(p.check_lits, p.check_ptr, 2)
    if p.check_lits is p.lits:
        check_lits, check_ptr = lits, clause_ptr
    occ, occ_ptr = rows(p.occ, p.occ_ptr, 1)
    positives = np.repeat(p.occ_mid - p.occ_ptr[:-1], copies)
    sizes = np.diff(p.class_ptr)
    # A class holds its variables of all copies.
    order = (p.order.astype(np.int64)[:, None] * copies + r).reshape(-1)
    class_ptr = np.concatenate([[0], np.cumsum(sizes * copies)])
    fixed = (p.fixed.astype(np.int64) >> 1)[:, None] * copies + r
    fixed = (2 * fixed + (p.fixed & 1)[:, None]).reshape(-1)
    return p._replace(
        n=p.n * copies,
        n_clauses=p.n_clauses * copies,
        n_fixed=p.n_fixed * copies,
        n_checks=p.n_checks * copies,
        clause_ptr=clause_ptr,
        lits=lits,
        occ_ptr=occ_ptr,
        occ_mid=occ_ptr[:-1] + positives,
        occ=occ,
        fixed=fixed,
        order=order,
        class_ptr=class_ptr,
        check_ptr=check_ptr,
        check_lits=check_lits,
    )


class Slices:
    """Collects members as slices of 32."""

    def __init__(self, narrow: bool) -> None:
        self.narrow, self.size = narrow, 0
        self.parts: list[np.ndarray] = []

    def add_clauses(self, codes: np.ndarray, ptr: np.ndarray, slots: int = 0) -> np.ndarray:
        """Add clauses of codes 2 v + s, none of them empty."""
        entries = 16 * (codes >> 1) + (codes & 1)
        padding = entries[ptr[:-1]] if len(ptr) > 1 else entries[:0]
        return self.add(entries, ptr, padding, spread=True, signs=True, slots=slots)

    def add(
        self,
        entries: np.ndarray,
        ptr: np.ndarray,
        padding: np.ndarray,
        spread: bool = False,
        signs: bool = False,
        slots: int = 0,
    ) -> np.ndarray:
        """Add CSR rows as members; padding[j] pads row j. -> start of each slice, and the end

        spread: reorder the entries of a row for the banks (`banks.spread`). signs: entries are
        literals, 16 v + s, so that any entry of the row may pad it; the sign moves to the highest
        bit. slots: number of entries of a row that the kernel reads; 0: all.
        """
        rows = len(ptr) - 1
        lengths = np.diff(ptr)
        slices = -(-rows // SLICE)
        padded = np.zeros(slices * SLICE, np.int64)
        padded[:rows] = lengths
        longest = padded.reshape(slices, SLICE).max(1, initial=0)
        if self.narrow:
            longest += longest % 2
        start = np.concatenate([[0], np.cumsum(longest * SLICE)])
        filler = np.zeros(slices * SLICE, np.int64)
        filler[:rows] = padding
        if rows:
            filler[rows:] = padding[-1]
        # Line start[s] / 32 + k holds entry k of the members of slice s.
        lines = np.repeat(np.arange(slices), longest)
        out = filler.reshape(slices, SLICE)[lines] if slices else np.zeros((0, SLICE), np.int64)
        row = np.repeat(np.arange(rows), lengths)
        k = np.arange(len(entries)) - np.repeat(ptr[:-1], lengths)
        out[start[row // SLICE] // SLICE + k, row % SLICE] = entries
        if self.narrow and spread:
            banks.spread(out, start // SLICE, padded, signs, slots)
        if signs:
            out = out >> 4 << 3 | (out & 1) << (15 if self.narrow else 31)
        if self.narrow:
            out = out[0::2] | out[1::2] << 16
            start //= 2
        start += self.size
        self.parts.append(out.reshape(-1).astype(np.uint32))
        self.size += out.size
        return start

    def words(self) -> np.ndarray:
        return np.concatenate([*self.parts, np.zeros(1, np.uint32)])


def _literals_each(ptr: np.ndarray) -> int:
    """Length of the longest clause, if it is at most MAX_UNROLLED and all clauses fill the same
    number of words, two literals each; else 0.
    """
    lengths = np.diff(ptr)
    each = int(lengths.max(initial=0))
    return each if each <= MAX_UNROLLED and ((lengths + 1) // 2 == (each + 1) // 2).all() else 0


def _same_clauses(p: Program) -> bool:
    return p.check_lits is p.lits or (
        p.n_checks == p.n_clauses
        and np.array_equal(p.check_ptr, p.clause_ptr)
        and np.array_equal(p.check_lits, p.lits)
    )


def permuted(values: np.ndarray, ptr: np.ndarray, order: np.ndarray):
    """CSR rows in another order."""
    lengths = np.diff(ptr)[order]
    out = np.concatenate([[0], np.cumsum(lengths)])
    take = np.arange(out[-1]) + np.repeat(ptr[:-1][order] - out[:-1], lengths)
    return values[take], out


def _no_sweeps():
    none = np.zeros(0, np.int64)
    return none, np.zeros(1, np.int64), none, np.zeros(1, np.int64)


def sweep_lists(p: Program, falling: bool = False):
    """Lists of sweeps, with every class padded to whole slices.

    A class is sorted by degree, so that neighbours in a slice have lists of about equal length.
    falling: the last slice of a class, which may be nearly empty, has the shortest lists.
    -> (variable at each position or -1, first slice of each class, clauses of these variables, CSR
    pointers of these clauses)
    """
    sizes = np.diff(p.class_ptr)
    class_slices = np.concatenate([[0], np.cumsum(-(-sizes // SLICE))])
    order = np.full(int(class_slices[-1]) * SLICE, -1, np.int64)
    moved = p.order.astype(np.int64)
    position = np.arange(len(moved)) - np.repeat(p.class_ptr[:-1], sizes)
    degree = np.diff(p.occ_ptr)
    label = np.repeat(np.arange(len(sizes)), sizes)
    moved = moved[np.lexsort((-degree[moved] if falling else degree[moved], label))]
    order[np.repeat(class_slices[:-1] * SLICE, sizes) + position] = moved
    lengths = np.where(order >= 0, degree[order], 0)
    ptr = np.concatenate([[0], np.cumsum(lengths)])
    first = np.repeat(p.occ_ptr[:-1][moved] - ptr[:-1][order >= 0], degree[moved])
    return order, class_slices, p.occ[np.arange(ptr[-1]) + first].astype(np.int64), ptr
