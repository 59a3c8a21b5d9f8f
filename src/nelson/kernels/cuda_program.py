"""A program laid out for a GPU: rows of 32 that neighbouring threads read side by side.

Clauses, occurrences and sweep items come in *slices* of 32. A slice is as long as its longest
member, and entry k of all 32 members lies together, so that a warp that handles one slice reads 32
neighbours at a time:

    words[start[s] + 32 k + lane]       entry (or pair of entries) k of member 32 s + lane

An entry is `16 index + 2 e + s`: a byte offset into an array of pairs of 64-bit words (a team draws
two words of samples at a time), with flags in the bits that are zero. Where indices are below 4096,
two entries of 16 bits share a word. Shorter members are padded with entries that change nothing.
Clauses are sorted by length, and the program sorts variables by degree, so there is little padding.

    clauses   index: variable, s: sign          padding repeats literals of the clause
    occ       index: clause                     padding is clause L, which is never violated
    sweep     index: variable, s: sign          the *other* literals of every clause of a variable;
              e: last of its clause             padding ends no clause, and is of no variable that
                                                is drawn at the same time

A small formula is drawn in R copies at a time, as if it were one formula of R times its size:
variable v of copy r is v R + r. So 32 threads have work for each of them even if it has 20 clauses.
"""

from typing import Any, NamedTuple

import numpy as np

from nelson.kernels import cuda_banks
from nelson.kernels.program import Program

SLICE = 32
#: Indices below this fit 16 bits.
NARROW = 4096
#: Words of a clause for which the kernel has no loop, if all clauses have as many.
_STRAIGHT = 4
#: Literals of the sweep lists at most; beyond (long clauses), variables are not swept on the GPU.
MAX_SWEEP = 1 << 28


class Layout(NamedTuple):
    """Sizes and offsets: what a kernel has to know beside the arrays."""

    n: int
    n_clauses: int
    n_fixed: int
    n_checks: int
    n_classes: int
    n_columns: int
    near_words: int  # words and ints that rounds and sweeps read: clauses, occurrences, ..
    near_ints: int
    far_checks: int  # 1 if the clauses as given are others, and so not among those
    # Where things begin in `ints`: starts of the slices of clauses and occurrences, names, starts
    # of the slices of sweep items, the variable of each, the first slice of each class, starts of
    # the slices of the clauses as given, fixed literals, variables to hand out.
    clause: int
    occ: int
    name: int
    sweep: int
    order: int
    classes: int
    check: int
    fixed: int
    columns: int


class GpuProgram(NamedTuple):
    layout: Layout
    words: np.ndarray  # uint32: all slices
    ints: np.ndarray  # int32: starts of slices, and everything else
    narrow: bool  # two entries a word
    log_copies: int
    literals: int  # of all clauses
    clause_words: int  # words of every clause; 0 if they differ, or are many

    @property
    def nbytes(self) -> int:
        return self.words.nbytes + self.ints.nbytes


