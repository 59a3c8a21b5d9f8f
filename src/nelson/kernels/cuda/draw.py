"""The GPU kernel: a team of threads draws 128 samples, bit-sliced, in shared memory if they fit.

A *team* is a few warps; a block has one or several teams. A team draws a tile: a pair of words of
64 samples each, or several pairs of a small formula. A variable is two 64-bit words, and bit k of
the first is sample k; threads handle variables or clauses in parallel. All else is as on the CPU
(`cpu/rounds.py`, `cpu/sweep.py`), also the bits: they depend only on (seed, context, word,
variable, round, bit).

Why it is fast:

* Full warps compute random rows, even if few lanes are undecided (`passes.py`).
* The first rounds check every clause, and every variable gathers the masks of its clauses. Later
  rounds list the violated words of clauses and redraw the variables of this list. Once few lanes
  are left, a round is a list of (clause, lane) (`sparse_rounds.py`).
* Literals lie in slices of 32, two per word (`program.py`): a warp reads its indices as whole lines
  of memory, and each index is the address of a pair of words.

Index arithmetic is cut to 32 bits by `int32(..)`, which Numba does not do by itself. Numba's
simulator runs the same code with warps of one thread.
"""

import numpy as np
from numba import cuda, types

from nelson.kernels.core.reference import PRS
from nelson.kernels.core.rng import SWEEP_ROUND
from nelson.kernels.cuda.clauses import check
from nelson.kernels.cuda.passes import draw_listed, draw_pass
from nelson.kernels.cuda.prs import grow
from nelson.kernels.cuda.setup import (
    WARP,
    atomic_add,
    atomic_max,
    device,
    kernel,
    peek,
    peek2,
    pinned,
    pinned_far,
    poke,
    poke2,
    popcount,
    sign,
    sync,
    sync_block,
)
from nelson.kernels.cuda.sparse_rounds import list_events, run_events
from nelson.kernels.cuda.team import (
    ALL,
    CELLS,
    EVERY,
    FEW,
    GIVEN,
    HITS,
    INIT,
    LANES,
    LISTED,
    MASKED,
    QUEUE,
    SWEEP,
    VIOLATED,
    WORD_CELLS,
    ZERO,
    Team,
    cell_of,
    class_order,
    copy_array,
    int32,
    keys,
    lanes_wanted,
    set_cell,
)


@device
def _fix(p, w):
    """Set the fixed variables."""
    q = w.me
    while q < p.n_fixed:
        code = peek(w.far_ints, int32(p.fixed + q))
        value = sign(np.uint32(code << 31))
        poke2(w.x, int32(code >> 1), value, value)
        q = int32(q + w.size)
    sync(w.size, w.which)


@device
def _clear_cells(w):
    c = w.me
    while c < CELLS:
        poke(w.cells, c, np.uint32(0))
        c = int32(c + w.size)
    sync(w.size, w.which)


