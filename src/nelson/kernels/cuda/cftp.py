"""Coupling from the past on the GPU: 64 samples per word, a few warps for each word.

The rules, and why the samples are exact, are in `cpu/cftp.py`; the bits are the same. A *tile* is
one word of samples, or one word of each copy of a small formula. Its bounding chains (`bounds.py`)
run from time -T. If a lane wanted is not determined at time 0, the tile runs again from further
back. The result does not depend on T, so each team learns from its last tile from where to start.
A tile fails if a lane wanted is not determined after a run of the last length: as on the CPU.
"""

import numpy as np
from numba import cuda, types

from nelson.kernels.cuda.bounds import APART, Couple, cells_of, run
from nelson.kernels.cuda.clauses import entries, violated
from nelson.kernels.cuda.setup import (
    WARP,
    atomic_add,
    atomic_max,
    atomic_or,
    device,
    kernel,
    peek,
    peek2,
    pinned_far,
    poke,
    poke2,
    popcount,
    sync,
    sync_block,
)
from nelson.kernels.cuda.team import (
    BAD,
    WANTED,
    WORD_CELLS,
    ZERO,
    cell_of,
    copy_array,
    int32,
    keys,
    lanes_wanted,
)

#: The cell behind that of `bounds.py`: has a lane of any tile run out of its budget?
GIVEN_UP = APART + 1


@device
def _mark_invalid(p, w):
    """Write the lanes that violate a clause as given to the cells of their words."""
    j = w.me
    while j < p.n_checks:
        cells = cells_of(w, j)
        wanted = peek(w.word_cells, int32(cells + WANTED))
        at, end = entries(w.far_ints, p.check, j)
        number = (end - at + 31) >> 5
        bad, _ = violated(p, w, w.far_words, at, number, wanted, ZERO, True, -1)
        if bad != ZERO:
            atomic_or(w.word_cells, int32(cells + BAD), bad)
        j = int32(j + w.size)


@device
def _mark_undetermined(p, w):
    v = w.me
    while v < p.n:
        cells = cells_of(w, v)
        _, u = peek2(w.x, v)
        u &= peek(w.word_cells, int32(cells + WANTED))
        if u != ZERO:
            atomic_or(w.word_cells, int32(cells + BAD), u)
        v = int32(v + w.size)


@device
def _hand_out(p, w, met, row, rows, packed, valid, counts):
    """Write `rows` words to the output, from row `row` on, and count what is wrong with them."""
    columns = int32(p.n_columns)
    if met:
        r = int32(0)
        while r < rows:
            out, c = pinned_far(packed[(row + r) * columns :]), w.me
            while c < columns:
                v = peek(w.far_ints, int32(p.columns + c))
                x, _ = peek2(w.x, int32((v << len(w.log_copies)) + r))
                poke(out, c, x)
                c = int32(c + w.size)
            r = int32(r + 1)
        _mark_invalid(p, w)
    else:
        _mark_undetermined(p, w)
    sync(w.size, w.which)
    r = w.me
    while r < rows:
        at = int32(r * WORD_CELLS)
        bad = peek(w.word_cells, int32(at + BAD))
        poke(valid, row + r, peek(w.word_cells, int32(at + WANTED)) & ~bad if met else ZERO)
        if bad != ZERO:
            atomic_add(counts, 2 if met else 1, np.int64(popcount(bad)))
        r = int32(r + w.size)


@kernel
def couple_words(
    h,
    shared,
    near,
    log_copies,
    narrow,
    p,
    job,
    words,
    ints,
    law,
    contexts,
    g64,
    g64_halves,
    g32,
    packed,
    valid,
    counts,
    moved,
):
    """Draw the tiles of a job; the arguments are those of `draw.draw_words`.

    law has an entry for each position of a sweep, not for each variable. job.sweeps: length of the
    first run of a team. job.max_rounds: length of the longest run. counts: the longest run made,
    lanes that did not meet, invalid lanes.
    """
    size = job.team
    teams = int32(cuda.blockDim.x // size)
    which = int32(cuda.threadIdx.x // size)
    # The first warps of teams have most work, so they take turns on the four schedulers. Of teams
    # of two warps, every other one begins on another scheduler already.
    turn = which // 2 if size == 2 * WARP else which
    me = int32(np.uint32(cuda.threadIdx.x - which * size + turn * WARP) % np.uint32(size))
    copies = 1 << len(log_copies)  # words of a tile
    fast64 = cuda.shared.array(0, types.uint64)
    fast32 = cuda.shared.array(0, types.uint32)[2 * teams * job.stride64 :]
    near_words, near_ints = words, ints
    if len(near):
        near_words = fast32[teams * job.stride32 :]
        near_ints = cuda.shared.array(0, types.int32)[2 * teams * job.stride64 :]
        near_ints = near_ints[teams * job.stride32 + p.near_words :]
        thread, threads = int32(cuda.threadIdx.x), int32(cuda.blockDim.x)
        copy_array(near_words, words, p.near_words, thread, threads)
        copy_array(near_ints, ints, p.near_ints, thread, threads)
        sync_block()
    word_cells, cells = fast64[which * job.stride64 :], fast32[which * job.stride32 :]
    if len(shared):
        x = word_cells[copies * WORD_CELLS :]
    else:
        x = g64[(np.int64(cuda.blockIdx.x) * teams + which) * job.state64 :]
    tiles = (job.per_context + copies - 1) // copies  # of a context
    positions = peek(ints, int32(p.classes + p.n_classes)) * 32
    length = job.sweeps
    t = np.int64(cuda.blockIdx.x) * teams + which
    while t < job.tiles:
        context = (job.first + t) // tiles
        word = (job.first + t - context * tiles) * copies
        key = np.uint64(peek(contexts, context))  # of the random numbers of this context
        r = me
        while r < copies:
            key0, key1 = keys(job.seed, key, np.uint64(job.first_word + word + r))
            lanes = lanes_wanted(job.samples - 64 * (word + r))
            poke2(word_cells, int32(r * WORD_CELLS // 2), key0, key1)
            poke2(word_cells, int32(r * WORD_CELLS // 2 + 1), lanes, ZERO)
            r = int32(r + size)
        w = Couple(
            log_copies,
            narrow,
            near_words,
            near_ints,
            words,
            ints,
            pinned_far(law[context * positions :]),
            x,
            cells,
            word_cells,
            size,
            which,
            me,
        )
        if me == 0:
            poke(cells, GIVEN_UP, np.uint32(atomic_add(counts, 1, np.int64(0)) != 0))
        sync(size, which)
        if cell_of(w, GIVEN_UP) != 0:  # nothing of this launch will be used
            return
        apart = run(p, w, job, key, length, h)
        while apart == length and length < job.max_rounds:
            length = int32(min(2 * length, job.max_rounds))
            apart = run(p, w, job, key, length, h)
        rows = int32(min(copies, job.per_context - word))
        row = context * job.per_context + word
        _hand_out(p, w, apart < length, row, rows, packed, valid, counts)
        if me == 0:
            atomic_max(counts, 0, np.int64(length))
        # Lanes meet as late in the next tile as in this one, give or take a quarter.
        met = int32(apart + 1)
        length = int32(min(max(met + met // 4 + 1, length - length // 4), job.max_rounds))
        sync(size, which)
        t += np.int64(cuda.gridDim.x) * teams