def lay_out(program: Program, columns: np.ndarray, sweeps: bool, log_copies: int = 0) -> GpuProgram:
    """columns: variables to hand out, as the program numbers them. sweeps: build their lists."""
    p = copied(program, 1 << log_copies)
    copies = 1 << log_copies
    # Words of a tile in their order: copy r has words 2 r and 2 r + 1.
    word = np.arange(2 * copies)[:, None]
    columns = (2 * (columns[None, :] * copies + word // 2) + word % 2).reshape(-1)
    narrow = max(p.n, p.n_clauses + 1) <= NARROW
    slices = _Slices(narrow)

    lits = p.lits[: p.clause_ptr[-1]].astype(np.int64)
    by_length = np.argsort(np.diff(p.clause_ptr), kind="stable")
    if narrow:
        arranged, ptr = _permuted(lits, p.clause_ptr, by_length)
        by_length = by_length[cuda_banks.balance(arranged >> 1, ptr, p.n, copies)]
    rank = np.empty(p.n_clauses, np.int64)
    rank[by_length] = np.arange(p.n_clauses)
    clause_start = slices.add_clauses(*_permuted(lits, p.clause_ptr, by_length))

    occ = p.occ[: p.occ_ptr[-1]].astype(np.int64)
    occ_start = slices.add(16 * rank[occ], p.occ_ptr, np.full(p.n, 16 * p.n_clauses), spread=True)

    order, class_slices, values, ptr = _sweep_lists(p) if sweeps else _no_sweeps()
    sweep_start = slices.add(values, ptr, _sweep_padding(values, ptr, class_slices))

    near_words = slices.size
    check_start, n_checks = clause_start, p.n_clauses
    if not _same_clauses(p):
        n_checks = p.n_checks
        checks = p.check_lits[: p.check_ptr[-1]].astype(np.int64)
        by_length = np.argsort(np.diff(p.check_ptr), kind="stable")
        check_start = slices.add_clauses(*_permuted(checks, p.check_ptr, by_length))

    at, ints, offset = {}, [], 0
    for key, array in (
        ("clause", clause_start),
        ("occ", occ_start),
        ("name", program.name),
        ("sweep", sweep_start),
        ("order", order),
        ("classes", class_slices),
        ("check", check_start),
        ("fixed", p.fixed),
        ("columns", columns),
    ):
        at[key] = offset
        ints.append(np.asarray(array, np.int64))
        offset += len(array)
    flat = np.concatenate(ints)
    if offset >= 1 << 31 or flat.max(initial=0) >= 1 << 31 or max(p.n, p.n_clauses) >= 1 << 25:
        raise ValueError("the formula is too large for the GPU kernel")
    sizes = (p.n, p.n_clauses, p.n_fixed, n_checks, len(class_slices) - 1, len(columns))
    near = near_words, at["check"], n_checks and check_start[0] >= near_words
    numbers: Any = (*sizes, *near, *at.values())
    lines = np.diff(clause_start) // SLICE
    same = int(lines[0]) if narrow and len(lines) and (lines == lines[0]).all() else 0
    same = same if same <= _STRAIGHT else 0
    layout = Layout._make(map(np.int32, numbers))  # 32 bits: so is the kernel's arithmetic
    return GpuProgram(
        layout, slices.words(), flat.astype(np.int32), narrow, log_copies, len(lits), same
    )


def copied(p: Program, copies: int) -> Program:
    """The program of so many disjoint copies: variable v of copy r is v * copies + r."""
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


class _Slices:
    """Collects lists of entries as slices of 32."""

    def __init__(self, narrow: bool) -> None:
        self.narrow, self.size = narrow, 0
        self.parts: list[np.ndarray] = []

    def add_clauses(self, codes: np.ndarray, ptr: np.ndarray) -> np.ndarray:
        """Clauses of codes 2 v + s, none of them empty."""
        entries = 16 * (codes >> 1) + (codes & 1)
        padding = entries[ptr[:-1]] if len(ptr) > 1 else entries[:0]
        return self.add(entries, ptr, padding, spread=True, repeat=True)

    def add(
        self,
        entries: np.ndarray,
        ptr: np.ndarray,
        padding: np.ndarray,
        spread: bool = False,
        repeat: bool = False,
    ) -> np.ndarray:
        """CSR rows, padded with one entry each. -> start of each slice, and the end.

        spread: in whatever order the banks like. repeat: padding may be any entry of the row.
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
        # Entry k of slice s stands in row (start[s] / 32 + k).
        lines = np.repeat(np.arange(slices), longest)
        out = filler.reshape(slices, SLICE)[lines] if slices else np.zeros((0, SLICE), np.int64)
        row = np.repeat(np.arange(rows), lengths)
        k = np.arange(len(entries)) - np.repeat(ptr[:-1], lengths)
        out[start[row // SLICE] // SLICE + k, row % SLICE] = entries
        if self.narrow and spread:
            cuda_banks.spread(out, start // SLICE, padded, repeat)
        if self.narrow:
            out = out[0::2] | out[1::2] << 16
            start //= 2
        start += self.size
        self.parts.append(out.reshape(-1).astype(np.uint32))
        self.size += out.size
        return start

    def words(self) -> np.ndarray:
        return np.concatenate([*self.parts, np.zeros(1, np.uint32)])


def _same_clauses(p: Program) -> bool:
    return p.check_lits is p.lits or (
        p.n_checks == p.n_clauses
        and np.array_equal(p.check_ptr, p.clause_ptr)
        and np.array_equal(p.check_lits, p.lits)
    )


def _permuted(values: np.ndarray, ptr: np.ndarray, order: np.ndarray):
    """CSR rows in another order."""
    lengths = np.diff(ptr)[order]
    out = np.concatenate([[0], np.cumsum(lengths)])
    take = np.arange(out[-1]) + np.repeat(ptr[:-1][order] - out[:-1], lengths)
    return values[take], out


def _no_sweeps():
    none = np.zeros(0, np.int64)
    return none, np.zeros(1, np.int64), none, np.zeros(1, np.int64)


def _sweep_padding(values: np.ndarray, ptr: np.ndarray, class_slices: np.ndarray) -> np.ndarray:
    """For each list its first literal, without the flag; for an empty one that of another of the
    same class: no variable of a class is a neighbour of another.
    """
    padding, filled = np.zeros(len(ptr) - 1, np.int64), np.diff(ptr) > 0
    padding[filled] = values[ptr[:-1][filled]] & ~2
    label = np.repeat(np.arange(len(class_slices) - 1), SLICE * np.diff(class_slices))
    some = np.zeros(len(class_slices) - 1, np.int64)
    some[label[filled]] = padding[filled]
    return np.where(filled, padding, some[label])


def _sweep_lists(p: Program):
    """Every class padded to whole slices: (variable at each position or -1, first slice of each
    class, list entries, their CSR pointers).
    """
    sizes = np.diff(p.class_ptr)
    slices = -(-sizes // SLICE)
    class_slices = np.concatenate([[0], np.cumsum(slices)])
    order = np.full(int(class_slices[-1]) * SLICE, -1, np.int64)
    moved = p.order.astype(np.int64)
    position = np.arange(len(moved)) - np.repeat(p.class_ptr[:-1], sizes)
    # Within a class by degree: neighbours in a slice then have lists of one length.
    degree = np.diff(p.occ_ptr)[moved]
    label = np.repeat(np.arange(len(sizes)), sizes)
    moved = moved[np.lexsort((degree, label))]
    order[np.repeat(class_slices[:-1] * SLICE, sizes) + position] = moved

    # All (variable, clause, literal) triples of swept variables, but for the variable's own.
    counts = np.diff(p.occ_ptr)[moved]
    start = np.repeat(p.occ_ptr[:-1][moved], counts)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    clause = p.occ[start + within].astype(np.int64)
    owner = np.repeat(np.arange(len(moved)), counts)
    sizes = np.diff(p.clause_ptr)[clause]
    if sizes.sum() > MAX_SWEEP:
        raise ValueError(f"sweep lists of more than {MAX_SWEEP} literals")
    at = np.repeat(p.clause_ptr[:-1][clause], sizes)
    k = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    code = p.lits[at + k].astype(np.int64)  # 2 v + s
    owner_of = np.repeat(owner, sizes)
    row = np.repeat(np.arange(len(clause)), sizes)
    others = (code >> 1) != moved[owner_of]
    code, owner_of, row = code[others], owner_of[others], row[others]
    last = np.diff(row, append=-1) != 0
    values = 16 * (code >> 1) + 2 * last + (code & 1)
    # A clause of one literal has no others: propagation has removed those.
    lengths = np.zeros(len(order), np.int64)
    place = np.flatnonzero(order >= 0)  # positions of the moved variables, in their order
    lengths[place] = np.bincount(owner_of, minlength=len(moved))
    ptr = np.concatenate([[0], np.cumsum(lengths)])
    return order, class_slices, values, ptr