@device
def _run(p, w, job, context, h, moved):
    """Draw, resample until no lane violates a clause, sweep. -> (rounds, lanes resampled)

    One loop calls one pass, so that its code exists once and stays in the instruction cache.
    """
    kind, round, begin, end = int32(INIT), int32(0), int32(0), p.n
    rounds, resampled, sweeping, few = int32(0), 0, False, job.few
    c, step, left, k = int32(0), int32(0), int32(0), int32(0)
    hits, listing, turn = int32(0), False, int32(0)
    while True:
        if kind == LISTED:
            draw_listed(p, w, round, hits, h)
        else:
            draw_pass(p, w, kind, round, begin, end, h, moved)
        sync(w.size, w.which)
        if not sweeping:
            if kind == INIT and p.n_fixed:
                _fix(p, w)
            check(p, w, ALL, listing, turn)
            sync(w.size, w.which)
            hits, lanes = cell_of(w, int32(HITS + turn)), cell_of(w, int32(LANES + turn))
            turn = int32(1 - turn)  # all threads have read the cells of the other turn long ago
            set_cell(w, int32(HITS + turn), 0)
            set_cell(w, int32(LANES + turn), 0)
            sweeping = lanes == 0 or rounds == job.max_rounds
            listed = listing and hits <= w.listed_room
            listing = w.listed_room > 0 and lanes <= p.n_clauses  # for the next check
            if not sweeping and lanes <= few:
                list_events(p, w, listed, hits)
                sync(w.size, w.which)
                rounds, more, full = run_events(p, w, rounds, job.max_rounds, h)
                resampled += more
                sweeping = True
                if full:  # a list was too short: start again, without rounds by events
                    few, rounds, resampled, sweeping = int32(0), int32(0), 0, False
                    kind, round, listing, turn = int32(INIT), int32(0), False, int32(0)
                    sync(w.size, w.which)
                    _clear_cells(w)
                    continue
            if not sweeping:
                rounds = int32(rounds + 1)
                resampled += lanes
                if job.method == PRS:
                    sync(w.size, w.which)
                    resampled += grow(p, w, int32(1 - turn))
                    kind = int32(MASKED)
                else:
                    kind = int32(LISTED if listed else (VIOLATED if lanes > p.n_clauses else FEW))
            round = rounds
        if sweeping:
            kind = int32(SWEEP)
            if left == 0:  # a sweep begins
                if k >= job.sweeps or p.n_classes == 0:
                    return rounds, resampled
                round, left = int32(SWEEP_ROUND + k), p.n_classes
                first, ahead = class_order(job.seed, context, p.n_classes)
                c, step, k = int32(first), int32(ahead), int32(k + 1)
            begin = int32(peek(w.ints, int32(p.classes + c)) * 32)
            end = int32(peek(w.ints, int32(p.classes + c + 1)) * 32)
            c, left = int32(c + step), int32(left - 1)
            if c >= p.n_classes:
                c = int32(c - p.n_classes)


@device
def _hand_out(p, w, row, rows, packed, valid, counts):
    """Check the clauses as given and write `rows` words to the output, from row `row` on."""
    columns = int32(p.n_columns >> len(w.log_copies))
    out = pinned_far(packed[row * columns :])
    q, c, r, after = w.me, w.me, int32(0), int32(0)
    if q < p.n_columns:
        after = peek(w.far_ints, int32(p.columns + q))
    while q < p.n_columns:
        at = after
        q = int32(q + w.size)
        if q < p.n_columns:  # load ahead of use: global memory is slow
            after = peek(w.far_ints, int32(p.columns + q))
        while len(w.log_copies) and c >= columns:
            c, r = int32(c - columns), int32(r + 2)
        x, y = peek2(w.x, at)
        if r < rows:
            poke(out, int32(r * columns + c), x)
        if r + 1 < rows:
            poke(out, int32(r * columns + columns + c), y)
        c = int32(c + w.size)
    check(p, w, GIVEN, False, 0)
    sync(w.size, w.which)
    r = w.me
    while r < rows:
        wanted, bad = peek2(w.word_cells, int32(r * WORD_CELLS // 2 + 1))
        poke(valid, row + r, wanted & ~bad)
        if bad != ZERO:
            atomic_add(counts, 2, np.int64(popcount(bad)))
        r = int32(r + w.size)


@kernel
def draw_words(
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
    """One team per tile. The *lengths* of the first five arguments are constants for the compiler:

    h           random rows drawn at once
    shared      1: the state is in shared memory
    near        1: the clauses are in shared memory too, 2: all of the formula is
    log_copies  log2 of the pairs of words per tile
    narrow      0; or 1 if two entries share a word, + the length of the clauses if all are equal
    """
    size = job.team
    teams = int32(cuda.blockDim.x // size)
    which = int32(cuda.threadIdx.x // size)
    # A warp stays with one of four schedulers, and if there is little work the first warps of a
    # team do it. So the first warps of neighbouring teams are put on different schedulers.
    turned = np.uint32(cuda.threadIdx.x - which * size + which * WARP)
    me = int32(turned % np.uint32(size))
    warp, warps = int32(me // WARP), int32(size // WARP)
    copies = 2 << len(log_copies)  # words of a tile
    fast64 = cuda.shared.array(0, types.uint64)
    fast32 = cuda.shared.array(0, types.uint32)[2 * teams * job.stride64 :]
    clauses, near_words, near_ints = words, words, ints
    if len(near):
        clauses = pinned(fast32[teams * job.stride32 :])
        thread, threads = int32(cuda.threadIdx.x), int32(cuda.blockDim.x)
        end = p.near_words if len(near) > 1 else p.near_clauses
        copy_array(clauses, words, end, thread, threads)
        if len(near) > 1:
            near_words = clauses
            near_ints = cuda.shared.array(0, types.int32)[2 * teams * job.stride64 :]
            near_ints = near_ints[teams * job.stride32 + p.near_words :]
            copy_array(near_ints, ints, p.near_ints, thread, threads)
        sync_block()
    own64, own32 = fast64[which * job.stride64 :], fast32[which * job.stride32 :]
    # A team has, in 64-bit words, the cells of its words, its state and its queues; in 32-bit
    # words, its cells.
    word_cells, cells = own64, own32
    halves = cuda.shared.array(0, types.uint32)[2 * which * job.stride64 :]
    queues = own64[job.queues :]
    items = halves[2 * (job.queues + warps * QUEUE) :]
    if len(shared):
        s64, lists = own64[copies * WORD_CELLS :], halves[2 * job.queues :]
        halves = halves[2 * copies * WORD_CELLS :]
    else:
        slot = np.int64(cuda.blockIdx.x) * teams + which
        s64, lists = g64[slot * job.state64 :], g32[slot * job.state32 :]
        halves = g64_halves[2 * slot * job.state64 :]
    bad, bad32 = s64[2 * p.n :], halves[4 * p.n :]
    tiles = (job.per_context + copies - 1) // copies  # of a context
    own = p.n >> len(log_copies)
    t = np.int64(cuda.blockIdx.x) * teams + which
    while t < job.tiles:
        context = (job.first + t) // tiles
        word = (job.first + t - context * tiles) * copies
        key = np.uint64(peek(contexts, context))  # of the random numbers of this context
        r = me
        while r < copies:
            number = np.uint64(job.first_word + word + r)
            key0, key1 = keys(job.seed, key, number)
            lanes = lanes_wanted(job.samples - 64 * (word + r))
            poke2(word_cells, int32(r * WORD_CELLS // 2), key0, key1)
            poke2(word_cells, int32(r * WORD_CELLS // 2 + 1), lanes, ZERO)
            r = int32(r + size)
        w = Team(
            log_copies,
            narrow,
            clauses,
            near_words,
            near_ints,
            words,
            ints,
            pinned_far(law[context * own :]),
            s64,
            halves,
            bad,
            bad32,
            lists,
            queues,
            pinned(queues[warp * QUEUE :]),
            pinned(items[warp * QUEUE :]),
            cells,
            word_cells,
            job.capacity,
            job.room,
            job.listed,
            job.listed_room,
            size,
            which,
            me,
            int32(me % WARP),
        )
        if me == 0:  # clause L, which pads lists, is never violated; the next pair is all ones
            poke2(bad, p.n_clauses, ZERO, ZERO)
            poke2(bad, int32(p.n_clauses + 1), EVERY, EVERY)
        _clear_cells(w)
        rounds, resampled = _run(p, w, job, key, h, moved)
        rows = int32(min(copies, job.per_context - word))
        _hand_out(p, w, context * job.per_context + word, rows, packed, valid, counts)
        sync(size, which)
        if me == 0:  # one thread per team: all threads at once would queue for these two words
            atomic_max(counts, 0, np.int64(rounds))
            atomic_add(counts, 1, np.int64(resampled))
        t += np.int64(cuda.gridDim.x) * teams
